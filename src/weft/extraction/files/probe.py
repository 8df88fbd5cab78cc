"""Inspect a file before a load: find its format, its encoding, its columns, and evidence for the column types."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EINVAL
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.algebra.schema import STRING, DataType
from weft.errors import ExtractionError, NotFound, Refused, WeftError
from weft.extraction.batches import printable
from weft.extraction.byte_streams import plain
from weft.extraction.files import bulk
from weft.extraction.files.casting import weft_type
from weft.extraction.files.columns import MAX_COLUMNS, check_names
from weft.extraction.files.csv_sniff import csv_layout, json_evidence
from weft.extraction.files.cutting import changed
from weft.extraction.files.encoding import UTF_8, as_utf_8, codec_name, detect_encoding
from weft.extraction.files.inference import Evidence, Seen
from weft.extraction.files.options import AS_WRITTEN, FileOptions
from weft.extraction.files.parquet_pieces import decoded_schema, parquet_file, pieces
from weft.extraction.files.part import Part
from weft.extraction.files.rows import Format, Layout
from weft.extraction.files.shapes import of_arrow, without_unknown
from weft.extraction.files.text_records import CsvRecords, TextRecord, json_records
from weft.extraction.paths import opened
from weft.storage.local_sql import connect
from weft.store import Store

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
_ARRAY: Final = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
"""The beginning of a JSON array of objects."""
_NEXT: Final = re.compile(r"\s*(,\s*(\{|\Z)|]\s*\Z|\Z)")
"""What follows the first object in a JSON array of objects, up to the end of a buffer."""
_OBJECT_BUFFER: Final = 1 << 20
"""The bytes that one request to an object store reads at least."""

Typed = Mapping[str, "Evidence | DataType"]
"""The type of each column, or the evidence for its type."""


@dataclass(frozen=True)
class InputFile:
    """A file and its name in messages. The name is the printable absolute path, the URI, or "stdin".

    ``place`` is the object in an object store that is not yet copied to ``path``, or None for a local file. ``mark`` is
    the mark of the object when the load began, or None if the object may change.
    """

    path: Path
    name: str
    place: Store | None = None
    mark: tuple[int, ...] | None = None

    @classmethod
    def of(cls, path: Path) -> InputFile:
        """Return the file at a path, with the printable path as its name."""
        return cls(path, printable(str(path)))

    @contextmanager
    def parquet(self, part: Part | None = None) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file and check the pages of ``part``. The errors are those of ``parquet_file``."""
        with self.opened() as stream:  # of a local file, only the pages are checked with the stream
            source = self.path if self.place is None else stream
            with parquet_file(source, stream, self.name, part) as file:
                yield file

    @contextmanager
    def text(self, position: int = 0) -> Iterator[io.BufferedReader]:
        """Open the file as a stream of decompressed bytes, from a position on that is 0 for a compressed file."""
        with self.opened() as raw:
            raw.seek(position)
            yield plain(raw, compressed=None if position == 0 else False)

    def opened(self) -> BinaryIO:
        """Open the file, or the object if it is not copied. The errors are those of ``check_unchanged``."""
        if self.place is None:
            return opened(self.path)
        self.check_unchanged()
        return io.BufferedReader(_Object(self.place), _OBJECT_BUFFER)

    def check_unchanged(self) -> None:
        """Raise ExtractionError if the object has changed, OSError, or StorageError if the store fails."""
        if self.place is not None and self.mark is not None and self.place.mark() != self.mark:
            raise changed(self.name)

    def size(self) -> int:
        """Return the size in bytes. Raise OSError, or StorageError if the store fails."""
        return self.path.stat().st_size if self.place is None else self.place.size()


class _Object(io.RawIOBase):
    """The bytes of an object. A fault of the store is a StorageError, and therefore no damage of the file."""

    def __init__(self, place: Store) -> None:
        self._place = place
        with place.faults():
            self._file = place.filesystem.open_input_file(place.path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._place.faults():
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._place.faults():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


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
    def text(self, part: Part | None = None) -> Iterator[io.BufferedReader]:
        """Open the file as a stream of decompressed text in UTF-8, from the begin of ``part`` on."""
        with self.file.text(0 if part is None else part.position) as stream:
            yield as_utf_8(stream, self.encoding)

    def parquet(self, rows: int | None = None, part: Part | None = None) -> Iterator[pa.Table]:
        """Yield a Parquet file in tables of at most ``rows`` rows, or of about ``MAX_BYTES`` if ``rows`` is None.

        ``part`` restricts the row groups. Nanoseconds are truncated to microseconds. Errors of pyarrow for a damaged
        file pass through unchanged.
        """
        with self.file.parquet(part) as file:
            for piece in pieces(file, rows, part):
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
    file: InputFile,
    infer: bool,
    *,
    written: Format | None = None,
    options: FileOptions = AS_WRITTEN,
    seen: Seen | None = None,
) -> FileInspection:
    """Inspect the file. The whole file is read if it is JSON, or if it is CSV and ``infer`` is True.

    ``written`` is the format. If ``written`` is None, the format is detected from the file name and the first bytes.
    If ``seen`` is given, the whole file is not read, because others have read it: ``seen`` has the evidence for the
    columns of JSON.
    Raises ExtractionError, Refused, and the errors of reading the file.
    """
    kind = written or _format(file, options)
    if kind == "parquet":
        with file.parquet(None if seen is None else Part(end=0)) as parquet:
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
    encoding = _encoding(file, options)
    text = partial(_text, file, encoding)
    if seen is None:
        with text() as stream:
            _refuse_array(file, stream, kind)
    with connect() as connection:
        if kind == "json":
            return _json(file, encoding, options, connection, seen)
        own, dialect = csv_layout(text, file.name, connection)
        names = options.names(own, file.name)
        check_names(names, file.name)
        layout = Layout(kind, names, ("VARCHAR",) * len(names), dialect)
        found_types: Seen | dict[str, DataType] = dict.fromkeys(names, STRING)
        if infer and seen is None:
            with text() as stream:
                found_types = bulk.infer_types(stream, dialect, names, connection)
    return FileInspection(file, layout, encoding, dict(found_types), _renamed(own, names))


def _json(
    file: InputFile,
    encoding: str,
    options: FileOptions,
    connection: duckdb.DuckDBPyConnection,
    seen: Seen | None,
) -> FileInspection:
    if seen is None:
        with _text(file, encoding) as stream:
            seen = evidence_in_json(file, stream, options, connection)
    evidence = dict(seen)
    own = tuple(evidence)
    names = options.names(own, file.name)
    check_names(names, file.name)
    renamed = _renamed(own, names)
    layout = Layout("json", names, ("VARCHAR",) * len(names), written=own if renamed else ())
    return FileInspection(file, layout, encoding, dict(zip(names, evidence.values(), strict=True)), renamed)


def _refuse_array(file: InputFile, stream: io.BufferedReader, kind: Format) -> None:
    """Refuse a JSON array of objects.  The first field of a CSV file may begin as such an array does."""
    begin = stream.peek(_OBJECT_BUFFER)
    if _ARRAY.match(begin) and (kind == "json" or _begins_with_objects(begin)):
        raise Refused(
            "the file is a JSON array",
            where=file.name,
            hint="Write one object a line, as `jq -c '.[]' FILE` prints them.",
        )


def _begins_with_objects(begin: bytes) -> bool:
    """Return whether a text is an array with one object, or begins with the first of several objects in an array."""
    text = begin.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return False
    return _NEXT.match(text, end) is not None


def evidence_in_json(
    file: InputFile,
    stream: io.BufferedReader,
    options: FileOptions,
    connection: duckdb.DuckDBPyConnection,
    part: Part | None = None,
) -> Seen:
    """Return the evidence for the columns of JSON lines. The stream begins where ``part`` begins.

    Raise Refused for an invalid column name, or for more columns than a table may have.
    """
    there: set[str] = set()

    def few(names: Sequence[str]) -> None:
        there.update(names)
        if options.mends_names or options.rename:
            if len(there) > MAX_COLUMNS:
                raise Refused(f"more than {MAX_COLUMNS} columns", where=file.name)
        else:
            check_names(names, file.name)

    return json_evidence(json_records(stream, part=part), connection, few)


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


def refuse_delta_table(folder: str, is_table: bool) -> None:
    """Raise Refused if the folder is a Delta table."""
    if is_table:
        raise Refused(
            f"{folder} is a Delta table, whose files also contain deleted rows",
            hint="Follow the Delta table as a source: weft source add NAME --kind changes --at FOLDER --key COLS.",
        )


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
def _text(file: InputFile, encoding: str) -> Iterator[io.BufferedReader]:
    with file.text() as stream:
        yield as_utf_8(stream, encoding)


def _encoding(file: InputFile, options: FileOptions) -> str:
    if options.encoding is not None:
        return codec_name(options.encoding)
    with file.text() as stream:
        return detect_encoding(stream)


def format_by_name(path: Path) -> Format | None:
    """Return the format that the suffix of the file name implies, or None. A compression suffix is ignored."""
    suffixes = reversed([suffix.lower() for suffix in path.suffixes[-2:]])
    return next((_SUFFIXES[suffix] for suffix in suffixes if suffix in _SUFFIXES), None)


def _format(file: InputFile, options: FileOptions) -> Format:
    named = format_by_name(file.path)
    if named is not None:
        return named
    with file.text() as stream:
        if stream.peek(4)[:4] == b"PAR1":
            return "parquet"
    with _text(file, _encoding(file, options)) as stream:
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
