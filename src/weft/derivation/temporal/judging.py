"""Evaluate an expression or a predicate at the last refresh t in place of t_now: [E]_t and [p]_t (section 4.3).

Period sets are stored with open ends, so ψ_t does not change the state that was recorded at t.  Only three terms depend
on the instant of evaluation: NOW, the end of an open period, and the instants that EX_w adds.  ``PERIOD_START`` depends
on none of these three.

CONTAINS and OVERLAPS have the same result at t and at t_now.  A period set contains t if and only if it contains the
instants after t.  If two sets differ or overlap after t, they therefore differ or overlap at t.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.relation import Select
from weft.algebra.scalar import REFRESHED, TRUE, Call, Now, PeriodOf, Scalar, call, children, conjuncts, with_children
from weft.algebra.temporal import Extension, Temporal, inputs, over

START = "period_start"
_STEADY = (START, "period_contains", "period_overlaps")


def as_of_refresh(value: Scalar) -> Scalar:
    """Return [p]_t, the scalar with t in place of NOW and with t as the end of open periods."""
    match value:
        case Now():
            return REFRESHED
        case PeriodOf():
            return replace(value, at=REFRESHED)
        case Call(name=name) if name in _STEADY:
            return value
        case _:
            parts = children(value)
            return with_children(value, tuple(map(as_of_refresh, parts))) if parts else value


def state_at_refresh(relation: Temporal) -> Temporal:
    """Return ψ_t([E]_t), the state of E at the last refresh, as an expression over the same base relations."""
    parts = inputs(relation)
    below = over(relation, tuple(map(state_at_refresh, parts))) if parts else relation
    match below:
        case Select():
            return replace(below, predicate=as_of_refresh(below.predicate))
        case Extension():
            return replace(below, at=REFRESHED)
        case _:
            return below


def conjunction(*predicates: Scalar) -> Scalar:
    """Return the conjunction of the predicates without nested ANDs and duplicates, or TRUE without predicates."""
    parts = tuple(dict.fromkeys(part for each in predicates for part in conjuncts(each)))
    return TRUE if not parts else parts[0] if len(parts) == 1 else call("and", *parts)


def disjunction(predicates: tuple[Scalar, ...]) -> Scalar:
    """Return the disjunction of one or more predicates."""
    return predicates[0] if len(predicates) == 1 else call("or", *predicates)


def not_true(predicate: Scalar) -> Scalar:
    """Return ¬p, which is true if p is false or unknown.  p and ¬p are therefore complements."""
    return call("not", call("<=>", predicate, TRUE))
