"""Compute where a query's window begins: at its τ, or earlier where the recorded past was changed since.

A correction changes the rows of a source, and of the views over it, in windows that a query has already passed. The
query then runs Q^I again from the first changed instant on. Its delivered answers stay delivered, and the ledger
excludes them as always; rows that became answers are new (design section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.catalog import CatalogParts
from weft.catalog.records import QueryRecord
from weft.planning.plan import Plan


@dataclass
class WindowStarts:
    """Computes where the windows of a tick's queries begin.

    ``plans`` are the plans by id, ``lower`` the queries whose results are read, ``taus`` the instants up to which the
    queries ran, by query id (µs UTC; None: never).
    """

    catalog: CatalogParts
    plans: Mapping[int, Plan]
    lower: Mapping[int, QueryRecord]
    taus: Mapping[int, int | None]
    earliest_changes: dict[tuple[int, tuple[int, ...], int], int | None] = field(default_factory=dict)

    def since(self, query: QueryRecord) -> int | None:
        """Return where a query's window begins (µs UTC), which is never before the query was installed from now."""
        tau = self.taus[query.query_id]
        if tau is None or query.plan_id not in self.plans:
            return tau
        like = (query.plan_id, tuple(query.reads), tau)
        if like not in self.earliest_changes:
            self.earliest_changes[like] = self.catalog.revisions.earliest(self._tables(query), tau)
        begins = self.earliest_changes[like]
        if begins is None or begins >= tau:
            return tau
        if query.from_mode == "now" and query.from_instant is not None:
            begins = min(tau, max(begins, query.from_instant))
        return begins

    def _tables(self, query: QueryRecord) -> set[int]:
        """Return the tables that the query reads, directly or through the queries that it reads."""
        plan = self.plans.get(query.plan_id)
        tables = set() if plan is None else {table.id for table in plan.tables if table.source == "table"}
        for key in query.reads:
            if key in self.lower:
                tables |= self._tables(self.lower[key])
        return tables
