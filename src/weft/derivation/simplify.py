"""Remove conditions that the order of time makes always true or always false.

A replay requires that the period of every row contains the instant s.  If s is the start of the row plus an interval
that is not negative, the row has always begun at s.  For a positive p1, ``m.ts <= m.ts + p1`` is true and ``m.ts + p1
<= m.ts`` is false.  For example, a message is never "more than four weeks old" when it arrives, so the replay needs no
branch for the arrival.

Proof: proofs/Rewrites.v: simplify_rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.scalar import TIME_START, Call, ColumnRef, Literal, Param, Scalar, call, shifted
from weft.derivation.order import exclude_each_other

_UNBOUNDED: Final = None


def difference(left: Scalar, right: Scalar) -> tuple[int | None, int | None] | None:
    """Return the least and the greatest value of ``right - left`` in microseconds.

    A bound is None if the difference has no limit in that direction.  Return None in place of the pair if the instants
    have different bases or the sign of an interval is unknown.
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


def simplify(predicate: relational.Predicate, never_null: frozenset[ColumnRef]) -> relational.Predicate:
    """Remove the conditions that the order of time decides, and return an equivalent predicate.

    The columns ``never_null`` contain no NULL.  For any other column, a condition that is true for all values becomes
    "is not NULL".
    """
    match predicate:
        case relational.Plain(condition=Call(name=("<" | "<=") as operator, args=(left, right))):
            return _compared(operator, left, right, never_null) or predicate
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.Turns():
            return predicate
        case relational.And(items=items):
            return _false_if_contradictory(relational.conjunction(*(simplify(item, never_null) for item in items)))
        case relational.Or(items=items):
            return relational.disjunction(*(simplify(item, never_null) for item in items))
        case relational.Exists(body=body):
            inner = _body(body, never_null)
            return relational.FALSE if inner is None else relational.Exists(inner)
        case relational.NotExists(body=body):
            inner = _body(body, never_null)
            return relational.TRUE if inner is None else relational.NotExists(inner)


def present(instant: Scalar, never_null: frozenset[ColumnRef]) -> relational.Predicate:
    """Return the condition that an instant is not NULL, or TRUE if the instant is never NULL."""
    parts = shifted(instant)
    if any(not isinstance(interval, (Literal, Param)) for interval, _ in parts.intervals):
        return relational.Plain(call("is not null", instant))
    return (
        relational.TRUE
        if parts.base in never_null or parts.base == TIME_START
        else relational.Plain(call("is not null", parts.base))
    )


def _compared(
    operator: str, left: Scalar, right: Scalar, never_null: frozenset[ColumnRef]
) -> relational.Predicate | None:
    if operator == "<=" and left == TIME_START and right in never_null:
        return relational.TRUE  # no row begins before time does
    bounds = difference(left, right)
    if bounds is None:
        return None
    least, most = bounds
    needed = 1 if operator == "<" else 0
    if most is not None and most < needed:
        return relational.FALSE
    if least is None or least < needed:
        return None
    return relational.conjunction(*(present(side, never_null) for side in (left, right)))


def _false_if_contradictory(predicate: relational.Predicate) -> relational.Predicate:
    return relational.FALSE if exclude_each_other(relational.conjuncts(predicate)) else predicate


def _body(body: relational.Relation, never_null: frozenset[ColumnRef]) -> relational.Relation | None:
    own = relational.sources(body)
    demanded = simplify(relational.condition(body), never_null | starts_of(own))
    return None if demanded == relational.FALSE else relational.block(own, demanded)


def starts_of(parts: Iterable[relational.Source]) -> frozenset[ColumnRef]:
    """Return the columns that hold the start times of rows.  These columns contain no NULL."""
    return frozenset(source.start for source in parts if isinstance(source, relational.Scan))
