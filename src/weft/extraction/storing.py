"""One load: batches into a table and into quarantine, each under the writer's lease for as long as it takes."""

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
    append,
    late_beforehand,
    no_clock,
    replay_without_clock,
    settle,
)
from weft.execution.home import Home, kept
from weft.extraction.batches import Batch, Progress, Rejected
from weft.extraction.quarantine import quarantine
from weft.extraction.timing import DEFAULT_TIMING, Timing
from weft.instants import format_instant
from weft.printable import Brief
from weft.storage.verify import require_undamaged

LEASE_WAIT_US: Final = 120 * 1_000_000
"""How long a batch waits for another writer, a tick for example, before it gives up (LeaseBusy), in microseconds."""


@dataclass(frozen=True, repr=False)
class Summary(Brief):
    """What a load did, in rows: new ones stored, those that were known, in quarantine, and ``late`` among the stored.

    Of the known ones ``differ`` have other values than the row that is stored: a table is append-only.  A row is late
    where its own time lies before F (design section 1): it got F.  ``first_ts`` and ``last_ts`` bound
    what was stored (None: nothing).  ``already_loaded`` says that all that was named was loaded before; ``known`` then
    counts its rows.  ``notes`` say in words what was made of the sources that their reader may not expect.
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
        told = {"known": self.known, "late": self.late, "in quarantine": self.quarantined}
        counts = ", ".join([f"{self.stored:,} stored", *(f"{count:,} {what}" for what, count in told.items() if count)])
        return f"{self.table}: {counts}" + ("; all was loaded before" if self.already_loaded else "")


@dataclass(frozen=True)
class Load:
    """A load that is registered in the catalog.

    ``options`` is what a retry of its rejected records needs, with that of each source in ``by_source``.  ``already``
    is None for a table with keys, else how many rows of this very load an earlier run has stored; ``aside`` is where,
    by source, the records lay that it kept in quarantine.
    """

    to: Home
    table: TableRecord
    load_id: int
    options: Mapping[str, object]
    timing: Timing = DEFAULT_TIMING
    already: int | None = None
    aside: Mapping[str, frozenset[str]] = field(default_factory=dict)
    by_source: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@contextmanager
def beginning(to: Home, table: str) -> Iterator[Writer]:
    """The lease, to register a load into ``table``, what dead writers left being settled.

    Raises StorageError where the store is damaged, LeaseBusy.
    """
    with to.catalog.writing(f"begin to load into {table}", to.clock, wait_us=LEASE_WAIT_US) as writer:
        settle(writer)
        require_undamaged(writer)
        yield writer


def registered(
    writer: Writer,
    to: Home,
    table: TableRecord,
    source: str,
    kind: str,
    digest: str | None,
    options: Mapping[str, object],
    timing: Timing,
    files: Sequence[tuple[str, str]] = (),
    by_source: Mapping[str, Mapping[str, object]] | None = None,
) -> Load:
    """The load of a source, the only one of its digest: one that died goes on where it was.

    ``files``, with the digest of each, are those that it is made of, where there are several.  Raises Conflict while
    another process, or another thread, is loading it.
    """
    at = to.clock()
    unfinished = begun_before(writer, table, source, digest)
    if unfinished is None:
        load_id = writer.loads.begin(table.table_id, source, kind, digest, at, files)
    else:
        load_id = unfinished.load_id
    writer.loads.activate(load_id, at, hold=timing.holds)
    already = None if table.keys else writer.loads.stored_by(load_id)
    aside = {} if unfinished is None or table.keys else writer.quarantine.positions(load_id)
    return Load(to, table, load_id, options, timing, already, aside, by_source or {})


def begun_before(writer: Writer, table: TableRecord, source: str, digest: str | None) -> LoadRecord | None:
    """The load of that digest that has not come to its end; raises Conflict where somebody is at work on it."""
    before = () if digest is None else writer.loads.of_source(table.table_id, digest)
    unfinished = next((load for load in before if load.finished_at is None), None)
    if unfinished is not None and writer.loads.is_active(unfinished.load_id):
        raise Conflict(
            f"{source} is being loaded into {table.name} already, by another process",
            hint="Wait for it; if it died, run this again: the load goes on where it was.",
        )
    return unfinished


def looked_through(
    to: Home, name: str, keys: Sequence[str], batches: Callable[[], Iterable[Batch]], timing: Timing
) -> int | None:
    """Reads all that is to be loaded where it may be refused for a row's time, before anything is changed.

    The instant F as of which it was looked through, None where it need not be: it is to be the same when the load
    begins.  Raises Refused for late rows where ``timing`` says so, and ClockError for rows without a time of their own
    on a replay home that has no clock yet.
    """
    unset = replay_without_clock(to.catalog.home())
    if timing.ts_from is None and unset:
        raise no_clock()
    if timing.late != "refuse" and not (unset and timing.order == "arrival"):
        return None
    watermark = to.catalog.reservations.effective_watermark()
    table = next((each for each in to.catalog.tables.known() if folded(each.name) == folded(name)), None)
    late = 0
    for batch in batches():
        if unset and batch.rows.column(OWN_TIME).null_count:
            raise no_clock()
        if timing.late == "refuse":
            late += late_beforehand(to.catalog, table, batch.rows, watermark, tuple(keys))
    if late:
        raise late_refused(late, name, watermark)
    return watermark


def late_refused(count: int, name: str, watermark: int) -> Refused:
    """What to say of a load that takes no late rows and has some."""
    rows, own = ("1 row", "its own time lies") if count == 1 else (f"{count:,} rows", "their own times lie")
    return Refused(
        f"{rows} for {name} would be late: {own} before {format_instant(watermark)}, "
        "up to which this home has answered",
        hint="Nothing was stored. --late stamp takes them as arrived now, --late quarantine keeps them aside.",
    )


def store_batches(load: Load, batches: Iterable[Batch], progress: Progress | None = None) -> Summary:
    """Stores the batches in their order and finishes the load; rows are told apart by the table's keys.

    Raises Conflict where another process is found to be storing the same load, Refused for late rows where the load's
    timing says so.
    """
    total = Summary(load.table.name)
    read, stored = 0, load.already
    try:
        for batch in batches if load.already is None else _not_yet_stored(batches, load.already):
            new = _quarantine(load, batch.rejected)
            total = replace(total, quarantined=total.quarantined + new, known=total.known + len(batch.rejected) - new)
            if batch.rows.num_rows:
                done, kept = _append(load, batch, stored)
                stored = None if stored is None else stored + done.stored
                total = _counted(total, done, kept)
            read += batch.read
            if progress is not None:
                progress(read)
        total = replace(total, known=total.known + (load.already or 0))
        counts = (total.stored, total.known, total.quarantined, total.late)
        load.to.catalog.loads.finish(load.load_id, *counts, load.to.clock())
    finally:
        load.to.catalog.loads.deactivate(load.load_id)
    return total


def _counted(total: Summary, done: Appended, quarantined: int) -> Summary:
    """The sums with one batch more."""
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


def _quarantine(load: Load, rejected: Sequence[Rejected]) -> int:
    to = load.to

    def needed(record: Rejected) -> dict[str, object]:
        return {**load.options, **load.by_source.get(record.source, {})}

    return quarantine(to.catalog, load.load_id, load.table.table_id, rejected, needed, to.clock())


def _append(load: Load, batch: Batch, expected: int | None) -> tuple[Appended, int]:
    """One batch under the lease: what became of it, and how many of its late records went to quarantine."""
    to, name = load.to, load.table.name
    quarantined: list[int] = []

    def refuse(places: Sequence[int], watermark: int) -> None:
        raise late_refused(len(places), name, watermark)

    def keep(places: Sequence[int], watermark: int) -> None:
        records = dict(zip(batch.rows.column(SEQ).to_pylist(), batch.origins, strict=True))
        reason = f"late: its own time lies before {format_instant(watermark)}"
        quarantined.append(_quarantine(load, list(dict.fromkeys(replace(records[p], reason=reason) for p in places))))

    on_late = {"stamp": None, "refuse": refuse, "quarantine": keep}[load.timing.late]
    with to.catalog.writing(f"ingest into {name}", to.clock, wait_us=LEASE_WAIT_US) as writer, kept(writer, to.clock):
        settle(writer)
        if expected is not None and writer.loads.stored_by(load.load_id) != expected:
            raise Conflict("another process is loading the same file", hint="Wait for it, then run this again.")
        now = to.clock()
        writer.loads.renew(load.load_id, now)
        table = writer.tables.by_id(load.table.table_id)
        done = append(writer, table, load.load_id, batch.rows, now, table.keys or None, on_late)
    return done, sum(quarantined)


def _not_yet_stored(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """The batches without the first ``count`` rows, which an earlier run of the load has stored."""
    for batch in batches:
        skipped = min(count, batch.rows.num_rows)
        count -= skipped
        yield replace(batch, rows=batch.rows.slice(skipped), origins=batch.origins[skipped:])
