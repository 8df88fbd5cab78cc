"""The interface of an SQL engine that evaluates batches, and its implementation with DuckDB in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import pyarrow as pa

from weft.errors import ExecutionError, LimitExceeded
from weft.sql.points import DUCKDB, Dialect
from weft.storage.temporal_sql import TemporalSql, temporal_sql


class Engine(Protocol):
    """An SQL engine that stores tables while a batch is evaluated."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as the table ``name``."""

    def create_table(self, sql: str) -> str | None:
        """Create a table with the rows of a query and return its name.

        Return None if the engine knows that the query has no rows.
        """

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""


def hint_for(message: str) -> str | None:
    """Return a hint for the user about an engine's error message, or None."""
    large = re.search("overflow|out of range|failed to cast decimal", message, re.IGNORECASE)
    if not large:
        return None
    return "A number exceeds BIGINT. Exclude large values, count DISTINCT answers, or use i2f."


@dataclass
class DuckdbEngine:
    """An engine that runs on DuckDB in this process."""

    sql: TemporalSql
    dialect: Dialect = DUCKDB
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as the table ``name``."""
        self.sql.given(name, rows)

    def create_table(self, sql: str) -> str | None:
        """Create a table with the rows of a query and return its name, or None if the query has no rows."""
        name = f"step_{next(self.numbers)}"
        with _plain_errors():
            return name if self.sql.table(name, sql) else None

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        with _plain_errors():
            return self.sql.rows(sql)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Replace DuckDB's errors within the block by errors that a user can understand."""
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
    """Provide a DuckDB engine; its tables are dropped at the end of the block."""
    with temporal_sql(threads) as sql:
        yield DuckdbEngine(sql)
