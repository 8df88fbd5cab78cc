"""Loading: mail and files into tables, each record stored, known or in quarantine, and none twice.

A load that died is simply run again: mail and keyed tables know their rows by their keys; a file without keys is
known by its digest, and goes on after the rows that it has committed (design law 6).
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
from weft.execution.home import Home
from weft.extraction.batches import Batch, Progress, arrow_schema, batches_of, printable
from weft.extraction.files.given_files import Given, found_files
from weft.extraction.files.options import DEFAULT_OPTIONS, FileOptions
from weft.extraction.files.probe import GivenFile
from weft.extraction.files.source import FileSource, digest, open_files
from weft.extraction.mail.arrival_order import read_mail
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.mail.sources import mail_paths
from weft.extraction.merging import BEFORE_ALL, Timed, in_turn, merged
from weft.extraction.storing import (
    Load,
    Summary,
    beginning,
    begun_before,
    looked_through,
    registered,
    store_batches,
)
from weft.extraction.timing import DEFAULT_TIMING, Timing

_NAMED: Final = re.compile(rb"(?im)^Message-ID:")
_HEADERS: Final = 1 << 16
"""How far into a record its headers are looked for, in bytes."""


def ingest_mail(
    to: Home,
    paths: Sequence[str | os.PathLike[str]],
    table: str = "msgs",
    *,
    newsgroup: str | None = None,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Loads mail into ``table``, made where it is not there; see :func:`weft.extraction.mail.arrival_order.read_mail`.

    Raises ExtractionError for a path that cannot be read, Refused where nothing in the paths is a message, for a table
    that is not one of mail and as ``timing`` says, LeaseBusy, StorageError.
    """
    with mail_paths(paths) as (readable, names):
        return _ingest_mail(to, readable, names, table, newsgroup, timing, progress)


def _ingest_mail(
    to: Home,
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
    _mail_table(to.catalog, table)
    source = ", ".join(names.get(path) or printable(str(path)) for path in paths)
    options = {"kind": "mail", "newsgroup": newsgroup, **timing.options()}
    while True:
        watermark = looked_through(to, table, MAIL_KEY, read, timing)
        with beginning(to, table) as writer:
            if watermark is not None and watermark != writer.reservations.effective_watermark():
                continue  # a tick has gone on meanwhile
            record = _mail_table(writer, table) or writer.tables.create(table, MAIL_COLUMNS, MAIL_KEY, timing.ts_from)
            load = registered(writer, to, record, source, "mail", None, options, timing)
        return store_batches(load, chain(first, batches), progress)


def _require_messages(first: Sequence[Batch]) -> None:
    """Raises Refused where nothing in the first batch of a load is a message, nor looks like one that is damaged."""
    if first and not first[0].rows.num_rows and first[0].rejected:
        if any(_NAMED.search(each.raw[:_HEADERS]) for each in first[0].rejected):
            return
        bad = first[0].rejected[0]
        raise Refused(
            f"no message could be read: {bad.reason}",
            where=f"{bad.source}, {bad.position}" if bad.position else bad.source,
            hint="Name mbox files, folders of articles, or tar archives of them. `weft ingest file` loads CSV, JSON "
            "lines and Parquet.",
        )


def _mail_table(catalog: CatalogParts, name: str) -> TableRecord | None:
    """The table of that name, None where there is none; raises Refused for one that is not of mail."""
    found = existing(catalog, name)
    if found is None:
        return None
    columns = [(column.name, column.type) for column in found.schema.columns if column.name != found.schema.start]
    if columns != list(MAIL_COLUMNS) or found.keys != MAIL_KEY:
        raise Refused(f"{found.name} is not a table of mail", hint="Choose another name with --table.")
    return found


def existing(catalog: CatalogParts, name: str) -> TableRecord | None:
    """The table of that name, or None; raises Refused for one that is not loaded into."""
    try:
        found = catalog.tables.named(name)
    except NotFound:
        return None
    return untracked(found)


def untracked(found: TableRecord) -> TableRecord:
    """The table; raises Refused for one that is not loaded into."""
    if found.tracked:
        raise Refused(
            f"{found.name} is a tracked table: it records what its source holds",
            hint=f"`weft source poll {found.name}` does; load files into another table.",
        )
    return found


def ingest_file(
    to: Home,
    given: Given | Sequence[Given],
    table: str,
    *,
    keys: Sequence[str] | None = None,
    evolve: bool = False,
    options: FileOptions = DEFAULT_OPTIONS,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Loads CSV, JSON lines and Parquet into ``table``, as one load; the first load makes it and infers its types.

    ``given`` are files, folders and patterns, or streams of bytes; several files are merged by the rows' own times,
    where these are named, else follow one another.  Idempotent by each file's digest; with ``keys`` (fixed by the first
    load) also row by row.  ``evolve`` adds the files' new columns to the table.  On a wall home a row too far ahead of
    the clock (``timing.future_us``) goes to quarantine.  Raises NotFound, ExtractionError, Refused for other columns or
    other keys and as ``timing`` says, Conflict while one of the files is being loaded, LeaseBusy, StorageError.
    """
    several = [given] if isinstance(given, str | os.PathLike) or not isinstance(given, Sequence) else given
    with found_files(several) as found_here:
        files = found_here.files
        digests = {file: digest(file.path) for file in files}
        while True:
            new, before = _not_loaded(to, table, digests)
            if not new:
                counts = {load.load_id: load.stored + load.known for load in before}
                return Summary(to.catalog.tables.named(table).name, known=sum(counts.values()), already_loaded=True)
            found = existing(to.catalog, table)
            schema = None if found is None else found.schema
            sources = open_files(list(new), schema, ts_from=timing.ts_from, evolve=evolve, options=options)
            read = partial(_batches, to, sources, timing)
            own = tuple(keys or ()) if found is None else found.keys
            watermark = looked_through(to, table, own, read, timing)
            batches = read() if found is None else None
            # What cannot be read from its beginning makes no table.
            first = [] if batches is None else list(islice(batches, 1))
            load = _file_load(to, table, found, sources, keys, list(new.values()), timing, watermark)
            if load is not None:
                break
        done = store_batches(load, read(load.aside) if batches is None else chain(first, batches), progress)
        notes = [*(note for source in sources for note in source.notes), *found_here.notes()]
        if len(new) < len(files):
            notes.append(
                f"{len(files) - len(new)} of {len(files)} files were left out: what they hold was loaded before"
            )
        return replace(done, notes=tuple(dict.fromkeys(notes)))


def _not_loaded(
    to: Home, name: str, digests: Mapping[GivenFile, str]
) -> tuple[dict[GivenFile, str], tuple[LoadRecord, ...]]:
    """The files that were not loaded into the table yet, each content once; and the loads of the others."""
    found = existing(to.catalog, name)
    before = {} if found is None else to.catalog.loads.of_files(found.table_id, set(digests.values()))
    done = {own: load for own, load in before.items() if load.finished_at is not None}
    new: dict[str, GivenFile] = {}
    for file, own in digests.items():
        if own not in done:
            new.setdefault(own, file)
    return {file: own for own, file in new.items()}, tuple(done.values())


def _file_load(
    to: Home,
    name: str,
    found: TableRecord | None,
    sources: Sequence[FileSource],
    keys: Sequence[str] | None,
    digests: Sequence[str],
    timing: Timing,
    watermark: int | None,
) -> Load | None:
    """The load, registered; None where another process has made or changed the table, or loaded a file, meanwhile, or
    F is not ``forward`` any more (None: it may be any)."""
    whole = digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    files = [(source.name, own) for source, own in zip(sources, digests, strict=True)] if len(digests) > 1 else []
    told = ", ".join(source.name for source in sources)
    with beginning(to, name) as writer:
        now = existing(writer, name)
        if (now and now.schema) != (found and found.schema):
            return None
        if watermark is not None and watermark != writer.reservations.effective_watermark():
            return None
        if now is not None:
            before = writer.loads.of_files(now.table_id, digests)
            if any(load.finished_at is not None for load in before.values()):
                return None
            _refuse_half_loaded(now, before, whole)
            begun_before(writer, now, told, whole)
        record = _file_table(writer, name, now, sources[0], timing.ts_from, keys)
        by_source = {source.name: source.options(timing) for source in sources}
        return registered(writer, to, record, told, "file", whole, timing.options(), timing, files, by_source)


def _refuse_half_loaded(table: TableRecord, before: Mapping[str, LoadRecord], whole: str) -> None:
    """Raises Conflict where a file is part of another load that died: its rows could not be told from those there."""
    other = next((load for load in before.values() if load.digest != whole), None)
    if other is not None and not table.keys:
        raise Conflict(
            f"a load into {table.name} has ended in the middle, and has one of these files: {other.source}",
            hint="Run that load again as it was: it goes on where it ended. Or take it back: "
            f"weft loads undo {other.load_id}",
        )


def _batches(
    to: Home,
    sources: Sequence[FileSource],
    timing: Timing,
    aside: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Iterator[Batch]:
    """The rows of all files, by their own times where they have such; without those of the records ``aside``."""
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
    found: TableRecord | None,
    source: FileSource,
    ts_from: str | None,
    keys: Sequence[str] | None,
) -> TableRecord:
    if found is None:
        stored = {column.lower() for column, _ in source.columns}
        kept = ts_from if ts_from is not None and ts_from.lower() in stored else None
        return writer.tables.create(name, source.columns, keys, kept)
    if keys is not None and [key.lower() for key in keys] != [key.lower() for key in found.keys]:
        has = ", ".join(found.keys) or "none"
        raise Refused(f"the keys of {found.name} are fixed: {has}", hint="Leave --key out, or choose another table.")
    added, extended = source.matched.added, source.matched.extended
    return writer.tables.evolve(name, added, extended) if added or extended else found
