"""Define the syntax tree of a formula before name resolution, type inference and the expansion of shorthands.

The field ``at`` of a node is the node's offset in the text.  Comparisons of nodes ignore the field ``at``.
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
    """A constant: an integer, a float or a text.

    ``regular`` is true for a regular expression.  With ``translated``, the expression is ``re'…'`` in the syntax of
    RE2. Without ``translated``, the expression is ``r"…"`` in the syntax of OCaml's Str.
    """

    value: int | float | str
    regular: bool = False
    translated: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Call:
    """An operation on terms, one of ``+ - * / MOD negate i2f f2i``."""

    operation: str
    arguments: tuple[WrittenTerm, ...]
    at: int = field(default=0, compare=False)


WrittenTerm: TypeAlias = "Name | Value | Call"


UNITS: Final = {unit: UNITS_US[unit] for unit in ("us", "ms", "s", "m", "h", "d")}
"""Units of time in microseconds, in ascending order.  MonPoly lacks the units us and ms."""


@dataclass(frozen=True)
class Bounds:
    """An interval in microseconds with open or closed ends.  If ``high`` is None, the interval has no upper end."""

    low: int = 0
    low_open: bool = False
    high: int | None = None
    high_open: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Holds:
    """The formula ``TRUE`` or ``FALSE``."""

    value: bool
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Applied:
    """An atom: the name of a predicate or of a defined relation, and its terms."""

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
    """A match of a text with a regular expression.  In ``groups``, None stands for the group ``_``."""

    text: WrittenTerm
    pattern: WrittenTerm
    groups: tuple[WrittenTerm | None, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Negated:
    """``NOT`` of a formula."""

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
    """``EXISTS`` or ``FORALL`` over variables.

    With ``seen``, each variable ranges over the values that events have shown so far.  With ``time``, the variables
    range over time points (only in two-sorted formulas).
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
    """``SINCE`` between two formulas, within an interval.  ``strict`` is DejaVu's ``Z``."""

    bounds: Bounds
    left: Written
    right: Written
    counting: Counting = "any"
    at: int = field(default=0, compare=False)
    strict: bool = False


@dataclass(frozen=True)
class Aggregated:
    """An aggregation, written ``output <- FUNCTION item; groups formula``."""

    output: str
    function: AggregateFunction
    item: str
    groups: tuple[str, ...]
    formula: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Let:
    """A definition, written ``LET name(parameters) = body IN within``."""

    name: str
    parameters: tuple[str, ...]
    body: Written
    within: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Single:
    """``DISTINCT`` of a formula, which is ε in the paper."""

    formula: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Rule:
    """A relation of a fixpoint, with its name, its parameters and its body."""

    name: str
    parameters: tuple[str, ...]
    body: Written
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Least:
    """Mutually recursive relations.  For ``MU X. Q``, the field ``within`` contains the formula X."""

    rules: tuple[Rule, ...]
    within: Written
    at: int = field(default=0, compare=False)


Written: TypeAlias = (
    "Holds | Applied | Compared | Matched | Negated | Joined | Quantified | Once | Since | Aggregated | Let | Single"
    " | Least"
)
