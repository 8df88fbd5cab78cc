"""Decide conditions that follow from the order of time.

A replay requires of every row that the row's period contains s.  If s is the row's own start plus a nonnegative
interval, this condition can be decided: ``m.ts <= m.ts + p1`` is true, and ``m.ts + p1 <= m.ts`` is false for a
positive p1.  So the arrival of a message never drives "more than four weeks old", and that branch is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from weft.algebra.relation import (
    FALSE,
    TRUE,
    And,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Relation,
    Scan,
    Source,
    block,
    condition,
    conjunction,
    disjunction,
    sources,
)
from weft.algebra.scalar import TIME_START, Call, ColumnRef, Literal, Param, Scalar, call, shifted

_UNBOUNDED: Final = None


def difference(left: Scalar, right: Scalar) -> tuple[int | None, int | None] | None:
    """Return the least and the greatest value of ``right - left`` in microseconds; None is a side without a bound.

    Return None instead of the pair if the two instants have different bases, or if the sign of an interval is unknown.
    """
    a, b = shifted(left), shifted(right)
    if a.base != b.base:
        return None
    intervals = Counter(dict(b.intervals))
    intervals.subtract(dict(a.intervals))
    least: int | None = b.micros - a.micros
    most: int | None = least
    for interval, count in intervals.items():
        sign = interval.sign if isinstance(interval, Param) else None
        direction = 0 if count == 0 else (count > 0) - (count < 0)
        if direction == 0 or sign == 0:
            continue
        if sign is None:
            return None
        if direction * sign > 0:
            least, most = (None if least is None else least + 1), _UNBOUNDED
        else:
            least, most = _UNBOUNDED, (None if most is None else most - 1)
    return least, most


def simplify(predicate: Predicate, never_null: frozenset[ColumnRef]) -> Predicate:
    """Return an equivalent predicate without the conditions that the order of time decides.

    ``never_null`` has the columns that contain no NULL.  For other columns, a condition that is otherwise always true
    becomes "is not NULL".
    """
    match predicate:
        case Plain(condition=Call(name=("<" | "<=") as operator, args=(left, right))):
            return _compared(operator, left, right, never_null) or predicate
        case Plain() | NowFrom() | NowBefore():
            return predicate
        case And(items=items):
            return _false_if_contradictory(conjunction(*(simplify(item, never_null) for item in items)))
        case Or(items=items):
            return disjunction(*(simplify(item, never_null) for item in items))
        case Exists(body=body):
            inner = _body(body, never_null)
            return FALSE if inner is None else Exists(inner)
        case NotExists(body=body):
            inner = _body(body, never_null)
            return TRUE if inner is None else NotExists(inner)


def present(instant: Scalar, never_null: frozenset[ColumnRef]) -> Predicate:
    """Return the condition that an instant is not NULL.

    Return TRUE if the base of the instant is never NULL and its intervals are constants.
    """
    parts = shifted(instant)
    if any(not isinstance(interval, (Literal, Param)) for interval, _ in parts.intervals):
        return Plain(call("is not null", instant))
    return TRUE if parts.base in never_null or parts.base == TIME_START else Plain(call("is not null", parts.base))


def _compared(operator: str, left: Scalar, right: Scalar, never_null: frozenset[ColumnRef]) -> Predicate | None:
    if operator == "<=" and left == TIME_START and right in never_null:
        return TRUE  # no row begins before the beginning of time
    bounds = difference(left, right)
    if bounds is None:
        return None
    least, most = bounds
    needed = 1 if operator == "<" else 0
    if most is not None and most < needed:
        return FALSE
    if least is None or least < needed:
        return None
    return conjunction(*(present(side, never_null) for side in (left, right)))


def _false_if_contradictory(predicate: Predicate) -> Predicate:
    """Return FALSE if a conjunction requires both x < y and y <= x (or y < x), otherwise the predicate unchanged."""
    if not isinstance(predicate, And):
        return predicate
    asked = {item.condition for item in predicate.items if isinstance(item, Plain)}
    for scalar in asked:
        if isinstance(scalar, Call) and scalar.name == "<":
            left, right = scalar.args
            if {call("<=", right, left), call("<", right, left)} & asked:
                return FALSE
    return predicate


def _body(body: Relation, never_null: frozenset[ColumnRef]) -> Relation | None:
    """Return the body as one simplified block; return None if the body can have no row."""
    own = sources(body)
    kept = simplify(condition(body), never_null | starts_of(own))
    return None if kept == FALSE else block(own, kept)


def starts_of(parts: Iterable[Source]) -> frozenset[ColumnRef]:
    """Return the columns of the sources that contain the start of a row; these columns are never NULL."""
    return frozenset(source.start for source in parts if isinstance(source, Scan))
