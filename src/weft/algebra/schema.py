"""Types, columns and table schemas.

A table is append-only (``end is None``) or has lives that end.  Time is microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    """A type, written as Spark writes it (``STRING``, ``DECIMAL(10,2)``, ``ARRAY<STRUCT<a: INT>>``).

    ``element`` is that of an ARRAY's elements or a MAP's values, ``key`` that of a MAP's keys; ``fields`` are those of
    a STRUCT.  Nested types are those of expressions within a query.  A column that is declared with one is a STRING of
    JSON text, and ``shape`` is what that text is read as where parts of it are asked for.  It takes no part in
    comparisons: as a whole the column is text.

    >>> DataType.parse("decimal(10, 2)")
    DataType(name='DECIMAL', precision=10, scale=2)
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = field(default=None, repr=False)
    key: DataType | None = field(default=None, repr=False)
    fields: tuple[tuple[str, DataType], ...] = field(default=(), repr=False)
    shape: DataType | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_column(cls, text: str) -> DataType:
        """Reads the type of a column as it is declared, which may be nested; raises ValueError as ``parse_nested``.

        >>> kind = DataType.of_column("array<int>")
        >>> str(kind), kind.declared
        ('STRING', 'ARRAY<INT>')
        """
        return cls.of_json(cls.parse_nested(text))

    @classmethod
    def of_json(cls, shape: DataType) -> DataType:
        """JSON text that is read as ``shape``; a type that is not nested is that type.

        Raises ValueError for one that JSON does not have (``beyond_json``).
        """
        if not shape.nested:
            return shape
        if (found := shape.beyond_json()) is not None:
            raise ValueError(f"{found[0]} within {shape}: {found[1]}")
        return cls("STRING", shape=shape)

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
    def of_expression(cls, text: str) -> DataType:
        """Reads the type of any expression, as ``str`` writes it; raises ValueError as ``parse``."""
        return cls(text) if text in (PERIOD.name, MONTHS.name) else cls.parse_nested(text)

    @classmethod
    def parse_nested(cls, text: str, depth: int = 0) -> DataType:
        """Reads a type that may be an ARRAY, a MAP or a STRUCT.

        Raises ValueError as ``parse``, and for one that is more than ``MOST_NESTED`` deep or has two fields of one
        name.

        >>> str(DataType.parse_nested("struct<a int, `b c`: map<string, array<double>>>"))
        'STRUCT<a: INT, `b c`: MAP<STRING, ARRAY<DOUBLE>>>'
        """
        outer = re.fullmatch(r"\s*(ARRAY|MAP|STRUCT)\s*<(.*)>\s*", text, re.IGNORECASE | re.DOTALL)
        if outer is None:
            return cls.parse(text)
        if depth >= MOST_NESTED:
            raise ValueError(f"a type nested more than {MOST_NESTED} deep")
        name, parts = outer[1].upper(), between_commas(outer[2])
        if name == "STRUCT":
            fields = tuple(_field(part, depth + 1) for part in parts)
            if len({each.lower() for each, _ in fields}) < len(fields):
                raise ValueError(f"two fields of one name in {text[:80]!r}")
            return cls(name, fields=fields)
        if len(parts) != (2 if name == "MAP" else 1):
            raise ValueError(f"not a type: {text[:80]!r}")
        *keys, element = (cls.parse_nested(part, depth + 1) for part in parts)
        return cls(name, element=element, key=keys[0] if keys else None)

    def __str__(self) -> str:
        match self.name:
            case "ARRAY":
                return f"ARRAY<{self.element}>"
            case "MAP":
                return f"MAP<{self.key}, {self.element}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(f'{_field_name(name)}: {kind}' for name, kind in self.fields)}>"
            case "DECIMAL":
                return f"{self.name}({self.precision},{self.scale})"
            case _:
                return self.name

    @property
    def declared(self) -> str:
        """The type as a column is declared with it: that of the values for which JSON text stands."""
        return str(self.shape or self)

    def extended(self, found: DataType) -> DataType:
        """The type with the fields that ``found`` has besides; what it has already keeps its type.

        >>> read = DataType.parse_nested
        >>> str(read("ARRAY<STRUCT<a: INT>>").extended(read("ARRAY<STRUCT<A: STRING, b: DATE>>")))
        'ARRAY<STRUCT<a: INT, b: DATE>>'
        """
        if self.name != found.name or not self.nested:
            return self
        if self.element is not None and found.element is not None:
            return replace(self, element=self.element.extended(found.element))
        there = {name.lower(): kind for name, kind in found.fields}
        fields = [(name, kind.extended(there.get(name.lower(), kind))) for name, kind in self.fields]
        new = [each for each in found.fields if self.field_type(each[0]) is None]
        return replace(self, fields=(*fields, *new))

    def beyond_json(self) -> tuple[DataType, str] | None:
        """A part that no JSON has, and why; None where there is none."""
        if self.name == "MAP" and self.key != STRING:
            return self, "the keys of JSON are strings"
        if self in (INTERVAL, NULL, BINARY):
            return self, "JSON has no such values"
        if self.name == "DECIMAL" and not 0 <= (self.scale or 0) <= (self.precision or 0) <= MOST_DIGITS:
            return self, f"a DECIMAL has at most {MOST_DIGITS} digits, those behind the point among them"
        parts = (self.element, *(kind for _, kind in self.fields))
        return next((found for part in parts if part and (found := part.beyond_json())), None)

    @property
    def nested(self) -> bool:
        """Whether it is made of other types."""
        return self.name in NESTED

    def field_type(self, name: str) -> tuple[str, DataType] | None:
        """A STRUCT's field of that name, in any case: its name as it is written, and its type."""
        return next((each for each in self.fields if each[0].lower() == name.lower()), None)

    @property
    def numeric(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.name in NUMERIC


def sums_fit(type: DataType) -> bool:
    """Whether a type with ten more digits than this DECIMAL exists: sums of ten billion values fit it."""
    return (type.precision or 10) + SUM_DIGITS <= MOST_DIGITS


def between_commas(text: str) -> list[str]:
    """What stands between the commas that are in no brackets and no name in backquotes."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == "`"
        if not quoted:
            depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _field(text: str, depth: int) -> tuple[str, DataType]:
    found = re.fullmatch(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))\s*(?::|\s)\s*(.+)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"not a field and its type: {text.strip()[:80]!r}")
    return found[1].replace("``", "`") if found[1] else found[2], DataType.parse_nested(found[3], depth)


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) else f"`{name.replace('`', '``')}`"


NESTED: Final = ("ARRAY", "MAP", "STRUCT")
MOST_DIGITS: Final = 38
SUM_DIGITS: Final = 10
"""How many digits a sum of DECIMALs has beyond those of its values."""
MOST_NESTED: Final = 20
"""How deep a type may be."""
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
