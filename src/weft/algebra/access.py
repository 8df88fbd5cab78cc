"""Define the access paths by which a branch reads a table; ``derivation.access_paths`` chooses among them.

Each access path reads a view of the table:

    <table>                 all rows
    <table>__news           the rows of the window
    <table>__by_<column>    a lookup by a column
    <table>__same_<column>  a lookup in which NULL equals NULL
    <table>__by2_<column>   a lookup at step 2 of a chain

View names are unambiguous because no table name has two successive underscores (``catalog.naming``).
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

    The scan also reads rows up to ``slack`` microseconds outside the window, because calendar functions round instants
    to a day or another unit.
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
    """The rows whose ``column`` equals ``via_column`` in some row of ``via``.

    With ``null_safe``, NULL equals NULL.
    """

    table: str
    column: str
    via: Access
    via_column: str
    null_safe: bool = False

    @property
    def step(self) -> int:
        """The number of this lookup in its chain of lookups, from 1."""
        return 1 + (self.via.step if isinstance(self.via, Lookup) else 0)

    @property
    def view(self) -> str:
        """The name of the view that the rendered SQL reads."""
        how = "same" if self.null_safe else "by"
        return f"{self.table}__{how}{self.step if self.step > 1 else ''}_{self.column}"


Access: TypeAlias = "FullScan | DeltaScan | Lookup"
