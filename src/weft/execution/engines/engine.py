"""Define the interface of the engines that compute views and synopses.

The same code computes a view or a synopsis on both engines: it renders SQL and stores the results of the SQL as tables.
DuckDB runs in this process and suits small inputs. Spark suits inputs that exceed the bounds (``choosing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.location import Location
from weft.period_sql.dialect import Dialect
from weft.storage.delta_log import DataFile


@dataclass(frozen=True)
class WrittenFiles:
    """Rows that Spark has written as Parquet files into ``folder``, ready for a commit. ``rows`` is their number."""

    folder: Location
    rows: int


Rows: TypeAlias = "pa.Table | WrittenFiles"
"""The rows of a result: in this process, or in files that Spark has written."""


def number_of(rows: Rows) -> int:
    """Return the number of rows in a result."""
    return rows.rows if isinstance(rows, WrittenFiles) else int(rows.num_rows)


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
