"""Which queries are due: a query's timeliness is how long it may go without being run (paper, section 8).

Being due is a lower bound: a query may be run sooner, together with others, and gets the same answers (law 2).
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.catalog.records import QueryRecord


def next_run(query: QueryRecord) -> int | None:
    """The instant at which the query must be run at the latest; None: at the next tick, whenever that is.

    A query without a timeliness, or that was never run, goes along with each tick.
    """
    if query.every_us is None or query.tau is None:
        return None
    return query.tau + query.every_us


def is_due(query: QueryRecord, at: int) -> bool:
    """Whether a tick at ``at`` (microseconds UTC) has to run the query; never one that is not active."""
    if query.state != "active":
        return False
    run = next_run(query)
    return run is None or run <= at


def due(queries: Iterable[QueryRecord], at: int) -> tuple[QueryRecord, ...]:
    """The queries that a tick at ``at`` has to run, in the order given."""
    return tuple(query for query in queries if is_due(query, at))


def next_wake(queries: Iterable[QueryRecord], at: int, pace_us: int) -> int | None:
    """When a runner must tick next, having just ticked at ``at``; None where no query is active.

    ``pace_us`` is how often queries without a timeliness of their own are run.
    """
    wakes = []
    for query in queries:
        if query.state != "active":
            continue
        run = next_run(query)
        if run is not None:
            wakes.append(run)
        else:
            wakes.append(at if query.tau is None else query.tau + pace_us)
    return max(min(wakes), at) if wakes else None
