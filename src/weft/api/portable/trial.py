"""The tables that a home would have after the changes, so that all texts compile before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import Final, TypeVar

from weft.algebra.relation import ViewSchema
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.api.acting import require_owner_rights
from weft.api.portable.described import Definitions
from weft.catalog.naming import folded, not_found, query_name
from weft.catalog.records import SAVED, QueryDefinition, results_schema, table_schema
from weft.errors import Conflict, Refused
from weft.execution.home import OpenHome

T = TypeVar("T")

_FIRST_ID: Final = 1_000_000_000
"""IDs of tables that do not exist yet.  They are greater than those of a home."""


class Trial:
    """The schemas of a home with new tables, views and queries, and without those that ``removed`` describes.

    With ``checks_rights``, the rights of the home are those with which new texts will run.
    """

    def __init__(self, home: OpenHome, removed: Definitions, *, checks_rights: bool) -> None:
        self._home, self._checks_rights = home, checks_rights
        self._tables = {table.name: table.schema for table in home.catalog.tables.known()}
        self._gone = {folded(view.name) for view in removed.views}
        self._gone |= {folded(f"results.{query.name}") for query in removed.queries}
        without = {folded(each.name) for each in removed.saved}
        stay = (each for each in home.catalog.saved.all() if folded(each.name) not in without)
        self._saved = {each.name: each.saved_id for each in stay}
        self._stored: dict[str, TableSchema] = {}
        self._defined: dict[str, TableSchema] = {}
        self._ids = count(_FIRST_ID)
        live = home.catalog.queries.all()
        self._reads = {query.query_id: query.reads for query in live if folded(query.results.name) not in self._gone}
        self._names = {query.query_id: query.name for query in live}

    def for_view(self) -> dict[str, TableSchema]:
        """Return the tables that a view may read."""
        return {**self._without(self._tables), **self._stored}

    def for_query(self, text: str) -> dict[str, TableSchema]:
        """Return the tables and results that a query may read."""
        return {**self._without(self._home.schemas(text)), **self._defined}

    def _without(self, schemas: Mapping[str, TableSchema]) -> dict[str, TableSchema]:
        return {name: schema for name, schema in schemas.items() if folded(name) not in self._gone}

    def _require_free(self, name: str, columns: Sequence[tuple[str, DataType]], tracked: bool = True) -> None:
        self._home.catalog.tables.check(name, columns, tracked=tracked)
        taken = {folded(each): each for each in self.for_view()}
        if folded(name) in taken:
            raise Conflict(f"there is already a table {taken[folded(name)]!r}", hint="Choose another name.")

    def add_source(
        self, name: str, columns: Sequence[tuple[str, DataType]], keys: Sequence[str], *, tracked: bool
    ) -> None:
        """Add the table of a new source.  Raise Refused for an invalid name, and Conflict if it is taken."""
        self._require_free(name, columns, tracked)
        stored = _stored(columns) if tracked else _numbered([*columns, ("ts", TIMESTAMP)])
        self._add(table_schema(next(self._ids), name, stored, tracked=tracked, key=tuple(keys)))

    def add_view(self, name: str, text: str) -> None:
        """Add a new view.  Raise SqlError, Refused or Conflict as ``Weft.add_view`` does."""
        from weft.execution.temporal.adding import checked_view

        bound = checked_view(text, self.for_view())
        self._require_free(name, bound.columns)
        stored, time = _stored(bound.columns), bound.depends_on_now
        schema = table_schema(next(self._ids), name, stored, tracked=True, depends_on_now=time)
        assert isinstance(schema, ViewSchema)
        definition = checked_view(text, self.for_query(text)).query if time else None
        self._add(schema, replace(schema, definition=definition))

    def _add(self, schema: TableSchema, defined: TableSchema | None = None) -> None:
        self._stored[schema.name] = schema
        self._defined[schema.name] = defined or schema

    def add_query(self, definition: QueryDefinition) -> None:
        """Add the results of a new query.  Raise Refused for an invalid name, or if its owner lacks a right."""
        self._require_rights(definition)
        query_id = next(self._ids)
        schema = results_schema(query_id, query_name(definition.name), definition.columns)
        self._defined[schema.name] = schema
        self._reads[query_id], self._names[query_id] = definition.reads, definition.name

    def add_saved(self, name: str) -> None:
        """Add a saved query, over which there may be rights and from which queries may come."""
        if folded(name) not in map(folded, self._saved):
            self._saved[name] = next(self._ids)

    def saved_id(self, name: str | None) -> int | None:
        """Return the ID of a saved query, which is preliminary for a new one.  Raise NotFound."""
        if name is None:
            return None
        found = next((key for known, key in self._saved.items() if folded(known) == folded(name)), None)
        if found is None:
            raise not_found("saved query", name, self._saved)
        return found

    def replace_query(self, query_id: int, definition: QueryDefinition) -> None:
        """Record the relations that the new text of a query reads.  Raise NotAllowed if its owner lacks a right."""
        self._require_rights(definition)
        self._reads[query_id] = definition.reads

    def _require_rights(self, definition: QueryDefinition) -> None:
        """No rights exist to an object that does not exist yet; the installation checks those."""
        if not self._checks_rights:
            return
        needs, reads = ([each for each in ids if each < _FIRST_ID] for ids in (definition.needs, definition.reads))
        require_owner_rights(self._home, [replace(definition, needs=tuple(needs), reads=tuple(reads))])

    def names(self) -> set[str]:
        """Return the names of all tables, views, results and saved queries, as rights name them."""
        results = {f"results.{name}" for key, name in self._names.items() if key in self._reads}
        return {*self.for_view(), *results, *(f"{SAVED}.{name}" for name in self._saved)}

    def require_no_circle(self) -> None:
        """Raise Conflict if a query would read its own results, directly or indirectly."""
        try:
            TopologicalSorter(self._reads).prepare()
        except CycleError as error:
            names = " reads ".join(self._names[each] for each in reversed(error.args[1]))
            raise Conflict(
                f"a query would read its own results: {names}",
                hint="Change one of the texts: a query cannot depend on its own results.",
            ) from None


def _stored(columns: Iterable[tuple[str, DataType]]) -> tuple[Column, ...]:
    return _numbered([*columns, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP), ("ts", TIMESTAMP)])


def _numbered(columns: Iterable[tuple[str, DataType]]) -> tuple[Column, ...]:
    return tuple(Column(number, name, type_) for number, (name, type_) in enumerate(columns, 1))


def in_order(items: Iterable[T], attempt: Callable[[T], object]) -> tuple[list[T], list[tuple[T, Refused]]]:
    """Attempt each item after those on which it depends.

    An item that is refused is attempted again after others have succeeded.  Return the items in the order in which they
    succeeded, and the items that remain with their errors.
    """
    done: list[T] = []
    remaining = [(each, Refused("")) for each in items]
    while remaining:
        failed: list[tuple[T, Refused]] = []
        for each, _ in remaining:
            try:
                attempt(each)
                done.append(each)
            except Refused as error:
                failed.append((each, error))
        if len(failed) == len(remaining):
            return done, failed
        remaining = failed
    return done, []
