"""CSV, JSON lines and Parquet as batches of a table's rows.

Every format comes down to a table of foreign columns that DuckDB casts (see ``casting``), a batch at a time.  A record
that is not of the table's types is rejected with the names of the columns at fault.  In CSV an empty cell is NULL, in
JSON lines a name that is not there; a Parquet record in quarantine is kept as its JSON.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra.schema import DataType, TableSchema
from weft.errors import ExtractionError, NotFound, WeftError
from weft.extraction.batches import MAX_BYTES, MAX_ROWS, Batch, printable
from weft.extraction.byte_streams import DAMAGE, plain
from weft.extraction.files import bulk
from weft.extraction.files.casting import weft_type
from weft.extraction.files.columns import FileColumns, check_names, chosen_of, match_columns
from weft.extraction.files.inspection import csv_layout, infer_csv, infer_json
from weft.extraction.files.rows import Caster, Format, Layout, OwnTimes
from weft.extraction.files.text_records import CsvRecords, TextRecord, json_records
from weft.extraction.timing import DEFAULT_TIMING, Timing
from weft.storage.local_sql import connect

_SUFFIXES: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True)
class FileSource:
    """A file whose columns were found to fit; ``columns`` are those that its batches have, in the table's order."""

    path: Path
    layout: Layout
    matched: FileColumns
    columns: tuple[tuple[str, DataType], ...]

    @property
    def name(self) -> str:
        """The absolute path, printable."""
        return printable(str(self.path))

    def options(self, timing: Timing) -> dict[str, object]:
        """What a retry of a rejected record needs to read it as this load did (JSON-able)."""
        layout = self.layout
        return {
            "kind": "file",
            "format": layout.format,
            "names": list(layout.names),
            "dialect": [layout.dialect.delimiter, layout.dialect.quote, layout.dialect.escape],
            "own_time": self.matched.own_time,
            **timing.options(),
        }

    def batches(
        self,
        timing: Timing = DEFAULT_TIMING,
        latest: int | None = None,
        *,
        origins: bool = False,
        aside: frozenset[str] = frozenset(),
    ) -> Iterator[Batch]:
        """The rows in the file's order, cast to the table's types, with the own time that ``timing`` says.

        In the order of arrival a row without an own time takes what went before it; else it is rejected, and so is one
        whose own time is beyond ``latest`` (µs UTC; None: no limit).  With ``origins`` each row comes with its record;
        rows of records at the positions ``aside`` are left out.  Raises ExtractionError where Parquet is damaged.
        """
        own_times = OwnTimes(self.matched.own_time, timing.order == "arrival", latest, timing.too_far)
        caster = Caster(self.layout, own_times, self.columns, self.name, origins=origins, aside=aside)
        large = not origins and bulk.is_large(self.path)
        if self.layout.format == "parquet":
            yield from _parquet_batches(self.path, caster, self.name, large)
            return
        with _opened(self.path) as stream:
            if self.layout.format == "csv" and large:
                yield from bulk.csv_batches(stream, self.layout.dialect, caster, self.name)
                return
            with connect() as connection:
                yield from caster.text_batches(self._records(stream), connection)

    def _records(self, stream: io.BufferedReader) -> Iterable[TextRecord]:
        if self.layout.format == "json":
            return json_records(stream)
        records = CsvRecords(stream, self.layout.dialect)
        _, unread = records.names()
        return chain(unread, records)


def digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the file's bytes, in hex; raises NotFound, ExtractionError where it cannot be read."""
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                total.update(chunk)
    except OSError as error:
        raise _unreadable(Path(path), error) from None
    return total.hexdigest()


def open_file(
    path: str | os.PathLike[str],
    schema: TableSchema | None,
    *,
    ts_from: str | None = None,
    evolve: bool = False,
    written: Format | None = None,
    chosen: Sequence[tuple[str, DataType | None]] | None = None,
) -> FileSource:
    """Looks at the file's columns; reads it once where types must be inferred or JSON's names collected.

    ``schema`` is the table's, or None for the load that makes it.  ``written`` is the file's format (None: as it
    looks); ``chosen`` are the columns that are taken, with their types where these are not to be inferred (None: all).
    Raises NotFound for a file that is not there, ExtractionError for one that cannot be read at all, Refused for
    columns that are not the table's (see :func:`weft.extraction.files.columns.match_columns`).
    """
    file = Path(os.path.abspath(path))
    name = printable(str(file))
    try:
        layout, found = _look(file, schema is None or evolve or ts_from is not None, written)
    except (*DAMAGE, pa.ArrowException) as error:
        raise _unreadable(file, error) from None
    if chosen is not None:
        found = chosen_of(found, chosen, name)
    check_names([each for each, _ in found], name)
    matched = match_columns(found, schema, ts_from, evolve, name)
    known = [] if schema is None else [(c.name, c.type) for c in schema.columns if c.name != schema.start]
    columns = (*known, *matched.added) if schema is not None else matched.stored
    return FileSource(file, layout, matched, columns)


def _unreadable(path: Path, error: Exception) -> WeftError:
    hint = "Name a CSV, JSON lines or Parquet file."
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no such file: {printable(str(path))}", hint=hint)
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300] or type(error).__name__
    return ExtractionError(f"cannot be read: {printable(str(path))} ({reason})", hint=hint)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    with path.open("rb", buffering=0) as raw:
        yield plain(raw)


def _format(path: Path) -> Format:
    """By the name, compression's suffix aside; by the first bytes where the name does not tell."""
    for suffix in reversed([suffix.lower() for suffix in path.suffixes[-2:]]):
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    with _opened(path) as stream:
        head = stream.peek(64).lstrip()
    return "parquet" if head.startswith(b"PAR1") else "json" if head.startswith(b"{") else "csv"


def _look(path: Path, infer: bool, written: Format | None) -> tuple[Layout, list[tuple[str, DataType]]]:
    kind = written or _format(path)
    with connect() as connection:
        if kind == "parquet":
            with pq.ParquetFile(path) as file:
                return typed_columns(file.schema_arrow.empty_table())
        if kind == "json":
            with _opened(path) as stream:
                found = infer_json(json_records(stream), printable(str(path)), connection)
            return Layout(kind, tuple(found), ("VARCHAR",) * len(found)), list(found.items())
        names, dialect = csv_layout(partial(_opened, path), printable(str(path)), connection)
        layout = Layout(kind, names, ("VARCHAR",) * len(names), dialect)
        if not infer:
            return layout, [(name, DataType("STRING")) for name in names]
        check_names(names, printable(str(path)))
        with _opened(path) as stream:
            if bulk.is_large(path):
                types_of = bulk.infer_types(stream, dialect, names)
            else:
                types_of = infer_csv(CsvRecords(stream, dialect), names, connection)
        return layout, [(name, types_of[name]) for name in names]


def typed_columns(empty: pa.Table) -> tuple[Layout, list[tuple[str, DataType]]]:
    """How rows that have types, as those of Parquet, are read, and the types that their columns get here.

    Raises ExtractionError for a type that DuckDB cannot read, as that of decimals of more than 38 digits.
    """
    try:
        with connect() as connection:
            types = _described(connection, empty)
    except duckdb.Error as error:
        told = " ".join(str(error).split())[:300]
        raise ExtractionError(
            f"a column is of a type that cannot be read: {told}", hint="Write it as another type, such as text."
        ) from None
    names = tuple(empty.column_names)
    return Layout("parquet", names, types), [(n, weft_type(t)) for n, t in zip(names, types, strict=True)]


def _described(connection: duckdb.DuckDBPyConnection, table: pa.Table) -> tuple[str, ...]:
    if not table.column_names:
        return ()
    connection.register("described", table)
    rows = connection.execute("DESCRIBE SELECT * FROM described").fetchall()
    connection.unregister("described")
    return tuple(str(row[1]) for row in rows)


def _parquet_batches(path: Path, caster: Caster, name: str, large: bool) -> Iterator[Batch]:
    try:
        with pq.ParquetFile(path) as file:
            pieces = (pa.Table.from_batches([each]) for each in file.iter_batches(_rows_at_once(file.metadata)))
            if large:
                yield from bulk.parquet_batches(pieces, caster, name)
                return
            with connect() as connection:
                for piece in pieces:
                    yield caster.cast(piece, None, connection)
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise _unreadable(path, error) from None


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    """How many rows of the file are about MAX_BYTES, by its own account of their size; at most MAX_ROWS."""
    size = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
    return int(max(1, min(MAX_ROWS, MAX_BYTES * metadata.num_rows // max(size, 1))))
