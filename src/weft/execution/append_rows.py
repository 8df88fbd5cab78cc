"""Rows into the tables: reserved in the catalog, committed to Delta behind a fence, recorded in the catalog.

Design, sections 1 and 6.  A batch goes through four states: its instants are *reserved* (no tick goes beyond them),
its rows are *written* in one Delta commit that carries the reservation's number, the commit is found in Delta's log and
forced to the disk, and the reservation is *committed* in the catalog.  A writer that dies in between leaves an open
reservation, which the next one settles by looking at Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import HomeRecord, Reservation, TableRecord
from weft.errors import ClockError, WeftError
from weft.execution import driver_reader
from weft.execution.driver_reader import rows_of
from weft.execution.look_ups import LookUps
from weft.execution.rollback import finish_undoing
from weft.execution.staging import staged
from weft.failpoint import failpoint
from weft.instants import MIN_INSTANT
from weft.location import Location
from weft.storage.columns import instants, stored_schema
from weft.storage.commit import append_rows, require_table
from weft.storage.delta_log import DataFile, delta_snapshot, has_commits
from weft.storage.fence import find_commit, make_durable, spend
from weft.storage.known_rows import count_differing
from weft.storage.local_sql import first_per_key, without_keys_of, without_stored_keys
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns

OWN_TIME: Final = "_own_time"
"""Column of a batch: the ts that the row asks for, microseconds UTC, or NULL."""
SEQ: Final = "_seq"
"""Column of a batch: the row's place in the order of arrival; no two rows of a batch have the same."""

OnLate = Callable[[Sequence[int], int], None]
"""Called with the places (``_seq``) of late rows, and with F, before anything of the batch is written."""


@dataclass(frozen=True)
class Appended:
    """What became of a batch: rows ``stored``, rows ``known`` already, and how many of those stored came ``late``.

    Of the known ones ``differ`` have other values than the row that is stored.  A row is late where its own time lies
    before F; it got F.  ``version`` is Delta's version of the commit,
    ``first_ts`` and ``last_ts`` bound what was stored; all None where nothing was.
    """

    stored: int
    known: int
    late: int = 0
    version: int | None = None
    first_ts: int | None = None
    last_ts: int | None = None
    differ: int = 0


@dataclass(frozen=True)
class Settled:
    """What became of a dead writer's reservation; ``rows`` is 0 where nothing of it had reached Delta."""

    reservation: Reservation
    rows: int


def application(table_id: int) -> str:
    """The ``txnAppId`` of a table's commits."""
    return f"weft-table-{table_id}"


def append(
    writer: Writer,
    table: TableRecord,
    load_id: int,
    batch: pa.Table,
    at: int,
    distinct_on: tuple[str, ...] | None,
    on_late: OnLate | None = None,
) -> Appended:
    """Stores the rows of ``batch`` that the table does not have yet, all or none of them.

    ``batch`` has the table's columns except its start column, and ``_own_time`` and ``_seq``.  ``at`` is the wall's
    instant in microseconds UTC.  ``distinct_on`` names the columns by which a row is known (two NULLs are the same; of
    equal rows in the batch the first by ``_seq`` counts), None: every row is new.

    ts: the row's own time where it has one, else the home's clock, and in both cases at least F.  A row whose own time
    lies before F is late: it gets F, or is left out where ``on_late`` is given.  Raises LeaseLost where another writer
    took over (nothing of the batch is in the table then), ClockError for rows without own time on a replay home whose
    clock was never set, StorageError where the table cannot be read or written, and what ``on_late`` raises.
    """
    settle(writer)
    place = writer.data / table.path
    fresh = _new_rows(writer, place, table, batch, distinct_on)
    known = batch.num_rows - fresh.num_rows
    differ = _differing(place, table, batch, fresh, distinct_on) if known and distinct_on else 0
    if not fresh.num_rows:
        return Appended(0, known, differ=differ)
    writer.check()
    require_table(place, stored_schema(table.schema), properties(table))
    now = _clock(writer.home(), at, fresh)
    reservation = writer.reservations.reserve(table.table_id, load_id, _least(fresh, now))
    failpoint("ingest.reserved")
    late = pc.fill_null(pc.less(fresh.column(OWN_TIME), reservation.floor), False)
    count = pc.sum(late).as_py()
    if count and on_late is not None:
        try:
            on_late(fresh.filter(late).column(SEQ).to_pylist(), reservation.floor)
        except WeftError:
            writer.reservations.abandon(reservation.reservation_id)
            raise
        fresh, count = fresh.filter(pc.invert(late)), 0
        if not fresh.num_rows:
            writer.reservations.abandon(reservation.reservation_id)
            return Appended(0, known, differ=differ)
    done = _store(writer, place, _stamp(fresh, table, reservation.floor, now), reservation, (known, count))
    return replace(done, differ=differ)


def _differing(
    place: Location, table: TableRecord, batch: pa.Table, fresh: pa.Table, distinct_on: tuple[str, ...]
) -> int:
    """How many rows of the batch are known and have other values than the row that is stored, or is to be."""
    names = [*(name for name in stored_schema(table.schema).names if name != table.schema.start), SEQ]
    known = batch.filter(pc.invert(pc.is_in(batch.column(SEQ), value_set=fresh.column(SEQ).combine_chunks())))
    files = [file.location for file in delta_snapshot(place, check_files=False).files] if has_commits(place) else []
    return count_differing(known.select(names), fresh.select(names), files, distinct_on, SEQ)


def late_beforehand(
    catalog: CatalogParts, table: TableRecord | None, batch: pa.Table, floor: int, distinct_on: tuple[str, ...]
) -> int:
    """How many rows of a batch would be late, F being ``floor``, and are not known; nothing is changed.

    ``table`` is None where there is none yet.  A row that comes twice counts twice.
    """
    late = batch.filter(pc.fill_null(pc.less(batch.column(OWN_TIME), floor), False))
    place = None if table is None else catalog.data / table.path
    if late.num_rows and distinct_on and place is not None and has_commits(place):
        files = [file.location for file in delta_snapshot(place, check_files=False).files if file.rows != 0]
        late = without_stored_keys(late, files, distinct_on, SEQ)
    return int(late.num_rows)


def _store(
    writer: Writer,
    place: Location,
    stamped: pa.Table,
    reservation: Reservation,
    counted: tuple[int, int],
) -> Appended:
    """The rows in Delta and in the catalog; ``counted`` are those known and those late."""
    version = commit_rows(writer, place, stamped, reservation)
    failpoint("ingest.written")
    start = writer.tables.by_id(reservation.table_id).schema.start
    bounds = pc.min_max(stamped.column(start).cast(pa.int64())).as_py()
    first, last = bounds["min"], bounds["max"]
    make_durable(place, version)
    writer.reservations.commit(reservation.reservation_id, version, stamped.num_rows, first, last)
    failpoint("ingest.committed")
    known, late = counted
    return Appended(stamped.num_rows, known, late, version, first, last)


def settle(writer: Writer) -> tuple[Settled, ...]:
    """Closes the reservations that dead writers left open, needing no Spark; to be called by whoever took the lease.

    One whose commit is in Delta is recorded as committed.  One whose rows are staged, as a part of what several tables
    get as one, is committed now.  Of any other the number is spent in Delta first, so that its writer, should it live,
    can no longer commit; then it is given up.  A load that was being undone is undone.
    """
    writer.loads.forget_dead(writer.lease.acquired_at)
    finish_undoing(writer)
    return tuple(_settle_one(writer, reservation) for reservation in writer.reservations.still_open())


def _settle_one(writer: Writer, reservation: Reservation) -> Settled:
    table = writer.tables.by_id(reservation.table_id)
    place, app, number = writer.data / table.path, application(table.table_id), reservation.reservation_id
    found = find_commit(place, app, number, table.stored.start)
    if found is None:
        rows = staged(writer.data, number) if writer.sources.intended(number) else None
        if rows is None:
            spend(place, app, number)
        else:
            commit_rows(writer, place, rows, reservation)
        found = find_commit(place, app, number, table.stored.start)  # it may have come just before
    if found is None or not found.rows:
        writer.reservations.abandon(number)
        return Settled(reservation, 0)
    make_durable(place, found.version)
    writer.reservations.commit(number, found.version, found.rows, found.first_ts, found.last_ts)
    return Settled(reservation, found.rows)


def _new_rows(
    writer: Writer, place: Location, table: TableRecord, batch: pa.Table, distinct_on: tuple[str, ...] | None
) -> pa.Table:
    """The batch in order of arrival: of rows that are equal in ``distinct_on`` the first, unless the table has one."""
    if not distinct_on:
        return batch if _rises(batch.column(SEQ)) else batch.sort_by(SEQ)
    first = first_per_key(batch, distinct_on, SEQ)
    if not has_commits(place):
        return first
    files = [file for file in delta_snapshot(place, check_files=False).files if file.rows != 0]
    bounds, there = driver_reader.BOUNDS, rows_of(files)
    if bounds.loaded < there and (first.num_rows <= bounds.keys or bounds.passes * first.num_rows < there):
        found = _not_found(LookUps(layout.arrangements_folder(writer.path)), table, files, first, distinct_on)
        if found is not None:
            return found
    return without_stored_keys(first, [file.location for file in files], distinct_on, SEQ)


def _not_found(
    look_ups: LookUps, table: TableRecord, files: Sequence[DataFile], rows: pa.Table, keys: tuple[str, ...]
) -> pa.Table | None:
    """The rows whose keys the table's arrangement does not have; None where it cannot be asked."""
    new = []
    for at in range(0, rows.num_rows, driver_reader.BOUNDS.keys):
        piece = rows.slice(at, driver_reader.BOUNDS.keys)
        try:
            found = look_ups.known(table.schema, files, keys, piece.select(keys))
        except (pa.ArrowException, KeyError):  # a key of another type than the table has
            return None
        if found.rows is None:
            return None
        new.append(without_keys_of(piece, found.rows, keys, SEQ))
    return pa.concat_tables(new) if new else rows


def properties(table: TableRecord) -> dict[str, str]:
    """What its Delta table has beside every one's: news and thresholds of queries are found by statistics of instants;
    those of anything else would only make the log longer."""
    with_statistics = instants([table.stored.start], stored_schema(table.stored))
    return {"delta.appendOnly": "true", COLUMNS_PROPERTY: named_columns(with_statistics)}


def _clock(home: HomeRecord, at: int, batch: pa.Table) -> int:
    """The home's clock for rows without a time of their own."""
    if home.clock == "wall":
        return at
    if replay_without_clock(home) and batch.column(OWN_TIME).null_count:
        raise no_clock()
    return home.last_ts if home.now is None else home.now


def replay_without_clock(home: HomeRecord) -> bool:
    """Whether it is a replay home whose clock nothing has set yet."""
    return home.clock == "replay" and (home.last_ts if home.now is None else home.now) == MIN_INSTANT


def no_clock() -> ClockError:
    """What to say of rows without a time of their own on such a home."""
    return ClockError(
        "a replay home has no clock before its first tick, and these rows have no time of their own",
        hint="Name the column that holds their time with --ts-from, or tick once with --now.",
    )


def _least(batch: pa.Table, now: int) -> int:
    """The least ts that a row of the batch asks for."""
    least: int = pc.min(pc.fill_null(batch.column(OWN_TIME), now)).as_py()
    return least


def _stamp(batch: pa.Table, table: TableRecord, floor: int, now: int) -> pa.Table:
    """The batch, which is in order of arrival, with its ts, in the table's columns and order, sorted by ts."""
    ts = pc.max_element_wise(pc.fill_null(batch.column(OWN_TIME), now), pa.scalar(floor, pa.int64()))
    arrays = {name: batch.column(name) for name in batch.column_names}
    arrays[table.schema.start] = ts.cast(pa.timestamp("us", "UTC"))
    if not _rises(ts):
        order = pc.sort_indices(
            pa.table({"ts": ts, "seq": batch.column(SEQ)}), [(name, "ascending") for name in ("ts", "seq")]
        )
        arrays = {column.name: arrays[column.name].take(order) for column in table.schema.columns}
    return pa.table({column.name: arrays[column.name] for column in table.schema.columns})


def _rises(column: pa.ChunkedArray) -> bool:
    """Whether no value is less than the one before: most files are in order, and sorting is a good part of a load."""
    flat = column.combine_chunks()
    return bool(pc.all(pc.less_equal(flat.slice(0, max(len(flat) - 1, 0)), flat.slice(1))).as_py())


def commit_rows(writer: Writer, place: Location, rows: pa.Table, reservation: Reservation) -> int:
    """Writes the rows in one commit with the reservation's number; Delta's version of it, found in the log."""
    writer.check()
    return append_rows(place, rows, application(reservation.table_id), reservation.reservation_id)
