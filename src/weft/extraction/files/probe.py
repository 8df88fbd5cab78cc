"""Inspect a file before a load: find its format, its encoding, its columns, and evidence for the column types."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EINVAL
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import STRING, DataType
from weft.errors import ExtractionError, NotFound, Refused, WeftError
from weft.extraction.batches import printable
from weft.extraction.byte_streams import plain
from weft.extraction.files import bulk
from weft.extraction.files.casting import weft_type
from weft.extraction.files.columns import MAX_COLUMNS, check_names
from weft.extraction.files.csv_sniff import csv_layout, json_evidence
from weft.extraction.files.encoding import UTF_8, as_utf_8, codec_name, detect_encoding
from weft.extraction.files.inference import Evidence, Seen
from weft.extraction.files.options import AS_WRITTEN, FileOptions
from weft.extraction.files.parquet_pieces import decoded_schema, parquet_file, pieces
from weft.extraction.files.rows import Format, Layout
from weft.extraction.files.shapes import of_arrow, without_unknown
from weft.extraction.files.text_records import CsvRecords, TextRecord, json_records
from weft.extraction.paths import opened
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
_SAMPLE: Final = 10_000

Typed = Mapping[str, "Evidence | DataType"]
"""The type of each column, or the evidence for its type."""


@dataclass(frozen=True)
class InputFile:
    """A file and its name in messages. The name is the printable absolute path, or "stdin"."""

    path: Path
    name: str

    @classmethod
    def of(cls, path: Path) -> InputFile:
        """Return the file at a path, with the printable path as its name."""
        return cls(path, printable(str(path)))


@dataclass(frozen=True)
class FileInspection:
    """The layout, encoding and columns of an inspected file, and the columns that were renamed."""

    file: InputFile
    layout: Layout
    encoding: str
    evidence: Typed
    renamed: tuple[tuple[str, str], ...] = ()
    shapes: Mapping[str, DataType] = field(default_factory=dict)

    def nested(self) -> dict[str, DataType]:
        """Return the type of the values in each nested column. The type is STRING if no other type fits all values."""
        evidence = self.evidence.items()
        inferred = {
            name: without_unknown(kind.shape) for name, kind in evidence if isinstance(kind, Evidence) and kind.shape
        }
        return {**inferred, **self.shapes}

    @contextmanager
    def text(self) -> Iterator[io.BufferedReader]:
        """Open the file as a stream of decompressed text in UTF-8."""
        with _opened(self.file.path) as stream:
            yield as_utf_8(stream, self.encoding)

    def parquet(self, rows: int | None = None) -> Iterator[pa.Table]:
        """Yield a Parquet file in tables of at most ``rows`` rows, or of about ``MAX_BYTES`` if ``rows`` is None.

        Nanoseconds are truncated to microseconds. Errors of pyarrow for a damaged file pass through unchanged.
        """
        with parquet_file(self.file.path) as file:
            for piece in pieces(file, rows):
                yield _in_microseconds(piece, self.layout.names)

    def records(self, stream: io.BufferedReader) -> Iterable[TextRecord]:
        """Return the records of a text file, without the header line."""
        if self.layout.format == "json":
            return json_records(stream)
        records = CsvRecords(stream, self.layout.dialect)
        _, unread = records.names()
        return chain(unread, records)

    def sample(self, column: str) -> list[str | None]:
        """Return the first values of a column as text, at most 10,000."""
        folded = [name.lower() for name in self.layout.names]
        place = folded.index(column.lower())
        if self.layout.format == "parquet":
            first = next(self.parquet(_SAMPLE), None)
            return [] if first is None else [None if v is None else str(v) for v in first.column(place).to_pylist()]
        with self.text() as stream:
            sampled = islice(self.records(stream), _SAMPLE)
            written = (self.layout.written or self.layout.names)[place]
            return [
                each.get(written) if isinstance(each, dict) else each[place]
                for each in (record.cells for record in sampled if record.problem is None)
                if each is not None
            ]


def inspect_file(
    file: InputFile, infer: bool, *, written: Format | None = None, options: FileOptions = AS_WRITTEN
) -> FileInspection:
    """Inspect the file. The whole file is read if it is JSON, or if it is CSV and ``infer`` is True.

    ``written`` is the format. If ``written`` is None, the format is detected from the file name and the first bytes.
    Raises ExtractionError, Refused, and the errors of reading the file.
    """
    kind = written or _format(file.path, options)
    if kind == "parquet":
        with parquet_file(file.path) as parquet:
            schema = decoded_schema(parquet.schema_arrow)
            own = schema.names
            names = options.names(own, file.name)
            if names != tuple(own):
                check_names(names, file.name)
            layout, plain = typed_columns(_in_microseconds(schema.empty_table(), names))
            kinds = zip(names, schema.types, strict=True)
            shapes = {name: of_arrow(kind) for name, kind in kinds if pa.types.is_nested(kind)}
            types = {name: DataType.of_json(shapes[name]) if name in shapes else kind for name, kind in plain}
        return FileInspection(file, layout, UTF_8, types, _renamed(own, names), shapes)
    encoding = _encoding(file.path, options)
    text = partial(_text, file.path, encoding)
    with connect() as connection:
        if kind == "json":
            return _json(file, encoding, options, connection)
        own, dialect = csv_layout(text, file.name, connection)
        names = options.names(own, file.name)
        check_names(names, file.name)
        layout = Layout(kind, names, ("VARCHAR",) * len(names), dialect)
        found_types: Seen | dict[str, DataType] = dict.fromkeys(names, STRING)
        if infer:
            with text() as stream:
                found_types = bulk.infer_types(stream, dialect, names, connection)
    return FileInspection(file, layout, encoding, dict(found_types), _renamed(own, names))


def _json(
    file: InputFile, encoding: str, options: FileOptions, connection: duckdb.DuckDBPyConnection
) -> FileInspection:
    seen: set[str] = set()

    def few(names: Sequence[str]) -> None:
        seen.update(names)
        if options.mends_names or options.rename:
            if len(seen) > MAX_COLUMNS:
                raise Refused(f"more than {MAX_COLUMNS} columns", where=file.name)
        else:
            check_names(names, file.name)

    with _text(file.path, encoding) as stream:
        evidence = json_evidence(json_records(stream), connection, few)
    own = tuple(evidence)
    names = options.names(own, file.name)
    check_names(names, file.name)
    renamed = _renamed(own, names)
    layout = Layout("json", names, ("VARCHAR",) * len(names), written=own if renamed else ())
    return FileInspection(file, layout, encoding, dict(zip(names, evidence.values(), strict=True)), renamed)


def _in_microseconds(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    columns = []
    for column in rows.columns:
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            instants = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond")
            column = instants.cast(pa.timestamp("us")).cast(pa.timestamp("us", kind.tz))
        columns.append(column)
    return pa.table(columns, names=list(names))


def _renamed(own: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, new in zip(own, names, strict=True) if old != new)


def unreadable(file: InputFile, error: Exception) -> WeftError:
    """Return the error for a file that cannot be read."""
    hint = "Name a CSV, JSON lines or Parquet file."
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no such file: {file.name}", hint=hint)
    if isinstance(error, OSError) and error.errno == EINVAL:  # not a regular file
        hint = "Name a regular file. `weft ingest file - < PIPE` reads a pipe."
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300] or type(error).__name__
    return ExtractionError(f"cannot be read: {file.name} ({reason})", hint=hint)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    with opened(path) as raw:
        yield plain(raw)


@contextmanager
def _text(path: Path, encoding: str) -> Iterator[io.BufferedReader]:
    with _opened(path) as stream:
        yield as_utf_8(stream, encoding)


def _encoding(path: Path, options: FileOptions) -> str:
    if options.encoding is not None:
        return codec_name(options.encoding)
    with _opened(path) as stream:
        return detect_encoding(stream)


def format_by_name(path: Path) -> Format | None:
    """Return the format that the suffix of the file name implies, or None. A compression suffix is ignored."""
    suffixes = reversed([suffix.lower() for suffix in path.suffixes[-2:]])
    return next((_SUFFIXES[suffix] for suffix in suffixes if suffix in _SUFFIXES), None)


def _format(path: Path, options: FileOptions) -> Format:
    named = format_by_name(path)
    if named is not None:
        return named
    with _opened(path) as stream:
        if stream.peek(4)[:4] == b"PAR1":
            return "parquet"
    with _text(path, _encoding(path, options)) as stream:
        return "json" if stream.peek(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


def typed_columns(empty: pa.Table) -> tuple[Layout, list[tuple[str, DataType]]]:
    """Return the layout of typed rows, such as rows of Parquet, and the Weft types of their columns.

    Raise ExtractionError for a type that DuckDB cannot read, such as a decimal of more than 38 digits.
    """
    try:
        with connect() as connection:
            types = _described(connection, empty)
    except duckdb.Error as error:
        reason = " ".join(str(error).split())[:300]
        raise ExtractionError(
            f"a column has a type that Weft cannot read: {reason}",
            hint="Write the column with another type, such as text.",
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
