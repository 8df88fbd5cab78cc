"""One load: batches into a table and into quarantine, each under the writer's lease for as long as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.catalog import Catalog
from weft.catalog.records import TableRecord
from weft.errors import Conflict
from weft.execution.tables import append, settle
from weft.extraction.quarantine import quarantine
from weft.extraction.records import Batch, Progress
from weft.storage.verify import require_whole

LEASE_WAIT_US: Final = 120 * 1_000_000
"""How long a batch waits for another writer, a tick for example, before it gives up (LeaseBusy), in microseconds."""


@dataclass(frozen=True)
class Summary:
    """What a load did, in rows: new ones stored, those that were known, in quarantine, and ``late`` among the stored.

    A row is late where its own time lies before the instant that it could be given (design section 1).
    ``already_loaded`` says that the very same file was loaded before; ``known`` then counts its rows.
    """

    table: str
    stored: int = 0
    known: int = 0
    quarantined: int = 0
    late: int = 0
    already_loaded: bool = False


@dataclass(frozen=True)
class Destination:
    """Where a load goes: the home, its catalog, a way to a Spark session (called when a row is to be stored, not
    before) and the wall's clock (µs UTC).
    """

    home: Path
    catalog: Catalog
    spark: Callable[[], Any]
    clock: Callable[[], int]


def begin(to: Destination) -> None:
    """Settles what a dead writer left, then looks whether the store is whole; raises StorageError, LeaseBusy."""
    if to.catalog.reservations.still_open():
        with to.catalog.writing("settle", to.clock, wait_us=LEASE_WAIT_US) as writer:
            settle(writer, to.home)
    require_whole(to.catalog, to.home)


def store_batches(
    to: Destination,
    table: TableRecord,
    load_id: int,
    batches: Iterable[Batch],
    options: dict[str, object],
    *,
    skip: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Stores the batches in their order and finishes the load; rows are told apart by the table's keys.

    ``skip`` is None for a table with keys.  Without keys it is how many rows of this very load are stored already:
    those are passed over, and the load is refused (Conflict) once another process is found to be storing it too.
    """
    total = Summary(table.name)
    read = 0
    expected = skip
    for batch in batches if skip is None else _without_first(batches, skip):
        total = _quarantine(to, table, load_id, batch, options, total)
        if batch.rows.num_rows:
            stored, known, late = _append(to, table, load_id, batch, expected)
            expected = None if expected is None else expected + stored
            total = replace(total, stored=total.stored + stored, known=total.known + known, late=total.late + late)
        read += batch.read
        if progress is not None:
            progress(read)
    total = total if skip is None else replace(total, known=total.known + skip)
    to.catalog.loads.finish(load_id, total.stored, total.known, total.quarantined, total.late, to.clock())
    return total


def _quarantine(
    to: Destination, table: TableRecord, load_id: int, batch: Batch, options: dict[str, object], total: Summary
) -> Summary:
    new = quarantine(to.home, to.catalog, load_id, table.table_id, batch.rejected, options, to.clock())
    known = len(batch.rejected) - new
    return replace(total, quarantined=total.quarantined + new, known=total.known + known)


def _append(
    to: Destination, table: TableRecord, load_id: int, batch: Batch, expected: int | None
) -> tuple[int, int, int]:
    """One batch under the lease: how many rows were stored, known, late."""
    catalog = to.catalog
    spark = to.spark()
    with catalog.writing(f"ingest into {table.name}", to.clock, wait_us=LEASE_WAIT_US) as writer:
        if writer.reservations.still_open():
            settle(writer, to.home)
        if expected is not None and writer.loads.stored_by(load_id) != expected:
            raise Conflict("another process is loading the same file", hint="Wait for it, then run this again.")
        now = to.clock()
        current = writer.tables.by_id(table.table_id)
        done = append(spark, writer, to.home, current, load_id, batch.rows, now, table.keys or None)
    return done.stored, done.known, done.late


def _without_first(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """The batches without their first ``count`` rows, which an earlier run of the load has stored."""
    for batch in batches:
        skipped = min(count, batch.rows.num_rows)
        count -= skipped
        yield Batch(batch.rows.slice(skipped), batch.rejected, batch.read) if skipped else batch
