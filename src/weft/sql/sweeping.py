"""Compute with periods in time order, in SQL for both DuckDB and Spark.

A relation is a query that returns ``c1 … cn, valid_from, valid_to``.  A NULL ``valid_to`` marks an open period.  A row
can have several periods.  The row and all its periods form a *tuple*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

FOREVER: Final = "TIMESTAMP '9999-12-31 23:59:59.999999+00:00'"
"""The latest instant, which represents the end of open periods in comparisons."""


BOTH_BOUNDS: Final = "CROSS JOIN (SELECT 0 AS side UNION ALL SELECT 1 AS side) AS sides"
"""A join after FROM that returns each period twice, once for its start and once for its end.  Spark inserts a copy of a
CTE for each reference.  If each query referred to the previous query twice, a chain of queries would grow
exponentially.  With this join, each query needs only one reference to the previous query.
"""
BOUND: Final = "CASE WHEN side = 0 THEN valid_from ELSE valid_to END"
"""The start or the end of a period.  The end of an open period is NULL."""


def columns_of(width: int, alias: str = "") -> list[str]:
    """Return the names ``c1 … cn``, where n is ``width``, qualified by ``alias`` if it is not empty."""
    return [f"{alias}.c{number}" if alias else f"c{number}" for number in range(1, width + 1)]


def listed(*parts: str | Iterable[str]) -> str:
    """Join the items of ``parts`` by commas.  Omit empty items."""
    flat = [item for part in parts for item in ((part,) if isinstance(part, str) else part)]
    return ", ".join(item for item in flat if item)


def over(keys: Iterable[str], order: str = "", frame: str = "") -> str:
    """Return ``OVER (PARTITION BY keys ORDER BY order frame)`` without the empty parts."""
    names = listed(keys)
    parts = (f"PARTITION BY {names}" if names else "", f"ORDER BY {order}" if order else "", frame)
    return f"OVER ({' '.join(part for part in parts if part)})"


def coalesced(query: str, width: int) -> str:
    """Return SQL that merges overlapping or adjacent periods of equal rows into maximal periods."""
    latest = "CASE WHEN COUNT(*) = COUNT(valid_to) THEN MAX(valid_to) END"
    reach = f"COALESCE(valid_to, {FOREVER})"
    return in_maximal_periods(query, columns_of(width), ("valid_from", "valid_to"), reach, latest)


def in_maximal_periods(query: str, keys: Sequence[str], period: tuple[str, str], reach: str, latest: str) -> str:
    """Return SQL that merges periods with the same key.

    ``period`` names the start column and the end column of ``query``.  Two periods merge if the later period starts at
    or before the ``reach`` of the earlier period.  ``latest`` is SQL for the end of a merged period.
    """
    start, end = period
    before = over(keys, start, "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")
    begins = (
        f"SELECT {listed(keys, period)}, CASE WHEN {start} <= MAX({reach}) {before} THEN 0 ELSE 1 END AS begins "
        f"FROM ({query}) AS given"
    )
    # Periods with the same start are peers in the running sum, so they belong to one island.
    islands = f"SELECT {listed(keys, period)}, SUM(begins) {over(keys, start)} AS island FROM ({begins}) AS begun"
    return (
        f"SELECT {listed(keys, f'MIN({start}) AS {start}', f'{latest} AS {end}')} "
        f"FROM ({islands}) AS islands GROUP BY {listed(keys, 'island')}"
    )


def shared(aliases: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return SQL for the start and the end of the intersection of periods, and the conditions that the periods overlap.

    ``aliases`` are the aliases of the rows with the periods.
    """
    starts, ends = [f"{each}.valid_from" for each in aliases], [f"{each}.valid_to" for each in aliases]
    if len(aliases) == 1:
        return starts[0], ends[0], []
    pairs = [(one, other) for one in aliases for other in aliases if one != other]
    overlap = [f"({one}.valid_to IS NULL OR {other}.valid_from < {one}.valid_to)" for one, other in pairs]
    return f"GREATEST({listed(starts)})", f"LEAST({listed(ends)})", overlap  # both ignore NULLs


def _counted(count: int, name: str) -> str:
    """Return SQL that is ``count`` at the start of a period and minus ``count`` at the end."""
    return f"CASE WHEN side = 0 THEN {count} ELSE {-count} END AS {name}"


def without(left: str, right: str, width: int) -> str:
    """Return SQL for the rows of ``left`` without the instants at which ``right`` contains an equal row.

    ``left`` and ``right`` are names of relations with maximal periods.
    """
    keys = columns_of(width)
    bounds = " UNION ALL ".join(
        f"SELECT {listed(keys)}, {BOUND} AS instant, {_counted(count, 'l')}, {_counted(other, 'r')} "
        f"FROM {name} {BOTH_BOUNDS}"
        for name, count, other in ((left, 1, 0), (right, 0, 1))
    )
    events = f"SELECT * FROM ({bounds}) AS bounds WHERE instant IS NOT NULL"
    summed = (
        f"SELECT {listed(keys)}, instant, SUM(l) AS l, SUM(r) AS r FROM ({events}) AS events "
        f"GROUP BY {listed(keys, 'instant')}"
    )
    running = over(keys, "instant")
    swept = (
        f"SELECT {listed(keys)}, instant AS valid_from, LEAD(instant) {running} AS valid_to, "
        f"SUM(l) {running} AS l, SUM(r) {running} AS r FROM ({summed}) AS summed"
    )
    return f"SELECT {listed(keys)}, valid_from, valid_to FROM ({swept}) AS swept WHERE l > 0 AND r = 0"


@dataclass(frozen=True)
class Sweeps:
    """The functions that generate SQL for merging periods (``coalesced``) and for subtracting periods (``without``)."""

    coalesced: Callable[[str, int], str]
    without: Callable[[str, str, int], str]


PORTABLE: Final = Sweeps(coalesced, without)
"""The functions that generate SQL for both DuckDB and Spark."""


def extended(name: str, width: int, window: str, at: str, sweeps: Sweeps = PORTABLE) -> str:
    """Return SQL for EX_w, which extends each period [a, b) to [a, b + w).  The result is open if b + w > ``at``."""
    later = f"valid_to + {window}"
    end = f"CASE WHEN {later} <= {at} THEN {later} END"
    moved = f"SELECT {listed(columns_of(width))}, valid_from, {end} AS valid_to FROM {name}"
    return sweeps.coalesced(moved, width)


@dataclass(frozen=True)
class Until:
    """SQL for the instant at which periods are evaluated, and for the next instant.

    ``judged`` appends ``suffix`` to column names, so that one SELECT can use several instants.
    """

    instant: str
    after: str
    suffix: str = ""

    @property
    def start(self) -> str:
        """SQL for the start of a period, or NULL if the period starts after the instant."""
        return f"CASE WHEN valid_from <= {self.instant} THEN valid_from END"

    @property
    def end(self) -> str:
        """SQL for the end of a period, or NULL if the period starts after the instant.

        The end is at most the next instant.
        """
        return f"CASE WHEN valid_from <= {self.instant} THEN LEAST(COALESCE(valid_to, {self.after}), {self.after}) END"


def judged(name: str, width: int, untils: Sequence[Until]) -> str:
    """Return SQL that adds columns with the values of the period functions at the instants ``untils``.

    The columns are ``period_start``, ``period_end`` and ``period_length``, each with the suffix of the instant.
    """
    tuple_ = over(columns_of(width))
    said = []
    for each in untils:
        length = f"SUM(UNIX_MICROS({each.end}) - UNIX_MICROS({each.start})) {tuple_}"
        said += [
            f"MIN({each.start}) {tuple_} AS period_start{each.suffix}",
            f"MAX({each.end}) {tuple_} - INTERVAL '1' MICROSECOND AS period_end{each.suffix}",
            f"TIMESTAMP_MICROS(CAST({length} AS BIGINT)) - TIMESTAMP '1970-01-01 00:00:00+00:00' "
            f"AS period_length{each.suffix}",
        ]
    return f"SELECT {listed(columns_of(width), 'valid_from', 'valid_to', said)} FROM {name}"


def cut(name: str, width: int, until: Until) -> str:
    """Return SQL for the periods up to an instant.  The column ``periods`` is the number of periods in the tuple.

    If a period is open or ends after the instant, the SQL ends the period just after the instant.
    """
    columns = columns_of(width)
    return (
        f"SELECT {listed(columns)}, valid_from, {until.end} AS valid_to, COUNT(*) {over(columns)} AS periods "
        f"FROM {name} WHERE valid_from <= {until.instant}"
    )


def pairs(outer: tuple[str, int], inner: tuple[str, int], condition: str, until: Until, *, contained: bool) -> str:
    """Return SQL for pairs of an outer tuple and an inner tuple whose periods up to an instant are related.

    If ``contained`` is true, the outer tuple must be valid at every instant of the inner tuple.  Otherwise, the outer
    tuple must be valid at some instant of the inner tuple.  The columns are ``c1 …`` of both tuples, in order, and
    ``holds``.  ``outer`` and ``inner`` are pairs (name, width).  ``condition`` refers to the aliases ``a`` and ``b``.

    Because periods are maximal, a period of the inner tuple is covered by a single period of the outer tuple, or not at
    all.  The SQL compares the number of covered periods with the number of all periods.
    """
    pair = [*columns_of(outer[1], "a"), *columns_of(inner[1], "b")]
    named = [f"{column} AS c{number}" for number, column in enumerate(pair, 1)]
    related = (
        "a.valid_from <= b.valid_from AND b.valid_to <= a.valid_to"
        if contained
        else "a.valid_from < b.valid_to AND b.valid_from < a.valid_to"
    )
    all_of_them = " HAVING COUNT(*) = b.periods" if contained else ""
    return (
        f"SELECT {listed(named)}, TRUE AS holds "
        f"FROM ({cut(*outer, until)}) AS a CROSS JOIN ({cut(*inner, until)}) AS b "
        f"WHERE {related}{condition} GROUP BY {listed(pair, 'b.periods')}{all_of_them}"
    )
