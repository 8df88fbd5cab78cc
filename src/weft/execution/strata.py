"""In which order a tick runs its queries, and how far it takes each: a query runs after those whose results it reads.

The *stratum* of a query is 0, or one more than the greatest of those that it reads; it can read only what was installed
before it, so there are no circles.  Every stratum's answers are committed before the next reads them.  A query is never
taken beyond what those that it reads have been taken to: one that is paused or failed holds those above it at its own
tau, and they say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.catalog.records import QueryRecord
from weft.execution.groups import Member, tau_of
from weft.instants import MIN_INSTANT, format_instant


def strata(queries: Iterable[QueryRecord]) -> tuple[tuple[int, tuple[QueryRecord, ...]], ...]:
    """The queries by stratum, the lowest first: (stratum, its queries)."""
    found: dict[int, list[QueryRecord]] = {}
    for query in queries:
        found.setdefault(query.stratum, []).append(query)
    return tuple((number, tuple(found[number])) for number in sorted(found))


def member(
    query: QueryRecord, tau: int | None, t: int, lower: Mapping[int, QueryRecord], reached: Mapping[int, int | None]
) -> Member:
    """The query as it goes into a tick at ``t``: its window ends at the least instant that what it reads has reached.

    ``lower`` has the queries that it reads, ``reached`` the instants up to which their answers are complete (None: they
    have yet to go through everything).
    """
    begin = tau_of(query, tau)
    if not query.reads:
        return Member(query, begin, t)
    ends = {key: MIN_INSTANT if (at := reached[key]) is None else at for key in query.reads}
    if min(ends.values(), default=t) >= t:
        return Member(query, begin, t)
    behind = min(ends, key=ends.__getitem__)
    name, end = lower[behind].name, ends[behind]
    where = (
        "which has yet to go through everything" if end == MIN_INSTANT else f"which was ticked to {format_instant(end)}"
    )
    how = {"active": "", "paused": " and is paused", "failed": " and has failed"}
    return Member(query, begin, end, f"waits for {name}, {where}{how.get(lower[behind].state, '')}")
