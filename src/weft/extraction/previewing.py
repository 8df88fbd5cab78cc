"""Preview the load of files: the columns and types that they would give a table, and their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra.schema import DataType
from weft.catalog.naming import table_name
from weft.execution.home import OpenHome
from weft.extraction.batches import DEFAULT_TIMING, RejectedRecord, Timing
from weft.extraction.files.given_files import Given, input_files
from weft.extraction.files.options import AS_WRITTEN, FileOptions
from weft.extraction.files.source import Note, open_files
from weft.extraction.ingest import existing
from weft.printable import Brief, counted


@dataclass(frozen=True, repr=False)
class FilePreview(Brief):
    """What a load of files into ``table`` would store.  ``exists`` is whether the home has the table.

    ``columns`` are the columns of the table after the load, without ``ts`` and ``_by``.  ``rows`` are the first rows.
    ``rejected`` are the first records that the load would put in quarantine.  ``notes`` describe the inferred
    properties.
    """

    table: str
    exists: bool
    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[tuple[object, ...], ...]
    rejected: tuple[RejectedRecord, ...]
    notes: tuple[Note, ...]

    def _brief(self) -> str:
        return f"preview of {self.table}: {counted(len(self.columns), 'column')}"


def preview_file(
    home: OpenHome,
    items: Sequence[Given],
    table: str,
    *,
    evolve: bool = False,
    options: FileOptions = AS_WRITTEN,
    timing: Timing = DEFAULT_TIMING,
    rows: int = 10,
) -> FilePreview:
    """Return the columns and the first rows that ``ingest_file`` would store.  Store nothing.

    The types are those of the load, because all of each file is read.  Raises the same errors as ``ingest_file``.
    """
    record = existing(home.catalog, table)
    name = table_name(table) if record is None else record.name
    with input_files(items, home.catalog.data.access) as found:
        schema = None if record is None else record.schema
        sources = open_files(found.files, schema, ts_from=timing.ts_from, evolve=evolve, options=options)
        columns = sources[0].columns
        latest = home.clock() + timing.future_us if home.catalog.home().clock == "wall" else None
        batch = next(sources[0].batches(timing, latest), None)
        first = [] if batch is None else batch.rows.slice(0, rows).to_pylist()
        return FilePreview(
            table=name,
            exists=record is not None,
            columns=tuple(columns),
            rows=tuple(tuple(row[column] for column, _ in columns) for row in first),
            rejected=() if batch is None else batch.rejected[:rows],
            notes=tuple(dict.fromkeys(note for source in sources for note in source.notes)),
        )
