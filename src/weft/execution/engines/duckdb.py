"""Run the SQL of views and synopses with DuckDB in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.errors import ExecutionError
from weft.faults import FAULTS
from weft.period_sql.notation import DUCKDB, Dialect
from weft.storage.columns import conformed, stored_schema
from weft.storage.data_files import FileForm
from weft.storage.temporal_sql import TemporalSql, temporal_sql

UNBOUNDED: Final = float("inf")


class BeyondBounds(Exception):
    """Raised if a computation exceeds the bounds of this process. Spark repeats the computation.

    ``why`` explains the reason. No user sees this error.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class DuckdbFailed(Exception):
    """Raised if DuckDB cannot finish a computation. Spark repeats the computation. No user sees this error."""


@contextmanager
def duckdb_failures() -> Iterator[None]:
    """Turn a failure of DuckDB in the block, such as an overflow or exhausted memory, into DuckdbFailed.

    Errors of the home (``weft.faults``), of limits and of Spark pass through.
    """
    try:
        yield
    except FAULTS:
        raise
    except (BeyondBounds, ExecutionError, pa.ArrowException) as error:
        raise DuckdbFailed from error


@dataclass
class DuckdbEngine(TemporalSql):
    """An engine that runs DuckDB in this process. The stored tables may have at most ``most`` rows together."""

    most: float = UNBOUNDED
    dialect: Dialect = DUCKDB
    sizes: dict[str, int] = field(default_factory=dict)
    """The number of rows of each stored table."""

    def table(self, name: str, sql: str) -> bool:
        """Create a table from a query, and return whether the table has rows. Raise BeyondBounds if it has too many."""
        if self.most != UNBOUNDED:
            # One row more than allowed shows that the bound is exceeded.
            sql = f"SELECT * FROM ({sql}) AS bounded LIMIT {int(self.most - sum(self.sizes.values())) + 1}"
        self.sizes[name] = self.created(name, sql)
        if sum(self.sizes.values()) > self.most:
            raise BeyondBounds(f"its intermediate results have more than {int(self.most):,} rows")
        return self.sizes[name] > 0

    def size(self, name: str) -> int | None:
        """Return the number of rows of a stored table."""
        return self.sizes.get(name)

    def drop(self, name: str) -> None:
        """Drop a table."""
        super().drop(name)
        self.sizes.pop(name, None)

    def result(self, sql: str, table: TableSchema, form: Callable[[], FileForm]) -> pa.Table:
        """Return the rows of a query in the form in which ``table`` stores them."""
        return conformed(self.rows(sql), stored_schema(table))


@contextmanager
def duckdb_engine(threads: int = 2, most: float = UNBOUNDED) -> Iterator[DuckdbEngine]:
    """Provide a DuckDB engine whose tables exist until the end of the block."""
    with temporal_sql(threads) as sql:
        yield DuckdbEngine(sql.connection, most)
