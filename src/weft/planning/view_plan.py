"""What the catalog keeps of a temporal view, and the expressions that maintain it.

A view is kept as it was bound (``algebra.stored``), over the columns that its tables had then: neither a new column nor
another name changes what it means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from weft.algebra.relation import Query
from weft.algebra.schema import DataType, TableSchema
from weft.algebra.stored import TableKey, restored, stored
from weft.algebra.temporal import Temporal
from weft.algebra.traverse import scans
from weft.derivation.temporal.auxiliary import auxiliary_maintenance
from weft.derivation.temporal.maintenance_plan import Maintenance, maintenance
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import DerivationError, PlanMismatch
from weft.planning.auxiliaries import auxiliary_of
from weft.sql.lower import bind_view
from weft.sql.view_definitions import depends_on_now


@dataclass(frozen=True)
class ViewPlan:
    """A bound view and its maintenance; an ``auxiliary`` view is maintained by the changes of its table alone."""

    query: Query
    auxiliary: bool = False

    @cached_property
    def plan(self) -> Maintenance:
        """What the passing of time, and changes of the tables, do to it; with its value as it is kept."""
        if self.auxiliary:
            return auxiliary_maintenance(auxiliary_of(self.query))
        return maintenance(self.value)

    @cached_property
    def value(self) -> Temporal:
        """What it denotes."""
        return sequenced(self.query)

    @property
    def depends_on_now(self) -> bool:
        """Whether standing queries have its definition in the place of its kept periods."""
        return depends_on_now(self.query)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The view's columns."""
        return tuple((output.name, output.value.type) for output in self.query.outputs)

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables and views that it is over, each once, in the order of their ids."""
        found = {scan.table.id: scan.table for scan in scans(self.query)}
        return tuple(found[key] for key in sorted(found))


def bound_view(text: str, tables: Mapping[str, TableSchema]) -> ViewPlan:
    """The view that ``text`` defines over tables by name; raises SqlError."""
    return ViewPlan(bind_view(text, tables))


def stored_view(view_plan: ViewPlan) -> str:
    """The bound form as the catalog keeps it."""
    return stored(view_plan.query)


def restored_view(
    form: str, tables: Iterable[TableSchema], reads: Mapping[int, Iterable[int]], *, auxiliary: bool = False
) -> ViewPlan:
    """The view of a stored form, over the columns (their ids by table) that its tables had when it was bound.

    Raises PlanMismatch where it is of another format, or reads what is not there any more.
    """
    known: dict[TableKey, TableSchema] = {}
    for table in tables:
        if table.id in reads:
            known[table.source, table.id] = restricted(table, reads[table.id])
    try:
        return ViewPlan(restored(form, known), auxiliary)
    except (DerivationError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanMismatch(f"the stored view {signature(form)} cannot be read: {error}") from error


def restricted(table: TableSchema, ids: Iterable[int]) -> TableSchema:
    """The table with these of its columns, and the bounds of its periods."""
    kept = {*ids}
    bounds = (table.start, table.end)
    return replace(table, columns=tuple(c for c in table.columns if c.id in kept or c.name in bounds))


def signature(form: str) -> str:
    """A short name of a stored form."""
    return hashlib.sha256(form.encode()).hexdigest()[:16]
