"""Changes into the log of a tracked table: reserved in the catalog, one Delta commit, recorded in the catalog.

As rows into any table (``execution.tables``): a writer that dies in between leaves an open reservation, which the next
one settles.  The instants of a table's changes rise from commit to commit, so that what was recorded last of a period
is never in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.temporal import VALID_TO
from weft.catalog import CatalogParts, Writer
from weft.catalog.records import TableRecord
from weft.execution.tables import commit_rows, properties
from weft.failpoint import failpoint
from weft.storage.columns import stored_schema
from weft.storage.commit import require_table
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.fence import make_durable
from weft.storage.periods import TS, read_log


@dataclass(frozen=True)
class Recorded:
    """What became of changes: periods that ``began`` and that ``ended``, between two instants (µs UTC; None: none).

    ``rows`` are the log rows that were stored (None: nothing was).
    """

    began: int
    ended: int
    first: int | None = None
    last: int | None = None
    rows: pa.Table | None = None


def log_of(catalog: CatalogParts, table: TableRecord) -> pa.Table:
    """All of a tracked table's log; raises StorageError where a file of it is missing or damaged."""
    place = catalog.data / table.path
    if not has_commits(place):
        return stored_schema(table.stored).empty_table()
    with place.shared():  # nobody deletes its files meanwhile
        return read_log(delta_snapshot(place, check_files=False).files, table.stored)


def record(
    writer: Writer,
    table: TableRecord,
    load_id: int,
    at_least: int,
    changes: Callable[[int], pa.Table],
    seen: Mapping[str, Any] | None,
) -> Recorded:
    """Stores log rows, all or none of them.

    ``changes`` gives them when it is told the earliest instant that is open (µs UTC): the greatest of ``at_least``, F
    and the first after the table's last change; none of them has a lesser ``ts``.  ``seen`` is what will have been read
    of the source by then (None: no more than before).  Raises LeaseLost, StorageError, and what ``changes`` raises,
    nothing being stored.
    """
    place = writer.data / table.path
    writer.check()
    require_table(place, stored_schema(table.stored), properties(table))
    after = at_least if table.last_ts is None else max(at_least, table.last_ts + 1)
    reservation = writer.reservations.reserve(table.table_id, load_id, after)
    failpoint("source.reserved")
    try:
        rows = changes(reservation.floor)
    except BaseException:
        writer.reservations.abandon(reservation.reservation_id)
        raise
    if not rows.num_rows:
        writer.reservations.abandon(reservation.reservation_id)
        return Recorded(0, 0)
    if seen is not None:
        writer.sources.intend(table.table_id, reservation.reservation_id, seen)
    rows = rows.sort_by(TS)
    version = commit_rows(writer, place, rows, reservation)
    failpoint("source.written")
    make_durable(place, version)
    bounds = pc.min_max(rows.column(TS).cast(pa.int64())).as_py()
    first, last = bounds["min"], bounds["max"]
    writer.reservations.commit(reservation.reservation_id, version, rows.num_rows, first, last)
    failpoint("source.committed")
    began = rows.column(VALID_TO).null_count
    return Recorded(began, rows.num_rows - began, first, last, rows)
