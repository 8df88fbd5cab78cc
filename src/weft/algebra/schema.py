"""Types, columns and table schemas.

A table is append-only (``end is None``) or has lives that end.  Time is microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

C = TypeVar("C", bound="type[Any]")


def hashed_once(cls: C) -> C:
    """A frozen class whose objects work out their hash once: rewriting looks up whole trees at each of their levels.

    Two objects are compared part by part, each pair of parts once: expressions share parts, of which there are more
    ways through than anybody could go.
    """
    worked_out: Callable[[Any], int] = cls.__hash__  # type: ignore[assignment]
    compared: Callable[[Any, Any], Any] = cls.__eq__  # type: ignore[assignment]

    def remembered(self: Any) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = worked_out(self)
        return known

    def equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if remembered(self) != remembered(other):
            return False
        same: set[tuple[int, int]] | None = getattr(_comparing, "same", None)
        if same is None:
            _comparing.same = set()
            try:
                return compared(self, other)
            finally:
                _comparing.same = None
        if (id(self), id(other)) in same:
            return True
        found = compared(self, other)
        if found is True:
            same.add((id(self), id(other)))
        return found

    cls.__hash__ = remembered  # type: ignore[assignment]
    cls.__eq__ = equal  # type: ignore[assignment]
    return cls


_comparing: Final = threading.local()
"""The pairs that are known to be the same in the comparison under way."""


@hashed_once
@dataclass(frozen=True)
class DataType:
    """A scalar type, written as Spark writes it (``STRING``, ``DECIMAL(10,2)``).

    ``element`` is that of an ARRAY, which only a list of constants has.

    >>> DataType.parse("decimal(10, 2)")
    DataType(name='DECIMAL', precision=10, scale=2, element=None)
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Reads a type's text; raises ValueError for one that Weft does not know."""
        match = re.fullmatch(r"\s*([A-Za-z ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text)
        if match is None:
            raise ValueError(f"not a type: {text!r}")
        name = _ALIASES.get(match[1].upper(), match[1].upper())
        if name not in _NAMES:
            raise ValueError(f"not a type that Weft stores: {text!r}")
        if name == "DECIMAL":
            return cls(name, int(match[2] or 10), int(match[3] or 0))
        return cls(name)

    @classmethod
    def of_constant(cls, text: str) -> DataType:
        """Reads the type of a constant, which may be a list (``ARRAY<INT>``); raises ValueError as ``parse``."""
        listed = re.fullmatch(r"ARRAY<(.*)>", text)
        if text in (PERIOD.name, MONTHS.name):
            return cls(text)
        return cls("ARRAY", element=cls.parse(listed[1])) if listed else cls.parse(text)

    def __str__(self) -> str:
        if self.element is not None:
            return f"ARRAY<{self.element}>"
        return f"{self.name}({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def numeric(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.name in NUMERIC


_ALIASES: Final = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
    "REAL": "FLOAT",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "TEXT": "STRING",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "INTERVAL DAY TO SECOND": "INTERVAL",
}
INTEGRAL: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NUMERIC: Final = (*INTEGRAL, "DECIMAL", "FLOAT", "DOUBLE")
_NAMES: Final = (*NUMERIC, "STRING", "BOOLEAN", "TIMESTAMP", "DATE", "BINARY", "INTERVAL", "NULL")

STRING: Final = DataType("STRING")
BOOLEAN: Final = DataType("BOOLEAN")
TINYINT: Final = DataType("TINYINT")
SMALLINT: Final = DataType("SMALLINT")
INT: Final = DataType("INT")
BIGINT: Final = DataType("BIGINT")
FLOAT: Final = DataType("FLOAT")
DOUBLE: Final = DataType("DOUBLE")
TIMESTAMP: Final = DataType("TIMESTAMP")
DATE: Final = DataType("DATE")
BINARY: Final = DataType("BINARY")
INTERVAL: Final = DataType("INTERVAL")
NULL: Final = DataType("NULL")
PERIOD: Final = DataType("PERIOD")
"""A set of instants, which only the period functions of temporal views take; no column has it."""
MONTHS: Final = DataType("MONTHS")
"""A length in months of the calendar (INTERVAL 1 YEAR is 12), which temporal views alone have; no column has it."""


@hashed_once
@dataclass(frozen=True)
class Column:
    """A named column.  ``id`` stays the same for ever within its table; queries bind to it."""

    id: int
    name: str
    type: DataType
    nullable: bool = True


@hashed_once
@dataclass(frozen=True)
class TableSchema:
    """A table as queries see it.

    ``start`` names the column that holds the first instant of a row's life; ``end`` the column that holds the
    instant at which it ended (NULL: not yet), or is None for an append-only table, where nothing ends.
    ``source`` tells what ``id`` is of: a table of the home, or a standing query, whose answers are read as the table
    ``results.NAME`` with ``_first_at`` as their start.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    start: str = "ts"
    end: str | None = None
    source: Literal["table", "results"] = "table"

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case, or None."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)

    @property
    def append_only(self) -> bool:
        """Whether no row's life ever ends."""
        return self.end is None
