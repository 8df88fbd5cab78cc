"""List the objects of a home page by page, as a reader looks through them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, get_args
from weakref import WeakKeyDictionary

from weft.api.acting import no_record
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.catalog import Catalog
from weft.catalog.outbox import ListedMessage, OutboxEntry
from weft.catalog.query_list import ListedQuery, QueryFilter
from weft.catalog.records import Lease, LeaseName, QuarantineRecord, QueryRecord, TableRecord, TickRecord
from weft.catalog.seen import Seen, query_thing
from weft.catalog.sources import SourceRecord
from weft.catalog.subscriptions import Subscription
from weft.catalog.tables import TableKind
from weft.catalog.views import ViewRecord
from weft.errors import NotFound
from weft.printable import Brief
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.storage.ledger import ResultRow
    from weft.storage.recent_answers import RecentAnswers


@dataclass(frozen=True, repr=False)
class ShownAnswer(Brief):
    """An answer of a query with the messages that contain it.  A message has a channel."""

    query: QueryRecord
    row: ResultRow
    messages: tuple[tuple[OutboxEntry, str], ...]

    def _brief(self) -> str:
        return f"answer {self.row.ordinal:,} of {self.query.name}: {self.row.values}"


class Browsing(WeftMethods):
    """The methods of ``Weft`` that list objects by pages, and find objects by ID."""

    @requires(Right.ANY)
    def one_state(self) -> AbstractContextManager[None]:
        """Let this thread read one consistent state of the catalog in the ``with`` block, in one transaction.

        After a change by the thread itself, the thread reads the new state.
        """
        return self.opened.catalog.one_state()

    @requires(Right.READ)
    def query_page(
        self, wanted: QueryFilter | None = None, *, after: str | None = None, limit: int = 50
    ) -> tuple[ListedQuery, ...]:
        """Return at most ``limit`` installed queries in the order of their names, which come after ``after``."""
        seen = self.opened.seen()
        found = seen.catalog.query_list.page(replace(wanted or QueryFilter(), seen_by=seen.seen_by), after, limit)
        return found if seen.seen_by is None else tuple(_without_errors_of_others(seen, each) for each in found)

    @requires(Right.READ)
    def news_page(self, *, before: QueryRecord | None = None, limit: int = 20) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` queries with answers, those with the newest answers first.

        The next page follows the query ``before``.
        """
        key = None if before is None or before.last_first_at is None else (before.last_first_at, before.query_id)
        seen = self.opened.seen()
        found = seen.catalog.query_list.latest(QueryFilter(seen_by=seen.seen_by), key, limit)
        return tuple(map(seen.as_shown, found))

    @requires(Right.READ)
    def latest_answers(self, query_ids: Collection[int], limit: int = 3) -> Mapping[int, tuple[ResultRow, ...]]:
        """Return the last ``limit`` answers, in order, of those queries that the principal may read, by ID.

        Queries without answers are left out.  Raise NotFound for a query whose answers are purged, or StorageError.
        """
        from weft.storage.ledger import read_latest

        catalog = self.opened.catalog
        readable = [each for each in catalog.queries.by_ids(query_ids) if each.state != "removed"]
        readable = list(self.opened.seen().among(readable))
        with ExitStack() as reported:
            for each in readable:
                reported.enter_context(catalog.queries.purge_reported(each.query_id))
            return _recent(catalog).of(
                readable,
                limit,
                lambda some: read_latest(catalog.data, some, limit, catalog.ticks.with_answers),
            )

    @requires(Right.READ)
    def news_since(self, tick_id: int, query_ids: Collection[int]) -> Mapping[int, int]:
        """Return the numbers of answers that ticks after the tick ``tick_id`` found, by the IDs of the queries."""
        catalog = self.opened.catalog
        readable = [each.query_id for each in self.opened.seen().among(catalog.queries.by_ids(query_ids))]
        return catalog.ticks.news_since(tick_id, readable)

    @requires(Right.READ)
    def query_counts(self) -> Mapping[str, int]:
        """Return the number of installed queries in each state, and as ``troubled`` the number with a trouble."""
        seen = self.opened.seen()
        return seen.catalog.query_list.counts(QueryFilter(seen_by=seen.seen_by))

    @requires(Right.READ)
    def query(self, query_id: int) -> QueryRecord:
        """Return the installed query with this ID, whatever its name is now.  Raise NotFound."""
        return self.opened.seen().query_by_id(query_id)

    @requires(Right.READ)
    def answer(self, query_id: int, ordinal: int) -> ShownAnswer:
        """Return an answer of the query with this ID.  Raise NotFound or StorageError.

        Only the owner of the query and administrators see the messages.
        """
        from weft.storage.ledger import read_rows

        catalog, query = self.opened.catalog, self.opened.seen().query(self.query(query_id).name)
        with catalog.queries.purge_reported(query_id):
            rows = read_rows(catalog.data, query, ordinal - 1, 1, catalog.ticks.with_answers)
            found = next(rows, None) if ordinal > 0 else None
        if found is None:
            raise NotFound(f"{query.name} has no answer {ordinal:,}", hint=f"Its last answer is {query.rows:,}.")
        is_own = bool(self.opened.seen().among([query], Right.OWN))
        return ShownAnswer(query, found, catalog.outbox.with_answer(query_id, ordinal) if is_own else ())

    @requires(Right.READ, table="name")
    def table(self, name: str) -> TableRecord:
        """Return the table with this name, without regard to case.  Raise NotFound."""
        return self.opened.catalog.tables.named(name)

    @requires(Right.READ)
    def table_page(
        self, *, text: str | None = None, kind: TableKind | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[TableRecord, ...]:
        """Return at most ``limit`` tables and views in the order of their names, which come after ``after``.

        Their names contain ``text`` in any case.  ``kind`` is ``"view"``, or ``"tracked"`` for tracked tables that are
        no views.
        """
        return self.opened.seen().table_page(text, kind, after, limit)

    @requires(Right.READ)
    def view_page(self, *, after: str | None = None, limit: int = 50) -> tuple[tuple[ViewRecord, TableRecord], ...]:
        """Return at most ``limit`` views with their tables, in the order of their names, which come after ``after``."""
        seen = self.opened.seen()
        tables = seen.table_page(None, "view", after, limit)
        views = seen.catalog.views.of_tables([each.table_id for each in tables])
        return tuple((views[each.table_id], each) for each in tables)

    @requires(Right.ADMIN, logged=False)
    def source_page(self, *, after: str | None = None, limit: int = 50) -> tuple[SourceRecord, ...]:
        """Return at most ``limit`` sources in the order of their names, which come after ``after``."""
        return self.opened.catalog.sources.page(after, limit)

    @requires(Right.ADMIN, logged=False)
    def sources_of(self, table_ids: Collection[int]) -> Mapping[int, SourceRecord]:
        """Return the sources of the tables with these IDs, by ID.  Tables without a source are left out."""
        return self.opened.catalog.sources.of_tables(table_ids)

    @requires(Right.LOAD, table="table", logged=False)
    def quarantine_page(
        self, table: str | None = None, *, after: int = 0, limit: int = 50
    ) -> tuple[QuarantineRecord, ...]:
        """Return at most ``limit`` unresolved records of one or all tables, with IDs above ``after``.  Raise
        NotFound.  Only administrators see the folders of their sources.
        """
        catalog, seen = self.opened.catalog, self.opened.seen()
        if table is None:
            seen.require(Right.ADMIN)
        table_id = None if table is None else catalog.tables.named(table).table_id
        return tuple(map(seen.record_as_shown, catalog.quarantine.page(table_id, after, limit)))

    @requires(Right.LOAD, logged=False)
    def quarantined_bytes(self, quarantine_id: int, longest: int | None = None) -> bytes:
        """Return the bytes of an unresolved record in quarantine, at most the first ``longest``.

        Raise NotFound for a record of a table that the principal may not load, and StorageError if the bytes are
        damaged.
        """
        from weft.extraction.quarantine import quarantined_bytes

        seen = self.opened.seen()
        found = next(iter(seen.catalog.quarantine.page(None, quarantine_id - 1, 1)), None)
        if found is None or found.quarantine_id != quarantine_id or not seen.has_table(found.table_id, Right.LOAD):
            raise no_record(quarantine_id)
        return quarantined_bytes(seen.catalog.data, found)[:longest]

    @requires(Right.READ)
    def quarantine_counts(self, table_ids: Collection[int] | None = None) -> Mapping[int, int]:
        """Return the number of unresolved records in quarantine by the ID of the table.

        Without ``table_ids``, count those of all tables.
        """
        seen = self.opened.seen()
        counts = seen.catalog.quarantine.counts(table_ids)
        return {key: count for key, count in counts.items() if seen.has_table(key, Right.LOAD)}

    @requires(Right.OWN, logged=False)
    def message_page(
        self, query_id: int | None = None, *, before: int | None = None, unsent: bool = False, limit: int = 50
    ) -> tuple[ListedMessage, ...]:
        """Return at most ``limit`` messages of one or all queries with IDs below ``before``, the newest first.

        A user sees the messages of her own queries only.
        With ``unsent``, return only messages whose delivery is not settled.
        """
        outbox, owner = self.opened.catalog.outbox, self._owner()
        return outbox.page(before=before, limit=limit, query_id=query_id, owner=owner, unsent=unsent)

    @requires(Right.OWN, logged=False)
    def troubled_channels(self, *, after: int = 0, limit: int = 50) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for channels whose last delivery failed.  Their IDs are above ``after``."""
        return self.opened.catalog.subscriptions.troubled(after, limit, self._owner())

    def _owner(self) -> str | None:
        """Return the owner of the queries whose deliveries the principal may see, or None for all."""
        rights = self.opened.seen().rights
        return None if rights.reaches_all(Right.OWN) else rights.principal.name or ""

    @requires(Right.READ, query="name")
    def synopsis_sizes(self, name: str, *, ticks: int = 500) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """Map each stored relation of a synopsis to pairs (instant of a tick, rows stored then), the oldest first.

        Raise NotFound.  A query without a synopsis has no relations.
        """
        from weft.execution.synopsis.standing import path_of
        from weft.planning.stored_synopsis import is_synopsis, relations_of

        catalog = self.opened.catalog
        body = catalog.queries.plan(catalog.queries.named(name).plan_id).body
        paths = {path_of(each): each for each in relations_of(body)} if is_synopsis(body) else {}
        sizes: dict[str, list[tuple[int, int]]] = {}
        for at, path, rows in catalog.ticks.rows_of(paths, ticks):
            sizes.setdefault(paths[path], []).append((at, rows))
        return {relation: tuple(pairs) for relation, pairs in sizes.items()}

    @requires(Right.READ)
    def latest_ticks(self, limit: int = 20) -> tuple[TickRecord, ...]:
        """Return the latest ticks, the newest first."""
        return self.opened.catalog.ticks.latest(limit)

    @requires(Right.ADMIN, logged=False)
    def leases(self) -> tuple[Lease, ...]:
        """Return the leases that a process holds, to write or to deliver."""
        held = (self.opened.catalog.lease(name) for name in get_args(LeaseName))
        return tuple(each for each in held if each is not None)


_kept: Final[WeakKeyDictionary[Catalog, RecentAnswers]] = WeakKeyDictionary()
"""The latest answers in memory, for each open catalog."""


def _recent(catalog: Catalog) -> RecentAnswers:
    from weft.storage.recent_answers import RecentAnswers

    return _kept.setdefault(catalog, RecentAnswers())


def _without_errors_of_others(seen: Seen, listed: ListedQuery) -> ListedQuery:
    """Others than the owner do not see why a channel fails: the error names receivers."""
    query = seen.as_shown(listed.query)
    if query.is_barred:
        return replace(listed, query=query, trouble=query.reason)
    hidden = listed.trouble is not None and query.state != "failed" and not seen.may(Right.OWN, query_thing(query))
    return replace(listed, query=query, trouble="a channel fails" if hidden else listed.trouble)
