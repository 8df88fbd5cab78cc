"""Order the queries of a tick and limit their windows: a query runs after those whose results it reads.

The *stratum* of a query is 0, or one more than the greatest stratum of the queries it reads. A query can read only
queries installed before it, so there are no cycles. The answers of one stratum are committed before the next reads
them. A query never passes the τ of the queries it reads: a paused or failed query holds those above it at its own τ,
and their outcome names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.catalog.records import QueryRecord
from weft.execution.groups import Member, window_start
from weft.instants import MIN_INSTANT, format_instant


def strata(queries: Iterable[QueryRecord]) -> tuple[tuple[int, tuple[QueryRecord, ...]], ...]:
    """Return the queries by stratum in ascending order: (stratum, queries)."""
    by_stratum: dict[int, list[QueryRecord]] = {}
    for query in queries:
        by_stratum.setdefault(query.stratum, []).append(query)
    return tuple((number, tuple(by_stratum[number])) for number in sorted(by_stratum))


def member(
    query: QueryRecord, tau: int | None, t: int, lower: Mapping[int, QueryRecord], reached: Mapping[int, int | None]
) -> Member:
    """Return the query as a member of a tick at ``t``; its window ends at the least instant that its inputs have
    reached.

    ``lower`` has the queries that it reads, ``reached`` the instants up to which their answers are complete (None: they
    have not run yet).
    """
    begin = window_start(query, tau)
    if not query.reads:
        return Member(query, begin, t)
    ends = {key: MIN_INSTANT if (at := reached[key]) is None else at for key in query.reads}
    if min(ends.values(), default=t) >= t:
        return Member(query, begin, t)
    behind = min(ends, key=ends.__getitem__)
    name, end = lower[behind].name, ends[behind]
    where = "which was not ticked yet" if end == MIN_INSTANT else f"which was ticked up to {format_instant(end)}"
    how = {"active": "", "paused": " and is paused", "failed": " and has failed"}
    return Member(query, begin, end, f"waits for {name}, {where}{how.get(lower[behind].state, '')}")
