"""Read a table, a view or the answers of a query as of an instant, file by file for several processes.

The objects of this module can be sent to other processes.  They name the files of one state of the home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import INTERVAL, DataType, TableSchema
from weft.catalog.records import FIRST_AT, ORDINAL, QueryRecord
from weft.storage.columns import INSTANT, arrow_type, stored_schema
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DataFile
from weft.storage.ledger import answers_in
from weft.storage.nested import nested_array
from weft.storage.periods import TS, periods_at
from weft.storage.typed_answers import OWN, Columns, typed_schema, typed_table

Bounds: TypeAlias = Mapping[str, tuple[int, int]]
"""The least and the greatest value of columns.  Instants are in microseconds UTC."""
LEAST: Final = -(2**63)
GREATEST: Final = 2**63 - 1
_STORED: Final = {ORDINAL: "ordinal", FIRST_AT: "first_at", "_tick": "tick"}


class AsOf(Protocol):
    """The rows of a relation at an instant."""

    @property
    def columns(self) -> Columns:
        """The names and the types of the columns."""

    def parts(self, bounds: Bounds) -> list[tuple[DataFile, ...]]:
        """Return the files that can be read apart.  Leave out files without a row within the bounds."""

    def read(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        """Yield the rows of one part.  Raise StorageError if a file is missing or damaged."""


@dataclass(frozen=True)
class RowsAsOf:
    """A table whose rows only arrive: the rows with an instant up to ``at`` (µs UTC), or all rows."""

    table: TableSchema
    files: tuple[DataFile, ...]
    at: int | None

    @property
    def columns(self) -> Columns:
        """The columns of the table, with those of a period."""
        return tuple((column.name, column.type) for column in self.table.columns)

    def parts(self, bounds: Bounds) -> list[tuple[DataFile, ...]]:
        """Return each file."""
        return [(file,) for file in _within(self.files, bounds, TS, self.at)]

    def read(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        """Yield the rows of the files."""
        schema = stored_schema(self.table)
        condition = None if self.at is None else pc.field(TS) <= pa.scalar(self.at, INSTANT)
        for file in files:
            for batch in file_batches(file, schema, condition):
                yield _typed(pa.Table.from_batches([batch]), self.columns)


@dataclass(frozen=True)
class PeriodsAsOf(RowsAsOf):
    """A tracked table or a view: the rows whose period contains ``at`` (µs UTC), or whose period is open."""

    log: TableSchema

    def parts(self, bounds: Bounds) -> list[tuple[DataFile, ...]]:
        """Return all files as one part, because a change in one file ends a period in another file."""
        return [self.files]

    def read(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        """Yield the rows."""
        found = periods_at(files, self.log, self.at)
        yield _typed(found.select([name for name, _ in self.columns]), self.columns)


@dataclass(frozen=True)
class AnswersAsOf:
    """A query: the answers with a first instant up to ``at`` (µs UTC), or all answers."""

    query: QueryRecord
    files: tuple[DataFile, ...]
    at: int | None

    @property
    def columns(self) -> Columns:
        """``_ordinal``, ``_first_at``, ``_tick`` and the columns of the query.  A repeated name gets a number."""
        every = (*OWN, *self.query.columns)
        return tuple((name, kind) for name, (_, kind) in zip(typed_schema(every).names, every, strict=True))

    def parts(self, bounds: Bounds) -> list[tuple[DataFile, ...]]:
        """Return each file with answers of the query."""
        stored = {_STORED[name]: limits for name, limits in bounds.items() if name in _STORED}
        return [(file,) for file in _within(self.files, stored, "first_at", self.at)]

    def read(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        """Yield the answers of the files."""
        rows = (row for row in answers_in(files, self.query) if self.at is None or row.first_at <= self.at)
        yield typed_table(self.columns, ((row.ordinal, row.first_at, row.tick, *row.values) for row in rows))


def _within(files: Sequence[DataFile], bounds: Bounds, instant: str, at: int | None) -> Iterator[DataFile]:
    limits = dict(bounds)
    if at is not None:
        low, high = limits.get(instant, (LEAST, GREATEST))
        limits[instant] = (low, min(high, at))
    return (file for file in files if all(file.may_hold(name, *each) for name, each in limits.items()))


def _typed(rows: pa.Table, columns: Columns) -> pa.Table:
    """Convert JSON text to nested values, and numbers of microseconds to intervals."""
    arrays = [_column(rows.column(name), kind) for name, kind in columns]
    return pa.table(arrays, schema=typed_schema(columns))


def _column(values: pa.ChunkedArray, kind: DataType) -> pa.ChunkedArray:
    if kind.json is not None:
        return pa.chunked_array([nested_array(values.to_pylist(), kind.json)])
    return values.cast(arrow_type(INTERVAL)) if kind.shape == INTERVAL else values
