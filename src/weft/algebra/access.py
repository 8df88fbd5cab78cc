"""Define how a branch reads a table.  The function ``derivation.access_paths`` chooses an access path for each scan.

Each access path reads a view of the table:

    <table>                 all rows
    <table>__news           the rows of the window
    <table>__by_<column>    a lookup by a column
    <table>__by2_<column>   a lookup at step 2 of a chain

View names are unambiguous because a table name cannot contain two successive underscores (``catalog.naming``).
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
        """The name of the view that the generated SQL reads."""
        return self.table


@dataclass(frozen=True)
class DeltaScan:
    """The rows whose ``column`` + ``shift`` lies in the window.

    The scan also reads rows up to ``slack`` microseconds outside the window, because calendar functions round times.
    """

    table: str
    column: str
    shift: Shifted
    slack: int = 0

    @property
    def view(self) -> str:
        """The name of the view that the generated SQL reads."""
        return f"{self.table}__news"


@dataclass(frozen=True)
class KeyScan:
    """All rows of a relation of keys, by which a tick looks up the rows of groups (``derivation.lives``)."""

    table: str

    @property
    def view(self) -> str:
        """The name of the view that the generated SQL reads."""
        return self.table


@dataclass(frozen=True)
class Lookup:
    """The rows whose ``column`` equals ``via_column`` in some row of ``via``.

    If ``null_safe`` is true, NULL equals NULL.
    """

    table: str
    column: str
    via: Access
    via_column: str
    null_safe: bool = False

    @property
    def step(self) -> int:
        """The position of this lookup in its chain of lookups, counted from 1."""
        return 1 + (self.via.step if isinstance(self.via, Lookup) else 0)

    @property
    def view(self) -> str:
        """The name of the view that the generated SQL reads."""
        return f"{self.table}__by{self.step if self.step > 1 else ''}_{self.column}"


Access: TypeAlias = "FullScan | DeltaScan | KeyScan | Lookup"
