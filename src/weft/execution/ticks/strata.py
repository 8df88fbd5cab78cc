"""Order the queries of a tick and limit their windows.

A query runs after the queries that it reads. The *stratum* of a query is 0 if the query reads no query. The stratum of
any other query is one more than the greatest stratum of the queries that it reads. A query can read only queries
installed earlier, and therefore no cycle can exist. The answers of one stratum are committed before the next stratum
starts. A query never advances past the τ of a query that it reads. A paused or failed query therefore delays its
readers. The outcome of a delayed query names the query that caused the delay.

A query's window normally begins at the query's τ. If a correction changed rows of a source before τ, the window begins
at the first changed instant. The query then runs Q^I again from the first changed instant on. This run adds only rows
that are not yet in the ledger (design section 2). Delivered answers stay delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.catalog import CatalogParts
from weft.catalog.records import QueryRecord
from weft.execution.groups import Member, window_start
from weft.instants import MIN_INSTANT, format_instant
from weft.planning.plan import Plan


def strata(queries: Iterable[QueryRecord]) -> tuple[tuple[int, tuple[QueryRecord, ...]], ...]:
    """Return the number and the queries of each stratum, in ascending order."""
    by_stratum: dict[int, list[QueryRecord]] = {}
    for query in queries:
        by_stratum.setdefault(query.stratum, []).append(query)
    return tuple((number, tuple(by_stratum[number])) for number in sorted(by_stratum))


def member(
    query: QueryRecord, tau: int | None, t: int, lower: Mapping[int, QueryRecord], reached: Mapping[int, int | None]
) -> Member:
    """Return the query as a member of a tick at ``t``.

    ``lower`` has the queries that other queries read. ``reached`` maps each lower query to the instant up to which its
    answers are complete. The instant is None if a lower query has not run yet. The window normally ends at ``t``. If a
    lower query is complete only up to an earlier instant, the windows of its readers end at this instant.
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


@dataclass
class WindowStarts:
    """A calculator for the window starts of a tick's queries.

    ``plans`` maps plan IDs to plans. ``lower`` has the queries whose results other queries read. ``taus`` maps each
    query ID to the instant up to which the query ran (µs UTC). The instant is None for a query that never ran.
    """

    catalog: CatalogParts
    plans: Mapping[int, Plan]
    lower: Mapping[int, QueryRecord]
    taus: Mapping[int, int | None]
    earliest_changes: dict[tuple[frozenset[int], int], int | None] = field(default_factory=dict)

    def since(self, query: QueryRecord) -> int | None:
        """Return the instant (µs UTC) at which a query's window begins, or None if the query never ran.

        With ``--from now``, the window never begins before the installation.
        """
        tau = self.taus[query.query_id]
        if tau is None or query.plan_id not in self.plans:
            return tau
        like = (frozenset(self._tables(query)), tau)
        if like not in self.earliest_changes:
            self.earliest_changes[like] = self.catalog.revisions.earliest(*like)
        begins = self.earliest_changes[like]
        if begins is None or begins >= tau:
            return tau
        if query.from_mode == "now" and query.from_instant is not None:
            begins = min(tau, max(begins, query.from_instant))
        return begins

    def _tables(self, query: QueryRecord) -> set[int]:
        """Return the IDs of the tables that the query reads, directly or through other queries."""
        plan = self.plans.get(query.plan_id)
        tables = set() if plan is None else {table.id for table in plan.tables if table.source == "table"}
        for key in query.reads:
            if key in self.lower:
                tables |= self._tables(self.lower[key])
        return tables
