"""Load mail and files into tables. Each record is either stored once, already present, or quarantined.

To recover from an interrupted load, run the load again. Keys identify the rows of mail and of keyed tables. A load
without keys is identified by the digest of the file. A repeated load continues after the committed rows (design law 6).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from weft.catalog import CatalogParts, Writer
from weft.catalog.records import LoadRecord, TableRecord
from weft.errors import Conflict, NotFound, Refused
from weft.execution.engines.choosing import Choice
from weft.execution.home import OpenHome
from weft.extraction.batches import DEFAULT_TIMING, Batch, Progress, Timing, arrow_schema, batches_of, printable
from weft.extraction.distributed import Executors, readers
from weft.extraction.files.cutting import BY_BLOCKS
from weft.extraction.files.given_files import Given, InputFiles, input_files
from weft.extraction.files.objects import downloaded
from weft.extraction.files.options import DEFAULT_OPTIONS, FileOptions
from weft.extraction.files.probe import InputFile
from weft.extraction.files.source import FileSource, digests, open_files
from weft.extraction.mail.arrival_order import read_mail
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.mail.sources import mail_paths
from weft.extraction.merging import BEFORE_ALL, Timed, in_turn, merged
from weft.extraction.storing import (
    Load,
    Summary,
    check_row_times,
    loading_lease,
    register_load,
    store_batches,
    unfinished_load,
)

_NAMED: Final = re.compile(rb"(?im)^Message-ID:")
_HEADERS: Final = 1 << 16
"""The search for headers is limited to this number of bytes."""


def ingest_mail(
    to: OpenHome,
    paths: Sequence[str | os.PathLike[str]],
    table: str = "msgs",
    *,
    newsgroup: str | None = None,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Load mail into ``table``, and create the table if necessary.

    See :func:`weft.extraction.mail.arrival_order.read_mail`. Raises ExtractionError for a path that cannot be read.
    Raises Refused if the paths contain no message, if the table is not a mail table, or if ``timing`` forbids a row.
    Raises LeaseBusy or StorageError.
    """
    with mail_paths(paths) as (readable, names):
        return _ingest_mail(to, readable, names, table, newsgroup, timing, progress)


def _ingest_mail(
    to: OpenHome,
    paths: Sequence[Path],
    names: Mapping[Path, str],
    table: str,
    newsgroup: str | None,
    timing: Timing,
    progress: Progress | None,
) -> Summary:
    at, origins = to.clock(), timing.late == "quarantine"

    def read() -> Iterator[Batch]:
        items = read_mail(paths, newsgroup=newsgroup, timing=timing, at=at, origins=origins, names=names)
        return batches_of(items, MAIL_COLUMNS)

    batches = read()
    first = list(islice(batches, 1))
    _require_messages(first)
    mail_table(to.catalog, table)
    source = ", ".join(names.get(path) or printable(str(path)) for path in paths)
    options = {"kind": "mail", "newsgroup": newsgroup, **timing.options()}
    while True:
        watermark = check_row_times(to, table, MAIL_KEY, read, timing)
        with loading_lease(to, table) as writer:
            if watermark is not None and watermark != writer.reservations.effective_watermark():
                continue  # a tick has run in the meantime
            record = mail_table(writer, table) or writer.tables.create(table, MAIL_COLUMNS, MAIL_KEY, timing.ts_from)
            load = register_load(writer, to, record, source, "mail", None, options, timing)
        return store_batches(load, chain(first, batches), progress)


def _require_messages(first: Sequence[Batch]) -> None:
    if first and not first[0].rows.num_rows and first[0].rejected:
        if any(_NAMED.search(each.raw[:_HEADERS]) for each in first[0].rejected):
            return
        bad = first[0].rejected[0]
        raise Refused(
            f"no message could be read: {bad.reason}",
            where=f"{bad.source}, {bad.position}" if bad.position else bad.source,
            hint="Name mbox files, folders of articles, or tar archives of such files. `weft ingest file` loads CSV, "
            "JSON lines and Parquet.",
        )


def mail_table(catalog: CatalogParts, name: str) -> TableRecord | None:
    """Return the mail table with this name, or None if there is no such table. Raise Refused for another table."""
    table_record = existing(catalog, name)
    if table_record is None:
        return None
    columns = [
        (column.name, column.type) for column in table_record.schema.columns if column.name != table_record.schema.start
    ]
    if columns != list(MAIL_COLUMNS) or table_record.keys != MAIL_KEY:
        raise Refused(f"{table_record.name} is not a mail table", hint="Choose another name with --table.")
    return table_record


def existing(catalog: CatalogParts, name: str) -> TableRecord | None:
    """Return the table with this name, or None if it does not exist. Raise Refused for a tracked table."""
    try:
        table_record = catalog.tables.named(name)
    except NotFound:
        return None
    return untracked(table_record)


def untracked(table_record: TableRecord) -> TableRecord:
    """Raise Refused for a tracked or an attached table, which accepts no loads. Return any other table."""
    if table_record.attached:
        raise Refused(
            f"{table_record.name} is an attached table, and only the program that writes its Delta table adds rows",
            hint="Load the rows into another table.",
        )
    if table_record.tracked:
        raise Refused(
            f"{table_record.name} is a tracked table, and only its source changes the table",
            hint=f"Update the table with `weft source poll {table_record.name}`, or load the files into another table.",
        )
    return table_record


def ingest_file(
    to: OpenHome,
    items: Given | Sequence[Given],
    table: str,
    *,
    keys: Sequence[str] | None = None,
    evolve: bool = False,
    options: FileOptions = DEFAULT_OPTIONS,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Load CSV, JSON lines and Parquet files into ``table`` as one load. Create the table if necessary.

    ``items`` are files, folders, patterns, URIs of objects, or byte streams. If ``timing.ts_from`` is set, the rows of
    several files are merged by their event times. If ``timing.ts_from`` is None, the files are loaded one after
    another. A file that was loaded before is skipped.

    The first load of a table sets its ``keys``. In a table with keys, rows that are already stored are skipped. If
    ``evolve`` is True, new columns of the files are added to the table. On a wall-clock home, a row more than
    ``timing.future_us`` ahead of the clock goes to quarantine.

    Raises NotFound, ExtractionError, LeaseBusy or StorageError. Raises Refused if the columns or keys do not match the
    table, or if ``timing`` forbids a row. Raises Conflict while another load reads one of the files.
    """
    several = [items] if isinstance(items, str | os.PathLike) or not isinstance(items, Sequence) else items
    with input_files(several, to.catalog.data.access) as found_here:
        executors, choice = _readers(to, found_here.files, table, keys, timing, options)
        files = found_here.files if executors is not None else downloaded(found_here.files)
        known = {file: digests(file.path) for file in files} if executors is None else _digests(to, table, executors)
        while True:
            new, before = _not_loaded(to, table, known)
            if not new:
                counts = {load.load_id: load.stored + load.known for load in before}
                return Summary(to.catalog.tables.named(table).name, known=sum(counts.values()), already_loaded=True)
            table_record = existing(to.catalog, table)
            schema = None if table_record is None else table_record.schema
            opening = open_files if executors is None else executors.open_files
            sources = opening(list(new), schema, ts_from=timing.ts_from, evolve=evolve, options=options)
            read = partial(_batches, to, sources, timing)
            own = tuple(keys or ()) if table_record is None else table_record.keys
            watermark = check_row_times(to, table, own, read, timing)
            batches = read() if table_record is None and executors is None else None
            # Read a batch before creating the table. An unreadable file then creates no table.
            first = [] if batches is None else list(islice(batches, 1))
            apart = executors is not None and timing.ts_from is not None
            load = _file_load(to, table, table_record, sources, keys, [*new.values()], timing, watermark, apart)
            if load is not None:
                break
        if executors is not None:
            done = store_batches(load, executors.batches(load, sources), progress, skips=False)
        else:
            done = store_batches(load, read(load.aside) if batches is None else chain(first, batches), progress)
        return replace(done, notes=_notes(found_here, sources, len(files) - len(new), choice))


def _notes(given: InputFiles, sources: Sequence[FileSource], skipped: int, choice: Choice | None) -> tuple[str, ...]:
    notes = [*(str(note) for source in sources for note in source.notes), *given.notes()]
    if skipped:
        notes.append(f"{skipped} of {len(sources) + skipped} files were skipped: their content was loaded before")
    if choice is not None:
        notes.append(choice.sentence("This load", "ran"))
    return tuple(dict.fromkeys(notes))


def _readers(
    to: OpenHome,
    files: Sequence[InputFile],
    table: str,
    keys: Sequence[str] | None,
    timing: Timing,
    options: FileOptions,
) -> tuple[Executors | None, Choice | None]:
    there = existing(to.catalog, table)
    return readers(to, files, (keys or ()) if there is None else there.keys, timing, options)


def _digests(to: OpenHome, name: str, executors: Executors) -> dict[InputFile, tuple[str, ...]]:
    there = existing(to.catalog, name)
    return executors.digests(there is not None and to.catalog.loads.has_files(there.table_id, besides=BY_BLOCKS))


def _not_loaded(
    to: OpenHome, name: str, digests: Mapping[InputFile, tuple[str, ...]]
) -> tuple[dict[InputFile, tuple[str, ...]], tuple[LoadRecord, ...]]:
    table_record = existing(to.catalog, name)
    every = {each for known in digests.values() for each in known}
    before = {} if table_record is None else to.catalog.loads.of_files(table_record.table_id, every)
    done = {own: load for own, load in before.items() if load.finished_at is not None}
    new: dict[tuple[str, ...], InputFile] = {}
    for file, known in digests.items():
        if not any(each in done for each in known):
            new.setdefault(known, file)
    return {file: known for known, file in new.items()}, tuple(done.values())


def _file_load(
    to: OpenHome,
    name: str,
    known: TableRecord | None,
    sources: Sequence[FileSource],
    keys: Sequence[str] | None,
    known_by: Sequence[tuple[str, ...]],
    timing: Timing,
    watermark: int | None,
    apart: bool,
) -> Load | None:
    """Register the load and return it. ``known_by`` has the digests of each file. The first is recorded.

    ``apart`` is True if several files are not merged although their rows have event times. Such a load has a digest of
    its own, so that only executors continue it: the order determines which rows are left out. It holds the watermark
    until it is done, because a tick between two files would make rows of the later file late.

    Return None if the table, the loads of the files or the watermark have changed in the meantime. The watermark is not
    checked if ``watermark`` is None.
    """
    digests = [own for own, *_ in known_by]
    digest_of_all = (
        digests[0]
        if len(digests) == 1
        else hashlib.sha256(" ".join([*digests, *["apart"] * apart]).encode()).hexdigest()
    )
    files = [(source.name, own) for source, own in zip(sources, digests, strict=True)] if len(digests) > 1 else []
    names = ", ".join(source.name for source in sources)
    with loading_lease(to, name) as writer:
        now = existing(writer, name)
        if (now and now.schema) != (known and known.schema):
            return None
        if watermark is not None and watermark != writer.reservations.effective_watermark():
            return None
        if now is not None:
            before = writer.loads.of_files(now.table_id, {each for known in known_by for each in known})
            if any(load.finished_at is not None for load in before.values()):
                return None
            _refuse_half_loaded(to, now, before, digest_of_all, names)
            unfinished_load(writer, now, names, digest_of_all)
        record = _file_table(writer, name, now, sources[0], timing.ts_from, keys)
        by_source = {source.name: source.options(timing) for source in sources}
        held = replace(timing, hold=timing.hold or (apart and len(digests) > 1))
        return register_load(writer, to, record, names, "file", digest_of_all, timing.options(), held, files, by_source)


def _refuse_half_loaded(
    to: OpenHome, table: TableRecord, before: Mapping[str, LoadRecord], digest_of_all: str, names: str
) -> None:
    """Raise Conflict if another load of one of the files is unfinished and the table has no keys."""
    other = next((load for load in before.values() if load.digest != digest_of_all), None)
    if other is not None and not table.keys:
        again = "Repeat the unfinished load, which continues where it stopped, or undo the load"
        if other.source == names:
            again = "Executors began the load and this process would go on, or the reverse. Undo the load"
        raise Conflict(
            f"a load of {to.seen().source(other.source)} into {table.name} is unfinished, and has a file in common "
            "with this load",
            hint=f"{again}: weft loads undo {other.load_id}",
        )


def _batches(
    to: OpenHome,
    sources: Sequence[FileSource],
    timing: Timing,
    aside: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Iterator[Batch]:
    """Yield the rows of all files except the records in ``aside``. Files with event times are merged."""
    latest = to.clock() + timing.future_us if to.catalog.home().clock == "wall" else None

    def read(source: FileSource) -> Iterator[Batch]:
        left_out = aside.get(source.name, frozenset())
        return source.batches(timing, latest, origins=timing.late == "quarantine", aside=left_out)

    if len(sources) == 1:
        return read(sources[0])
    if timing.ts_from is None:
        return in_turn([partial(read, source) for source in sources])
    begins = (source.begins(timing) for source in sources)
    timed = [
        Timed(BEFORE_ALL if first is None else first, partial(read, source))
        for source, first in zip(sources, begins, strict=True)
    ]
    return merged(timed, arrow_schema(sources[0].columns).empty_table())


def _file_table(
    writer: Writer,
    name: str,
    table_record: TableRecord | None,
    source: FileSource,
    ts_from: str | None,
    keys: Sequence[str] | None,
) -> TableRecord:
    if table_record is None:
        stored = {column.lower() for column, _ in source.columns}
        ts_column = ts_from if ts_from is not None and ts_from.lower() in stored else None
        return writer.tables.create(name, source.columns, keys, ts_column)
    if keys is not None and [key.lower() for key in keys] != [key.lower() for key in table_record.keys]:
        has = ", ".join(table_record.keys) or "none"
        raise Refused(
            f"the key of {table_record.name} cannot change: {has}", hint="Omit --key, or choose another table."
        )
    added, extended = source.matched.added, source.matched.extended
    return writer.tables.evolve(name, added, extended) if added or extended else table_record
