"""Compute the measures of groups over time, in SQL for both DuckDB and Spark (paper, section 5.1).

Counts and exact sums are running sums over the bounds of the rows' periods.  MIN, MAX and sums of FLOAT and DOUBLE are
computed for each fragment between two bounds.  Adjacent fragments with equal measures become one period.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.scalar import Scalar
from weft.algebra.schema import INTEGRAL, DataType
from weft.algebra.temporal import Aggregation, Measure
from weft.sql.render import spelled
from weft.sql.sweeping import BOTH_BOUNDS, BOUND, PORTABLE, Sweeps, columns_of, listed, over
from weft.sql.wide_sums import high_part, is_wide, low_part, quotient, total

_WIDE: Final = "DECIMAL(20,0)"
"""The type for sums of BIGINTs, because a sum may exceed a BIGINT."""


def aggregated(
    relation: Aggregation, name: str, text: Callable[[Scalar], str], since: str, sweeps: Sweeps = PORTABLE
) -> str:
    """Return SQL for an aggregation over the query ``name``, which has the alias ``a``.

    The function ``text`` returns the SQL of a scalar over the query.  ``since`` is SQL for t0.
    """
    arguments = tuple(dict.fromkeys(each.argument for each in relation.measures if each.argument is not None))
    groups = [f"{text(group.value)} AS c{number}" for number, group in enumerate(relation.groups, 1)]
    values = [f"{text(argument)} AS x{number}" for number, argument in enumerate(arguments, 1)]
    rows = f"SELECT {listed(groups, values, 'valid_from', 'valid_to')} FROM {name} AS a"
    groups_of = _Groups(len(groups), relation.measures, arguments, rows, since)
    steps = groups_of.running() if all(map(_exact, relation.measures)) else groups_of.recomputed()
    return sweeps.coalesced(steps, groups_of.width)


def _exact(measure: Measure) -> bool:
    """Return whether the measure can be updated exactly by subtracting the value of a row."""
    type = None if measure.argument is None else measure.argument.type
    if type is None or measure.function == "count":
        return True
    return measure.function in ("sum", "avg") and type.name not in ("FLOAT", "DOUBLE")


def _summed_as(type: DataType) -> str:
    if type.name in INTEGRAL:
        return _WIDE if type.name == "BIGINT" else "BIGINT"
    return str(type) if type.name == "DECIMAL" else "DOUBLE"


@dataclass(frozen=True)
class _Groups:
    """An aggregation over ``rows``, with the columns ``c1 …`` (groups), ``x1 …`` (arguments), and the period."""

    count: int
    measures: tuple[Measure, ...]
    arguments: tuple[Scalar, ...]
    rows: str
    since: str

    @property
    def width(self) -> int:
        return self.count + len(self.measures)

    def running(self) -> str:
        """Return SQL that computes the measures as running sums.

        ``n`` is the number of rows, ``n1 …`` are the numbers of non-NULL arguments, and ``v1 …`` are the sums.
        """
        keys = columns_of(self.count)
        summed = [self._summed(number) for number in range(len(self.arguments))]
        counts = ["n", *(f"n{number + 1}" for number in range(len(self.arguments)))]
        for place in (number for number in summed if number is not None):
            counts += [f"v{place + 1}", *([f"h{place + 1}"] if is_wide(self.arguments[place].type) else [])]
        added = ["CASE WHEN side = 0 THEN 1 ELSE -1 END AS n"]
        for number in range(1, len(self.arguments) + 1):
            added.append(
                f"CASE WHEN x{number} IS NULL THEN 0 WHEN side = 0 THEN 1 ELSE -1 END AS n{number}",
            )
        for place in (number for number in summed if number is not None):
            for column, part in zip("vh", _parts(f"x{place + 1}", self.arguments[place].type), strict=False):
                value = f"COALESCE({part}, 0)"
                added.append(f"CASE WHEN side = 0 THEN {value} ELSE -{value} END AS {column}{place + 1}")
        bounds = f"SELECT {listed(keys, f'{BOUND} AS instant', added)} FROM ({self.rows}) AS given {BOTH_BOUNDS}"
        events = f"SELECT * FROM ({bounds}) AS bounds WHERE instant IS NOT NULL"
        if not self.count:
            events += f" UNION ALL SELECT {listed(self.since, ('0' for _ in counts))}"
        sums = [f"SUM({each}) AS {each}" for each in counts]
        at_once = f"SELECT {listed(keys, 'instant', sums)} FROM ({events}) AS events GROUP BY {listed(keys, 'instant')}"
        window = over(keys, "instant")
        so_far = [f"SUM({each}) {window} AS {each}" for each in counts]
        following = f"LEAD(instant) {window} AS next"
        swept = f"SELECT {listed(keys, 'instant', following, so_far)} FROM ({at_once}) AS at_once"
        measures = [f"{self._running(each)} AS c{place}" for place, each in enumerate(self.measures, self.count + 1)]
        there = " WHERE n > 0" if self.count else ""
        heads = listed(keys, measures, "instant AS valid_from", "next AS valid_to")
        return f"SELECT {heads} FROM ({swept}) AS swept{there}"

    def _summed(self, place: int) -> int | None:
        asked = (each for each in self.measures if each.argument == self.arguments[place])
        return place if any(each.function in ("sum", "avg") for each in asked) else None

    def _running(self, measure: Measure) -> str:
        if measure.argument is None:
            return "CAST(n AS BIGINT)"
        place = self.arguments.index(measure.argument) + 1
        if measure.function == "count":
            return f"CAST(n{place} AS BIGINT)"
        return f"CASE WHEN n{place} > 0 THEN {_quotient(measure, (f'v{place}', f'h{place}'), f'n{place}')} END"

    def recomputed(self) -> str:
        """Return SQL that computes the measures for each fragment between two bounds."""
        keys = columns_of(self.count)
        bounds = (
            f"SELECT DISTINCT {listed(keys, 'instant')} FROM (SELECT {listed(keys, f'{BOUND} AS instant')} "
            f"FROM ({self.rows}) AS given {BOTH_BOUNDS}) AS bounds WHERE instant IS NOT NULL"
        )
        if not self.count:
            bounds += f" UNION SELECT {self.since}"
        following = f"LEAD(instant) {over(keys, 'instant')} AS next"
        fragments = f"SELECT {listed(keys, 'instant', following)} FROM ({bounds}) AS bounds"
        same = "".join(f" AND f.{key} IS NOT DISTINCT FROM r.{key}" for key in keys)
        measures = [f"{self._recomputed(each)} AS c{place}" for place, each in enumerate(self.measures, self.count + 1)]
        own = columns_of(self.count, "f")
        return (
            f"SELECT {listed(own, measures, 'f.instant AS valid_from', 'f.next AS valid_to')} "
            f"FROM ({fragments}) AS f {'' if self.count else 'LEFT '}JOIN ({self.rows}) AS r "
            f"ON r.valid_from <= f.instant AND (r.valid_to IS NULL OR f.instant < r.valid_to){same} "
            f"GROUP BY {listed(own, 'f.instant', 'f.next')}"
        )

    def _recomputed(self, measure: Measure) -> str:
        if measure.argument is None:
            return "CAST(COUNT(r.valid_from) AS BIGINT)"
        column = f"r.x{self.arguments.index(measure.argument) + 1}"
        if measure.function == "count":
            return f"CAST(COUNT({column}) AS BIGINT)"
        if measure.function in ("min", "max"):
            return f"{measure.function.upper()}({column})"
        parts = _parts(column, measure.argument.type)
        sums = [f"SUM({part})" if _exact(measure) else _in_order(part) for part in parts]
        return f"CASE WHEN COUNT({column}) > 0 THEN {_quotient(measure, sums, f'COUNT({column})')} END"


def _in_order(number: str) -> str:
    """Sum DOUBLEs in ascending order, so that the same numbers always have the same sum.

    View maintenance looks up tuples by value, so the value must not depend on the order of addition.
    """
    return f"AGGREGATE(ARRAY_SORT(COLLECT_LIST({number})), CAST(0 AS DOUBLE), (a, b) -> a + b)"


def _parts(value: str, type: DataType) -> tuple[str, ...]:
    """Return SQL for the low part and the high part of a wide DECIMAL.  For other types, return the value itself."""
    if is_wide(type):
        return low_part(value, type), high_part(value, type)
    return (f"CAST({value} AS {_summed_as(type)})",)


def _quotient(measure: Measure, sums: Sequence[str], count: str) -> str:
    """Return SQL for SUM or AVG from the sums of ``_parts``.  The count must not be 0."""
    type = None if measure.argument is None else measure.argument.type
    if type is not None and is_wide(type):
        low, high = sums
        return quotient(low, high, count, type) if measure.function == "avg" else total(low, high, type)
    if measure.function == "avg":
        return f"CAST({sums[0]} AS DOUBLE) / CAST({count} AS DOUBLE)"
    return f"TRY_CAST({sums[0]} AS {spelled(measure.output.type)})"
