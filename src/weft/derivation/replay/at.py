"""``at(E, s)``: E's rows at the instant s; every table restricted to the rows alive at s, NOW := s.

Just before s (s⁻): what began before s and has not ended before s.  Time is discrete (microseconds), so
``start <= s - 1`` is ``start < s`` and ``s - 1 < end`` is ``s <= end``.
"""

from __future__ import annotations

from weft.algebra.event import Instant, Snapshot
from weft.algebra.relation import (
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
    block,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import Scalar, call


def begun(start: Scalar, instant: Instant) -> Predicate:
    """start <= s (just before s: start < s)."""
    return Plain(call("<" if instant.before else "<=", start, instant.s))


def not_ended(end: Scalar, instant: Instant) -> Predicate:
    """s < end (just before s: s <= end)."""
    return Plain(call("<=" if instant.before else "<", instant.s, end))


def alive(scan: Scan, instant: Instant) -> Predicate:
    """The row's life [start, end) holds s; an end that is NULL is still open (design section 1)."""
    start = begun(scan.ref(scan.table.start), instant)
    if scan.table.end is None:
        return start
    end = scan.ref(scan.table.end)
    return conjunction(start, disjunction(Plain(call("is null", end)), not_ended(end, instant)))


def at(relation: Relation, instant: Instant) -> Snapshot:
    """The relation's rows at s.  Law: ``at(E, s)`` = E evaluated over the rows alive at s with NOW = s."""
    match relation:
        case Scan():
            return Snapshot((relation,), alive(relation, instant))
        case Domain():
            return Snapshot((relation,), TRUE)
        case Product(inputs=inputs):
            parts = [at(part, instant) for part in inputs]
            sources = tuple(source for part in parts for source in part.sources)
            return Snapshot(sources, conjunction(*(part.condition for part in parts)))
        case Filter(input=inner, predicate=predicate):
            below = at(inner, instant)
            return Snapshot(below.sources, conjunction(below.condition, at_predicate(predicate, instant)))


def at_predicate(predicate: Predicate, instant: Instant) -> Predicate:
    """The predicate with NOW := s and its subqueries over the rows alive at s."""
    match predicate:
        case Plain():
            return predicate
        case And(items=items):
            return conjunction(*(at_predicate(item, instant) for item in items))
        case Or(items=items):
            return disjunction(*(at_predicate(item, instant) for item in items))
        case NowFrom(threshold=threshold):
            return begun(threshold, instant)
        case NowBefore(threshold=threshold):
            return not_ended(threshold, instant)
        case Exists(body=body):
            return Exists(_body(at(body, instant)))
        case NotExists(body=body):
            return NotExists(_body(at(body, instant)))


def _body(snapshot: Snapshot) -> Relation:
    return block(snapshot.sources, snapshot.condition)
