"""Serialize a temporal view for the catalog, and derive the expressions that maintain it.

The catalog stores a view after resolving its names (``algebra.stored``).  The stored view refers only to columns that
its tables had when the view was created.  A new column or name therefore does not change the meaning of the view.  For
an auxiliary view, the catalog stores the text and a query over one table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from weft.algebra.relation import Output, Plain, Query, Scan, Select, condition, conjunction, conjuncts
from weft.algebra.schema import DataType, TableSchema
from weft.algebra.stored import TableKey, restored, stored
from weft.algebra.temporal import Temporal
from weft.algebra.traverse import scans, transform
from weft.derivation.temporal.auxiliary import Auxiliary, auxiliary_maintenance
from weft.derivation.temporal.maintenance_plan import Maintenance, maintenance
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import DerivationError, PlanMismatch
from weft.sql.lower.query import bind_view
from weft.sql.lower.view_definitions import depends_on_now
from weft.sql.rendering import render


@dataclass(frozen=True)
class ViewPlan:
    """A temporal view after the resolution of names, with its maintenance.

    If ``auxiliary`` is true, the view reads one table, and the changes of this table suffice to maintain the view.
    """

    query: Query
    auxiliary: bool = False

    @cached_property
    def plan(self) -> Maintenance:
        """The maintenance of the view, with the effects of time and of table changes."""
        if self.auxiliary:
            return auxiliary_maintenance(auxiliary_of(self.query))
        return maintenance(self.value)

    @cached_property
    def value(self) -> Temporal:
        """The temporal expression of the view."""
        return sequenced(self.query)

    @property
    def depends_on_now(self) -> bool:
        """Whether standing queries read the view's definition in place of its stored periods."""
        return depends_on_now(self.query)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The names and types of the view's columns."""
        return tuple((output.name, output.value.type) for output in self.query.outputs)

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables and views that the view reads, each once, in the order of their IDs."""
        tables = {scan.table.id: scan.table for scan in scans(self.query)}
        return tuple(tables[key] for key in sorted(tables))


def bound_view(text: str, tables: Mapping[str, TableSchema]) -> ViewPlan:
    """Return the view that ``text`` defines.  ``tables`` maps names to tables.  Raise SqlError for an invalid text."""
    return ViewPlan(bind_view(text, tables))


def stored_view(view_plan: ViewPlan) -> str:
    """Return the JSON text of a view for the catalog."""
    return stored(view_plan.query)


def restored_view(
    form: str, tables: Iterable[TableSchema], reads: Mapping[int, Iterable[int]], *, auxiliary: bool = False
) -> ViewPlan:
    """Return the view of the stored text ``form``.

    ``reads`` maps the ID of each table to the IDs of the columns that the view may read.  Raise PlanMismatch if the
    form has another format or reads a missing table or column.
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
    """Return the table with only the columns ``ids`` and the two columns of its period."""
    selected = {*ids}
    bounds = (table.start, table.end)
    return replace(table, columns=tuple(c for c in table.columns if c.id in selected or c.name in bounds))


def signature(form: str) -> str:
    """Return a hash of the stored text ``form`` as a short name for the view."""
    return hashlib.sha256(form.encode()).hexdigest()[:16]


def query_of(auxiliary: Auxiliary) -> Query:
    """Return the query of an auxiliary view over its table."""
    scan = Scan(auxiliary.table, auxiliary.table.name)
    demanded = conjunction(*(Plain(each) for each in sorted(auxiliary.conditions, key=repr)))
    rows = Select(scan, demanded) if auxiliary.conditions else scan
    return Query(rows, tuple(Output(name, scan.ref(name)) for name in auxiliary.columns))


def auxiliary_of(query: Query) -> Auxiliary:
    """Return the auxiliary view for a result of ``query_of``."""
    (scan,) = scans(query)
    demanded = (part.condition for part in conjuncts(condition(query.input)) if isinstance(part, Plain))
    return Auxiliary(scan.table, tuple(output.name for output in query.outputs), frozenset(demanded))


def text_of(auxiliary: Auxiliary) -> str:
    """Return the SQL of an auxiliary view in one line.

    >>> from weft.algebra.schema import INT, TIMESTAMP, Column
    >>> bounds = Column(2, "valid_from", TIMESTAMP), Column(3, "valid_to", TIMESTAMP)
    >>> text_of(Auxiliary(TableSchema(1, "staff", (Column(1, "id", INT), *bounds)), ("id",), frozenset()))
    'SELECT staff.id FROM staff'
    """
    query = query_of(auxiliary)
    return " ".join(render.select(", ".join(map(render.item, query.outputs)), query.input, {}).split())


def over_tables(query: Query, others: Mapping[int, TableSchema]) -> Query:
    """Replace each table that has an ID in ``others``.  The replacement has the same columns."""

    def change(node: Any) -> Any:
        return (
            replace(node, table=others[node.table.id]) if isinstance(node, Scan) and node.table.id in others else node
        )

    return transform(query, change)
