"""Find the queries of a tick that run as columns instead of records (``groups.Crowd``).

The constants of a plan's queries are kept between the ticks of a process, until the set of the queries changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from weft.catalog import CatalogParts
from weft.catalog.records import PlanRecord, SharedPlan, TickRecord
from weft.execution.groups import Crowd, compiled
from weft.execution.parameters import FEW, constant_columns
from weft.execution.relations import relations
from weft.faults import FAULTS, query_faults
from weft.planning.plan import Plan, parameter_table

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.algebra.schema import TableSchema

_KEPT: Final = 64
_constants: Final[dict[tuple[str, str, int], tuple[SharedPlan, pa.Table]]] = {}
"""By the home, the place of its catalog, and the plan: the set of queries and their constants."""


def crowds_of(catalog: CatalogParts, tick: TickRecord) -> tuple[tuple[Crowd, Plan], ...]:
    """Return each plan of the tick that more than ``FEW`` queries share, as a crowd with its compiled plan.

    A plan is left out if it cannot be compiled, has states of its own for each query, reads a view that could not be
    refreshed, or reads a table with corrected rows. Its queries may then have different outcomes.
    """
    large = {each.plan_id: each for each in catalog.ticks.shared(tick.tick_id) if each.queries > FEW}
    if not large:
        return ()
    schemas = {name: table.schema for name, table in relations(catalog, ()).items()}
    troubled = {view.table_id for view in catalog.views.all() if view.trouble is not None}
    found = []
    for record in catalog.queries.plans(large):
        plan = _compiled(record, schemas)
        if plan is None or plan.has_own_states:
            continue
        shared, read = large[record.plan_id], {table.id for table in plan.tables}
        corrected = catalog.revisions.earliest(read, shared.tau)
        if read.isdisjoint(troubled) and (corrected is None or corrected >= shared.tau):
            constants = _constants_of(catalog, shared, plan)
            found.append((Crowd(shared.plan_id, shared.tau, tick.t, constants, catalog.queries.by_ids), plan))
    return tuple(found)


def _compiled(record: PlanRecord, schemas: Mapping[str, TableSchema]) -> Plan | None:
    try:
        with query_faults():
            return compiled(record, schemas)
    except FAULTS:
        return None


def _constants_of(catalog: CatalogParts, shared: SharedPlan, plan: Plan) -> pa.Table:
    key = (catalog.home().home_id, str(catalog.address), shared.plan_id)
    known = _constants.pop(key, None)
    if known is None or (known[0].version, known[0].queries) != (shared.version, shared.queries):
        columns = constant_columns(*catalog.ticks.constants(shared.plan_id), parameter_table("", plan.shape))
        known = shared, columns
    while len(_constants) >= _KEPT:
        _constants.pop(next(iter(_constants)))
    _constants[key] = known
    return known[1]
