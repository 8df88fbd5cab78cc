"""Loading: mail and files into tables, each record stored, known or in quarantine, and none twice.

A load that died is simply run again: mail and keyed tables know their rows by their keys; a file without keys is
known by its digest, and goes on after the rows that it has committed (design law 6).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.catalog import Catalog
from weft.catalog.records import TableRecord
from weft.errors import NotFound, Refused
from weft.extraction.files.source import FileSource, digest, open_file
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.mail.reading import read_mail
from weft.extraction.records import Progress, batches_of, printable
from weft.extraction.storing import Destination, Summary, begin, store_batches


def ingest_mail(
    home: Path,
    catalog: Catalog,
    spark: Callable[[], Any],
    paths: Sequence[str | os.PathLike[str]],
    table: str = "msgs",
    ts_from: str | None = None,
    newsgroup: str | None = None,
    at: int = 0,
    progress: Progress | None = None,
    *,
    clock: Callable[[], int] | None = None,
) -> Summary:
    """Loads mail into ``table``, made where it is not there; see :func:`weft.extraction.mail.reading.read_mail`.

    ``spark`` gives the session and is called only when there is a row to store.  ``at`` is the wall's time in µs UTC;
    ``clock`` tells it during a long load (without it, it is ``at`` throughout).  Raises ExtractionError for a path that
    cannot be read, Refused for a table that is not one of mail, LeaseBusy, StorageError.
    """
    to = Destination(home, catalog, spark, clock or (lambda: at))
    items = read_mail(paths, newsgroup=newsgroup, ts_from=ts_from, at=at)
    begin(to)
    record = _mail_table(catalog, table, ts_from)
    source = ", ".join(printable(os.path.abspath(path)) for path in paths)
    load_id = catalog.loads.begin(record.table_id, source, "mail", None, at)
    options: dict[str, object] = {"kind": "mail", "newsgroup": newsgroup, "ts_from": ts_from}
    return store_batches(to, record, load_id, batches_of(items, MAIL_COLUMNS), options, progress=progress)


def _mail_table(catalog: Catalog, name: str, ts_from: str | None) -> TableRecord:
    found = existing(catalog, name)
    if found is None:
        return catalog.tables.create(name, MAIL_COLUMNS, MAIL_KEY, ts_from)
    columns = [(column.name, column.type) for column in found.schema.columns if column.name != found.schema.start]
    if columns != list(MAIL_COLUMNS) or found.keys != MAIL_KEY:
        raise Refused(f"{found.name} is not a table of mail", hint="Choose another name with --table.")
    return found


def existing(catalog: Catalog, name: str) -> TableRecord | None:
    """The table of that name, or None."""
    try:
        return catalog.tables.named(name)
    except NotFound:
        return None


def ingest_file(
    home: Path,
    catalog: Catalog,
    spark: Callable[[], Any],
    path: str | os.PathLike[str],
    table: str,
    ts_from: str | None = None,
    keys: Sequence[str] | None = None,
    evolve: bool = False,
    at: int = 0,
    progress: Progress | None = None,
    *,
    clock: Callable[[], int] | None = None,
) -> Summary:
    """Loads a CSV, JSON lines or Parquet file into ``table``; the first load makes it and infers its types.

    Idempotent by the file's digest; with ``keys`` (fixed by the first load) also row by row.  ``evolve`` adds the
    file's new columns to the table.  ``at``, ``clock``, ``spark`` as in :func:`ingest_mail`.  Raises ExtractionError,
    Refused for other columns or other keys, Conflict, LeaseBusy, StorageError.
    """
    to = Destination(home, catalog, spark, clock or (lambda: at))
    sha256 = digest(path)
    found = existing(catalog, table)
    before = () if found is None else catalog.loads.of_source(found.table_id, sha256)
    done = next((load for load in before if load.finished_at is not None), None)
    if found is not None and done is not None:
        return Summary(found.name, known=done.stored + done.known, already_loaded=True)
    source = open_file(path, None if found is None else found.schema, ts_from=ts_from, evolve=evolve)
    begin(to)
    record = _file_table(catalog, table, found, source, ts_from, keys)
    load_id = before[0].load_id if before else catalog.loads.begin(record.table_id, source.name, "file", sha256, at)
    skip = None if record.keys else catalog.loads.stored_by(load_id)
    return store_batches(to, record, load_id, source.batches(), source.options(ts_from), skip=skip, progress=progress)


def _file_table(
    catalog: Catalog,
    name: str,
    found: TableRecord | None,
    source: FileSource,
    ts_from: str | None,
    keys: Sequence[str] | None,
) -> TableRecord:
    if found is None:
        stored = {column.lower() for column, _ in source.columns}
        kept = ts_from if ts_from is not None and ts_from.lower() in stored else None
        return catalog.tables.create(name, source.columns, keys, kept)
    if keys is not None and [key.lower() for key in keys] != [key.lower() for key in found.keys]:
        has = ", ".join(found.keys) or "none"
        raise Refused(f"the keys of {found.name} are fixed: {has}", hint="Leave --key out, or choose another table.")
    return catalog.tables.evolve(name, source.matched.added) if source.matched.added else found
