"""Define types, columns and table schemas.

The rows of an append-only table (``end`` is None) never end.  Time is in microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar

C = TypeVar("C", bound="type[Any]")

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
"""The columns with the start and the end of the periods in tracked tables and views."""


def hashed_once(cls: C) -> C:
    """Make the objects of a frozen class cache their hashes.  A comparison visits each pair of parts only once.

    The cached hash speeds up rewritings, which look up a tree at each level.  Without the cache of pairs, a comparison
    of expressions that share parts could take exponential time.
    """
    worked_out: Callable[[Any], int] = cls.__hash__  # type: ignore[assignment]
    compared: Callable[[Any, Any], Any] = cls.__eq__  # type: ignore[assignment]

    def hash_of(self: Any) -> int:
        cached: int | None = self.__dict__.get("_hash")
        if cached is None:
            cached = self.__dict__["_hash"] = worked_out(self)
        return cached

    def equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if hash_of(self) != hash_of(other):
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
        result = compared(self, other)
        if result is True:
            same.add((id(self), id(other)))
        return result

    cls.__hash__ = hash_of  # type: ignore[assignment]
    cls.__eq__ = equal  # type: ignore[assignment]
    return cls


_comparing: Final = threading.local()
"""For each thread, the pairs that the current comparison has found equal."""

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def remembered(function: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let a pure function of a frozen object keep its last result in the object, for equal other arguments.

    Callers must not change the result.  The result belongs to the object itself: objects can be equal and yet differ in
    a field that no comparison uses, such as the names of a state.
    """
    place = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def recalled(subject: S, /, *args: P.args, **named: P.kwargs) -> T:
        asked, known = (args, named), subject.__dict__.get(place)
        if known is None or known[0] != asked:
            known = subject.__dict__[place] = asked, function(subject, *args, **named)
        result: T = known[1]
        return result

    return recalled


@hashed_once
@dataclass(frozen=True)
class DataType:
    """A type, written as in Spark (``STRING``, ``DECIMAL(10,2)``, ``ARRAY<STRUCT<a: INT>>``).

    ``element`` is the type of an ARRAY's elements or a MAP's values.  ``key`` is the type of a MAP's keys, and
    ``fields`` are the fields of a STRUCT.  Only expressions within a query have nested types.  A column with a declared
    nested type stores JSON text.  The type of such a column is STRING, and ``shape`` is the declared type.  Queries use
    ``shape`` to read parts of the text.  A column of intervals stores numbers of microseconds.  The type of such a
    column is BIGINT, and its ``shape`` is INTERVAL.  Comparisons of types ignore ``shape``.

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
        """Return the type of a column declared as ``text``, which may be a nested type.

        Raise ValueError in the same cases as ``parse_nested``, or if JSON cannot represent the type.

        >>> kind = DataType.of_column("array<int>")
        >>> str(kind), kind.declared
        ('STRING', 'ARRAY<INT>')
        """
        kind = cls.parse_nested(text)
        return INTERVALS if kind == INTERVAL else cls.of_json(kind)

    @classmethod
    def of_json(cls, shape: DataType) -> DataType:
        """Return the type of JSON text for the nested type ``shape``.  If ``shape`` is not nested, return it unchanged.

        Raise ValueError for a type that JSON cannot represent (``beyond_json``).
        """
        if not shape.nested:
            return shape
        if (problem := shape.beyond_json()) is not None:
            raise ValueError(f"{problem[0]} within {shape}: {problem[1]}")
        return cls("STRING", shape=shape)

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Return the type named by ``text``.  Raise ValueError if Weft cannot store the type."""
        match = re.fullmatch(r"\s*([A-Za-z ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text)
        if match is None:
            raise ValueError(f"not a type: {text!r}")
        name = _ALIASES.get(match[1].upper(), match[1].upper())
        if name not in _NAMES:
            raise ValueError(f"Weft does not store this type: {text!r}")
        if name == "DECIMAL":
            return cls(name, int(match[2] or 10), int(match[3] or 0))
        return cls(name)

    @classmethod
    def of_expression(cls, text: str) -> DataType:
        """Parse the text that ``str`` returns for the type of an expression.

        Raise ValueError in the same cases as ``parse_nested``.
        """
        return cls(text) if text in (PERIOD.name, MONTHS.name) else cls.parse_nested(text)

    @classmethod
    def parse_nested(cls, text: str, depth: int = 0) -> DataType:
        """Parse the text of a type, which may be an ARRAY, a MAP or a STRUCT.

        Raise ValueError in the same cases as ``parse``.  Also raise ValueError for more than ``MOST_NESTED`` levels of
        nesting, or for two fields with the same name.

        >>> str(DataType.parse_nested("struct<a int, `b c`: map<string, array<double>>>"))
        'STRUCT<a: INT, `b c`: MAP<STRING, ARRAY<DOUBLE>>>'
        """
        outer = re.fullmatch(r"\s*(ARRAY|MAP|STRUCT)\s*<(.*)>\s*", text, re.IGNORECASE | re.DOTALL)
        if outer is None:
            return cls.parse(text)
        if depth >= MOST_NESTED:
            raise ValueError(f"a type has more than {MOST_NESTED} nested levels")
        name, parts = outer[1].upper(), between_commas(outer[2])
        if name == "STRUCT":
            fields = tuple(_field(part, depth + 1) for part in parts)
            if len({each.lower() for each, _ in fields}) < len(fields):
                raise ValueError(f"two fields have the same name in {text[:80]!r}")
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
        """The text of the column's declared type, which may be nested."""
        return _DECLARED if self.shape == INTERVAL else str(self.shape or self)

    @property
    def json(self) -> DataType | None:
        """The nested type of the values of a column of JSON text, or None for another type."""
        return self.shape if self.name == "STRING" else None

    def extended(self, other: DataType) -> DataType:
        """Return the type with the additional fields of ``other``.

        If both types have a field, the result uses the type of the field in ``self``.

        >>> read = DataType.parse_nested
        >>> str(read("ARRAY<STRUCT<a: INT>>").extended(read("ARRAY<STRUCT<A: STRING, b: DATE>>")))
        'ARRAY<STRUCT<a: INT, b: DATE>>'
        """
        if self.name != other.name or not self.nested:
            return self
        if self.element is not None and other.element is not None:
            return replace(self, element=self.element.extended(other.element))
        there = {name.lower(): kind for name, kind in other.fields}
        fields = [(name, kind.extended(there.get(name.lower(), kind))) for name, kind in self.fields]
        new = [each for each in other.fields if self.field_type(each[0]) is None]
        return replace(self, fields=(*fields, *new))

    def beyond_json(self) -> tuple[DataType, str] | None:
        """Return the first part of the type that JSON cannot represent, with the reason, or None."""
        if self.name == "MAP" and self.key != STRING:
            return self, "the keys of JSON are strings"
        if self in (INTERVAL, NULL, BINARY):
            return self, "JSON has no such values"
        if self.name == "DECIMAL" and not 0 <= (self.scale or 0) <= (self.precision or 0) <= MOST_DIGITS:
            return self, f"a DECIMAL has at most {MOST_DIGITS} digits, including those after the point"
        parts = (self.element, *(kind for _, kind in self.fields))
        return next((problem for part in parts if part and (problem := part.beyond_json())), None)

    @property
    def nested(self) -> bool:
        """Whether the type is an ARRAY, a MAP or a STRUCT."""
        return self.name in NESTED

    def field_type(self, name: str) -> tuple[str, DataType] | None:
        """Return the declared name and the type of a STRUCT field, or None.  The search for ``name`` ignores case."""
        return next((each for each in self.fields if each[0].lower() == name.lower()), None)

    @property
    def numeric(self) -> bool:
        """Whether the type supports arithmetic."""
        return self.name in NUMERIC


def sums_fit(type: DataType) -> bool:
    """Return whether DECIMAL can have ten more digits than ``type``, enough for a sum of ten billion values."""
    return (type.precision or 10) + SUM_DIGITS <= MOST_DIGITS


def between_commas(text: str) -> list[str]:
    """Split a text at the commas outside brackets and backquotes."""
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
    match = re.fullmatch(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))\s*(?::|\s)\s*(.+)", text, re.DOTALL)
    if match is None:
        raise ValueError(f"not a field and its type: {text.strip()[:80]!r}")
    return match[1].replace("``", "`") if match[1] else match[2], DataType.parse_nested(match[3], depth)


def path_text(names: Iterable[str]) -> str:
    """Return the names of a column and of its fields, separated by dots and in backquotes if necessary.

    >>> path_text(["info", "zip code"])
    'info.`zip code`'
    """
    return ".".join(map(_field_name, names))


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) else f"`{name.replace('`', '``')}`"


NESTED: Final = ("ARRAY", "MAP", "STRUCT")
MOST_DIGITS: Final = 38
SUM_DIGITS: Final = 10
"""The number of digits that SUM adds to a DECIMAL type."""
MOST_NESTED: Final = 20
"""The maximal nesting depth of a type."""
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
_DECLARED: Final = "INTERVAL DAY TO SECOND"
"""Spark's name for the type of a column of intervals."""
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
INTERVALS: Final = DataType("BIGINT", shape=INTERVAL)
"""The type of a column of intervals, in microseconds."""
NULL: Final = DataType("NULL")
PERIOD: Final = DataType("PERIOD")
"""The type of a set of instants, which only the period functions of temporal views accept."""
MONTHS: Final = DataType("MONTHS")
"""The type of a duration in calendar months, for temporal views only: INTERVAL 1 YEAR is 12."""


@hashed_once
@dataclass(frozen=True)
class Column:
    """A named column.  Queries refer to a column by its ``id``, which never changes."""

    id: int
    name: str
    type: DataType
    nullable: bool = True


@hashed_once
@dataclass(frozen=True)
class TableSchema:
    """The schema that queries see for a table.

    ``start`` and ``end`` name the columns with the start time and the end time of a row.  The end time is NULL if the
    row has not ended.  For an append-only table ``end`` is None.  ``source`` is the kind of object that ``id``
    identifies.  The kind is "table" for a table of the home, and "results" for a standing query.  The table
    ``results.NAME`` contains the answers of a standing query, with the start column ``_first_at``.  The kind "state" is
    a part of a query that a tick computes (``relation.StateSchema``).  ``key`` are the names of columns whose values no
    two rows share at any instant, or empty.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    start: str = "ts"
    end: str | None = None
    source: Literal["table", "results", "state"] = "table"
    key: tuple[str, ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def column(self, name: str) -> Column | None:
        """Return the column with the given name, or None.  The search ignores case."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)

    @property
    def append_only(self) -> bool:
        """Whether the rows of the table never end."""
        return self.end is None
