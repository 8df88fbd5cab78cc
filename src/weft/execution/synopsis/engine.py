"""What evaluates the SQL of a batch."""

from __future__ import annotations

import re
from typing import Protocol

import pyarrow as pa

from weft.sql.points import Dialect


class Engine(Protocol):
    """An engine that holds tables while a batch is taken in."""

    @property
    def dialect(self) -> Dialect:
        """Which SQL it reads."""

    def given(self, name: str, rows: pa.Table) -> None:
        """Takes rows as the table ``name``."""

    def made(self, sql: str) -> str | None:
        """The name of a table that holds what a query gives; None where that is nothing."""

    def rows(self, sql: str) -> pa.Table:
        """What a query gives."""


def hint_for(told: str) -> str | None:
    """What to do about a failure that an engine tells; None where that is not known."""
    large = re.search("overflow|out of range|failed to cast decimal", told, re.IGNORECASE)
    if not large:
        return None
    return "A number is larger than a BIGINT: leave out what makes it so large, count DISTINCT answers, or use i2f."
