"""Periods swept in the order of time: SQL that DuckDB and Spark read alike.

A relation is given as a query of ``c1 … cn, valid_from, valid_to``; a NULL ``valid_to`` is open.  A row may come with
several periods, its *tuple* being all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

FOREVER: Final = "TIMESTAMP '9999-12-31 23:59:59.999999'"
"""Beyond every end: where an open period ends, for comparing."""


def columns_of(width: int, alias: str = "") -> list[str]:
    """``c1 … cn``, of ``alias`` where given."""
    return [f"{alias}.c{number}" if alias else f"c{number}" for number in range(1, width + 1)]


def listed(*parts: str | Iterable[str]) -> str:
    """Items of a list; the empty ones left out."""
    flat = [item for part in parts for item in ((part,) if isinstance(part, str) else part)]
    return ", ".join(item for item in flat if item)


def over(keys: Iterable[str], order: str = "", frame: str = "") -> str:
    """``OVER (PARTITION BY … ORDER BY …)``."""
    names = listed(keys)
    parts = (f"PARTITION BY {names}" if names else "", f"ORDER BY {order}" if order else "", frame)
    return f"OVER ({' '.join(part for part in parts if part)})"


def coalesced(query: str, width: int) -> str:
    """The same instants in maximal periods: periods of one row that overlap or meet become one."""
    keys = columns_of(width)
    before = over(keys, "valid_from", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")
    begins = (
        f"SELECT {listed(keys)}, valid_from, valid_to, "
        f"CASE WHEN valid_from <= MAX(COALESCE(valid_to, {FOREVER})) {before} THEN 0 ELSE 1 END AS begins "
        f"FROM ({query}) AS given"
    )
    # Periods that begin together are peers of the running sum, so that they are always of one island.
    islands = (
        f"SELECT {listed(keys)}, valid_from, valid_to, SUM(begins) {over(keys, 'valid_from')} AS island "
        f"FROM ({begins}) AS begun"
    )
    return (
        f"SELECT {listed(keys)}, MIN(valid_from) AS valid_from, "
        "CASE WHEN COUNT(*) = COUNT(valid_to) THEN MAX(valid_to) END AS valid_to "
        f"FROM ({islands}) AS islands GROUP BY {listed(keys, 'island')}"
    )


def shared(aliases: Sequence[str]) -> tuple[str, str, list[str]]:
    """The start and the end of the instants that periods share, and the conditions that there are any."""
    starts, ends = [f"{each}.valid_from" for each in aliases], [f"{each}.valid_to" for each in aliases]
    if len(aliases) == 1:
        return starts[0], ends[0], []
    pairs = [(one, other) for one in aliases for other in aliases if one != other]
    overlap = [f"({one}.valid_to IS NULL OR {other}.valid_from < {one}.valid_to)" for one, other in pairs]
    return f"GREATEST({listed(starts)})", f"LEAST({listed(ends)})", overlap  # both pass over NULLs


def without(left: str, right: str, width: int) -> str:
    """The left one's instants less those of the same row on the right; both are names of coalesced relations."""
    keys = columns_of(width)
    events = " UNION ALL ".join(
        f"SELECT {listed(keys)}, {bound} AS instant, {counts} FROM {name}{where}"
        for name, one, other in (
            (left, "1 AS l, 0 AS r", "-1 AS l, 0 AS r"),
            (right, "0 AS l, 1 AS r", "0 AS l, -1 AS r"),
        )
        for bound, counts, where in (
            ("valid_from", one, ""),
            ("valid_to", other, " WHERE valid_to IS NOT NULL"),
        )
    )
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


def extended(name: str, width: int, window: str, at: str) -> str:
    """EX_w: each instant and what follows it within ``window``: [a, b) becomes [a, b + w), open where b + w > at."""
    later = f"valid_to + {window}"
    end = f"CASE WHEN {later} <= {at} THEN {later} END"
    moved = f"SELECT {listed(columns_of(width))}, valid_from, {end} AS valid_to FROM {name}"
    return coalesced(moved, width)


def judged(name: str, width: int, after_now: str) -> str:
    """The relation with what the period functions say of each row's tuple: ``period_start``, ``period_end``,
    ``period_length`` and the number of its periods.

    ``after_now`` is the instant after t_now, where an open period ends when it is judged.
    """
    end = f"COALESCE(valid_to, {after_now})"
    tuple_ = over(columns_of(width))
    return (
        f"SELECT {listed(columns_of(width))}, valid_from, valid_to, MIN(valid_from) {tuple_} AS period_start, "
        f"MAX({end}) {tuple_} - INTERVAL '1' MICROSECOND AS period_end, "
        f"TIMESTAMP_MICROS(CAST(SUM(UNIX_MICROS({end}) - UNIX_MICROS(valid_from)) {tuple_} AS BIGINT)) "
        f"- TIMESTAMP '1970-01-01 00:00:00+00:00' AS period_length, COUNT(*) {tuple_} AS periods FROM {name}"
    )


def containing(outer: tuple[str, int], inner: tuple[str, int], condition: str, after_now: str) -> str:
    """The pairs of tuples the first of which holds at every instant of the second: ``c1 …`` of both, one after another.

    Given are names and widths; ``condition`` is over the aliases ``a`` and ``b``.  As periods are maximal, each
    period of the second lies within one of the first's or is not covered: the covered ones are counted.
    """
    pair = [*columns_of(outer[1], "a"), *columns_of(inner[1], "b")]
    named = [f"{column} AS c{number}" for number, column in enumerate(pair, 1)]
    return (
        f"SELECT {listed(named)}, TRUE AS holds FROM {outer[0]} AS a CROSS JOIN ({judged(*inner, after_now)}) AS b "
        f"WHERE a.valid_from <= b.valid_from AND (a.valid_to IS NULL OR b.valid_to <= a.valid_to){condition} "
        f"GROUP BY {listed(pair, 'b.periods')} HAVING COUNT(*) = b.periods"
    )
