"""Define the interface of the engines that compute views and synopses.

The same code computes a view or a synopsis on both engines: it renders SQL and stores the results of the SQL as tables.
DuckDB runs in this process and suits small inputs. Spark suits inputs that exceed the bounds (``choosing``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.period_sql.notation import Dialect
from weft.storage.data_files import FileForm, NewFile
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice

Rows: TypeAlias = "pa.Table | Sequence[NewFile]"
"""The rows of a result: in this process, or in files that executors have written into a table's folder."""


def number_of(rows: Rows) -> int:
    """Return the number of rows in a result."""
    return int(rows.num_rows) if isinstance(rows, pa.Table) else sum(file.rows for file in rows)


class Engine(Protocol):
    """An SQL engine that stores tables during a computation."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def stored(self, name: str, files: Sequence[DataFile], table: TableSchema, part: Slice | None = None) -> None:
        """Create the view ``name`` over the files of a stored table. Raise StorageError for a damaged file.

        If ``part`` is given, the view has all rows of the slice, and possibly others.
        """

    def given(self, name: str, rows: pa.Table) -> None:
        """Create the view ``name`` over rows in memory."""

    def table(self, name: str, sql: str) -> bool:
        """Create the table ``name`` from a query. Return False if the table certainly has no rows."""

    def size(self, name: str) -> int | None:
        """Return the number of rows of a stored table, or None if it is known only after a computation."""

    def view(self, name: str, sql: str) -> None:
        """Create the view ``name`` from a query."""

    def drop(self, name: str) -> None:
        """Drop a table."""

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query. The caller must bound their number."""

    def one(self, sql: str) -> Any:
        """Return the value of a query with one row and one column."""

    def result(self, sql: str, table: TableSchema, form: Callable[[], FileForm]) -> Rows:
        """Return the rows of a query in the form in which ``table`` stores them.

        ``form`` creates the table, if necessary, and returns the properties of files that executors write into it.
        """
