"""Loading: mail and files into tables, each record stored, known or in quarantine, and none twice.

A load that died is simply run again: mail and keyed tables know their rows by their keys; a file without keys is
known by its digest, and goes on after the rows that it has committed (design law 6).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from weft.catalog import CatalogParts, Writer
from weft.catalog.records import TableRecord
from weft.errors import NotFound, Refused
from weft.execution.home import Home
from weft.extraction.batches import Progress, batches_of, printable
from weft.extraction.files.source import FileSource, digest, open_file
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.mail.reading import read_mail
from weft.extraction.storing import Load, Summary, beginning, registered, store_batches
from weft.extraction.timing import DEFAULT_TIMING, Timing


def ingest_mail(
    to: Home,
    paths: Sequence[str | os.PathLike[str]],
    table: str = "msgs",
    *,
    newsgroup: str | None = None,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Loads mail into ``table``, made where it is not there; see :func:`weft.extraction.mail.reading.read_mail`.

    Raises ExtractionError for a path that cannot be read, Refused for a table that is not one of mail and as ``timing``
    says, LeaseBusy, StorageError.
    """
    origins = timing.late == "quarantine"
    items = read_mail(paths, newsgroup=newsgroup, timing=timing, at=to.clock(), origins=origins)
    source = ", ".join(printable(os.path.abspath(path)) for path in paths)
    options = {"kind": "mail", "newsgroup": newsgroup, **timing.options()}
    with beginning(to, table) as writer:
        record = _mail_table(writer, table, timing.ts_from)
        load = registered(writer, to, record, source, "mail", None, options, timing)
    return store_batches(load, batches_of(items, MAIL_COLUMNS), progress)


def _mail_table(writer: Writer, name: str, ts_from: str | None) -> TableRecord:
    found = existing(writer, name)
    if found is None:
        return writer.tables.create(name, MAIL_COLUMNS, MAIL_KEY, ts_from)
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
    if found.tracked:
        raise Refused(
            f"{found.name} is a tracked table: it records what its source holds",
            hint=f"`weft source poll {found.name}` does; load files into another table.",
        )
    return found


def ingest_file(
    to: Home,
    path: str | os.PathLike[str],
    table: str,
    *,
    keys: Sequence[str] | None = None,
    evolve: bool = False,
    timing: Timing = DEFAULT_TIMING,
    progress: Progress | None = None,
) -> Summary:
    """Loads a CSV, JSON lines or Parquet file into ``table``; the first load makes it and infers its types.

    Idempotent by the file's digest; with ``keys`` (fixed by the first load) also row by row.  ``evolve`` adds the
    file's new columns to the table.  On a wall home a row too far ahead of the clock (``timing.future_us``) goes to
    quarantine.  Raises ExtractionError, Refused for other columns or other keys and as ``timing`` says, Conflict while
    the same file is being loaded, LeaseBusy, StorageError.
    """
    sha256 = digest(path)
    while True:
        found = existing(to.catalog, table)
        if found is not None:
            before = to.catalog.loads.of_source(found.table_id, sha256)
            done = next((load for load in before if load.finished_at is not None), None)
            if done is not None:
                return Summary(found.name, known=done.stored + done.known, already_loaded=True)
        schema = None if found is None else found.schema
        source = open_file(path, schema, ts_from=timing.ts_from, evolve=evolve)
        load = _file_load(to, table, found, source, keys, sha256, timing)
        if load is not None:
            break
    wall = to.catalog.home().clock == "wall"
    latest = to.clock() + timing.future_us if wall else None
    batches = source.batches(timing, latest, origins=load.wants_origins, aside=load.aside)
    return store_batches(load, batches, progress)


def _file_load(
    to: Home,
    name: str,
    found: TableRecord | None,
    source: FileSource,
    keys: Sequence[str] | None,
    sha256: str,
    timing: Timing,
) -> Load | None:
    """The load, registered; None where another process has made or changed the table, or loaded the file, meanwhile."""
    with beginning(to, name) as writer:
        now = existing(writer, name)
        if (now and now.schema) != (found and found.schema) or (now and writer.loads.loaded(now.table_id, sha256)):
            return None
        record = _file_table(writer, name, now, source, timing.ts_from, keys)
        return registered(writer, to, record, source.name, "file", sha256, source.options(timing), timing)


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
    return writer.tables.evolve(name, source.matched.added) if source.matched.added else found
