"""Append changes to the logs of tracked tables.

The protocol is that of ``writing.reserved``. If a writer dies, the next writer settles the open reservation and
completes an append to several tables. The recorded instants of a table's log increase with each commit. The last record
of a period is therefore well defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weft.algebra.schema import VALID_TO
from weft.catalog import CatalogParts, Writer
from weft.catalog.records import Reservation, TableRecord
from weft.failpoint import failpoint
from weft.storage.periods import TS, read_log
from weft.storage.table import Table
from weft.writing.reserved import commit, ensure, first_and_last, record
from weft.writing.staging import stage, unstage, unstage_all


@dataclass(frozen=True)
class Recorded:
    """The result of appending changes to a log.

    ``began`` is the number of new periods, and ``ended`` is the number of ended periods. ``first`` and ``last`` are the
    instants of the first and the last change (µs UTC), or None if nothing changed. ``rows`` has the stored log rows, or
    None.
    """

    began: int
    ended: int
    first: int | None = None
    last: int | None = None
    rows: pa.Table | None = None


def log_of(catalog: CatalogParts, table: TableRecord) -> pa.Table:
    """Return the whole log of a tracked table. Raise StorageError if a file is missing or damaged."""
    return read_log(Table(catalog.data / table.path).files(), table.stored)


@dataclass(frozen=True)
class ChangesToRecord:
    """The changes of one table in an append to several tables.

    ``changes`` receives the earliest allowed instant (µs UTC) and returns the log rows. ``seen`` is the read position
    of the source after these changes, or None if the position is unchanged.
    """

    table: TableRecord
    load_id: int
    changes: Callable[[int], pa.Table]
    seen: Mapping[str, Any] | None


def record_one(
    writer: Writer,
    table: TableRecord,
    load_id: int,
    at_least: int,
    changes: Callable[[int], pa.Table],
    seen: Mapping[str, Any] | None,
) -> Recorded:
    """Store the log rows of one table as ``record_together`` does."""
    return record_together(writer, [ChangesToRecord(table, load_id, changes, seen)], at_least)[0]


def record_together(writer: Writer, parts: Sequence[ChangesToRecord], at_least: int) -> list[Recorded]:
    """Store either the log rows of all given tables or none. A tick also sees either all of these rows or none.

    The earliest allowed instant of a change is the same for all tables. The earliest allowed instant is not before
    ``at_least``, not before the watermark F, and after all recorded changes of the tables. Raise LeaseLost or
    StorageError. If ``changes`` raises an error, nothing is stored and the error passes through.
    """
    for part in parts:
        ensure(writer, part.table)
    last = [part.table.last_ts + 1 for part in parts if part.table.last_ts is not None]
    after = max([at_least, *last])
    reserved = [writer.reservations.reserve(part.table.table_id, part.load_id, after) for part in parts]
    failpoint("source.reserved")
    try:
        rows = [part.changes(each.floor).sort_by(TS) for part, each in zip(parts, reserved, strict=True)]
    except BaseException:
        for each in reserved:
            writer.reservations.abandon(each.reservation_id)
        raise
    for log_rows, each in zip(rows, reserved, strict=True):
        if not log_rows.num_rows:
            writer.reservations.abandon(each.reservation_id)
    wanted = [number for number, log_rows in enumerate(rows) if log_rows.num_rows]
    stored = dict(zip(wanted, _stored(writer, [(parts[n], reserved[n], rows[n]) for n in wanted]), strict=True))
    return [stored.get(number, Recorded(0, 0)) for number in range(len(parts))]


def _stored(writer: Writer, wanted: Sequence[tuple[ChangesToRecord, Reservation, pa.Table]]) -> list[Recorded]:
    several = len(wanted) > 1
    if several:
        unstage_all(writer)
        for _, reservation, rows in wanted:
            stage(writer.data, reservation.reservation_id, rows)
        failpoint("source.staged")
    writer.sources.intend(
        [
            (part.table.table_id, reservation_of_part.reservation_id, part.seen)
            for part, reservation_of_part, _ in wanted
            if part.seen is not None
        ]
    )
    done = [_commit(writer, part, reservation, rows) for part, reservation, rows in wanted]
    if several:
        unstage(writer.data, [reservation.reservation_id for _, reservation, _ in wanted])
    return done


def _commit(writer: Writer, part: ChangesToRecord, reservation: Reservation, rows: pa.Table) -> Recorded:
    committed = commit(writer, part.table, rows, reservation)
    failpoint("source.written")
    first, last = first_and_last(part.table, rows)
    record(writer, reservation, committed, first, last)
    failpoint("source.committed")
    began = rows.column(VALID_TO).null_count
    return Recorded(began, rows.num_rows - began, first, last, rows)
