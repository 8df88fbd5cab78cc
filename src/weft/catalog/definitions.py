"""Resolve the table names in query texts.  Add the definitions of views that depend on NOW."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.algebra.relation import Query, Scan, ViewSchema, needs_definition
from weft.algebra.schema import TableSchema
from weft.algebra.traverse import transform
from weft.catalog import CatalogParts
from weft.catalog.naming import folded, queries_mentioned, words
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord


def schemas(catalog: CatalogParts, *texts: str) -> dict[str, TableSchema]:
    """Return the schemas of all tables, and of those query results that ``texts`` may name.

    If ``texts`` may name a view that depends on NOW, the schema of the view contains the definition.  Raise
    PlanMismatch if the stored definition of a view cannot be read.
    """
    tables = catalog.tables.all()
    known = {table.name: table.schema for table in tables if not table.auxiliary}
    named = {word for text in texts for word in words(text)}
    defined = [name for name, schema in known.items() if needs_definition(schema) and folded(name) in named]
    if defined:
        definitions = Definitions(tables, catalog.views.all())
        known |= {name: definitions.schema(known[name].id) for name in defined}
    for query in catalog.queries.among(name for text in texts for name in queries_mentioned(text)):
        known[query.results.name] = query.results
    return known


class Definitions:
    """The definitions of views, resolved against the current schemas of the tables."""

    def __init__(self, tables: Iterable[TableRecord], views: Iterable[ViewRecord]) -> None:
        self._tables = {table.table_id: table.schema for table in tables}
        self._views = {view.table_id: view for view in views}

    def schema(self, table_id: int) -> TableSchema:
        """Return the schema of a table.  For a view that depends on NOW, the schema contains the definition."""
        table = self._tables[table_id]
        if not isinstance(table, ViewSchema) or not table.depends_on_now:
            return table
        return replace(table, definition=self._definition(self._views[table_id]))

    def _definition(self, view: ViewRecord) -> Query:
        """Read the base tables of auxiliary views, because the definition repeats the conditions of the views."""
        from weft.planning.view_plan import restored_view

        bound = restored_view(view.form, self._tables.values(), view.reads).query
        read = {key: self.schema(self._source(key)) for key in view.reads}

        def change(node: object) -> object:
            return replace(node, table=read[node.table.id]) if isinstance(node, Scan) else node

        return transform(bound, change)

    def _source(self, table_id: int) -> int:
        view = self._views.get(table_id)
        return next(iter(view.reads)) if view is not None and view.auxiliary else table_id
