"""Define how a branch reads a table.  The function ``derivation.access_paths`` chooses an access path for each scan.

Each access path reads a view of the table:

    <table>                 all rows
    <table>__news           the rows of the window
    <table>__by_<column>    a lookup by a column
    <table>__by2_<column>   a lookup at step 2 of a chain
    <table>__in_<path>      a lookup by a field of a nested column
    <table>__in2_<path>     the same at step 2 of a chain

View names are unambiguous because a table name cannot contain two successive underscores (``catalog.naming``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from weft.algebra.scalar import Shifted
from weft.algebra.schema import INTEGRAL, DataType, path_text


@dataclass(frozen=True, order=True)
class Key:
    """The key of a look-up: a column of a relation, or a field of a STRUCT column.

    ``fields`` are the names of the fields that lead from the column to the key.  They are empty for a plain column.
    ``shape`` is the type of the STRUCT column, or None for a plain column.
    """

    column: str
    fields: tuple[str, ...] = ()
    shape: DataType | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The column, or the path to the field."""
        return path_text((self.column, *self.fields)) if self.fields else self.column

    @property
    def type(self) -> DataType:
        """The type of the field.  The key must not be a plain column."""
        kind = self.shape
        for name in self.fields:
            found = kind.field_type(name) if kind is not None else None
            kind = found[1] if found else None
        assert kind is not None
        return kind


def is_field_key(type: DataType) -> bool:
    """Return whether a field of this type can be the key of a look-up.

    Text and integers in JSON have one value in all engines.
    """
    return type.name in (*INTEGRAL, "STRING") and type.shape is None


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
    """The rows whose ``key`` equals ``via_key`` in some row of ``via``.

    If ``null_safe`` is true, NULL equals NULL.
    """

    table: str
    key: Key
    via: Access
    via_key: Key
    null_safe: bool = False

    @property
    def step(self) -> int:
        """The position of this lookup in its chain of lookups, counted from 1."""
        return 1 + (self.via.step if isinstance(self.via, Lookup) else 0)

    @property
    def view(self) -> str:
        """The name of the view that the generated SQL reads."""
        word = "in" if self.key.fields else "by"
        return f"{self.table}__{word}{self.step if self.step > 1 else ''}_{self.key.name}"


Access: TypeAlias = "FullScan | DeltaScan | KeyScan | Lookup"
