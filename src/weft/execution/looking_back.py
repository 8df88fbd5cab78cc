"""From where on a standing query is asked in a tick: from its τ, or from where the recorded past was changed since.

A correction gives a source other rows in windows that a query has gone through, and the views over it.  The query is
then asked again from the first instant that was changed on: Q^I over a longer window.  What it delivered stays
delivered, and is left out by the ledger as ever; what became an answer is new (design section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.catalog import CatalogParts
from weft.catalog.records import QueryRecord
from weft.planning.plan import Plan


@dataclass
class LookingBack:
    """Asks for the queries of one tick: ``plans`` by id, ``lower`` the queries whose results are read.

    ``taus`` has the instants up to which they were run, by query id (µs UTC; None: never).
    """

    catalog: CatalogParts
    plans: Mapping[int, Plan]
    lower: Mapping[int, QueryRecord]
    taus: Mapping[int, int | None]
    told: dict[tuple[int, tuple[int, ...], int], int | None] = field(default_factory=dict)

    def since(self, query: QueryRecord) -> int | None:
        """Where a query's window begins (µs UTC); never before it was installed from now."""
        tau = self.taus[query.query_id]
        if tau is None or query.plan_id not in self.plans:
            return tau
        like = (query.plan_id, tuple(query.reads), tau)
        if like not in self.told:
            self.told[like] = self.catalog.revisions.earliest(self._tables(query), tau)
        begins = self.told[like]
        if begins is None or begins >= tau:
            return tau
        if query.from_mode == "now" and query.from_instant is not None:
            begins = min(tau, max(begins, query.from_instant))
        return begins

    def _tables(self, query: QueryRecord) -> set[int]:
        """The tables below it, those of the queries that it reads among them."""
        plan = self.plans.get(query.plan_id)
        found = set() if plan is None else {table.id for table in plan.tables if table.source == "table"}
        for key in query.reads:
            if key in self.lower:
                found |= self._tables(self.lower[key])
        return found
