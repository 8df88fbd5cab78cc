"""Parse signatures in MonPoly's format.

A signature lists the predicates of a log, for example ``P(x: int, string)``.  Column names are optional.  Comments are
``# …`` to the end of the line and ``(* … *)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType
from weft.formula.tokens import END, Cursor, Symbols, tokens


@dataclass(frozen=True)
class Predicate:
    """A predicate with its name, its column types and its column names (``c1``, ``c2``, … by default).

    Formulas cannot use some columns, for example TIMESTAMP columns.  ``unnamed`` maps the positions of unusable columns
    to types.  At the position of an unusable column, a formula must write ``_``, and ``types`` contains STRING.
    """

    name: str
    types: tuple[DataType, ...]
    columns: tuple[str, ...]
    unnamed: Mapping[int, str] = field(default_factory=dict)


Signature: TypeAlias = Mapping[str, Predicate]
"""The predicates of a log by name."""

_TYPES: Final = {"int": BIGINT, "float": DOUBLE, "string": STRING}
_SYMBOLS: Final = Symbols.of(
    r"(?:\s|\(\*(?:.|\n)*?\*\)|#[^\n\r]*)*",
    (("(", r"\("), (")", r"\)"), (",", ","), (":", ":"), ("{", r"\{"), ("}", r"\}"), ("name", r"[A-Za-z0-9_]+")),
)


def signature(text: str) -> Signature:
    """Parse a signature.  Raise FormulaError with the position of a syntax error."""
    cursor = Cursor(text, tokens(text, _SYMBOLS, "the signature"), "the signature")
    predicates: dict[str, Predicate] = {}
    while not cursor.at(END):
        named = cursor.expect("name", "a predicate's name")
        if named.text == "event" and cursor.at("name"):
            raise cursor.refused("records (event …) are not supported; write the predicate's columns in brackets")
        cursor.expect("(", f"'(' and the types of the columns of {named.text}")
        if named.text in predicates:
            raise cursor.refused(f"{named.text} is declared twice", named, "Declare each predicate once.")
        predicates[named.text] = _predicate(cursor, named.text)
    return predicates


def _predicate(cursor: Cursor, name: str) -> Predicate:
    types: list[DataType] = []
    columns: list[str] = []
    while not cursor.at(")"):
        first = cursor.expect("name", "a type, or a column's name and its type").text
        is_named = cursor.taken(":")
        columns.append(first if is_named else f"c{len(types) + 1}")
        if is_named:
            first = cursor.expect("name", "a type").text
        if first not in _TYPES:
            raise cursor.refused(f"{first!r} is not one of the types int, float, string", cursor.ahead(-1))
        types.append(_TYPES[first])
        if not cursor.taken(","):
            break
    cursor.expect(")", "',' or ')' after a column")
    return Predicate(name, tuple(types), tuple(columns))


Value: TypeAlias = "int | float | str"
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class TimePoint:
    """A state of a log: its number from 0, its time in microseconds, and its rows by predicate."""

    number: int
    at: int
    rows: Mapping[str, list[Row]] = field(default_factory=dict)


def batches(points: Iterable[TimePoint], size: int) -> Iterator[list[TimePoint]]:
    """Split the time points into lists with at most ``size`` rows and time points in total.

    A time point larger than ``size`` has its own list.
    """
    batch: list[TimePoint] = []
    room = size
    for point in points:
        taken = 1 + sum(map(len, point.rows.values()))
        if batch and taken > room:
            yield batch
            batch, room = [], size
        batch.append(point)
        room -= taken
    if batch:
        yield batch
