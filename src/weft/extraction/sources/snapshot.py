"""Read the current rows of a source: the first half of the *snapshot* monitor (Yang and Widom 1998, section 4.1).

A source must be read completely. Reading fails if a record does not parse, or if a file changes during the read.
Reading also fails if a text file no longer ends with a line end, or if columns do not match the table.

The database monitors also use this module to convert text rows to rows of a tracked table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.catalog.sources import SourceKind
from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import Batch, Progress, printable
from weft.extraction.byte_streams import COMPRESSED, damage, plain
from weft.extraction.files.columns import match_columns
from weft.extraction.files.options import FileOptions
from weft.extraction.files.rows import Caster, Format, Layout, OwnTimes
from weft.extraction.files.source import FileSource, digest, open_file
from weft.extraction.files.text_records import TextRecord
from weft.extraction.paths import opened
from weft.storage.columns import arrow_type
from weft.storage.local_sql import connect

FORMATS: Final[Mapping[SourceKind, Format]] = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}
_DAMAGED: Final = (
    "Nothing was changed. If the file is half written, the program that writes the file should write to a "
    "temporary name, then rename the file."
)
Chosen = Sequence[tuple[str, DataType | None]] | None
Renamed = Sequence[tuple[str, str]]
"""Pairs of a column name in the source and the new name in the table."""


@dataclass(frozen=True)
class Snapshot:
    """All rows of a source at one time. ``added`` are columns that are not in the table.

    ``changed_at`` is the time of the last modification of the source in microseconds UTC, or None if unknown. ``seen``
    is JSON-able and identifies the contents. If ``seen`` stays the same, the next poll skips the source.
    """

    rows: pa.Table
    columns: tuple[tuple[str, DataType], ...]
    added: tuple[tuple[str, DataType], ...]
    changed_at: int | None
    seen: Mapping[str, Any]


@dataclass(frozen=True)
class Mark:
    """The size, modification time and inode of a file, used to detect a change."""

    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Mark:
        """Return the mark of a regular file.

        Raises NotFound if the file does not exist, or ExtractionError if it cannot be read.
        """
        try:
            with opened(path) as file:
                stat = os.fstat(file.fileno())
        except FileNotFoundError:
            raise NotFound(
                f"no such file: {printable(str(path))}",
                hint="Check the path, or poll again later if the source is temporarily unavailable.",
            ) from None
        except OSError as error:
            raise ExtractionError(f"cannot be read: {printable(str(path))} ({error.strerror})") from None
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ino)


def file_path(location: str) -> Path:
    """Return the absolute path of a file. ``location`` is a path or a ``file:///`` URI."""
    return Path(os.path.abspath(location.removeprefix("file://") if location.startswith("file:///") else location))


def columns_of_file(
    path: Path, kind: SourceKind, chosen: Chosen, rename: Renamed = ()
) -> tuple[tuple[str, DataType], ...]:
    """Return the columns of a file for a new tracked table. Raises the errors of ``open_file``."""
    options = FileOptions(rename=tuple(rename))
    return open_file(path, None, written=FORMATS[kind], chosen=chosen, options=options).columns


def is_unchanged(path: Path, seen: Mapping[str, Any]) -> bool:
    """Return whether the file has the same bytes as at the last poll. Raises the errors of ``Mark.of``."""
    Mark.of(path)
    return "sha256" in seen and digest(path) == seen["sha256"]


def read_file(
    path: Path,
    kind: SourceKind,
    schema: TableSchema,
    chosen: Chosen,
    seen: Mapping[str, Any],
    *,
    rename: Renamed = (),
    evolve: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """Read the rows of a file. ``schema`` has only the columns of the source, with their types.

    Raise ExtractionError if the file cannot be read completely, and Refused if its columns do not match the table's.
    """
    before = Mark.of(path)
    sha256 = digest(path)
    if kind in ("csv", "jsonl") and _is_blank(path):  # no line names the columns
        columns = tuple((column.name, column.type) for column in schema.columns)
        nothing = pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in columns]).empty_table()
        return Snapshot(nothing, columns, (), before.modified_ns // 1_000, {"sha256": sha256, "ends_line": False})
    source = _opened(path, kind, schema, chosen, evolve, FileOptions(rename=tuple(rename)))
    ends_line = kind == "parquet" or _ends_line(path, before.size)
    if not ends_line and seen.get("ends_line"):
        raise ExtractionError(
            "the last line was complete at the previous read and is incomplete now: the file seems to be half written",
            where=source.name,
            hint=(
                "Nothing was changed. The program that writes the file should write to a temporary name, then "
                "rename the file."
            ),
        )
    rows = _table(source.batches(), source.columns, source.name, progress)
    if Mark.of(path) != before or digest(path) != sha256:
        raise ExtractionError(
            "the file changed while it was read", where=source.name, hint="Nothing was changed. Poll the source again."
        )
    read = {"sha256": sha256, "ends_line": ends_line}
    return Snapshot(rows, source.columns, source.matched.added, before.modified_ns // 1_000, read)


def _is_blank(path: Path) -> bool:
    with opened(path) as raw:
        stream = plain(raw)
        while chunk := stream.read(1 << 16):
            if chunk.strip():
                return False
        return damage(stream) is None


def _opened(
    path: Path, kind: SourceKind, schema: TableSchema, chosen: Chosen, evolve: bool, options: FileOptions
) -> FileSource:
    read = partial(open_file, path, schema, written=FORMATS[kind], chosen=chosen, options=options)
    try:
        source = read(evolve=evolve)
    except Refused as error:
        if not evolve:
            opened_source = read(evolve=True)
            refuse_lost(_absent(opened_source), schema.name, opened_source.name)
        raise Refused(
            error.message,
            where=error.where,
            hint=f"Nothing was changed. `weft source poll {schema.name} --evolve` adds new columns.",
        ) from None
    except ExtractionError as error:
        raise ExtractionError(error.message, where=error.where, hint=_DAMAGED) from None
    refuse_lost(_absent(source), schema.name, source.name)
    return source


def refuse_lost(lost: Sequence[str], name: str, where: str) -> None:
    """Raise Refused if a source has lost columns. The NULLs in a lost column would look like a change of every row."""
    if lost:
        raise Refused(
            f"the source of {name} no longer has the column {', '.join(lost)}",
            hint="Nothing was changed. Track the remaining columns as another table: list the columns with --columns.",
            where=where,
        )


def _absent(source: FileSource) -> list[str]:
    return [column for column, _ in source.matched.absent]


def pieces_of(batches: Iterable[Batch], where: str, progress: Progress | None) -> Iterator[pa.Table]:
    """Yield the rows of each batch. Raise ExtractionError for a rejected record."""
    read = 0
    for batch in batches:
        refuse_rejected(batch, where)
        yield batch.rows
        read += batch.read
        if progress is not None:
            progress(read)


def _table(batches: Iterable[Batch], columns: Columns, where: str, progress: Progress | None) -> pa.Table:
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns])
    pieces = (rows.select(schema.names) for rows in pieces_of(batches, where, progress))
    return pa.concat_tables([schema.empty_table(), *pieces])


_IN_PART: Final = "Nothing was changed, because rows missing from a partial read would count as deleted."


def refuse_rejected(batch: Batch, where: str, hint: str = _IN_PART) -> None:
    """Raise ExtractionError if the batch contains a rejected record."""
    if batch.rejected:
        first, count = batch.rejected[0], len(batch.rejected)
        others = "" if count == 1 else f" (at least {count:,} such records)"
        raise ExtractionError(
            f"{first.position} cannot be read: {first.reason}{others}",
            where=where,
            hint=hint,
        )


def _ends_line(path: Path, size: int) -> bool:
    """Return whether the file ends with a line end. The result for a compressed file is True."""
    if not size:
        return False
    with opened(path) as file:
        head = file.read(6)
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
    return last == b"\n" or head.startswith(COMPRESSED)


Columns = tuple[tuple[str, DataType], ...]


def added_columns(columns: Sequence[tuple[str, DataType]], schema: TableSchema, evolve: bool, where: str) -> Columns:
    """Return those columns of a source that are not in the tracked table.

    Raise Refused if the source has new columns and ``evolve`` is False, or if it has lost a column.
    """
    both = match_columns(columns, schema, None, True, where)
    refuse_lost([name for name, _ in both.absent], schema.name, where)
    if both.added and not evolve:
        raise Refused(
            f"the source of {schema.name} has new columns: {', '.join(name for name, _ in both.added)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {schema.name} --evolve` adds new columns.",
        )
    return both.added


def rows_of(
    records: Iterable[TextRecord], columns: Columns, where: str, progress: Progress | None, *, counted: str = "row"
) -> pa.Table:
    """Return the records as rows of ``columns``. Cells are texts, with BINARY values in base64.

    Raise ExtractionError for a value of another type. ``counted`` is the noun for a record in the error message.
    """
    names = tuple(name for name, _ in columns)
    with connect() as connection:
        # With the JSON layout, a missing cell is NULL, but an empty text is not.
        caster = Caster(Layout("json", names, ("VARCHAR",) * len(names)), OwnTimes(), columns, where, counted=counted)
        return _table(caster.text_batches(records, connection), columns, where, progress)
