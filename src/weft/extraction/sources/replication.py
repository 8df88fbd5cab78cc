"""Following tables of a PostgreSQL server by logical decoding: a snapshot of each, and then what was committed.

A snapshot tells which transactions it has seen, by their ids; of those that the slot tells of, these are left out.  So
a table can begin to be followed at any time, and be read anew where it got columns: the cut is exact, and no exported
snapshot is needed, which only the replication protocol has.  The slot is older than the snapshot, so nothing is missed.
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
from weft.extraction.sources.databases import Columns, added_columns
from weft.extraction.sources.decoding import TableChanges, of_snapshot
from weft.extraction.sources.fed import Fed, FedTable
from weft.extraction.sources.pgoutput import Transaction, transactions
from weft.extraction.sources.postgres import connected, one_state, records_in, told_columns
from weft.extraction.sources.publication import check_publication, require_identity
from weft.extraction.sources.slot import (
    AGAIN,
    advance,
    check_place,
    check_slot,
    log_place,
    peek,
)
from weft.extraction.sources.source_lease import Accepting, refuse_emptied, source_schema
from weft.storage.changes import fill_missing_cells, without_truncations

if TYPE_CHECKING:
    import psycopg

_XIDS = 1 << 32


@dataclass(frozen=True)
class _Snapshot:
    """All rows of a table, taken at ``at`` (µs UTC); what it has ``seen`` was committed before ``until`` in the log."""

    rows: Sequence[Any]
    seen: str
    at: int
    until: int


@dataclass(eq=False)
class _Followed:
    """A source while its feed is read: what is known of its table, and what is told of it."""

    source: SourceRecord
    table: TableRecord
    oid: int
    types: Mapping[str, str]
    found: Columns
    columns: Columns
    added: Columns
    told: TableChanges
    snapshot: _Snapshot | None = None
    of_snapshot: pa.Table | None = None

    @property
    def seen(self) -> Mapping[str, Any]:
        return self.source.seen

    @property
    def is_fresh(self) -> bool:
        """Whether it begins, or has columns of which no poll was recorded: one may have died that had taken them."""
        return "place" not in self.seen or not self.types.keys() <= self.seen["types"].keys()

    def takes(self, transaction: Transaction) -> bool:
        """Whether the transaction is news: recorded by no poll before, and not seen by the snapshot."""
        if transaction.end <= self.seen.get("place", 0):
            return False
        seen, until = self.seen.get("snapshot"), self.seen.get("until", 0)
        return seen is None or transaction.end > until or not has_seen(seen, transaction.xid)


def has_seen(snapshot: str, xid: int) -> bool:
    """Whether a snapshot, as ``pg_current_snapshot`` writes it, has seen the transaction with these last 32 bits.

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
) -> Fed:
    """What a slot tells of the tables that these sources follow, and snapshots of those that begin.

    Raises ExtractionError, NotFound and Refused for what cannot be read, or would leave changes out.
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
    fed = [_told(each, place, own, uri, accepting) for each in followed]
    return Fed(fed, partial(_recorded, uri, slot, place))


def _recorded(uri: str, slot: str, place: int) -> None:
    """Advances the slot; where the server is away by now, the next poll does."""
    with connected(uri) as connection:
        advance(connection, slot, place)


def _followed(
    connection: psycopg.Connection[Any], source: SourceRecord, table: TableRecord, accepting: Accepting
) -> _Followed:
    options, uri = source.options, source.location
    oid, types, found = told_columns(connection, options["table"], uri)
    chosen, schema = chosen_columns(options), source_schema(table)
    known = source.seen.get("oid", oid)
    if known != oid:
        raise Refused(
            f"{options['table']} is another table than the one that was followed: that one was dropped",
            where=uri,
            hint=AGAIN.format(name=source.name),
        )
    check_publication(connection, options["publication"], oid)
    require_identity(connection, oid, table.keys, options["table"])
    taken = found if chosen is None else tuple(chosen_of(found, chosen, uri))
    added = added_columns(taken, schema, accepting.evolve, uri)
    columns = (*((column.name, column.type) for column in schema.columns), *added)
    own = {name: types[name] for name, _ in columns if name in types}
    for name, type_ in own.items():
        if source.seen.get("types", {}).get(name, type_) != type_:
            raise Refused(
                f"{name} was {source.seen['types'][name]} and is {type_}: nothing tells what became of its values",
                where=uri,
                hint=AGAIN.format(name=source.name),
            )
    names = [name for name, _ in columns]
    told = TableChanges(oid, names, table.keys, partial(_base_type, connection, {}))
    there = tuple(each for each in found if each[0] in names)
    return _Followed(source, table, oid, own, there, columns, added, told)


def _base_type(connection: psycopg.Connection[Any], known: dict[int, int], oid: int) -> int:
    """The OID of the type that a domain is over, else that of the type itself; ``known`` are those asked for."""
    found = known.get(oid, oid if oid < 16_384 else None)
    if found is None:
        row = connection.execute("SELECT typbasetype FROM pg_type WHERE oid = %s", [oid]).fetchone()
        over = 0 if row is None else int(row[0])
        found = known[oid] = oid if not over else _base_type(connection, known, over)
    return found


def _take_snapshots(connection: psycopg.Connection[Any], followed: Sequence[_Followed], uri: str) -> None:
    """Reads the tables that begin, or got columns, as they are at one moment."""
    fresh = [each for each in followed if each.is_fresh]
    if not fresh:
        return
    rows: list[list[Any]] = []
    with one_state(connection):
        found = connection.execute(
            "SELECT pg_current_snapshot()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchone()
        for each in fresh:
            rows.append(list(records_in(connection, each.source.options["table"], each.found)))
    seen, at = found or ("", 0)
    until = log_place(connection, "pg_current_wal_insert_lsn")
    for each, read in zip(fresh, rows, strict=True):
        each.snapshot = _Snapshot(read, seen, at, until)


def _take(followed: Sequence[_Followed], messages: Any, uri: str, progress: Progress | None) -> tuple[int, int | None]:
    """Hands each table its part of what was committed; the place in the log after that, and the last own time.

    Own times rise from transaction to transaction, so each is of one.  A snapshot comes before the first transaction
    that it has not seen.
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
                place = each.told.take(transaction, own, place)
        if progress is not None:
            progress(number)
    if waiting:
        own, place = _take_snapshots_of(waiting, rising, place, uri)
    return end, own


def _take_snapshots_of(waiting: list[_Followed], rising: Callable[[int], int], place: int, uri: str) -> tuple[int, int]:
    """Hands each table that waits for it its snapshot, all of one own time; that time, and the place after them."""
    own = rising(max(each.snapshot.at for each in waiting if each.snapshot is not None))
    for each in waiting:
        if each.snapshot is not None:
            each.of_snapshot = of_snapshot(each.snapshot.rows, each.columns, own, place, uri)
            each.told.forget()
    waiting.clear()
    return own, place + 2


def _seen_by(each: _Followed, transaction: Transaction) -> bool:
    """Whether the snapshot that was taken now has seen the transaction."""
    snapshot = each.snapshot
    return snapshot is not None and transaction.end <= snapshot.until and has_seen(snapshot.seen, transaction.xid)


def _told(each: _Followed, place: int, own: int | None, uri: str, accepting: Accepting) -> FedTable:
    """What was told of one table."""
    try:
        changes = each.told.changes(each.columns, uri, None)
    except ExtractionError as error:
        hint = f"Nothing was changed, and the slot goes on telling it. {AGAIN.format(name=each.source.name)}"
        raise ExtractionError(error.message, where=error.where, hint=hint) from None
    lacking = each.told.lacking(each.columns, uri)
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
        whole, missing = fill_missing_cells(changes, lacking, there, each.table.keys)
        if missing:
            raise ExtractionError(
                f"{missing:,} changes leave values as they were, of rows of {each.source.name} that are not recorded",
                where=uri,
                hint=AGAIN.format(name=each.source.name),
            )
        return without_truncations(whole, there, each.table.keys)

    return FedTable(completed, each.added, seen, once=True)
