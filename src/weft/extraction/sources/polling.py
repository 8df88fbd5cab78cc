"""Poll a source: compare its rows with the open rows of its table, and record the difference as one transaction.

Feeds of changes (``poll_feed``) and mail (``mail``) are not compared: a poll records the changes or messages since the
last poll.

All changes have the same time and are stored by one Delta commit. An interrupted poll can be
repeated: the next poll compares the source with the changes that are already stored (design law 6). If a source cannot
be read completely, the poll changes nothing, and the catalog records the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from weft.catalog import Writer
from weft.catalog.records import ATTACHED, TableRecord
from weft.catalog.sources import SourceRecord, chosen_columns, renamed_columns
from weft.errors import ClockError, Conflict, ExtractionError, LeaseBusy, LeaseLost, WeftError
from weft.execution.current_rows_cache import current_rows, update_cache
from weft.execution.history_log import Recorded, record_one
from weft.execution.home import OpenHome
from weft.extraction.batches import Progress
from weft.extraction.sources.attached import take_versions
from weft.extraction.sources.mail import MAIL_KINDS, record_mail
from weft.extraction.sources.poll_feed import record_feed, same_feed
from weft.extraction.sources.postgres import read_postgres
from weft.extraction.sources.snapshot import FORMATS, Snapshot, file_path, is_unchanged, read_file
from weft.extraction.sources.source_lease import (
    Accepting,
    Polled,
    finished,
    polling,
    refuse_emptied,
    settle_polls,
    source_schema,
)
from weft.extraction.sources.sqlite import read_sqlite
from weft.instants import format_instant
from weft.storage.periods import change_at, difference, repeated_keys


def poll_feed(
    home: OpenHome,
    name: str,
    accepting: Accepting,
    *,
    now: int | None = None,
    progress: Progress | None = None,
) -> list[Polled]:
    """Poll one source and return the results. On a replay home, ``now`` (µs UTC) replaces the clock.

    Other sources of the same change feed are polled, too, because a transaction may change several tables. The result
    for the named source comes first.

    Raises NotFound, ClockError, LeaseBusy or StorageError. Raises ExtractionError or Refused if a source is
    incomplete, has become empty, repeats a key, or has other columns.
    """
    settle_polls(home)
    source = home.catalog.sources.named(name)
    if source.kind == ATTACHED:
        return [_attached(home, source)]
    clock = clock_of(home, now)
    sources = [source]
    if source.kind == "changes":
        others = [each for each in home.catalog.sources.all() if each.table_id != source.table_id]
        sources += [each for each in others if same_feed(each, source)]
    try:
        if source.kind == "changes":
            return record_feed(home, sources, clock, accepting, progress)
        if source.kind in MAIL_KINDS:
            return [record_mail(home, source, clock, progress)]
        return [_polled(home, source, clock, accepting, progress)]
    except (LeaseBusy, LeaseLost, Conflict):
        raise  # the source is not at fault
    except WeftError as error:
        for each in sources:
            home.catalog.sources.troubled(each.table_id, home.clock(), error.message)
        raise


def _attached(home: OpenHome, source: SourceRecord) -> Polled:
    try:
        return take_versions(home, source)
    except (LeaseBusy, LeaseLost):
        raise
    except WeftError as error:
        home.catalog.sources.troubled(source.table_id, home.clock(), error.message)
        raise


def clock_of(home: OpenHome, now: int | None) -> int:
    """Return the time of a poll: ``now`` on a replay home, otherwise the time of the home's clock.

    Raises ClockError if ``now`` is given on a wall-clock home, or is before the watermark.
    """
    if now is None:
        return home.now()
    record = home.catalog.home()
    if record.clock == "wall":
        raise ClockError("this home uses the wall clock, so a poll cannot have another time", hint="Omit --now.")
    if now < record.watermark:
        raise ClockError(
            f"this home is already at {format_instant(record.watermark)}, which is later than {format_instant(now)}",
            hint="A clock never goes back: poll at a later instant.",
        )
    return now


def _polled(
    home: OpenHome, source: SourceRecord, clock: int, accepting: Accepting, progress: Progress | None
) -> Polled:
    if source.kind in FORMATS and is_unchanged(file_path(source.location), source.seen):
        home.catalog.sources.polled(source.table_id, home.clock(), source.open_rows, source.seen)
        return Polled(source.name, 0, 0, source.open_rows)
    table = home.catalog.tables.by_id(source.table_id)
    snapshot = _read(source, table, accepting, progress)
    if not snapshot.rows.num_rows:
        snapshot = _without_added(snapshot)
    _refuse_repeated(snapshot.rows, table.keys, source)
    with polling(home, source, snapshot.added) as (writer, table):
        at_least = _requested_instant(home, source, snapshot, clock)
        done, open_rows = _record(writer, home, source, table, snapshot, at_least, accepting)
        late = int(done.first is not None and done.first > at_least)
        return finished(writer, home, source, done, open_rows, snapshot.seen, late)


def _without_added(snapshot: Snapshot) -> Snapshot:
    """Return an empty snapshot without its added columns. The poll that reads the first row adds the new columns."""
    added = [name for name, _ in snapshot.added]
    columns = tuple(each for each in snapshot.columns if each[0] not in added)
    return replace(snapshot, rows=snapshot.rows.drop_columns(added), columns=columns, added=())


def _requested_instant(home: OpenHome, source: SourceRecord, snapshot: Snapshot, clock: int) -> int:
    """Return the file's modification time if ``stamps`` is "file", otherwise the time of the clock."""
    wall = home.catalog.home().clock == "wall"
    now = max(clock, home.clock()) if wall else clock
    if source.stamps != "file" or snapshot.changed_at is None:
        return now
    return min(snapshot.changed_at, now) if wall else snapshot.changed_at


def _read(source: SourceRecord, table: TableRecord, accepting: Accepting, progress: Progress | None) -> Snapshot:
    chosen = chosen_columns(source.options)
    schema, of = source_schema(table), source.options.get("table", "")
    if source.kind == "postgres":
        return read_postgres(source.location, of, schema, chosen, evolve=accepting.evolve, progress=progress)
    path = file_path(source.location)
    if source.kind == "sqlite":
        return read_sqlite(path, of, schema, chosen, evolve=accepting.evolve, progress=progress)
    how: dict[str, Any] = {"evolve": accepting.evolve, "progress": progress}
    rename = renamed_columns(source.options)
    return read_file(path, source.kind, schema, chosen, source.seen, rename=rename, **how)


def _refuse_repeated(rows: pa.Table, keys: Sequence[str], source: SourceRecord) -> None:
    repeated = repeated_keys(rows, keys)
    if repeated:
        keys_found = "; ".join(f"{', '.join(map(str, values))}: {count:,} rows" for values, count in repeated)
        raise ExtractionError(
            f"{source.name} has several rows with the same key ({', '.join(keys)}): {keys_found}",
            where=source.location,
            hint="Nothing was changed. Add the source again with more key columns, so that the key identifies one row.",
        )


def _record(
    writer: Writer,
    home: OpenHome,
    source: SourceRecord,
    table: TableRecord,
    snapshot: Snapshot,
    at_least: int,
    accepting: Accepting,
) -> tuple[Recorded, int]:
    there = current_rows(writer, table)
    refuse_emptied(there, snapshot.rows.num_rows, source.name, source.location, empty=accepting.empty)
    ended, begun = difference(there, snapshot.rows)
    open_rows = there.num_rows - ended.num_rows + begun.num_rows
    if not ended.num_rows and not begun.num_rows:
        return Recorded(0, 0), open_rows
    at = home.clock()
    load_id = writer.loads.begin(table.table_id, source.location, "poll", None, at)
    done = record_one(
        writer, table, load_id, at_least, lambda floor: change_at(ended, begun, floor, table.stored), snapshot.seen
    )
    update_cache(writer, table.table_id, there, done.rows)
    writer.loads.finish(
        load_id, done.began + done.ended, 0, 0, int(done.first is not None and done.first > at_least), at
    )
    return done, open_rows
