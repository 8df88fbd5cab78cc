"""Append the new rows of a batch to a table.

``append`` finds the rows that the table does not have yet, gives each row its ts, and stores the rows under a
reservation (``writing.reserved``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TableSchema
from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import HomeRecord, Reservation, TableRecord
from weft.errors import ClockError, Conflict, WeftError
from weft.execution import driver_reader
from weft.execution.driver_reader import rows_of
from weft.execution.look_ups import LookUps
from weft.failpoint import failpoint
from weft.instants import MIN_INSTANT
from weft.storage.columns import stored_schema
from weft.storage.data_files import NewFile
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import count_differing, first_per_key, without_keys_of, without_stored_keys
from weft.storage.table import Table
from weft.writing.reserved import commit, ensure, first_and_last, record, settle

OWN_TIME: Final = "_own_time"
"""Batch column for the event time of a row (microseconds UTC), or NULL."""
SEQ: Final = "_seq"
"""Batch column for a row's position in the order of arrival. The positions are unique in a batch."""

OnLate = Callable[[Sequence[int], int], None]
"""``append`` calls this function before any write, with the positions of the late rows and the watermark F."""


@dataclass(frozen=True)
class Appended:
    """The result of appending a batch.

    - ``stored``: number of stored rows
    - ``known``: number of rows that the table already had
    - ``late``: number of stored rows with an event time before the watermark F
    - ``differ``: number of known rows whose values differ from the values of the stored row
    - ``version``: Delta version of the commit, or None if no row was stored
    - ``first_ts``, ``last_ts``: least and greatest stored ts, or None if no row was stored
    """

    stored: int
    known: int
    late: int = 0
    version: int | None = None
    first_ts: int | None = None
    last_ts: int | None = None
    differ: int = 0


def append(
    writer: Writer,
    table: TableRecord,
    load_id: int,
    batch: pa.Table,
    at: int,
    distinct_on: tuple[str, ...] | None,
    on_late: OnLate | None = None,
    seen: Mapping[str, Any] | None = None,
) -> Appended:
    """Store either all new rows of ``batch`` or none.

    ``batch`` has the table's columns except the start column, and the columns ``_own_time`` and ``_seq``. ``at`` is the
    wall clock time in microseconds UTC. ``distinct_on`` names the columns that identify a row. In these columns, two
    NULLs are equal. If several rows of the batch are equal in these columns, only the row with the least ``_seq`` is
    used. If ``distinct_on`` is None, every row is new. ``seen`` is the position of the table's source after the rows,
    which is recorded with their reservation.

    The ts of a row is its event time, by default the time of the home's clock. A row is late if its event time is
    before the watermark F. The ts of a late row is F. If ``on_late`` is given, late rows are left out.

    If another writer took over, store no row and raise LeaseLost. Raise ClockError if a row has no event time and the
    clock of a replay home was never set. Raise StorageError if the table cannot be read or written. Errors that
    ``on_late`` raises pass through.
    """
    settle(writer)
    files = Table(writer.data / table.path).files() if distinct_on else ()
    fresh = _new_rows(writer, files, table, batch, distinct_on)
    known = batch.num_rows - fresh.num_rows
    differ = _differing(files, table, batch, fresh, distinct_on) if known and distinct_on else 0
    if not fresh.num_rows:
        return Appended(0, known, differ=differ)
    ensure(writer, table)
    now = _clock(writer.home(), at, fresh)
    reservation = _reserved(writer, table, load_id, _least(fresh, now), seen)
    failpoint("ingest.reserved")
    late = are_late(fresh, reservation.floor)
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
    stamped = stamp(fresh, table.schema, reservation.floor, now)
    committed = commit(writer, table, stamped, reservation)
    failpoint("ingest.written")
    first, last = first_and_last(table, stamped)
    record(writer, reservation, committed, first, last)
    failpoint("ingest.committed")
    return Appended(stamped.num_rows, known, count, committed.version, first, last, differ)


def _reserved(
    writer: Writer, table: TableRecord, load_id: int, at_least: int, seen: Mapping[str, Any] | None
) -> Reservation:
    reservation = writer.reservations.reserve(table.table_id, load_id, at_least)
    if seen is not None:
        writer.sources.intend([(table.table_id, reservation.reservation_id, seen)])
    return reservation


@dataclass(frozen=True)
class Written:
    """Rows that executors have written, with their ts, into files that no commit names yet.

    ``floor`` is the watermark that determined which rows are late. The ts of the rows are from ``first_ts`` to
    ``last_ts`` (µs UTC).
    """

    files: tuple[NewFile, ...]
    late: int
    first_ts: int
    last_ts: int
    floor: int


def append_written(writer: Writer, table: TableRecord, load_id: int, written: Written) -> Appended:
    """Store the rows of the files, all or none. The watermark must not have changed since the rows were written.

    Raise Conflict if it has. The other errors are those of ``append``.
    """
    settle(writer)
    reservation = writer.reservations.reserve(table.table_id, load_id, written.floor)
    failpoint("ingest.reserved")
    if reservation.floor != written.floor:
        writer.reservations.abandon(reservation.reservation_id)
        raise Conflict(
            f"a tick passed the rows that executors wrote for {table.name}",
            hint="Repeat the load: it continues where it stopped.",
        )
    committed = commit(writer, table, written.files, reservation)
    failpoint("ingest.written")
    record(writer, reservation, committed, written.first_ts, written.last_ts)
    failpoint("ingest.committed")
    bounds = written.first_ts, written.last_ts
    return Appended(committed.rows, 0, written.late, committed.version, *bounds)


def are_late(batch: pa.Table, floor: int) -> pa.ChunkedArray:
    """Return for each row of a batch whether its event time is before the watermark ``floor``."""
    return pc.fill_null(pc.less(batch.column(OWN_TIME), floor), False)


def _differing(
    files: Sequence[DataFile], table: TableRecord, batch: pa.Table, fresh: pa.Table, distinct_on: tuple[str, ...]
) -> int:
    """Return the number of known rows that differ from the stored row or from an earlier row of the batch."""
    names = [*(name for name in stored_schema(table.schema).names if name != table.schema.start), SEQ]
    known = batch.filter(pc.invert(pc.is_in(batch.column(SEQ), value_set=fresh.column(SEQ).combine_chunks())))
    return count_differing(known.select(names), fresh.select(names), files, distinct_on, SEQ)


def late_beforehand(
    catalog: CatalogParts, table: TableRecord | None, batch: pa.Table, floor: int, distinct_on: tuple[str, ...]
) -> int:
    """Return the number of new rows that would be late if the watermark F were ``floor``.

    If the table does not exist yet, ``table`` is None. A late row that occurs twice in the batch counts twice.
    """
    late = batch.filter(pc.fill_null(pc.less(batch.column(OWN_TIME), floor), False))
    if late.num_rows and distinct_on and table is not None:
        files = [file for file in Table(catalog.data / table.path).files() if file.rows != 0]
        late = without_stored_keys(late, files, distinct_on, SEQ)
    return int(late.num_rows)


def _new_rows(
    writer: Writer,
    stored: Sequence[DataFile],
    table: TableRecord,
    batch: pa.Table,
    distinct_on: tuple[str, ...] | None,
) -> pa.Table:
    """Return the new rows in order of arrival, without duplicates."""
    if not distinct_on:
        return batch if _rises(batch.column(SEQ)) else batch.sort_by(SEQ)
    first = first_per_key(batch, distinct_on, SEQ)
    files = [file for file in stored if file.rows != 0]
    bounds, there = driver_reader.BOUNDS, rows_of(files)
    if bounds.loaded < there and (first.num_rows <= bounds.keys or bounds.passes * first.num_rows < there):
        new = _rows_not_in_table(LookUps(layout.arrangements_folder(writer.path)), table, files, first, distinct_on)
        if new is not None:
            return new
    return without_stored_keys(first, files, distinct_on, SEQ)


def _rows_not_in_table(
    look_ups: LookUps, table: TableRecord, files: Sequence[DataFile], rows: pa.Table, keys: tuple[str, ...]
) -> pa.Table | None:
    """Return None if the table's arrangement cannot be used."""
    new = []
    for at in range(0, rows.num_rows, driver_reader.BOUNDS.keys):
        piece = rows.slice(at, driver_reader.BOUNDS.keys)
        try:
            known = look_ups.known(table.schema, files, keys, piece.select(keys))
        except (pa.ArrowException, KeyError):  # a key of another type than the table's
            return None
        if known.rows is None:
            return None
        new.append(without_keys_of(piece, known.rows, keys, SEQ))
    return pa.concat_tables(new) if new else rows


def _clock(home: HomeRecord, at: int, batch: pa.Table) -> int:
    if replay_without_clock(home) and batch.column(OWN_TIME).null_count:
        raise clock_not_set()
    return time_of(home, at)


def time_of(home: HomeRecord, at: int) -> int:
    """Return the ts of a row without an event time. ``at`` is the wall clock time (µs UTC)."""
    return at if home.clock == "wall" else home.last_ts if home.now is None else home.now


def replay_without_clock(home: HomeRecord) -> bool:
    """Return whether the home is a replay home whose clock was never set."""
    return home.clock == "replay" and (home.last_ts if home.now is None else home.now) == MIN_INSTANT


def clock_not_set() -> ClockError:
    """Return the error for a row without an event time if the clock of a replay home was never set."""
    return ClockError(
        "these rows have no time, and the clock of this replay home is not set yet",
        hint="Name the column with the time of each row (--ts-from), or set the clock: weft tick --now T.",
    )


def _least(batch: pa.Table, now: int) -> int:
    least: int = pc.min(pc.fill_null(batch.column(OWN_TIME), now)).as_py()
    return least


def stamp(batch: pa.Table, table: TableSchema, floor: int, now: int) -> pa.Table:
    """Return the rows with their ts, in the table's columns, sorted by ts. ``batch`` must be in order of arrival.

    ``floor`` is the watermark, and ``now`` the time of the home's clock (µs UTC).
    """
    ts = pc.max_element_wise(pc.fill_null(batch.column(OWN_TIME), now), pa.scalar(floor, pa.int64()))
    arrays = {name: batch.column(name) for name in batch.column_names}
    arrays[table.start] = ts.cast(pa.timestamp("us", "UTC"))
    if not _rises(ts):
        order = pc.sort_indices(
            pa.table({"ts": ts, "seq": batch.column(SEQ)}), [(name, "ascending") for name in ("ts", "seq")]
        )
        arrays = {column.name: arrays[column.name].take(order) for column in table.columns}
    return pa.table({column.name: arrays[column.name] for column in table.columns})


def _rises(column: pa.ChunkedArray) -> bool:
    """Return whether the values of the column never decrease. Most files are already in order and need no sort."""
    flat = column.combine_chunks()
    return bool(pc.all(pc.less_equal(flat.slice(0, max(len(flat) - 1, 0)), flat.slice(1))).as_py())
