"""Look up rows by key in the driver. Before a look-up, an outdated arrangement is extended to its whole table.

Extending an arrangement writes files, and only the holder of the home's lease may write. Without the lease, a look-up
scans a small table or only describes its method. If an arrangement is damaged, the look-up reports the damage, and the
caller reads the table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from weft.access import make_file
from weft.algebra.access import Key
from weft.algebra.schema import TableSchema
from weft.arrangement import Arrangement, ArrangementError
from weft.arrangement.manifest import carried_columns
from weft.catalog import layout
from weft.errors import ExecutionError, LimitExceeded, StorageError
from weft.storage.columns import arrow_type, spelled, stored_schema
from weft.storage.compaction import Compaction, compactions
from weft.storage.data_files import file_batches, read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.json_fields import field_values
from weft.storage.ledger import ledger_schema
from weft.storage.table import Table

ANSWER: Final = ledger_schema("query_id", "row_hash")
"""Schema of the columns that identify an answer."""

_FIELD: Final = "_field"
"""The column with the values of the field by which an arrangement is ordered.

No column that a user names begins with _.
"""
_UNSURE: Final = "unsure"
"""The name of a file in the folder of an arrangement by a field.

It names a data file in which Spark may read other values. While this data file is in the table, the arrangement is not
extended, because each attempt would read the table up to it.
"""


def folder_name(table: TableSchema, key: Key) -> str:
    """Return the name of the folder of the arrangement of a table by a key. The table must have the column."""
    column = table.column(key.column)
    assert column is not None
    name = f"{table.id}-{column.id}"
    if not key.fields:
        return name
    return f"{name}.{hashlib.sha256(json.dumps(key.fields).encode()).hexdigest()[:16]}"


def keyed_schema(table: TableSchema, key: Key, columns: Iterable[str], folder: Path) -> tuple[str, pa.Schema]:
    """Return the name of the key in the arrangement in ``folder``, and the schema of the arrangement.

    The schema has every column that a look-up has needed, because plans with other columns come and go.
    """
    schema = stored_schema(table, {key.column, *columns, *carried_columns(folder)})
    if key.fields:
        return _FIELD, schema.append(pa.field(_FIELD, arrow_type(key.type)))
    return spelled(schema, key.column), schema


def no_values(table: TableSchema, key: Key) -> pa.Table:
    """Return an empty table of values of a key, for look-ups that only extend an arrangement."""
    kind = arrow_type(key.type) if key.fields else stored_schema(table, [key.column]).field(0).type
    return pa.table({"key": pa.array([], kind)})


def _with_field(rows: pa.Table, key: Key, file: DataFile, folder: Path) -> pa.Table:
    """Add the column with the values of the key.

    Raise ArrangementError if Spark may read other values, or if DuckDB fails, for example because its memory is full.
    """
    try:
        values = field_values(rows.column(spelled(rows.schema, key.column)), key.fields, key.type)
    except LimitExceeded:
        raise
    except ExecutionError as error:
        raise ArrangementError(f"DuckDB cannot read {key.name}: {error.message}") from error
    if values is None:
        make_file(folder / _UNSURE)
        (folder / _UNSURE).write_text(_unsure(key, file), "utf-8", "surrogateescape")
        raise _other_values(key)
    return rows.append_column(_FIELD, values)


def _check_unsure(folder: Path, key: Key, files: Sequence[DataFile]) -> None:
    """Raise ArrangementError if an earlier attempt found that Spark may read other values in one of the files."""
    try:
        known = (folder / _UNSURE).read_text("utf-8", "surrogateescape")
    except OSError:
        return
    if known in (_unsure(key, file) for file in files):
        raise _other_values(key)


def _unsure(key: Key, file: DataFile) -> str:
    return f"{key.type} {file.location}"


def _other_values(key: Key) -> ArrangementError:
    return ArrangementError(f"{key.name} has values that are not of its type {key.type}")


def moved_since(arrangement: Arrangement, files: Sequence[DataFile]) -> list[Compaction]:
    """Return the compactions that removed files of the arrangement.

    If the log no longer records these compactions, the list is empty and the arrangement is built again.
    """
    gone = arrangement.gone(files)
    if not gone or not files:
        return []
    try:
        return compactions(Table(files[0].table), gone)
    except StorageError:
        return []


@dataclass(frozen=True)
class LookUpResult:
    """The result of a look-up. ``by`` is the reader, and ``how`` describes the method.

    ``rows`` is None in two cases. If ``by`` is "Spark", the caller must read the table. If ``by`` is "arrangement", the
    arrangement is outdated and may not be extended, and the table is too large to scan.
    """

    by: Literal["driver", "arrangement", "Spark"]
    how: str
    rows: pa.Table | None = None


@dataclass(frozen=True)
class LookUps:
    """The arrangements of a home, in ``folder``.

    A look-up ignores an arrangement that lacks more than ``most_behind`` rows of the table. A look-up with more than
    ``most_found`` results fails. If ``catching_up`` is false, no arrangement is extended. A table of at most
    ``most_read`` rows is scanned if its outdated arrangement cannot be extended.
    """

    folder: Path
    most_behind: int = 50_000_000
    catching_up: bool = True
    most_read: int = 2_000_000
    most_found: int = 500_000

    def rows(
        self, table: TableSchema, files: Sequence[DataFile], key: Key, columns: Iterable[str], keys: pa.Table
    ) -> LookUpResult:
        """Return at least the given ``columns`` of the rows whose ``key`` is in ``keys``, a table of one column.

        Two NULLs are equal.
        """
        folder = self.folder / folder_name(table, key)
        name, schema = keyed_schema(table, key, columns, folder)
        return self._look_up(folder, (name,), schema, files, keys, key if key.fields else None, null_safe=True)

    def answers(self, files: Sequence[DataFile], keys: pa.Table) -> LookUpResult:
        """Return those ``keys`` (query ID and hash) that are in the ledger."""
        return self._look_up(self.folder / layout.LEDGER, ANSWER.names, ANSWER, files, keys)

    def whole_rows(
        self, table: TableSchema, files: Sequence[DataFile], columns: Sequence[str], keys: pa.Table
    ) -> LookUpResult:
        """Return the complete rows that have a key in ``columns``. Two NULLs are equal."""
        ids = [column.id for column in map(table.column, columns) if column is not None]
        folder = self.folder / f"{table.id}-row-{'-'.join(map(str, ids))}"
        return self._look_up(folder, columns, stored_schema(table), files, keys, null_safe=True)

    def known(
        self, table: TableSchema, files: Sequence[DataFile], columns: Sequence[str], keys: pa.Table
    ) -> LookUpResult:
        """Return the keys that occur in ``columns`` of the table. Two NULLs are equal."""
        ids = [column_record.id for column_record in map(table.column, columns) if column_record is not None]
        folder = self.folder / f"{table.id}-key-{'-'.join(map(str, ids))}"
        carried = stored_schema(table, columns)
        schema = pa.schema([carried.field(name) for name in columns])
        return self._look_up(folder, columns, schema, files, keys, null_safe=True)

    def _look_up(
        self,
        folder: Path,
        key: Sequence[str],
        schema: pa.Schema,
        files: Sequence[DataFile],
        keys: pa.Table,
        field: Key | None = None,
        *,
        null_safe: bool = False,
    ) -> LookUpResult:
        """If ``field`` is given, it is the key, and the schema has its values in the column ``_FIELD``."""
        stored = schema if field is None else schema.remove(schema.get_field_index(_FIELD))

        def read(new: Sequence[DataFile]) -> Iterator[pa.Table]:
            for file in new:
                for batch in file_batches(file, stored):
                    rows = pa.Table.from_batches([batch])
                    yield rows if field is None else _with_field(rows, field, file, folder)

        try:
            if field is not None:
                _check_unsure(folder, field, files)
            arrangement = Arrangement.open(folder, key, schema)
            moved = moved_since(arrangement, files)
            behind = arrangement.behind(files, moved)
            if behind is None or behind > self.most_behind:
                missing = "an unknown number of" if behind is None else f"{behind:,}"
                return LookUpResult(
                    "Spark", f"an arrangement is {missing} rows behind, but at most {self.most_behind:,} are allowed"
                )
            how = f"an arrangement of {arrangement.rows:,} rows, runs: {arrangement.runs}, {behind:,} rows behind"
            if self.catching_up:
                arrangement.catch_up(files, read, moved)
            elif behind:
                found = None if field is not None else self._scanned(files, schema, key, keys)
                return LookUpResult("arrangement", how, found)
            return LookUpResult("arrangement", how, arrangement.lookup(keys, null_safe=null_safe, most=self.most_found))
        except ArrangementError as error:
            return LookUpResult("Spark", f"the arrangement cannot be used: {error.message}")

    def _scanned(
        self, files: Sequence[DataFile], schema: pa.Schema, key: Sequence[str], keys: pa.Table
    ) -> pa.Table | None:
        """Return None if the files have more than ``most_read`` rows."""
        if sum(file.rows or 0 for file in files) > self.most_read:
            return None
        conditions = (
            pc.field(name).isin(column.cast(schema.field(name).type).combine_chunks())
            for name, column in zip(key, keys.columns, strict=True)
        )
        return read_data_files(files, schema, reduce(and_, conditions))
