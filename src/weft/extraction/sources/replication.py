"""Follow tables of a PostgreSQL server by logical decoding: a snapshot of each table, then the committed transactions.

A snapshot lists the IDs of the transactions that it sees. In the slot, Weft skips the transactions that the snapshot
already contains. Weft can therefore add a table at any time without losing or repeating a change.

Weft needs no exported snapshot, which only the replication protocol offers. The slot is created before the snapshot,
because transactions between the two would otherwise be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord, chosen_columns
from weft.errors import ExtractionError, Refused
from weft.extraction.batches import Progress
from weft.extraction.files.columns import chosen_of
from weft.extraction.sources.decoding import DecodedChanges, Transaction, of_snapshot, transactions
from weft.extraction.sources.postgres import connected, one_state, records_in, replicated_columns
from weft.extraction.sources.publication import check_publication, require_identity
from weft.extraction.sources.snapshot import Columns, added_columns
from weft.extraction.sources.source_lease import Accepting, FeedBatch, TableFeed, refuse_emptied, source_schema
from weft.extraction.sources.subscribing import (
    AGAIN,
    advance,
    check_place,
    check_slot,
    log_place,
    peek,
)
from weft.printable import counted
from weft.storage.changes import fill_missing_cells, without_truncations

if TYPE_CHECKING:
    import psycopg

_XIDS = 1 << 32


@dataclass(frozen=True)
class _Snapshot:
    """All rows of a table, read at the time ``at`` in microseconds UTC.

    ``seen`` is the snapshot in PostgreSQL's notation. All transactions in ``seen`` committed before the LSN ``until``.
    """

    rows: Sequence[Any]
    seen: str
    at: int
    until: int


@dataclass(eq=False)
class _Followed:
    source: SourceRecord
    table: TableRecord
    oid: int
    types: Mapping[str, str]
    present: Columns
    columns: Columns
    added: Columns
    changes: DecodedChanges
    snapshot: _Snapshot | None = None
    of_snapshot: pa.Table | None = None

    @property
    def seen(self) -> Mapping[str, Any]:
        return self.source.seen

    @property
    def is_fresh(self) -> bool:
        """True if the table needs a snapshot: it is new, or has columns that no recorded poll has read.

        An interrupted poll may have added columns without recording their values.
        """
        return "place" not in self.seen or not self.types.keys() <= self.seen["types"].keys()

    def takes(self, transaction: Transaction) -> bool:
        """Return whether the transaction is new: neither recorded by a poll nor visible in the recorded snapshot."""
        if transaction.end <= self.seen.get("place", 0):
            return False
        seen, until = self.seen.get("snapshot"), self.seen.get("until", 0)
        return seen is None or transaction.end > until or not has_seen(seen, transaction.xid)


def has_seen(snapshot: str, xid: int) -> bool:
    """Return whether a snapshot sees a transaction. ``xid`` is the low 32 bits of the transaction ID.

    ``snapshot`` is in the notation of ``pg_current_snapshot``.

    >>> [has_seen("10:13:11", xid) for xid in (9, 10, 11, 12, 13)]
    [True, True, False, True, False]
    """
    _, end, running = snapshot.split(":")
    behind = (int(end) - xid) % _XIDS
    if behind == 0 or behind >= _XIDS // 2:
        return False
    return str(int(end) - behind) not in running.split(",")


def read_slot(
    sources: Sequence[SourceRecord], tables: Sequence[TableRecord], accepting: Accepting, progress: Progress | None
) -> FeedBatch:
    """Read the slot for the tables of the given sources, and take snapshots of new tables.

    Raises ExtractionError, NotFound or Refused if a table cannot be read, or if changes would be missed.
    """
    uri, slot = sources[0].location, sources[0].options["slot"]
    with connected(uri) as connection:
        confirmed = check_slot(connection, slot, sources[0].name, uri)
        followed = [_followed(connection, *each, accepting) for each in zip(sources, tables, strict=True)]
        for each in followed:
            if "place" in each.seen:
                check_place(connection, each.source.name, each.seen["place"], confirmed, uri)
        _take_snapshots(connection, followed, uri)
        upto = log_place(connection, "pg_current_wal_flush_lsn")
        messages = peek(connection, slot, sorted({source.options["publication"] for source in sources}), upto)
        place, own = _take(followed, messages, uri, progress)
    place = max(place, upto)
    fed = [_table_feed(each, place, own, uri, accepting) for each in followed]
    return FeedBatch(fed, partial(_recorded, uri, slot, place))


def _recorded(uri: str, slot: str, place: int) -> None:
    with connected(uri) as connection:
        advance(connection, slot, place)


def _followed(
    connection: psycopg.Connection[Any], source: SourceRecord, table: TableRecord, accepting: Accepting
) -> _Followed:
    options, uri = source.options, source.location
    oid, types, columns_there = replicated_columns(connection, options["table"], uri)
    chosen, schema = chosen_columns(options), source_schema(table)
    known = source.seen.get("oid", oid)
    if known != oid:
        raise Refused(
            f"{options['table']} was dropped and created again",
            where=uri,
            hint=AGAIN.format(name=source.name),
        )
    check_publication(connection, options["publication"], oid)
    require_identity(connection, oid, table.keys, options["table"])
    taken = columns_there if chosen is None else tuple(chosen_of(columns_there, chosen, uri))
    added = added_columns(taken, schema, accepting.evolve, uri)
    columns = (*((column.name, column.type) for column in schema.columns), *added)
    own = {name: types[name] for name, _ in columns if name in types}
    for name, type_ in own.items():
        if source.seen.get("types", {}).get(name, type_) != type_:
            raise Refused(
                f"the type of {name} has changed from {source.seen['types'][name]} to {type_}",
                where=uri,
                hint=AGAIN.format(name=source.name),
            )
    names = [name for name, _ in columns]
    changes = DecodedChanges(oid, names, table.keys, partial(_base_type, connection, {}))
    there = tuple(each for each in columns_there if each[0] in names)
    return _Followed(source, table, oid, own, there, columns, added, changes)


def _base_type(connection: psycopg.Connection[Any], known: dict[int, int], oid: int) -> int:
    """Return the OID of a domain's base type. For another type, return ``oid`` itself."""
    base = known.get(oid, oid if oid < 16_384 else None)
    if base is None:
        row = connection.execute("SELECT typbasetype FROM pg_type WHERE oid = %s", [oid]).fetchone()
        over = 0 if row is None else int(row[0])
        base = known[oid] = oid if not over else _base_type(connection, known, over)
    return base


def _take_snapshots(connection: psycopg.Connection[Any], followed: Sequence[_Followed], uri: str) -> None:
    """Read all new tables and all tables with new columns in one PostgreSQL snapshot."""
    fresh = [each for each in followed if each.is_fresh]
    if not fresh:
        return
    rows: list[list[Any]] = []
    with one_state(connection):
        row = connection.execute(
            "SELECT pg_current_snapshot()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchone()
        for each in fresh:
            rows.append(list(records_in(connection, each.source.options["table"], each.present)))
    seen, at = row or ("", 0)
    until = log_place(connection, "pg_current_wal_insert_lsn")
    for each, read in zip(fresh, rows, strict=True):
        each.snapshot = _Snapshot(read, seen, at, until)


def _take(followed: Sequence[_Followed], messages: Any, uri: str, progress: Progress | None) -> tuple[int, int | None]:
    """Add the changes in the messages to each table. Return the LSN after these changes, and the last event time.

    Event times increase strictly. Each event time therefore belongs to one transaction. The rows of a snapshot come
    before the first transaction that the snapshot does not see.
    """
    own: int | None = max((each.seen["own"] for each in followed if each.seen.get("own") is not None), default=None)
    end, place = 0, 1

    def rising(at: int) -> int:
        return at if own is None else max(at, own + 1)

    waiting = [each for each in followed if each.snapshot is not None]
    for number, transaction in enumerate(transactions(messages), 1):
        if waiting and not _seen_by(waiting[0], transaction):
            own, place = _take_snapshots_of(waiting, rising, place, uri)
        own, end = rising(transaction.committed_at), transaction.end
        for each in followed:
            begins = each in waiting and "place" not in each.seen
            in_snapshot = each not in waiting and _seen_by(each, transaction)
            if not begins and not in_snapshot and each.takes(transaction):
                place = each.changes.take(transaction, own, place)
        if progress is not None:
            progress(number)
    if waiting:
        own, place = _take_snapshots_of(waiting, rising, place, uri)
    return end, own


def _take_snapshots_of(waiting: list[_Followed], rising: Callable[[int], int], place: int, uri: str) -> tuple[int, int]:
    """Add to each waiting table the rows of its snapshot. Return the event time of the rows, and the next position."""
    own = rising(max(each.snapshot.at for each in waiting if each.snapshot is not None))
    for each in waiting:
        if each.snapshot is not None:
            each.of_snapshot = of_snapshot(each.snapshot.rows, each.columns, own, place, uri)
            each.changes.forget()
    waiting.clear()
    return own, place + 2


def _seen_by(each: _Followed, transaction: Transaction) -> bool:
    snapshot = each.snapshot
    return snapshot is not None and transaction.end <= snapshot.until and has_seen(snapshot.seen, transaction.xid)


def _table_feed(each: _Followed, place: int, own: int | None, uri: str, accepting: Accepting) -> TableFeed:
    try:
        changes = each.changes.changes(each.columns, uri, None)
    except ExtractionError as error:
        hint = f"Nothing was changed, and the slot still has the change. {AGAIN.format(name=each.source.name)}"
        raise ExtractionError(error.message, where=error.where, hint=hint) from None
    lacking = each.changes.lacking(each.columns, uri)
    if each.of_snapshot is not None:
        changes = pa.concat_tables([changes, each.of_snapshot]).sort_by("_order")
    seen: dict[str, Any] = {"place": place, "own": own, "oid": each.oid, "types": dict(each.types)}
    snapshot, until = each.seen.get("snapshot"), each.seen.get("until", 0)
    if each.snapshot is not None:
        snapshot, until = each.snapshot.seen, each.snapshot.until
    if place < until:
        seen |= {"snapshot": snapshot, "until": until}

    def completed(there: pa.Table) -> pa.Table:
        if each.snapshot is not None:
            refuse_emptied(there, len(each.snapshot.rows), each.source.name, uri, empty=accepting.empty)
        complete, missing = fill_missing_cells(changes, lacking, there, each.table.keys)
        if missing:
            raise ExtractionError(
                f"{counted(missing, 'change')} of {each.source.name} cannot be completed: the server omitted "
                "unchanged values, and the rows with these values are not recorded",
                where=uri,
                hint=AGAIN.format(name=each.source.name),
            )
        return without_truncations(complete, there, each.table.keys)

    return TableFeed(completed, each.added, seen, once=True)
