"""The interface of an SQL engine that evaluates a batch."""

from __future__ import annotations

import re
from typing import Protocol

import pyarrow as pa

from weft.sql.points import Dialect


class Engine(Protocol):
    """An engine that holds tables while a batch is processed."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Register rows as the table ``name``."""

    def create_table(self, sql: str) -> str | None:
        """Return the name of a table with a query's rows, or None if the engine knows that there are none."""

    def rows(self, sql: str) -> pa.Table:
        """Return a query's rows."""


def hint_for(message: str) -> str | None:
    """Return a hint for an engine's error message, or None."""
    large = re.search("overflow|out of range|failed to cast decimal", message, re.IGNORECASE)
    if not large:
        return None
    return "A number exceeds BIGINT: exclude large values, count DISTINCT answers, or use i2f."
