"""Access paths: how a branch reads a table (``derivation.access_paths`` chooses).

A branch reads the whole table, only the rows of the window, or only the rows with given keys.  Each access path has its
own view, ``<table>__<suffix>``.  The suffix is ``news``, ``by_<column>``, or ``by2_<column>`` for a second step.  The
name is unambiguous because no table name has two _ in a row (``catalog.naming``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.algebra.scalar import Shifted


@dataclass(frozen=True)
class FullScan:
    """All rows of a table."""

    table: str

    @property
    def view(self) -> str:
        """The name of the view that the rendered SQL reads."""
        return self.table


@dataclass(frozen=True)
class DeltaScan:
    """The rows whose ``column`` + ``shift`` lies in the window: new rows, or rows whose threshold is reached.

    It also reads rows up to ``slack`` (microseconds) outside the window, because the instant is rounded to a day or
    another unit.
    """

    table: str
    column: str
    shift: Shifted
    slack: int = 0

    @property
    def view(self) -> str:
        """The name of the view that the rendered SQL reads."""
        return f"{self.table}__news"


@dataclass(frozen=True)
class Lookup:
    """The rows whose ``column`` equals ``via_column`` of a row of ``via``; with ``null_safe`` NULL equals NULL."""

    table: str
    column: str
    via: Access
    via_column: str
    null_safe: bool = False

    @property
    def step(self) -> int:
        """The number of look-ups in the chain, this one included."""
        return 1 + (self.via.step if isinstance(self.via, Lookup) else 0)

    @property
    def view(self) -> str:
        """The name of the view that the rendered SQL reads."""
        how = "same" if self.null_safe else "by"
        return f"{self.table}__{how}{self.step if self.step > 1 else ''}_{self.column}"


Access: TypeAlias = "FullScan | DeltaScan | Lookup"
