"""The syntax tree of a formula, before name resolution, type inference and expansion of shorthands.

``at`` is the offset of a node in its text; comparisons of nodes ignore it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from weft.algebra.formula import AggregateFunction, Counting
from weft.instants import UNITS_US


@dataclass(frozen=True)
class Name:
    """A variable in a term."""

    name: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Value:
    """A constant: an int, a float or a text.

    ``regular`` marks a regular expression: ``r"…"`` in the syntax of OCaml's Str, or, with ``translated``, ``re'…'`` in
    that of RE2.
    """

    value: int | float | str
    regular: bool = False
    translated: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Call:
    """An operation on terms: ``+ - * / MOD negate i2f f2i``."""

    operation: str
    arguments: tuple[WrittenTerm, ...]
    at: int = field(default=0, compare=False)


WrittenTerm: TypeAlias = "Name | Value | Call"


UNITS: Final = {unit: UNITS_US[unit] for unit in ("us", "ms", "s", "m", "h", "d")}
"""Units of time in microseconds, in ascending order; us and ms are Weft's additions."""


@dataclass(frozen=True)
class Bounds:
    """An interval as written: in microseconds, with open or closed ends; no upper end if ``high`` is None."""

    low: int = 0
    low_open: bool = False
    high: int | None = None
    high_open: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Holds:
    """``TRUE`` or ``FALSE``."""

    value: bool
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Applied:
    """A predicate, or a relation defined by LET or MU, applied to terms."""

    name: str
    terms: tuple[WrittenTerm, ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Compared:
    """A comparison of two terms."""

    operator: Literal["=", "<>", "<", "<=", "substring"]
    left: WrittenTerm
    right: WrittenTerm
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Matched:
    """A match of a text with a regular expression; a group written ``_`` is None."""

    text: WrittenTerm
    pattern: WrittenTerm
    groups: tuple[WrittenTerm | None, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Negated:
    """``NOT``."""

    formula: Written
    at: int = field(default=0, compare=False)


Connective: TypeAlias = Literal["AND", "OR", "IMPLIES", "EQUIV"]


@dataclass(frozen=True)
class Joined:
    """A connective with its two operands."""

    connective: Connective
    left: Written
    right: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Quantified:
    """``EXISTS`` or ``FORALL``.

    ``seen``: over the values that the variable had in an event so far.  ``time``: over time points, in a two-sorted
    formula.
    """

    quantifier: Literal["EXISTS", "FORALL"]
    names: tuple[str, ...]
    formula: Written
    at: int = field(default=0, compare=False)
    seen: bool = False
    time: bool = False


@dataclass(frozen=True)
class Once:
    """``PREVIOUS``, ``ONCE`` or ``PAST_ALWAYS`` of a formula within an interval."""

    operator: Literal["PREVIOUS", "ONCE", "PAST_ALWAYS"]
    bounds: Bounds
    formula: Written
    counting: Counting = "any"
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Since:
    """``SINCE``."""

    bounds: Bounds
    left: Written
    right: Written
    counting: Counting = "any"
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Aggregated:
    """``output <- FUNCTION item; groups formula``."""

    output: str
    function: AggregateFunction
    item: str
    groups: tuple[str, ...]
    formula: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Let:
    """``LET name(parameters) = body IN within``."""

    name: str
    parameters: tuple[str, ...]
    body: Written
    within: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Single:
    """``DISTINCT``: the paper's ε."""

    formula: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Rule:
    """A relation of a fixpoint: its name, its parameters and its body."""

    name: str
    parameters: tuple[str, ...]
    body: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Least:
    """Relations that are defined together and may occur in their bodies and in ``within``; ``MU X. Q`` has X as
    ``within``.
    """

    rules: tuple[Rule, ...]
    within: Written
    at: int = field(default=0, compare=False)


Written: TypeAlias = (
    "Holds | Applied | Compared | Matched | Negated | Joined | Quantified | Once | Since | Aggregated | Let | Single"
    " | Least"
)
