"""Store one load: write its batches to a table and to quarantine. Take the writer's lease for each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from weft.catalog import Writer
from weft.catalog.naming import folded
from weft.catalog.records import LoadRecord, TableRecord
from weft.errors import Conflict, Refused
from weft.execution.append_rows import (
    OWN_TIME,
    SEQ,
    Appended,
    Written,
    append,
    append_written,
    clock_not_set,
    late_beforehand,
    replay_without_clock,
)
from weft.execution.home import OpenHome, renewing, renewing_lease
from weft.extraction.batches import DEFAULT_TIMING, Batch, Progress, RejectedRecord, Timing
from weft.extraction.quarantine import quarantine
from weft.instants import format_instant
from weft.printable import Brief
from weft.storage.verify import require_undamaged
from weft.writing.reserved import settle

LEASE_WAIT_US: Final = 120 * 1_000_000
"""The maximum time that a batch waits for the lease, in microseconds. LeaseBusy is raised after this time."""


@dataclass(frozen=True, repr=False)
class Summary(Brief):
    """The result of a load. All counts are numbers of rows.

    - ``known`` is the number of rows that were already stored. ``differ`` is the number of rows that were already
      stored with other values. The stored values do not change.
    - ``late`` counts the stored rows whose event time was before the watermark. A late row gets the watermark as its
      ``ts`` (design section 1).
    - ``first_ts`` and ``last_ts`` are the first and the last ``ts`` of the stored rows, or None.
    - If all files were loaded before, ``already_loaded`` is True, and ``known`` is the number of their rows.
    - ``notes`` describe, for the user, what the load changed or inferred.
    """

    table: str
    stored: int = 0
    known: int = 0
    quarantined: int = 0
    late: int = 0
    already_loaded: bool = False
    first_ts: int | None = None
    last_ts: int | None = None
    notes: tuple[str, ...] = ()
    differ: int = 0

    def _brief(self) -> str:
        counts_by_kind = {"known": self.known, "late": self.late, "in quarantine": self.quarantined}
        counts = ", ".join(
            [f"{self.stored:,} stored", *(f"{count:,} {what}" for what, count in counts_by_kind.items() if count)]
        )
        return f"{self.table}: {counts}" + ("; the files were loaded before" if self.already_loaded else "")


@dataclass(frozen=True)
class Load:
    """A load that is registered in the catalog.

    ``options`` are the options for retrying rejected records. ``by_source`` adds options for each source. ``already``
    is the number of rows that an earlier run of this load stored. In a table with keys, ``already`` is None. ``aside``
    maps each source to the positions of the records that an earlier run quarantined.
    """

    to: OpenHome
    table: TableRecord
    load_id: int
    options: Mapping[str, object]
    timing: Timing = DEFAULT_TIMING
    already: int | None = None
    aside: Mapping[str, frozenset[str]] = field(default_factory=dict)
    by_source: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@contextmanager
def loading_lease(to: OpenHome, table: str) -> Iterator[Writer]:
    """Settle the work of dead writers, then take the lease to register a load into ``table``.

    Raises LeaseBusy, and StorageError if the store is damaged.
    """
    with to.catalog.writing(f"begin to load into {table}", to.clock, wait_us=LEASE_WAIT_US) as writer:
        settle(writer)
        require_undamaged(writer)
        yield writer


def register_load(
    writer: Writer,
    to: OpenHome,
    table: TableRecord,
    source: str,
    kind: str,
    digest: str | None,
    options: Mapping[str, object],
    timing: Timing,
    files: Sequence[tuple[str, str]] = (),
    by_source: Mapping[str, Mapping[str, object]] | None = None,
) -> Load:
    """Register a load and return it. An unfinished load with the same digest is continued.

    For a load of several files, ``files`` contains the name and the digest of each file. Raises Conflict while another
    process or thread runs the load.
    """
    at = to.clock()
    unfinished = unfinished_load(writer, table, source, digest)
    if unfinished is None:
        load_id = writer.loads.begin(table.table_id, source, kind, digest, at, files)
    else:
        load_id = unfinished.load_id
    writer.loads.activate(load_id, at, hold=timing.holds)
    already = None if table.keys else writer.loads.stored_by(load_id)
    aside = {} if unfinished is None or table.keys else writer.quarantine.positions(load_id)
    return Load(to, table, load_id, options, timing, already, aside, by_source or {})


def unfinished_load(writer: Writer, table: TableRecord, source: str, digest: str | None) -> LoadRecord | None:
    """Return the unfinished load with this digest, or None. Raise Conflict while the load runs elsewhere."""
    before = () if digest is None else writer.loads.of_source(table.table_id, digest)
    unfinished = next((load for load in before if load.finished_at is None), None)
    if unfinished is not None and writer.loads.is_active(unfinished.load_id):
        raise Conflict(
            f"another process is already loading {source} into {table.name}",
            hint=(
                "Wait until the other load has ended. If its process died, repeat this load, which continues "
                "where it stopped."
            ),
        )
    return unfinished


def check_row_times(
    to: OpenHome, name: str, keys: Sequence[str], batches: Callable[[], Iterable[Batch]], timing: Timing
) -> int | None:
    """Check whether the times of a load's rows will be refused. The check runs before the load changes anything.

    Return the watermark used for the check, or None if no check is needed. If the watermark changes before the load
    begins, the caller must repeat the check. Raises Refused for late rows if ``timing`` refuses late rows. Raises
    ClockError for rows without an event time on a replay home whose clock is not set.
    """
    unset = replay_without_clock(to.catalog.home())
    if timing.ts_from is None and unset:
        raise clock_not_set()
    if timing.late != "refuse" and not (unset and timing.order == "arrival"):
        return None
    watermark = to.catalog.reservations.effective_watermark()
    table = next((each for each in to.catalog.tables.known() if folded(each.name) == folded(name)), None)
    late = 0
    for batch in batches():
        if unset and batch.rows.column(OWN_TIME).null_count:
            raise clock_not_set()
        if timing.late == "refuse":
            late += late_beforehand(to.catalog, table, batch.rows, watermark, tuple(keys))
    if late:
        raise late_refused(late, name, watermark)
    return watermark


def late_refused(count: int, name: str, watermark: int) -> Refused:
    """Return the error of a load that refuses ``count`` late rows."""
    rows, own = ("1 row", "its own time lies") if count == 1 else (f"{count:,} rows", "their own times lie")
    return Refused(
        f"{rows} for {name} would be late: {own} before {format_instant(watermark)}, and answers up to that "
        "instant are final",
        hint=(
            "Nothing was stored. --late stamp stores late rows with the present time; --late quarantine puts "
            "late rows into the quarantine."
        ),
    )


def store_batches(
    load: Load, batches: Iterable[Batch | Written], progress: Progress | None = None, *, skips: bool = True
) -> Summary:
    """Store the batches in order and finish the load. Rows whose keys are already stored are skipped.

    If ``skips`` is False, ``batches`` lack the rows that an earlier run of the load stored. Raises Conflict if another
    process stores the same load. Raises Refused for late rows if the load refuses late rows.
    """
    loads, clock = load.to.catalog.loads, load.to.clock
    try:
        with renewing(lambda: loads.renew(load.load_id, clock())):  # a batch may take longer than the mark lasts
            total = _store_all(load, batches, progress, skips)
        counts = (total.stored, total.known, total.quarantined, total.late)
        loads.finish(load.load_id, *counts, clock())
    finally:
        loads.deactivate(load.load_id)
    return total


def _store_all(load: Load, batches: Iterable[Batch | Written], progress: Progress | None, skips: bool) -> Summary:
    total = Summary(load.table.name)
    read, stored = 0, load.already
    for batch in _not_yet_stored(batches, load.already or 0) if skips else batches:
        if isinstance(batch, Written):
            done = _append_written(load, batch, stored)
            stored = (stored or 0) + done.stored
            total = _counted(total, done, 0)
            continue
        new = _quarantine(load, batch.rejected)
        total = replace(total, quarantined=total.quarantined + new, known=total.known + len(batch.rejected) - new)
        if batch.rows.num_rows:
            done, quarantined = _append(load, batch, stored)
            stored = None if stored is None else stored + done.stored
            total = _counted(total, done, quarantined)
        read += batch.read
        if progress is not None:
            progress(read)
    return replace(total, known=total.known + (load.already or 0))


def _counted(total: Summary, done: Appended, quarantined: int) -> Summary:
    first = [ts for ts in (total.first_ts, done.first_ts) if ts is not None]
    last = [ts for ts in (total.last_ts, done.last_ts) if ts is not None]
    return replace(
        total,
        stored=total.stored + done.stored,
        known=total.known + done.known,
        late=total.late + done.late,
        differ=total.differ + done.differ,
        quarantined=total.quarantined + quarantined,
        first_ts=min(first, default=None),
        last_ts=max(last, default=None),
    )


def _quarantine(load: Load, rejected: Sequence[RejectedRecord]) -> int:
    to = load.to

    def needed(record: RejectedRecord) -> dict[str, object]:
        return {**load.options, **load.by_source.get(record.source, {})}

    return quarantine(to.catalog, load.load_id, load.table.table_id, rejected, needed, to.clock())


def _append(load: Load, batch: Batch, expected: int | None) -> tuple[Appended, int]:
    to, name = load.to, load.table.name
    quarantined: list[int] = []

    def refuse(places: Sequence[int], watermark: int) -> None:
        raise late_refused(len(places), name, watermark)

    def keep(places: Sequence[int], watermark: int) -> None:
        records = dict(zip(batch.rows.column(SEQ).to_pylist(), batch.origins, strict=True))
        reason = f"late: the time of the row lies before {format_instant(watermark)}"
        quarantined.append(_quarantine(load, list(dict.fromkeys(replace(records[p], reason=reason) for p in places))))

    on_late = {"stamp": None, "refuse": refuse, "quarantine": keep}[load.timing.late]
    with writing_load(load) as writer:
        _check_alone(writer, load, expected)
        table = writer.tables.by_id(load.table.table_id)
        done = append(writer, table, load.load_id, batch.rows, to.clock(), table.keys or None, on_late)
    return done, sum(quarantined)


@contextmanager
def writing_load(load: Load) -> Iterator[Writer]:
    """Take the lease for a batch of a load, after settling the work of dead writers. Raises LeaseBusy."""
    to = load.to
    with (
        to.catalog.writing(f"ingest into {load.table.name}", to.clock, wait_us=LEASE_WAIT_US) as writer,
        renewing_lease(writer, to.clock),
    ):
        writer.loads.renew(load.load_id, to.clock())  # first, because settling forgets loads that are not renewed
        settle(writer)
        yield writer


def _check_alone(writer: Writer, load: Load, expected: int | None) -> None:
    if expected is not None and writer.loads.stored_by(load.load_id) != expected:
        raise Conflict(
            "another process is loading the same file",
            hint="Wait until the other load has ended, then repeat this load.",
        )


def _append_written(load: Load, written: Written, expected: int | None) -> Appended:
    with writing_load(load) as writer:
        _check_alone(writer, load, expected)
        done = append_written(writer, writer.tables.by_id(load.table.table_id), load.load_id, written)
        if not load.timing.holds:
            writer.loads.let_go(load.load_id)
    return done


def _not_yet_stored(batches: Iterable[Batch | Written], count: int) -> Iterator[Batch | Written]:
    """Yield the batches without the first ``count`` rows, which an earlier run of the load stored."""
    for batch in batches:
        if isinstance(batch, Written):
            yield batch
            continue
        skipped = min(count, batch.rows.num_rows)
        count -= skipped
        yield replace(batch, rows=batch.rows.slice(skipped), origins=batch.origins[skipped:])
