"""Define scalar expressions as immutable values.

Every expression has a ``type``.  Time literals are integers: TIMESTAMP and INTERVAL in microseconds (UTC), DATE in days
since 1970-01-01.  ``Now`` is the instant at which the query is evaluated.  A replay replaces every ``Now``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from weft.algebra.schema import BOOLEAN, INTERVAL, PERIOD, TIMESTAMP, DataType, hashed_once

Value: TypeAlias = "str | int | float | bool | Decimal | bytes | tuple[str | int, ...] | None"


@hashed_once
@dataclass(frozen=True)
class ColumnRef:
    """A column of the range variable ``scan``."""

    scan: str
    column: str
    type: DataType


@hashed_once
@dataclass(frozen=True)
class Literal:
    """A constant.

    If ``fixed`` is true, the rewriting inserted the constant, and no parameter replaces it.
    """

    value: Value
    type: DataType
    fixed: bool = False


@hashed_once
@dataclass(frozen=True)
class Param:
    """A parameter that replaces a literal of a query (design section 5).

    ``sign`` is the sign of an interval (-1, 0 or 1), or None if the sign is unknown.  The signature of the plan
    includes the sign, because simplification depends on the sign.
    """

    name: str
    type: DataType
    sign: int | None = None


@hashed_once
@dataclass(frozen=True)
class Now:
    """The instant at which the query is evaluated."""

    type: DataType = TIMESTAMP


@hashed_once
@dataclass(frozen=True)
class PeriodOf:
    """The period set of a tuple, as an argument of a period function.  ``scan`` is the range variable of the tuple.

    The period functions are ``PERIOD_START``, ``PERIOD_END``, ``PERIOD_LENGTH``, ``PERIOD_CONTAINS`` and
    ``PERIOD_OVERLAPS``.  ``PERIOD_END`` returns the last instant, or t_now for an open period.  Only temporal views
    have period functions (``algebra.temporal``).

    ``at`` is the instant at which an open period ends in this evaluation, or None for t_now.  A refresh also evaluates
    predicates at the time of the previous refresh.
    """

    scan: str
    type: DataType = PERIOD
    at: Param | None = None


@hashed_once
@dataclass(frozen=True)
class Element:
    """The current array element in the condition of FORALL or of EXISTS(array, x -> …)."""

    name: str
    type: DataType


@hashed_once
@dataclass(frozen=True)
class Call:
    """A call of an operator or of a function."""

    name: str
    args: tuple[Scalar, ...]
    type: DataType


@hashed_once
@dataclass(frozen=True)
class Cast:
    """A conversion to ``type``.  If the conversion fails, the result is NULL."""

    arg: Scalar
    type: DataType


@hashed_once
@dataclass(frozen=True)
class Case:
    """The expression CASE WHEN condition THEN value … ELSE default END."""

    branches: tuple[tuple[Scalar, Scalar], ...]
    default: Scalar | None
    type: DataType


Scalar: TypeAlias = "ColumnRef | Literal | Param | Now | PeriodOf | Element | Call | Cast | Case"

TICK_START = Param("tau", TIMESTAMP)
"""The start of the window (inclusive): the instant of the query's previous tick."""
TICK_END = Param("t", TIMESTAMP)
"""The end of the window (exclusive): the instant of this tick."""
TIME_START = Param("t0", TIMESTAMP)
"""The beginning of time, at which constant rows start (design section 2)."""
REFRESHED = Param("refreshed", TIMESTAMP)
"""The instant of a view's last refresh."""
CHANGED_FROM = Param("changed_from", TIMESTAMP)
"""The first instant that a change of tracked tables affects: t_now, or an earlier instant for a correction of the
past.
"""
MICROSECOND = Literal(1, INTERVAL, fixed=True)
TRUE = Literal(True, BOOLEAN, fixed=True)
MICROSECONDS = "microseconds"
"""The function that returns the length of an interval in microseconds.  The text of a query has no such function."""
OF_MICROSECONDS = "interval of microseconds"
"""The inverse of ``MICROSECONDS``."""
FIELD: Final = "field of"
"""The name of the function that returns a field of a STRUCT, or the field of each STRUCT in an ARRAY.  The arguments
are the value and the name of the field.
"""


def call(name: str, *args: Scalar, type: DataType = BOOLEAN) -> Call:
    """Return a call of the operator or function ``name``."""
    return Call(name, args, type)


def plus(instant: Scalar, interval: Scalar) -> Scalar:
    """Return an expression for ``instant + interval``.  The sum of two ``fixed`` constants is a constant."""
    if isinstance(instant, Literal) and isinstance(interval, Literal) and instant.fixed and interval.fixed:
        return Literal(_micros(instant) + _micros(interval), TIMESTAMP, fixed=True)
    return Call("+", (instant, interval), TIMESTAMP)


def minus(instant: Scalar, interval: Scalar) -> Scalar:
    """Return an expression for ``instant - interval``."""
    return Call("-", (instant, interval), TIMESTAMP)


def _micros(literal: Literal) -> int:
    assert isinstance(literal.value, int)
    return literal.value


def greatest(instants: tuple[Scalar, ...]) -> Scalar:
    """Return an expression for the latest of several instants (MAX in section 4.2 of the paper)."""
    return instants[0] if len(instants) == 1 else Call("greatest", instants, TIMESTAMP)


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """Return the direct subexpressions of ``scalar``."""
    match scalar:
        case Call(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case Case(branches=branches, default=default):
            parts = tuple(part for branch in branches for part in branch)
            return parts if default is None else (*parts, default)
        case ColumnRef() | Literal() | Param() | Now() | PeriodOf() | Element():
            return ()


def with_children(scalar: Scalar, parts: tuple[Scalar, ...]) -> Scalar:
    """Return a copy of the expression with the items of ``parts`` as subexpressions, in the order of ``children``.

    The interval of a column that a derived table computes becomes the interval that the column stores.
    """
    match scalar:
        case Call(name=name) if (
            name == OF_MICROSECONDS and isinstance(parts[0], Call) and parts[0].name == MICROSECONDS
        ):
            return parts[0].args[0]
        case Call(name=name, type=type):
            return Call(name, parts, type)
        case Cast(type=type):
            return Cast(parts[0], type)
        case Case(branches=branches, default=default, type=type):
            pairs = tuple((parts[2 * i], parts[2 * i + 1]) for i in range(len(branches)))
            return Case(pairs, None if default is None else parts[-1], type)
        case ColumnRef() | Literal() | Param() | Now() | PeriodOf() | Element():
            return scalar


def conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    """Return the conjuncts of a condition, without nested ANDs.  TRUE has no conjuncts."""
    if isinstance(condition, Call) and condition.name == "and":
        return tuple(part for each in condition.args for part in conjuncts(each))
    return () if condition == TRUE else (condition,)


def columns(scalar: Scalar) -> frozenset[ColumnRef]:
    """Return all columns in the expression."""
    if isinstance(scalar, ColumnRef):
        return frozenset((scalar,))
    return frozenset().union(*(columns(child) for child in children(scalar)))


def is_constant(scalar: Scalar) -> bool:
    """Return whether the expression contains neither a column nor an array element."""
    return not isinstance(scalar, (ColumnRef, Element)) and all(is_constant(child) for child in children(scalar))


NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
"""The operator of a comparison that is true if the comparison with the given operator is false."""


def mentions_now(scalar: Scalar) -> bool:
    """Return whether the expression contains ``NOW``."""
    return isinstance(scalar, Now) or any(mentions_now(child) for child in children(scalar))


@dataclass(frozen=True)
class Shifted:
    """An instant in the form ``base`` + ``micros`` + Σ count · interval.

    An interval with columns occurs even if its count is 0: the instant is NULL if the interval is.
    """

    base: Scalar
    micros: int
    intervals: tuple[tuple[Scalar, int], ...]


def shifted(instant: Scalar) -> Shifted:
    """Split ``instant`` into a base and the intervals that the expression adds to the base.

    >>> x = ColumnRef("m", "ts", TIMESTAMP)
    >>> shifted(Call("+", (x, Literal(5, INTERVAL)), TIMESTAMP)).micros
    5
    """
    micros, intervals = 0, Counter[Scalar]()
    while isinstance(instant, Call) and instant.name in "+-" and instant.args[1].type == INTERVAL:
        sign = 1 if instant.name == "+" else -1
        instant, amount = instant.args
        if isinstance(amount, Literal) and isinstance(amount.value, int):
            micros += sign * amount.value
        else:
            intervals[amount] += sign
    kept = ((k, n) for k, n in intervals.items() if n or not isinstance(k, (Literal, Param)))
    return Shifted(instant, micros, tuple(kept))
