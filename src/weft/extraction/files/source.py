"""Read CSV, JSON lines and Parquet files as batches of rows of a table.

A file of any format is first read into Arrow tables. DuckDB then casts the rows to the table's types (see ``casting``).
An empty cell in CSV and a missing name in JSON lines are NULL. The quarantine stores a Parquet record as JSON.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import duckdb
import pyarrow as pa

from weft.algebra.schema import STRING, DataType, TableSchema
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME
from weft.extraction.batches import DEFAULT_TIMING, Batch, Timing
from weft.extraction.byte_streams import DAMAGE
from weft.extraction.files import bulk, cutting
from weft.extraction.files.columns import FileColumns, check_names, chosen_of, match_columns, typed
from weft.extraction.files.encoding import UTF_8
from weft.extraction.files.inference import Evidence
from weft.extraction.files.options import AS_WRITTEN, UNITS, FileOptions, common_unit
from weft.extraction.files.part import Part
from weft.extraction.files.probe import FileInspection, InputFile, inspect_file, unreadable
from weft.extraction.files.rows import Caster, Format, OwnTimes
from weft.extraction.files.shapes import joined, without_unknown
from weft.extraction.files.text_records import json_records
from weft.extraction.nested_values import holds
from weft.extraction.paths import opened
from weft.storage.local_sql import connect


@dataclass(frozen=True)
class Note:
    """A sentence about what was changed or inferred.  ``option`` is the option that changes it, or None."""

    text: str
    option: str | None = None

    def __str__(self) -> str:
        """Return the sentence as the command line shows it."""
        return self.text if self.option is None else f"{self.text} (to change this, use {self.option})"


@dataclass(frozen=True)
class FileSource:
    """A file whose columns fit the table. ``columns`` are the columns of the batches, in the table's order.

    ``form`` is the format of the event times, or None for timestamps. ``notes`` describe what was changed or inferred.
    """

    inspection: FileInspection
    matched: FileColumns
    columns: tuple[tuple[str, DataType], ...]
    form: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file in messages: the printable absolute path, or "stdin"."""
        return self.inspection.file.name

    def options(self, timing: Timing) -> dict[str, object]:
        """Return JSON-able options. A retry with these options reads a rejected record as this load did."""
        layout = self.inspection.layout
        return {
            "kind": "file",
            "format": layout.format,
            "names": list(layout.names),
            "written": list(layout.written),
            "dialect": [layout.dialect.delimiter, layout.dialect.quote, layout.dialect.escape],
            "own_time": self.matched.own_time,
            "form": self.form,
            **timing.options(),
        }

    def batches(
        self,
        timing: Timing = DEFAULT_TIMING,
        latest: int | None = None,
        *,
        origins: bool = False,
        aside: frozenset[str] = frozenset(),
        part: Part | None = None,
    ) -> Iterator[Batch]:
        """Yield the rows in file order, cast to the table's types. ``timing`` selects the event times of the rows.

        ``part`` restricts the records, and advances as they are read.

        A row without an event time gets the previous event time in arrival order, and is rejected in any other order. A
        row whose event time is after ``latest`` is rejected, too. ``latest`` is in µs UTC, or None for no limit. If
        ``origins`` is True, the batches also contain the records of their rows. ``aside`` contains the positions of
        records to leave out. Raises ExtractionError for a damaged Parquet file.
        """
        layout = self.inspection.layout
        own_times = OwnTimes(self.matched.own_time, timing.order == "arrival", latest, timing.too_far, self.form)
        sound = self._sound()
        caster = Caster(layout, own_times, self.columns, self.name, origins=origins, aside=aside, sound=sound)
        with connect() as connection:
            if layout.format == "parquet":
                yield from self._parquet_batches(caster, origins, connection, part)
                return
            with self.inspection.text(part) as stream:
                if layout.format == "csv" and not origins:
                    yield from bulk.csv_batches(stream, layout.dialect, caster, self.name, connection, part)
                elif part is not None:
                    yield from caster.text_batches(json_records(stream, part=part), connection)
                else:
                    yield from caster.text_batches(self.inspection.records(stream), connection)

    def _sound(self) -> frozenset[str]:
        """Return the nested columns in which the inspection found only values of the table's type."""
        shapes = {name.lower(): kind for name, kind in self.inspection.nested().items()}
        shaped = ((name, kind.shape, shapes.get(name.lower())) for name, kind in self.columns)
        return frozenset(name for name, shape, own in shaped if shape and own and holds(shape, own))

    def begins(self, timing: Timing) -> int | None:
        """Return the event time of the first row in microseconds UTC, or None if it is missing or unreadable."""
        layout = self.inspection.layout
        own_times = OwnTimes(self.matched.own_time, timing.order == "arrival", None, "", self.form)
        caster = Caster(layout, own_times, self.columns, self.name, sound=self._sound())
        batch: Batch | None
        with connect() as connection:
            if layout.format == "parquet":
                first = next(self.inspection.parquet(1), None)
                batch = None if first is None else caster.cast(first, None, connection)
            else:
                with self.inspection.text() as stream:
                    records = islice(self.inspection.records(stream), 1)
                    batch = next(caster.text_batches(records, connection), None)
        own: list[int | None] = [] if batch is None else batch.rows.column(OWN_TIME).to_pylist()
        return own[0] if own else None

    def _parquet_batches(
        self, caster: Caster, origins: bool, connection: duckdb.DuckDBPyConnection, part: Part | None
    ) -> Iterator[Batch]:
        before = 0 if part is None else part.before
        pieces = self.inspection.parquet(part=part)
        try:
            if origins:
                yield from (caster.cast(piece, None, connection) for piece in pieces)
            else:
                yield from bulk.parquet_batches(pieces, caster, self.name, connection, before)
        except (OSError, pa.ArrowException, duckdb.Error) as error:
            raise unreadable(self.inspection.file, error) from None


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal. The errors are those of ``digests``."""
    return digests(path)[0]


def digests(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the SHA-256 of a file, and what executors take for its digest if that differs (``digest_of_blocks``).

    Raises NotFound, and ExtractionError for an unreadable file.
    """
    try:
        with opened(Path(path)) as file:
            return digests_of(file)
    except OSError as error:
        raise unreadable(InputFile.of(Path(path)), error) from None


def digests_of(file: BinaryIO) -> tuple[str, ...]:
    """Return the digests of a stream as ``digests`` does. Raise OSError if it cannot be read."""
    whole, blocks = None, []  # of a file with one block, the digest of the block is the SHA-256
    block, left = hashlib.sha256(), cutting.DIGEST_BLOCK
    while chunk := file.read(min(left, 1 << 20)):
        block.update(chunk)
        if whole is not None:
            whole.update(chunk)
        left -= len(chunk)
        if not left:
            whole = whole or block
            blocks.append(block.digest())
            block, left = hashlib.sha256(), cutting.DIGEST_BLOCK
    if left != cutting.DIGEST_BLOCK:
        blocks.append(block.digest())
    return tuple(dict.fromkeys([(whole or block).hexdigest(), cutting.digest_of_blocks(blocks)]))


def open_file(
    path: str | os.PathLike[str],
    schema: TableSchema | None,
    *,
    ts_from: str | None = None,
    evolve: bool = False,
    written: Format | None = None,
    chosen: Sequence[tuple[str, DataType | None]] | None = None,
    options: FileOptions = AS_WRITTEN,
) -> FileSource:
    """Open one file. See ``open_files``.

    ``written`` is the format of the file. If ``written`` is None, the format is detected. ``chosen`` are the columns to
    read, each with its type. If ``chosen`` is None, all columns are read. If a type is None, it is inferred.
    """
    file = InputFile.of(Path(os.path.abspath(path)))
    [looked] = _inspect_all([file], schema is None or evolve or ts_from is not None, written, options)
    return file_sources([looked], schema, ts_from, evolve, options, chosen)[0]


def open_files(
    files: Sequence[InputFile],
    schema: TableSchema | None,
    *,
    ts_from: str | None = None,
    evolve: bool = False,
    options: FileOptions = AS_WRITTEN,
) -> tuple[FileSource, ...]:
    """Inspect the files, which must have the same columns.

    Each file is read once to infer types, or to collect the names in JSON. ``schema`` is the schema of the table, or
    None if the load creates the table.

    Raises NotFound for a missing file, and ExtractionError for an unreadable file. Raises Refused if the columns of a
    file do not match the table or the other files (see :func:`weft.extraction.files.columns.match_columns`).
    """
    infer = schema is None or evolve or ts_from is not None
    return file_sources(_inspect_all(files, infer, None, options), schema, ts_from, evolve, options)


def _inspect_all(
    files: Sequence[InputFile], infer: bool, written: Format | None, options: FileOptions
) -> list[FileInspection]:
    inspections = []
    for file in files:
        try:
            inspections.append(inspect_file(file, infer, written=written, options=options))
        except (*DAMAGE, pa.ArrowException) as error:
            raise unreadable(file, error) from None
    return inspections


def file_sources(
    files: Sequence[FileInspection],
    schema: TableSchema | None,
    ts_from: str | None,
    evolve: bool,
    options: FileOptions,
    chosen: Sequence[tuple[str, DataType | None]] | None = None,
) -> tuple[FileSource, ...]:
    """Match the columns of inspected files to each other and to the table. See ``open_files`` and ``open_file``."""
    where = files[0].file.name if len(files) == 1 else f"{len(files)} files"
    common = _in_common(files, evolve)
    if chosen is not None:
        common = chosen_of(common, chosen, where)
    common = typed(common, options.types, schema, where)
    check_names([each for each, _ in common], where)
    form = _form(files, common, ts_from, options)
    matched = match_columns(common, schema, ts_from, evolve, where, form)
    for file in files:
        _require_own_time(file, matched.own_time)
    known = [] if schema is None else [(c.name, c.type) for c in schema.columns if c.name != schema.start]
    columns = (*known, *matched.added) if schema is not None else matched.stored
    return tuple(FileSource(each, matched, columns, form, _notes(each, options, matched, form)) for each in files)


def _in_common(files: Sequence[FileInspection], evolve: bool) -> list[tuple[str, DataType]]:
    names: dict[str, tuple[str, InputFile]] = {}
    types: dict[str, Evidence | DataType] = {}
    for each in files:
        for name, kind in each.evidence.items():
            folded = name.lower()
            types[folded] = _of_both(types[folded], kind) if folded in types else kind
            names.setdefault(folded, (name, each.file))
    for each in files:
        there = {name.lower() for name in each.evidence}
        lacking = [folded for folded in names if folded not in there]
        if lacking and not evolve and each.layout.format != "json":
            name, other = names[lacking[0]]
            raise Refused(
                f"the files do not have the same columns: {each.file.name} lacks {name}, which {other.name} has",
                hint=(
                    "Load the files one after another, or together with --evolve, which reads missing columns as NULL."
                ),
            )
    return [(names[folded][0], _type(kind)) for folded, kind in types.items()]


def _of_both(one: Evidence | DataType, other: Evidence | DataType) -> Evidence | DataType:
    if isinstance(one, Evidence) and isinstance(other, Evidence):
        return one.joined(other)
    if isinstance(one, Evidence) and not one.filled:
        return other
    if isinstance(other, Evidence) and not other.filled:
        return one
    first, second = _type(one), _type(other)
    if first.shape is not None and second.shape is not None:
        return DataType.of_json(without_unknown(joined(first.shape, second.shape)))
    return first if first == second and first.shape == second.shape else STRING


def _type(kind: Evidence | DataType) -> DataType:
    return kind.type or STRING if isinstance(kind, Evidence) else kind


def _form(
    files: Sequence[FileInspection], columns: Sequence[tuple[str, DataType]], ts_from: str | None, options: FileOptions
) -> str | None:
    """Return the format of the event times: ``ts_format``, or the unit that fits the numbers in all files."""
    kinds: Mapping[str, DataType] = {name.lower(): kind for name, kind in columns}
    kind = None if ts_from is None else kinds.get(ts_from.lower())
    if ts_from is None or kind is None:
        if options.ts_format is not None and ts_from is None:
            raise Refused(
                "--ts-format requires --ts-from", hint="Name the column with the time of each row: --ts-from COL."
            )
        return None
    if options.ts_format is not None:
        if kind.name in ("TIMESTAMP", "DATE") and all(each.layout.format == "parquet" for each in files):
            raise Refused(f"{ts_from!r} is {kind} in the file and needs no format", hint="Omit --ts-format.")
        return options.ts_format
    if not kind.numeric:
        return None
    own = [each for each in files if ts_from.lower() in {name.lower() for name in each.layout.names}]
    return common_unit(value for each in own for value in each.sample(ts_from))


def _require_own_time(file: FileInspection, own_time: str | None) -> None:
    if own_time is not None and own_time.lower() not in {name.lower() for name in file.layout.names}:
        raise Refused(f"the file has no column {own_time!r} from which ts could be taken", where=file.file.name)


def _notes(file: FileInspection, options: FileOptions, matched: FileColumns, form: str | None) -> tuple[Note, ...]:
    stored = {name.lower() for name, _ in matched.stored}
    notes = []
    if options.encoding is None and file.encoding != UTF_8:
        notes.append(Note(f"{file.file.name} is not UTF-8; it was read as {file.encoding}", "--encoding"))
    chosen = {name.lower() for name, _ in options.rename}
    mended = [f"{new} is {old!r} in the file" for old, new in file.renamed if old.lower() not in chosen]
    if mended:
        notes.append(Note(f"columns got valid SQL names: {', '.join(mended)}", "--rename"))
    if form is not None and options.ts_format is None:
        notes.append(Note(f"{matched.own_time} was read as {UNITS[form]} since 1970", "--ts-format"))
    types = {name.lower(): kind for name, kind in (*matched.stored, *matched.extended)}
    nested = {name: shape for name, shape in file.nested().items() if name.lower() in stored}
    return (*notes, *_of_nested({name: (shape, types[name.lower()]) for name, shape in nested.items()}))


def _of_nested(columns: Mapping[str, tuple[DataType, DataType]]) -> list[Note]:
    """Return sentences about nested columns. The values of ``columns`` are the types in the file and in the table."""
    notes = []
    typed = [_part(name, own.shape) for name, (_, own) in columns.items() if own.shape is not None]
    if typed:
        shown = "nested values have types, which the description of the table shows"
        notes.append(Note(f"{shown}; to read a part of a value, write {', '.join(typed)}"))
    plain = [name for name, (_, own) in columns.items() if own.shape is None]
    if plain:
        part = f"read a part with GET_JSON_OBJECT({plain[0]}, '$…')"
        notes.append(Note(f"nested values without a common type are stored as JSON text: {', '.join(plain)}; {part}"))
    for name, (shape, own) in columns.items():
        if own.shape is not None and own.shape.extended(shape) != own.shape:
            part = f"read the fields with GET_JSON_OBJECT({name}, '$…')"
            notes.append(Note(f"{name} has fields that its type in the table lacks; {part}", "--evolve"))
    return notes


def _part(name: str, shape: DataType) -> str:
    match shape.name:
        case "STRUCT":
            field = shape.fields[0][0]
            return f"{name}.{field if field.isidentifier() else f'`{field}`'}"
        case "MAP":
            return f"{name}['…']"
        case _:
            return f"{name}[0]"
