"""Define the interface of the engines that compute views and synopses.

The same code computes a view or a synopsis on both engines: it renders SQL and stores the results of the SQL as tables.
DuckDB runs in this process and suits small inputs. Spark suits inputs that exceed the bounds (``choosing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra.schema import TableSchema
from weft.period_sql.notation import Dialect
from weft.storage.delta_log import DataFile
from weft.store import Store


@dataclass(frozen=True)
class WrittenFiles:
    """Rows that Spark has written as Parquet files into ``folder``, ready for a commit. ``rows`` is their number."""

    folder: Store
    rows: int


Rows: TypeAlias = "pa.Table | WrittenFiles"
"""The rows of a result: in this process, or in files that Spark has written."""


def number_of(rows: Rows) -> int:
    """Return the number of rows in a result."""
    return rows.rows if isinstance(rows, WrittenFiles) else int(rows.num_rows)


def arrow_rows(rows: Rows) -> pa.Table:
    """Return the rows of a result in this process. The caller must bound their number."""
    if not isinstance(rows, WrittenFiles):
        return rows
    return pq.read_table([file.path for file in parquet_files(rows.folder)], filesystem=rows.folder.filesystem)


def parquet_files(folder: Store) -> list[Store]:
    """Return the Parquet files in a folder into which Spark has written."""
    return [folder / name for name in folder.names() if name.endswith(".parquet")]


def for_table(rows: Rows) -> pa.Table | Store:
    """Return the rows in the form that ``Table.append`` takes."""
    return rows.folder if isinstance(rows, WrittenFiles) else rows


class Engine(Protocol):
    """An SQL engine that stores tables during a computation."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def stored(self, name: str, files: Sequence[DataFile], table: TableSchema) -> None:
        """Create the view ``name`` over the files of a stored table. Raise StorageError for a damaged file."""

    def given(self, name: str, rows: pa.Table) -> None:
        """Create the view ``name`` over rows in memory."""

    def table(self, name: str, sql: str) -> bool:
        """Create the table ``name`` from a query. Return False if the table certainly has no rows."""

    def view(self, name: str, sql: str) -> None:
        """Create the view ``name`` from a query."""

    def drop(self, name: str) -> None:
        """Drop a table."""

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query. The caller must bound their number."""

    def one(self, sql: str) -> Any:
        """Return the value of a query with one row and one column."""

    def result(self, sql: str, table: TableSchema) -> Rows:
        """Return the rows of a query in the form in which ``table`` stores them."""
