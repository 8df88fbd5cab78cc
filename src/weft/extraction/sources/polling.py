"""Polling a source: what it holds now compared with the open rows of its tracked table; the change is one transaction.

All that begins and ends shares one instant and one Delta commit.  A poll that died is simply made again: what it had
stored is no change any more (design law 6).  What cannot be read as a whole changes nothing, and the catalog says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord, chosen_columns, renamed_columns
from weft.errors import ClockError, Conflict, ExtractionError, LeaseBusy, LeaseLost, WeftError
from weft.execution.current_rows_cache import keep, open_now
from weft.execution.history_log import Recorded, record
from weft.execution.home import Home
from weft.extraction.batches import Progress
from weft.extraction.sources.poll_feed import follow, same_feed
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
    home: Home,
    name: str,
    accepting: Accepting,
    *,
    now: int | None = None,
    progress: Progress | None = None,
) -> list[Polled]:
    """Polls one source at the home's clock, or at ``now`` (µs UTC; replay homes only).

    Those that the same feed of changes tells of are polled with it, and come after it: a transaction may touch several.
    Raises NotFound, ClockError; ExtractionError and Refused for a source that cannot be read as a whole, is empty
    though it was not, has two rows of one key, or other columns: the catalog then says so, too; LeaseBusy,
    StorageError.
    """
    settle_polls(home)
    source = home.catalog.sources.named(name)
    clock = clock_of(home, now)
    sources = [source]
    if source.kind == "changes":
        others = [each for each in home.catalog.sources.all() if each.table_id != source.table_id]
        sources += [each for each in others if same_feed(each, source)]
    try:
        if source.kind == "changes":
            return follow(home, sources, clock, accepting, progress)
        return [_polled(home, source, clock, accepting, progress)]
    except (LeaseBusy, LeaseLost, Conflict):
        raise  # the source is all right
    except WeftError as error:
        for each in sources:
            home.catalog.sources.troubled(each.table_id, home.clock(), error.message)
        raise


def clock_of(home: Home, now: int | None) -> int:
    """The instant of a poll: the wall's clock, or a replay home's, which may be told; raises ClockError."""
    if now is None:
        return home.now()
    found = home.catalog.home()
    if found.clock == "wall":
        raise ClockError("this home's clock is the wall's: a poll is now", hint="Leave --now out.")
    if now < found.watermark:
        raise ClockError(
            f"this home has gone on to {format_instant(found.watermark)}, and {format_instant(now)} is before it",
            hint="A clock never goes back: poll at a later instant.",
        )
    return now


def _polled(home: Home, source: SourceRecord, clock: int, accepting: Accepting, progress: Progress | None) -> Polled:
    if source.kind in FORMATS and is_unchanged(file_path(source.location), source.seen):
        home.catalog.sources.polled(source.table_id, home.clock(), source.open_rows, source.seen)
        return Polled(source.name, 0, 0, source.open_rows)
    table = home.catalog.tables.by_id(source.table_id)
    found = _read(source, table, accepting, progress)
    if not found.rows.num_rows:
        found = _without_added(found)
    _refuse_repeated(found.rows, table.keys, source)
    with polling(home, source, found.added) as (writer, table):
        asked = _asked(home, source, found, clock)
        done, open_rows = _record(writer, home, source, table, found, asked, accepting)
        late = int(done.first is not None and done.first > asked)
        return finished(writer, home, source, done, open_rows, found.seen, late)


def _without_added(found: Snapshot) -> Snapshot:
    """A snapshot without rows changes no columns: it may be refused, and the columns come with the first row."""
    added = [name for name, _ in found.added]
    columns = tuple(each for each in found.columns if each[0] not in added)
    return replace(found, rows=found.rows.drop_columns(added), columns=columns, added=())


def _asked(home: Home, source: SourceRecord, found: Snapshot, clock: int) -> int:
    """The instant that a snapshot asks for; the wall may have gone on while it was read."""
    wall = home.catalog.home().clock == "wall"
    now = max(clock, home.clock()) if wall else clock
    if source.stamps != "file" or found.changed_at is None:
        return now
    return min(found.changed_at, now) if wall else found.changed_at


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
        told = "; ".join(f"{', '.join(map(str, values))}: {count:,} rows" for values, count in repeated)
        raise ExtractionError(
            f"{source.name} has several rows with one key ({', '.join(keys)}): {told}",
            where=source.location,
            hint="Nothing was changed. A key has one row at a time: name more columns of it when the source is added.",
        )


def _record(
    writer: Writer,
    home: Home,
    source: SourceRecord,
    table: TableRecord,
    found: Snapshot,
    asked: int,
    accepting: Accepting,
) -> tuple[Recorded, int]:
    """What of the snapshot was recorded, and how many rows are open then."""
    there = open_now(writer, table)
    refuse_emptied(there, found.rows.num_rows, source.name, source.location, empty=accepting.empty)
    ended, begun = difference(there, found.rows)
    open_rows = there.num_rows - ended.num_rows + begun.num_rows
    if not ended.num_rows and not begun.num_rows:
        return Recorded(0, 0), open_rows
    at = home.clock()
    load_id = writer.loads.begin(table.table_id, source.location, "poll", None, at)
    done = record(writer, table, load_id, asked, lambda floor: change_at(ended, begun, floor, table.stored), found.seen)
    keep(writer, table.table_id, there, done.rows)
    writer.loads.finish(load_id, done.began + done.ended, 0, 0, int(done.first is not None and done.first > asked), at)
    return done, open_rows
