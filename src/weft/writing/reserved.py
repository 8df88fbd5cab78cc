"""Append rows to tables under reservations, and settle the reservations of dead writers.

An append goes through four states (design sections 1 and 6):

1. The catalog *reserves* the instants of the rows. No tick advances past reserved instants.
2. ``commit`` writes the rows in one Delta commit with the number of the reservation, finds the commit in Delta's log,
   and forces it to disk.
3. ``record`` records the commit in the catalog.

If a writer dies between two states, the reservation stays open. The next writer looks for the commit in Delta and
settles the reservation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer
from weft.catalog.records import Reservation, TableRecord
from weft.storage.attached import COLUMN
from weft.storage.columns import instants, stored_schema
from weft.storage.data_files import NewFile
from weft.storage.delta_log import DataFile, bounds_of
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns
from weft.storage.table import Commit, Fence, Table
from weft.writing.removals import finish_undoing
from weft.writing.staging import staged


@dataclass(frozen=True)
class Settled:
    """The settled reservation of a dead writer. ``rows`` is 0 if the writer committed no row to Delta."""

    reservation: Reservation
    rows: int


def table_app_id(table_id: int) -> str:
    """Return the ``txnAppId`` of a table's Delta commits."""
    return f"weft-table-{table_id}"


def ensure(writer: Writer, table: TableRecord) -> None:
    """Create the Delta table, or add the columns that it lacks. Raise LeaseLost or StorageError.

    Only the columns that new rows and thresholds are selected by have statistics. Others would lengthen the log.
    """
    schema = stored_schema(table.stored)
    with_statistics = named_columns(instants([table.stored.start], schema))
    writer.check()
    Table(writer.data / table.path).ensure(schema, {"delta.appendOnly": "true", COLUMNS_PROPERTY: with_statistics})


def ensure_attached(writer: Writer, table: TableRecord) -> None:
    """Create the own log of an attached table, or add the columns that it lacks. Raise LeaseLost or StorageError."""
    schema = stored_schema(table.stored)
    with_statistics = named_columns(instants([table.stored.start], schema))
    writer.check()
    Table(writer.data / table.path).ensure(
        schema.append(pa.field(COLUMN, pa.string())),
        {"delta.appendOnly": "true", COLUMNS_PROPERTY: with_statistics},
        partition_by=[COLUMN],
    )


def commit(writer: Writer, table: TableRecord, rows: pa.Table | Sequence[NewFile], reservation: Reservation) -> Commit:
    """Commit the rows, which are as in ``Table.append``, with the number of the reservation.

    Raise LeaseLost or StorageError.
    """
    writer.check()
    return Table(writer.data / table.path).append(rows, reserved_fence(reservation))


def record(writer: Writer, reservation: Reservation, committed: Commit, first: int, last: int) -> None:
    """Record the commit of a reservation in the catalog. Its rows have instants from ``first`` to ``last`` (µs UTC)."""
    writer.reservations.commit(reservation.reservation_id, committed.version, committed.rows, first, last)


def first_and_last(table: TableRecord, rows: pa.Table) -> tuple[int, int]:
    """Return the least and the greatest ts of at least one row (µs UTC)."""
    bounds = pc.min_max(rows.column(table.stored.start).cast(pa.int64())).as_py()
    return bounds["min"], bounds["max"]


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
    number = reservation.reservation_id
    table, fence = writer.tables.by_id(reservation.table_id), reserved_fence(reservation)
    stored = Table(writer.data / table.path)
    committed = stored.find(fence.app_id, number)
    if committed is None:
        rows = staged(writer.data, number) if writer.sources.intended(number) else None
        if rows is None:
            spend(writer, table.path, fence)
        else:
            commit(writer, table, rows, reservation)
        committed = stored.find(fence.app_id, number)  # the writer may have committed just before ``spend``
    if committed is None:
        writer.reservations.abandon(number)
        return Settled(reservation, 0)
    if table.attached:
        writer.reservations.commit(number, committed.version, committed.rows, *bounds_of(committed.files))
        return Settled(reservation, committed.rows)
    start = table.stored.start
    with_statistics = {file.location: file for file in stored.snapshot().files}
    files = files_at_the_ends([with_statistics.get(file.location, file) for file in committed.files], start)
    batches = stored.scan(stored_schema(table.stored, [start]), files=files)
    bounds = [first_and_last(table, pa.Table.from_batches([each])) for each in batches if each.num_rows]
    record(writer, reservation, committed, min(first for first, _ in bounds), max(last for _, last in bounds))
    return Settled(reservation, committed.rows)


def files_at_the_ends(files: Sequence[DataFile], column: str) -> list[DataFile]:
    """Return those files of a commit that may have the least or the greatest value of a column with statistics."""
    known = [file for file in files if column in file.least and column in file.greatest]
    first = min((file.least[column] for file in known), default=None)
    last = max((file.greatest[column] for file in known), default=None)
    return [
        file
        for file in files
        if file.least.get(column, first) == first or file.greatest.get(column, last) == last or file not in known
    ]


def spend(writer: Writer, path: str, fence: Fence) -> None:
    """Use up the number of a dead writer of the table at ``path``, and record the version of the table.

    Other machines look at the log of a table on an object store only if its recorded version has changed.
    """
    table = Table(writer.data / path)
    table.spend(fence.app_id, fence.number)
    if table.exists():
        now = table.snapshot()
        writer.tables.record_versions([(path, now.version, now.rows or 0)])


def reserved_fence(reservation: Reservation) -> Fence:
    """Return the fence of the commit of a reservation."""
    return Fence(table_app_id(reservation.table_id), reservation.reservation_id)
