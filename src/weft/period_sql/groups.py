"""Render aggregates of groups over time (Yang and Widom 1998, section 5.1).

Counts and exact sums are running totals over the bounds of the rows' periods.  MIN, MAX, MEDIAN and sums of FLOAT and
DOUBLE are computed anew for each fragment between two bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.schema import INTEGRAL, DataType
from weft.period_sql.notation import listed
from weft.period_sql.sweep import Span, Sweep
from weft.period_sql.wide_sums import high_part, is_wide, low_part, quotient, total

Function: TypeAlias = OneOf["count", "sum", "avg", "min", "max", "median"]
_OF_BIGINTS: Final = "DECIMAL(20,0)"
"""The type for sums of BIGINTs, because a sum may exceed a BIGINT."""


@dataclass(frozen=True)
class Measure:
    """An aggregate function of a column of the rows, or the number of rows if ``argument`` is empty.

    ``type`` is the type of the argument, and ``output`` is the SQL name of the result's type.  ``of_nothing`` is SQL
    for the value over no argument or only NULLs.  A count is then 0.
    """

    function: Function
    output: str
    argument: str = ""
    type: DataType | None = None
    of_nothing: str = "NULL"

    @property
    def exact(self) -> bool:
        """Whether subtracting the value of a row updates the measure exactly."""
        if self.function == "count":
            return True
        return self.function in ("sum", "avg") and self._type.name not in ("FLOAT", "DOUBLE")

    @property
    def _type(self) -> DataType:
        assert self.type is not None
        return self.type

    def parts(self, argument: str) -> tuple[str, ...]:
        """Return SQL for what is summed: the low part and the high part of a wide DECIMAL, or the number itself."""
        kind = self._type
        if is_wide(kind):
            return low_part(argument, kind), high_part(argument, kind)
        exact = _OF_BIGINTS if kind.name == "BIGINT" else "BIGINT" if kind.name in INTEGRAL else str(kind)
        return (f"CAST({argument} AS {exact if self.exact else 'DOUBLE'})",)

    def _value(self, sums: Sequence[str], count: str, cast: str) -> str:
        """Return SQL for the measure from the sums of ``parts`` and the number of arguments.

        ``cast`` is the name of the cast for a sum that may not fit the type of the result.
        """
        if self.function == "count":
            return f"CAST({count} AS {self.output})"
        if is_wide(self._type):
            low, high = sums
            average = quotient(low, high, count, self._type)
            of_some = average if self.function == "avg" else total(low, high, self._type)
        elif self.function == "avg":
            of_some = f"CAST({sums[0]} AS DOUBLE) / CAST({count} AS DOUBLE)"
        else:
            of_some = f"{cast}({sums[0]} AS {self.output})"
        return f"CASE WHEN {count} > 0 THEN {of_some} ELSE {self.of_nothing} END"

    @property
    def sums(self) -> list[str]:
        """The names of the totals of ``parts``."""
        return [f"{letter}_{self.argument}" for letter, _ in zip("vh", self.parts(self.argument), strict=False)]

    def of_totals(self, cast: str) -> str:
        """Return SQL for the measure from running totals."""
        sums = [] if self.function == "count" else self.sums
        return self._value(sums, f"n_{self.argument}" if self.argument else "n", cast)

    def of_rows(self, start: str, cast: str) -> str:
        """Return SQL for the measure from rows with the alias ``r``.  The column ``start`` is not NULL in any row."""
        column = f"r.{self.argument or start}"
        if self.function == "count":
            return self._value((), f"COUNT({column})", cast)
        if self.function in ("min", "max"):
            extreme = f"{self.function.upper()}({column})"
        elif self.function == "median":
            extreme = f"CAST(MEDIAN(CAST({column} AS DOUBLE)) AS {self.output})"
        else:
            sums = [f"SUM({part})" if self.exact else _in_order(part) for part in self.parts(column)]
            return self._value(sums, f"COUNT({column})", cast)
        return extreme if self.of_nothing == "NULL" else f"COALESCE({extreme}, {self.of_nothing})"


def amounts(measures: Sequence[Measure]) -> dict[str, str]:
    """Return the names of the running totals of exact measures, with SQL for the amount of a row.

    The totals are the number of rows, and the number and the sums of each argument.
    """
    parts = {"n": "1"}
    for each in measures:
        if each.argument:
            parts[f"n_{each.argument}"] = f"CASE WHEN {each.argument} IS NULL THEN 0 ELSE 1 END"
        if each.function != "count":
            sums = (f"COALESCE({part}, 0)" for part in each.parts(each.argument))
            parts |= dict(zip(each.sums, sums, strict=True))
    return parts


@dataclass(frozen=True)
class Grouping:
    """Measures of the groups of ``rows``.

    ``rows`` returns the groups as the first ``width`` columns of the axis, the arguments of the measures, and periods.
    With ``span``, there are no groups, and the measures exist at each instant of the span.  ``points`` means
    that each period of ``rows`` is a single time point.  A sum that does not fit is NULL, or an error if ``fails``.
    """

    sweep: Sweep
    rows: str
    width: int
    measures: Sequence[Measure]
    span: Span = None
    points: bool = False
    fails: bool = False

    def measured(self) -> str:
        """Return SQL for the groups, then the measures, and their periods.

        Periods of equal rows are disjoint, but adjacent periods are not merged.
        """
        if all(measure.exact for measure in self.measures) and not self.points:
            return self._running()
        axis = self.sweep.axis
        measures = self._named([each.of_rows(axis.start, self._cast) for each in self.measures])
        if not self.points:
            return self.sweep.fragments(self.rows, self._keys, measures, self.span)
        if self.span:
            return self._at_points(measures)
        groups = f"({self.rows}) AS r GROUP BY {listed(self._keys, axis.period)}"
        return f"SELECT {listed(self._keys, measures, axis.period)} FROM {groups}"

    def _at_points(self, measures: Sequence[str]) -> str:
        """At the end of a point its rows are NULL, so that the measures are of nothing until the next point."""
        axis = self.sweep.axis
        columns = dict.fromkeys((axis.start, *(each.argument for each in self.measures if each.argument)))
        begun = [f"CASE WHEN side = 0 THEN {column} END AS {column}" for column in columns]
        rows = self.sweep.bounds(self.rows, (), begun, self.span, "NULL")
        heads = listed(measures, "instant", "LEAD(instant) OVER (ORDER BY instant) AS next")
        names = axis.columns(len(measures))
        return (
            f"SELECT {listed(names, axis.spelled('instant', 'next'))} "
            f"FROM (SELECT {heads} FROM ({rows}) AS r GROUP BY instant) AS measured WHERE next IS NOT NULL"
        )

    @property
    def _keys(self) -> list[str]:
        return self.sweep.axis.columns(self.width)

    @property
    def _cast(self) -> str:
        return "CAST" if self.fails else "TRY_CAST"

    def _named(self, values: Sequence[str]) -> list[str]:
        names = self.sweep.axis.columns(self.width + len(self.measures))[self.width :]
        return [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]

    def _running(self) -> str:
        values = [each.of_totals(self._cast) for each in self.measures]
        return self.sweep.totals(self.rows, self._keys, amounts(self.measures), self._named(values), self.span)

    def continued(self, before: str) -> str:
        """Return SQL for the groups, the measures, their periods and the running totals ``amounts``.

        All measures are exact.  ``rows`` has the additional column ``sign``, which is -1 for a row that leaves the
        group.  ``before`` is SQL for the groups, the totals and the periods that earlier rows have left.
        """
        totals = amounts(self.measures)
        signed = [f"sign * {value} AS {name}" for name, value in totals.items()]
        period = self.sweep.axis.period
        both = f"SELECT {listed(self._keys, signed, period)} FROM ({self.rows}) AS given"
        if before:
            both += f" UNION ALL {before}"
        values = self._named([each.of_totals(self._cast) for each in self.measures])
        return self.sweep.totals(both, self._keys, {name: name for name in totals}, [*values, *totals], self.span)


def _in_order(number: str) -> str:
    """Sum DOUBLEs in ascending order, so that the same numbers always have the same sum.

    Weft looks up tuples by value, so the value must not depend on the order of arrival.
    """
    return f"AGGREGATE(ARRAY_SORT(COLLECT_LIST({number})), CAST(0 AS DOUBLE), (a, b) -> a + b)"
