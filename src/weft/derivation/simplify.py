"""Conditions that the order of time decides by itself.

A replay asks of every row whether it lives at s.  Where s is the row's own start plus an interval that cannot be
negative the answer is known: ``m.ts <= m.ts + p1`` is true, and ``m.ts + p1 <= m.ts`` is false for a positive p1, so
that the arrival of a message is no driver of "more than four weeks old" and the whole branch falls away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from weft.algebra.relation import (
    FALSE,
    TRUE,
    And,
    Domain,
    Exists,
    Filter,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Product,
    Relation,
    Scan,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Param, Scalar, call
from weft.algebra.shift import shifted

_UNBOUNDED: Final = None


def difference(left: Scalar, right: Scalar) -> tuple[int | None, int | None] | None:
    """(least, greatest) of right - left in microseconds, None where unbounded; None altogether where their bases
    differ."""
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
    """The predicate with everything decided that the order of time decides.

    ``never_null`` are columns that hold no NULL; of others "true" becomes "is not NULL".
    """
    match predicate:
        case Plain(condition=Call(name=("<" | "<=") as operator, args=(left, right))):
            return _compared(operator, left, right, never_null) or predicate
        case Plain() | NowFrom() | NowBefore():
            return predicate
        case And(items=items):
            return _apart(conjunction(*(simplify(item, never_null) for item in items)))
        case Or(items=items):
            return disjunction(*(simplify(item, never_null) for item in items))
        case Exists(body=body):
            inner = _body(body, never_null)
            return FALSE if inner is None else Exists(inner)
        case NotExists(body=body):
            inner = _body(body, never_null)
            return TRUE if inner is None else NotExists(inner)


def present(instant: Scalar, never_null: frozenset[ColumnRef]) -> Predicate:
    """That an instant is not NULL: nothing to ask where its base never is, and the intervals are constants."""
    parts = shifted(instant)
    if any(not isinstance(interval, (Literal, Param)) for interval, _ in parts.intervals):
        return Plain(call("is not null", instant))
    return TRUE if parts.base in never_null else Plain(call("is not null", parts.base))


def _compared(operator: str, left: Scalar, right: Scalar, never_null: frozenset[ColumnRef]) -> Predicate | None:
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


def _apart(predicate: Predicate) -> Predicate:
    """A conjunction that asks x < y and y <= x can never be true."""
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
    """The body simplified; None where it can have no row."""
    match body:
        case Scan() | Domain():
            return body
        case Product(inputs=inputs):
            parts = [_body(part, never_null) for part in inputs]
            return Product(tuple(part for part in parts if part)) if all(parts) else None
        case Filter(input=inner, predicate=predicate):
            below = _body(inner, never_null | starts_of(scans_in(inner)))
            kept = simplify(predicate, never_null | starts_of(scans_in(inner)))
            if below is None or kept == FALSE:
                return None
            return below if kept == TRUE else Filter(below, kept)


def scans_in(relation: Relation) -> tuple[Scan, ...]:
    """The scans directly combined in ``relation``."""
    if isinstance(relation, Scan):
        return (relation,)
    if isinstance(relation, Product):
        return tuple(scan for part in relation.inputs for scan in scans_in(part))
    return scans_in(relation.input) if isinstance(relation, Filter) else ()


def starts_of(scans: Iterable[Scan | Domain]) -> frozenset[ColumnRef]:
    """The columns that hold a row's start: they are never NULL."""
    return frozenset(scan.ref(scan.table.start) for scan in scans if isinstance(scan, Scan))
