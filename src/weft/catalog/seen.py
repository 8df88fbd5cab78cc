"""The part of a home that a principal may see.  Other objects are refused as if they did not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

from weft.algebra.schema import TableSchema
from weft.catalog.catalog import CatalogParts
from weft.catalog.loads import LoadSummary, no_load, without_folders
from weft.catalog.naming import not_found
from weft.catalog.records import QuarantineRecord, QueryRecord, TableRecord
from weft.catalog.saved_queries import SavedQuery
from weft.catalog.tables import TableKind
from weft.catalog.views import ViewRecord
from weft.errors import NotAllowed, NotFound, WeftError
from weft.rights.policy import Rights, Thing
from weft.rights.principal import Right

_HINTED = 5_000
"""The most names of queries that a hint considers."""
Item = TypeVar("Item", TableRecord, ViewRecord)
Found = TypeVar("Found", covariant=True)


class _Known(Protocol[Found]):
    """The tables or the views that users can name."""

    def find(self, name: str) -> Found | None: ...

    def known(self) -> tuple[Found, ...]: ...


@dataclass(frozen=True)
class Seen:
    """A catalog with the rights of a principal at one instant."""

    catalog: CatalogParts
    rights: Rights

    def may(self, right: Right, thing: Thing) -> bool:
        """Return whether the principal has the right to an object.

        Nobody but an administrator reads the answers of a query whose owner has lost a right.
        """
        barred = thing.barred and right is Right.READ and not self.rights.reaches_all(right)
        return not barred and self.rights.may(right, thing)

    def require(self, right: Right) -> None:
        """Raise NotAllowed if the principal does not have a right that needs no object."""
        if not self.rights.may(right):
            raise not_allowed(self.rights, right)

    def query(self, name: str, right: Right = Right.READ) -> QueryRecord:
        """Return the live query with this name.  Raise NotFound if the principal may not see it, too.

        Raise NotAllowed if she may see it but does not have the right.
        """
        if self.rights.reaches_all(right):
            return self.catalog.queries.named(name)
        found = self.catalog.queries.among([name])
        if not found or not self._shows(found[0]):
            known = (each.name for each in self.queries(limit=_HINTED))
            raise not_found("query", name, known)
        if not self.may(right, query_thing(found[0])):
            shown = self.as_shown(found[0])
            raise not_allowed(self.rights, right, shown.name, shown.reason if shown.is_barred else None)
        return self.as_shown(found[0])

    def as_shown(self, query: QueryRecord) -> QueryRecord:
        """Return the query as the principal sees it: others than its owner do not see why the owner lost a right.

        The reason names what the owner may not read.
        """
        if not query.is_barred or self.rights.may(Right.OWN, query_thing(query)):
            return query
        return replace(query, reason="its owner has lost a right")

    def _shows(self, query: QueryRecord) -> bool:
        """A query whose owner has lost a right stays visible, with the reason."""
        thing = query_thing(query)
        return self.rights.may(Right.READ, thing) or self.rights.may(Right.OWN, thing)

    def shows_query(self, name: str) -> bool:
        """Return whether the principal may see a live query with this name."""
        found = self.catalog.queries.among([name])
        return bool(found) and (self.rights.reaches_all(Right.READ) or self._shows(found[0]))

    def table(self, name: str, right: Right = Right.READ) -> TableRecord:
        """Return the table or the view with this name.  Raise the same errors as ``query``."""
        return self._named(self.catalog.tables, "table", name, right)

    def view(self, name: str, right: Right = Right.READ) -> ViewRecord:
        """Return the view with this name.  Raise the same errors as ``query``."""
        return self._named(self.catalog.views, "view", name, right)

    def _named(self, records: _Known[Item], kind: str, name: str, right: Right) -> Item:
        record = records.find(name)
        if record is None or not self.has_table(record.table_id):
            raise not_found(kind, name, (each.name for each in records.known() if self.has_table(each.table_id)))
        if not self.has_table(record.table_id, right):
            raise not_allowed(self.rights, right, record.name)
        return record

    def saved(self, name: str, right: Right = Right.READ) -> SavedQuery:
        """Return the saved query with this name.  Raise the same errors as ``query``."""
        found = self.catalog.saved.find(name)
        if found is None or not self.may(Right.READ, saved_thing(found)):
            raise not_found("saved query", name, (each.name for each in self.saved_queries()))
        if not self.may(right, saved_thing(found)):
            raise not_allowed(self.rights, right, found.name)
        return found

    def saved_by_id(self, saved_id: int) -> SavedQuery:
        """Return the saved query with this ID.  Raise NotFound, also if the principal may not fill it in."""
        found = self.catalog.saved.by_id(saved_id)
        if found is None or not self.may(Right.READ, saved_thing(found)):
            raise NotFound(f"there is no saved query #{saved_id}", hint="See the list of saved queries.")
        return found

    def saved_queries(
        self, *, text: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[SavedQuery, ...]:
        """Return the saved queries that the principal may fill in: see ``SavedQueries.all``."""
        every = self.rights.reaches_all(Right.READ)
        seen_by = None if every else (self._own_name, self.rights.ids(Right.READ, "saved"))
        return self.catalog.saved.all(text=text, seen_by=seen_by, after=after, limit=limit)

    def has_table(self, table_id: int, right: Right | None = None) -> bool:
        """Return whether the principal has the right to a table, or by default any right to it."""
        thing = Thing("table", str(table_id))
        return any(self.may(each, thing) for each in ((Right.READ, Right.LOAD) if right is None else (right,)))

    def load(self, load_id: int, right: Right) -> LoadSummary:
        """Return the load with this ID.  Raise NotFound if the principal may not see its table."""
        load = self.catalog.load_history.one(load_id)
        if not self.has_table(load.load.table_id):
            raise no_load(load_id)
        if not self.has_table(load.load.table_id, right):
            raise not_allowed(self.rights, right, f"the table of the load {load_id}")
        return load

    def source(self, source: str) -> str:
        """Return the source of a load as the principal sees it: only administrators see folders and servers."""
        return source if self.rights.may(Right.ADMIN) else without_folders(source)

    def load_as_shown(self, summary: LoadSummary) -> LoadSummary:
        """Return the load with its source as the principal sees it: see ``source``."""
        return replace(summary, load=replace(summary.load, source=self.source(summary.load.source)))

    def record_as_shown(self, record: QuarantineRecord) -> QuarantineRecord:
        """Return the record in quarantine with its source as the principal sees it: see ``source``."""
        return replace(record, source=self.source(record.source))

    def tables(self) -> tuple[TableRecord, ...]:
        """Return the tables and views to which the principal has a right, in the order of creation."""
        return tuple(each for each in self.catalog.tables.known() if self.has_table(each.table_id))

    def table_page(
        self, text: str | None, kind: TableKind | None, after: str | None, limit: int
    ) -> tuple[TableRecord, ...]:
        """Return a page (``Tables.page``) of the tables that the principal may read or load into.

        With the kind "view", return only those that the principal may read.
        """
        rights = (Right.READ,) if kind == "view" else (Right.READ, Right.LOAD)
        ids = None
        if not any(map(self.rights.reaches_all, rights)):
            ids = frozenset[int]().union(*(self.rights.ids(each, "table") for each in rights))
        return self.catalog.tables.page(text=text, kind=kind, ids=ids, after=after, limit=limit)

    def views(self) -> tuple[ViewRecord, ...]:
        """Return the views that the principal may read."""
        return tuple(each for each in self.catalog.views.known() if self.has_table(each.table_id, Right.READ))

    def query_by_id(self, query_id: int) -> QueryRecord:
        """Return the live query with this ID.  Raise NotFound if the principal may not see it, too."""
        found = next(iter(self.catalog.queries.by_ids([query_id])), None)
        if found is None or found.state == "removed" or not (self.rights.reaches_all(Right.READ) or self._shows(found)):
            raise NotFound(
                f"there is no query #{query_id}",
                hint="It was removed, or you may not read it: ask its owner to share it with you.",
            )
        return self.as_shown(found)

    @property
    def seen_by(self) -> tuple[str | None, frozenset[int]] | None:
        """The owner, and the IDs of queries of others, whose queries the principal sees, or None for all queries."""
        return None if self.rights.reaches_all(Right.READ) else (self._own_name, self._granted)

    def queries(self, *, after: int = 0, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` live queries that the principal may see, with IDs above ``after``, by ID."""
        found = self.catalog.queries.all(after=after, limit=limit, seen_by=self.seen_by)
        return found if self.seen_by is None else tuple(map(self.as_shown, found))

    @property
    def _own_name(self) -> str | None:
        return self.rights.principal.name if self.rights.principal.in_scope(Right.READ) and self.rights.role else None

    @cached_property
    def _granted(self) -> frozenset[int]:
        return self.rights.ids(Right.READ, "query")

    def among(self, queries: Iterable[QueryRecord], right: Right = Right.READ) -> tuple[QueryRecord, ...]:
        """Return those queries to which the principal has the right."""
        if self.rights.reaches_all(right):
            return tuple(queries)
        return tuple(self.as_shown(each) for each in queries if self.may(right, query_thing(each)))

    def schemas(self, *texts: str) -> Mapping[str, TableSchema]:
        """Return the schemas of the tables and results that the principal may read: see ``definitions.schemas``."""
        from weft.catalog.definitions import schemas

        known = schemas(self.catalog, *texts)
        readable = self.readable(known.values())
        return {name: each for name, each in known.items() if name in readable}

    def readable(self, tables: Collection[TableSchema]) -> frozenset[str]:
        """Return the names of those tables and results that the principal may read."""
        if self.rights.reaches_all(Right.READ):
            return frozenset(each.name for each in tables)
        results = self.catalog.queries.by_ids(each.id for each in tables if each.source == "results")
        read = {each.query_id for each in self.among(results)}
        return frozenset(
            each.name
            for each in tables
            if (each.id in read if each.source == "results" else self.has_table(each.id, Right.READ))
        )


def query_thing(query: QueryRecord) -> Thing:
    """Return a query as an object of rights."""
    return Thing("query", str(query.query_id), owner=query.user, barred=query.is_barred)


def saved_thing(saved: SavedQuery) -> Thing:
    """Return a saved query as an object of rights."""
    return Thing("saved", str(saved.saved_id), owner=saved.owner)


_NEEDS: Mapping[Right, str] = {
    Right.ADMIN: "only an administrator may do this",
    Right.INSTALL: "only authors and administrators may do this",
    Right.SELF: "this needs somebody who has signed in",
}


def not_allowed(rights: Rights, right: Right, name: str | None = None, reason: str | None = None) -> WeftError:
    """Return the error for a missing right to an object that the principal may see."""
    who = rights.principal.name or "this link"
    beyond_role = right is Right.ADMIN and rights.role != "admin"  # another token would not help
    if not rights.principal.in_scope(right) and not beyond_role:
        if right is Right.SELF:
            return NotAllowed("a token gives no access to the account of its user", hint="Sign in on the page.")
        return NotAllowed(f"the token does not include the right to {right.value}", hint="Use another token.")
    if name is None:
        return NotAllowed(_NEEDS.get(right, f"{who} may not do this"), hint="Ask an administrator.")
    if reason is not None:
        return NotAllowed(f"{name} is paused: {reason}", hint="Ask an administrator.")
    if right is Right.CHANNEL:
        return NotAllowed(f"{who} may not add {name}", hint="Ask an administrator.")
    if right is Right.OWN:
        return NotAllowed(f"only the owner of {name}, or an administrator, may change it", hint="Ask the owner.")
    return NotAllowed(f"{who} may not {right.value} {name}", hint="Ask an administrator.")
