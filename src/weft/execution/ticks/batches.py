"""Divide the first deliveries of a tick into batches, so that answers become visible while others are computed.

Each batch is a tick at the same instant. By law 2, the queries may be ticked together or one after the other. The first
batch has all queries except the large first deliveries of the other batches. Each plan with large first
deliveries has a batch of its own. More than ten such plans are divided evenly among ten batches, because each batch
costs a tick and a commit. If a process stops between two batches, the queries of the remaining batches have no τ yet,
and the next tick runs them.

The first delivery of one plan is never divided by instants. Each part would join its rows with the whole tables again:
in four parts, the five queries of the paper take 2.5 times the processor time over 3.8 million rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from weft.algebra.traverse import mentioned, scans
from weft.catalog import CatalogParts
from weft.catalog.records import Choice, PlanRecord, QueryRecord
from weft.errors import QueryFault
from weft.execution.groups import compiled
from weft.execution.relations import Relation, ResultsTable, relations
from weft.faults import query_faults
from weft.planning.plan import Plan, columns_of_scans

ROWS_OF_A_BATCH: Final = 1_000_000
"""The least number of rows in the tables of a query whose first delivery is a batch."""
MOST_BATCHES: Final = 10
"""The maximum number of batches of a tick."""


def batches(catalog: CatalogParts, choice: Choice) -> tuple[tuple[Choice, ...], Mapping[str, set[str]]]:
    """Divide the queries of a tick into batches. Synopses stay in the first, because they read their log once.

    Also return the columns that the large first deliveries read, by table, or nothing if there is one batch.
    """
    first = catalog.ticks.first_deliveries(choice)
    if len(first) < 2:
        return (choice,), {}
    lower = {query.query_id: query for query in catalog.queries.read_by_plans(first)}
    tables = relations(catalog, lower)
    if sum(each.rows for each in tables.values()) < ROWS_OF_A_BATCH:
        return (choice,), {}
    wanted = {*first, *(query.plan_id for query in lower.values())}
    found = _Plans(tables, lower, {record.plan_id: record for record in catalog.queries.plans(wanted)})
    large = tuple(plan_id for plan_id in first if sum(found.rows(plan_id).values()) >= ROWS_OF_A_BATCH)
    if len(large) < 2:
        return (choice,), {}
    count = min(len(large), MOST_BATCHES)
    ends = [len(large) * number // count for number in range(1, count + 1)]
    apart = [replace(choice, first_of=large[start:end]) for start, end in pairwise(ends)]
    return (replace(choice, but_first_of=large[ends[0] :]), *apart), found.columns(large)


class _Plans:
    """The tables that the queries of plans read. A synopsis, or a plan that cannot be restored, reads nothing here."""

    def __init__(
        self, tables: Mapping[str, Relation], lower: Mapping[int, QueryRecord], records: Mapping[int, PlanRecord]
    ) -> None:
        self._tables, self._records = tables, records
        self._schemas = {name: table.schema for name, table in tables.items()}
        self._lower = {query.results.name: query for query in lower.values()}

    def rows(self, plan_id: int) -> dict[str, int]:
        """Return the number of rows of each table that a plan reads, directly or through the results of queries."""
        shape, found = self._shape(plan_id), dict[str, int]()
        for schema in () if shape is None else shape.tables:
            table = self._tables[schema.name]
            is_table = not isinstance(table, ResultsTable)
            found |= {schema.name: table.rows} if is_table else self.rows(self._lower[schema.name].plan_id)
        return found

    def columns(self, plan_ids: tuple[int, ...]) -> dict[str, set[str]]:
        """Return the names of the columns that the plans read, by table."""
        columns: dict[str, set[str]] = {}
        for shape in filter(None, map(self._shape, plan_ids)):
            for table, names in columns_of_scans(scans(shape.lifted), mentioned(shape.lifted)).items():
                columns.setdefault(table, set()).update(names)
        return columns

    def _shape(self, plan_id: int) -> Plan | None:
        try:
            with query_faults():
                return compiled(self._records[plan_id], self._schemas)
        except QueryFault:
            return None  # if the plan cannot be restored, the tick sets its queries aside, with the reason
