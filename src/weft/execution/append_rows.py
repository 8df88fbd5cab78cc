"""Append rows to tables.

A batch goes through four states (design sections 1 and 6):

1. The catalog *reserves* the batch's instants. No tick advances past reserved instants.
2. The writer *writes* the rows in one Delta commit with the number of the reservation.
3. The writer finds the commit in Delta's log and forces the commit to disk.
4. The catalog *commits* the reservation.

If a writer dies between two states, the reservation stays open. The next writer looks for the commit in Delta and
settles the reservation.
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
from weft.execution.engines.engine import Rows, WrittenFiles
from weft.execution.look_ups import LookUps
from weft.execution.rollback import finish_undoing
from weft.execution.staging import staged
from weft.failpoint import failpoint
from weft.instants import MIN_INSTANT
from weft.location import Location
from weft.storage.columns import instants, stored_schema
from weft.storage.commit import append_files, append_rows, require_table
from weft.storage.delta_log import DataFile, delta_snapshot, has_commits
from weft.storage.fence import find_commit, make_durable, spend
from weft.storage.local_sql import count_differing, first_per_key, without_keys_of, without_stored_keys
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns

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


@dataclass(frozen=True)
class Settled:
    """The settled reservation of a dead writer. ``rows`` is 0 if the writer committed no row to Delta."""

    reservation: Reservation
    rows: int


def table_app_id(table_id: int) -> str:
    """Return the ``txnAppId`` of a table's Delta commits."""
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
    """Store either all new rows of ``batch`` or none.

    ``batch`` has the table's columns except the start column, and the columns ``_own_time`` and ``_seq``. ``at`` is the
    wall clock time in microseconds UTC. ``distinct_on`` names the columns that identify a row. In these columns, two
    NULLs are equal. If several rows of the batch are equal in these columns, only the row with the least ``_seq`` is
    used. If ``distinct_on`` is None, every row is new.

    The ts of a row is its event time, by default the time of the home's clock. A row is late if its event time is
    before the watermark F. The ts of a late row is F. If ``on_late`` is given, late rows are left out.

    If another writer took over, store no row and raise LeaseLost. Raise ClockError if a row has no event time and the
    clock of a replay home was never set. Raise StorageError if the table cannot be read or written. Errors that
    ``on_late`` raises pass through.
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
    """Return the number of known rows that differ from the stored row or from an earlier row of the batch."""
    names = [*(name for name in stored_schema(table.schema).names if name != table.schema.start), SEQ]
    known = batch.filter(pc.invert(pc.is_in(batch.column(SEQ), value_set=fresh.column(SEQ).combine_chunks())))
    files = [file.location for file in delta_snapshot(place, check_files=False).files] if has_commits(place) else []
    return count_differing(known.select(names), fresh.select(names), files, distinct_on, SEQ)


def late_beforehand(
    catalog: CatalogParts, table: TableRecord | None, batch: pa.Table, floor: int, distinct_on: tuple[str, ...]
) -> int:
    """Return the number of new rows that would be late if the watermark F were ``floor``.

    If the table does not exist yet, ``table`` is None. A late row that occurs twice in the batch counts twice.
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
    """``counted`` has the number of known rows and the number of late rows."""
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
    """Settle the open reservations of dead writers without Spark. Also finish an interrupted undo of a load.

    The caller must have just taken the lease. If Delta contains the commit of a reservation, the catalog records the
    reservation as committed. If an append to several tables has staged the rows of a reservation, the rows are
    committed now. Any other reservation is abandoned. Before a reservation is abandoned, a commit in Delta uses up the
    reservation's number, because the writer may still be alive.
    """
    writer.loads.forget_dead(writer.lease.acquired_at)
    finish_undoing(writer)
    return tuple(_settle_one(writer, reservation) for reservation in writer.reservations.still_open())


def _settle_one(writer: Writer, reservation: Reservation) -> Settled:
    table = writer.tables.by_id(reservation.table_id)
    place, app, number = writer.data / table.path, table_app_id(table.table_id), reservation.reservation_id
    commit = find_commit(place, app, number, table.stored.start)
    if commit is None:
        rows = staged(writer.data, number) if writer.sources.intended(number) else None
        if rows is None:
            spend(place, app, number)
        else:
            commit_rows(writer, place, rows, reservation)
        commit = find_commit(
            place, app, number, table.stored.start
        )  # the writer may have committed just before ``spend``
    if commit is None or not commit.rows:
        writer.reservations.abandon(number)
        return Settled(reservation, 0)
    make_durable(place, commit.version)
    writer.reservations.commit(number, commit.version, commit.rows, commit.first_ts, commit.last_ts)
    return Settled(reservation, commit.rows)


def _new_rows(
    writer: Writer, place: Location, table: TableRecord, batch: pa.Table, distinct_on: tuple[str, ...] | None
) -> pa.Table:
    """Return the new rows in order of arrival, without duplicates."""
    if not distinct_on:
        return batch if _rises(batch.column(SEQ)) else batch.sort_by(SEQ)
    first = first_per_key(batch, distinct_on, SEQ)
    if not has_commits(place):
        return first
    files = [file for file in delta_snapshot(place, check_files=False).files if file.rows != 0]
    bounds, there = driver_reader.BOUNDS, rows_of(files)
    if bounds.loaded < there and (first.num_rows <= bounds.keys or bounds.passes * first.num_rows < there):
        new = _rows_not_in_table(LookUps(layout.arrangements_folder(writer.path)), table, files, first, distinct_on)
        if new is not None:
            return new
    return without_stored_keys(first, [file.location for file in files], distinct_on, SEQ)


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


def properties(table: TableRecord) -> dict[str, str]:
    """Return the Delta properties of a table. The properties limit column statistics to the start column.

    Reads of new rows and thresholds use only statistics of the start column. Other statistics would lengthen the log.
    """
    with_statistics = instants([table.stored.start], stored_schema(table.stored))
    return {"delta.appendOnly": "true", COLUMNS_PROPERTY: named_columns(with_statistics)}


def _clock(home: HomeRecord, at: int, batch: pa.Table) -> int:
    if home.clock == "wall":
        return at
    if replay_without_clock(home) and batch.column(OWN_TIME).null_count:
        raise clock_not_set()
    return home.last_ts if home.now is None else home.now


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


def _stamp(batch: pa.Table, table: TableRecord, floor: int, now: int) -> pa.Table:
    """Return the rows with their ts, in the table's columns, sorted by ts. ``batch`` must be in order of arrival."""
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
    """Return whether the values of the column never decrease. Most files are already in order and need no sort."""
    flat = column.combine_chunks()
    return bool(pc.all(pc.less_equal(flat.slice(0, max(len(flat) - 1, 0)), flat.slice(1))).as_py())


def commit_rows(writer: Writer, place: Location, rows: Rows, reservation: Reservation) -> int:
    """Commit the rows with the number of the reservation, and return the Delta version."""
    writer.check()
    app_id = table_app_id(reservation.table_id)
    if isinstance(rows, WrittenFiles):
        return append_files(place, rows.folder, app_id, reservation.reservation_id)
    return append_rows(place, rows, app_id, reservation.reservation_id)
