"""Define the interface of SQL engines that evaluate batches, and implement the interface with DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import pyarrow as pa

from weft.errors import ExecutionError, LimitExceeded
from weft.period_sql.notation import DUCKDB, Dialect
from weft.storage.temporal_sql import TemporalSql, temporal_sql


class Engine(Protocol):
    """An SQL engine that stores tables during the evaluation of a batch."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as a table with this name."""

    def create_table(self, sql: str) -> str | None:
        """Create a table with the rows of a query. Return the table's name, or None if the query certainly has no
        rows.
        """

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""


def hint_for(message: str) -> str | None:
    """Return a hint for the user about an error message of an engine, or None."""
    large = re.search("overflow|out of range|failed to cast decimal", message, re.IGNORECASE)
    if not large:
        return None
    return "A number exceeds BIGINT. Exclude large values, count DISTINCT answers, or use i2f."


@dataclass
class DuckdbEngine:
    """An engine that runs DuckDB in this process."""

    sql: TemporalSql
    dialect: Dialect = DUCKDB
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as a table with this name."""
        self.sql.given(name, rows)

    def create_table(self, sql: str) -> str | None:
        """Create a table with the rows of a query. Return the table's name, or None if the query has no rows."""
        name = f"step_{next(self.numbers)}"
        with _plain_errors():
            return name if self.sql.table(name, sql) else None

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        with _plain_errors():
            return self.sql.rows(sql)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except LimitExceeded:
        raise
    except ExecutionError as error:
        message = error.message.partition(": ")[2] or error.message
        hint = hint_for(message) or error.hint
        raise ExecutionError(f"a batch of states cannot be evaluated: {message}", hint=hint) from error


@contextmanager
def duckdb_engine(threads: int = 2) -> Iterator[DuckdbEngine]:
    """Provide a DuckDB engine whose tables exist until the end of the block."""
    with temporal_sql(threads) as sql:
        yield DuckdbEngine(sql)
