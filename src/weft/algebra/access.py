"""How a branch reads a table: whole, its news only, or what a key looks up (``derivation.access_paths`` chooses).

Every part has a view of its own name: ``<table>__<what>``, where no table's name has two _ in a row
(``catalog.naming``), and what is ``news``, ``by_<column>``, or ``by2_<column>`` for a second step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.algebra.scalar import Shifted


@dataclass(frozen=True)
class FullScan:
    """The table as it is."""

    table: str

    @property
    def view(self) -> str:
        """The name by which the rendered SQL reads it."""
        return self.table


@dataclass(frozen=True)
class DeltaScan:
    """The rows whose ``column`` + ``shift`` lies in the window: new rows, or rows whose hour has come.

    With ``slack`` (microseconds) it may lie that far outside: the instant is rounded to a day or another unit.
    """

    table: str
    column: str
    shift: Shifted
    slack: int = 0

    @property
    def view(self) -> str:
        """The name by which the rendered SQL reads it."""
        return f"{self.table}__news"


@dataclass(frozen=True)
class Lookup:
    """The rows whose ``column`` equals ``via_column`` of some row of ``via``; with ``null_safe`` two NULLs are
    equal."""

    table: str
    column: str
    via: Access
    via_column: str
    null_safe: bool = False

    @property
    def step(self) -> int:
        """How many look-ups lie behind it, itself included."""
        return 1 + (self.via.step if isinstance(self.via, Lookup) else 0)

    @property
    def view(self) -> str:
        """The name by which the rendered SQL reads it."""
        how = "same" if self.null_safe else "by"
        return f"{self.table}__{how}{self.step if self.step > 1 else ''}_{self.column}"


Access: TypeAlias = "FullScan | DeltaScan | Lookup"
