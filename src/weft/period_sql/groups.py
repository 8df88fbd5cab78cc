"""Render aggregates of groups over time (Yang and Widom 1998, section 5.1).

Counts and exact sums are running totals over the bounds of the rows' periods.  The other aggregates are recomputed for
each fragment between two bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.relation import AggregateFunction
from weft.algebra.scalar import Scalar
from weft.algebra.schema import INTEGRAL, DataType
from weft.period_sql.notation import Dialect, listed
from weft.period_sql.sweep import Span, Sweep
from weft.period_sql.wide_sums import high_part, is_wide, low_part, quotient, total

_OF_BIGINTS: Final = "DECIMAL(20,0)"
"""The type for sums of BIGINTs, because a sum may exceed a BIGINT."""


@dataclass(frozen=True)
class Measure:
    """An aggregate function of a column of the rows, or the number of rows if ``argument`` is empty.

    ``type`` is the type of the argument, and ``output`` is the SQL name of the result's type.  ``of_nothing`` is SQL
    for the value over no argument or only NULLs.  A count is then 0, and an array is empty.  With ``distinct``, equal
    arguments count once.  ``by`` is the column that MIN_BY and MAX_BY compare.
    """

    function: AggregateFunction
    output: str
    argument: str = ""
    type: DataType | None = None
    of_nothing: str = "NULL"
    distinct: bool = False
    by: str = ""

    @property
    def exact(self) -> bool:
        """Whether subtracting the value of a row updates the measure exactly."""
        if self.distinct or self.function not in ("count", "sum", "avg"):
            return False
        return self.function == "count" or self._exact_sums

    @property
    def extreme(self) -> bool:
        """Whether the measure is a MIN or a MAX, which rows that only begin determine step by step."""
        return self.function in ("min", "max")

    @property
    def extreme_name(self) -> str:
        """The name of the running MIN or MAX."""
        return f"{self.function}_{self.argument}"

    @property
    def _exact_sums(self) -> bool:
        return self._type.name not in ("FLOAT", "DOUBLE")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that the measure reads."""
        return tuple(column for column in (self.argument, self.by) if column)

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
        return (f"CAST({argument} AS {exact if self._exact_sums else 'DOUBLE'})",)

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
            # DuckDB does not round a negative DECIMAL correctly to a DOUBLE.
            whole = f"CASE WHEN {sums[0]} < 0 THEN -CAST(-{sums[0]} AS DOUBLE) ELSE CAST({sums[0]} AS DOUBLE) END"
            of_some = f"({whole}) / CAST({count} AS DOUBLE)"
        else:
            of_some = f"{cast}({sums[0]} AS {self.output})"
        return f"CASE WHEN {count} > 0 THEN {of_some} ELSE {self.of_nothing} END"

    @property
    def sums(self) -> list[str]:
        """The names of the totals of ``parts``."""
        return [f"{letter}_{self.argument}" for letter, _ in zip("vh", self.parts(self.argument), strict=False)]

    def of_totals(self, cast: str) -> str:
        """Return SQL for the measure from running totals."""
        if self.extreme:
            return f"CAST({self.extreme_name} AS {self.output})"
        sums = [] if self.function == "count" else self.sums
        return self._value(sums, f"n_{self.argument}" if self.argument else "n", cast)

    def of_rows(self, start: str, cast: str, dialect: Dialect) -> str:
        """Return SQL for the measure from rows with the alias ``r``.  The column ``start`` is not NULL in any row."""
        column, distinct = f"r.{self.argument or start}", "DISTINCT " if self.distinct else ""
        ordered, number = dialect.ordered, f"CAST({column} AS DOUBLE)"
        match self.function:
            case "count":
                return self._value((), f"COUNT({distinct}{column})", cast)
            case "sum" | "avg":
                return self._value(self._sums_of_rows(column, dialect), f"COUNT({distinct}{column})", cast)
            case "min" | "max":
                value = f"{self.function.upper()}({column})"
            case "median":
                value = ordered.middle(number, distinct=self.distinct)
            case "min_by" | "max_by":
                value = ordered.chosen(column, f"r.{self.by}", greatest=self.function == "max_by")
            case "array_agg" | "collect_set":
                return ordered.text(column, self._type, distinct=self.distinct or self.function == "collect_set")
            case _:
                value = ordered.spread(self.function, number, distinct=self.distinct)
        return value if self.of_nothing == "NULL" else f"COALESCE({value}, {self.of_nothing})"

    def _sums_of_rows(self, column: str, dialect: Dialect) -> list[str]:
        if not self._exact_sums:
            return [dialect.ordered.total(part, distinct=self.distinct) for part in self.parts(column)]
        return [f"SUM({'DISTINCT ' if self.distinct else ''}{part})" for part in self.parts(column)]


def arguments(measure: relational.Measure) -> tuple[Scalar, ...]:
    """Return the scalars that a measure reads, in the order in which ``measure_of`` expects their columns."""
    return tuple(part for part in (measure.argument, measure.by) if part is not None)


def measure_of(measure: relational.Measure, columns: Sequence[str]) -> Measure:
    """Return a measure of the algebra over rows.  ``columns`` are the columns of the rows with its ``arguments``."""
    argument, by = (*columns, "", "")[:2]
    type = None if measure.argument is None else measure.argument.type
    output = str(measure.output.type)
    return Measure(measure.function, output, argument, type, distinct=measure.distinct, by=by)


def amounts(measures: Sequence[Measure]) -> dict[str, str]:
    """Return the names of the running totals of exact measures, with SQL for the amount of a row.

    The totals are the number of rows, and the number and the sums of each argument.
    """
    parts = {"n": "1"}
    for each in (each for each in measures if not each.extreme):
        if each.argument:
            parts[f"n_{each.argument}"] = f"CASE WHEN {each.argument} IS NULL THEN 0 ELSE 1 END"
        if each.function != "count":
            sums = (f"COALESCE({part}, 0)" for part in each.parts(each.argument))
            parts |= dict(zip(each.sums, sums, strict=True))
    return parts


def extremes(measures: Sequence[Measure]) -> dict[str, tuple[str, str]]:
    """Return the names of the running MIN and MAX, with the function and the SQL for the value of a row."""
    return {each.extreme_name: (each.function.upper(), each.argument) for each in measures if each.extreme}


@dataclass(frozen=True)
class Grouping:
    """Measures of the groups of ``rows``.

    ``rows`` returns the groups as the first ``width`` columns of the axis, the arguments of the measures, and periods.
    With ``span``, there are no groups, and the measures exist at each instant of the span.  ``points`` means
    that each period of ``rows`` is a single time point.  ``lasting`` means that no period of ``rows`` ends.  A sum that
    does not fit is NULL, or an error if ``fails``.
    """

    sweep: Sweep
    rows: str
    width: int
    measures: Sequence[Measure]
    span: Span = None
    points: bool = False
    fails: bool = False
    lasting: bool = False

    def measured(self) -> str:
        """Return SQL for the groups, then the measures, and their periods.

        Periods of equal rows are disjoint, but adjacent periods are not merged.
        """
        if all(each.exact or (self.lasting and each.extreme) for each in self.measures) and not self.points:
            return self._running()
        axis = self.sweep.axis
        measures = self._named([each.of_rows(axis.start, self._cast, self.sweep.dialect) for each in self.measures])
        if not self.points:
            return self.sweep.fragments(self.rows, self._keys, measures, self.span)
        if self.span:
            return self._at_points(measures)
        groups = f"({self.rows}) AS r GROUP BY {listed(self._keys, axis.period)}"
        return f"SELECT {listed(self._keys, measures, axis.period)} FROM {groups}"

    def _at_points(self, measures: Sequence[str]) -> str:
        """At the end of a point its rows are NULL, so that the measures are of nothing until the next point."""
        axis = self.sweep.axis
        columns = dict.fromkeys((axis.start, *(column for each in self.measures for column in each.columns)))
        begun = [f"CASE WHEN side = 0 THEN {column} END AS {column}" for column in columns]
        rows = self.sweep.bounds(self.rows, (), begun, self.span, ["NULL"] * len(begun))
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
        totals, ends = amounts(self.measures), extremes(self.measures)
        return self.sweep.totals(self.rows, self._keys, totals, self._named(values), self.span, ends)

    def continued(self, before: str) -> str:
        """Return SQL for the groups, the measures, their periods, and the running ``amounts`` and ``extremes``.

        All measures are exact, or MIN and MAX of rows that never leave.  ``rows`` has the additional column ``sign``,
        which is -1 for a row that leaves the group.  ``before`` is SQL for the groups, the totals and the periods that
        earlier rows have left.
        """
        totals, ends = amounts(self.measures), extremes(self.measures)
        signed = [f"sign * {value} AS {name}" for name, value in totals.items()]
        signed += [f"{value} AS {name}" for name, (_, value) in ends.items()]
        period = self.sweep.axis.period
        both = f"SELECT {listed(self._keys, signed, period)} FROM ({self.rows}) AS given"
        if before:
            both += f" UNION ALL {before}"
        values = self._named([each.of_totals(self._cast) for each in self.measures])
        own = {name: (function, name) for name, (function, _) in ends.items()}
        heads = [*values, *totals, *ends]
        return self.sweep.totals(both, self._keys, {name: name for name in totals}, heads, self.span, own)
