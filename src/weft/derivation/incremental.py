"""Q^I(τ, t): the rows that begin in the window [τ, t), one branch a driver (paper section 5, design section 2).

Law: the union of Q^I over any partition of time into windows = ∪ over every instant s of Q(s).
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import (
    FALSE,
    NotExists,
    Plain,
    Predicate,
    Query,
    all_scans,
    block,
    conjunction,
    rename_relation,
    rename_scalar,
)
from weft.algebra.scalar import TICK_END, TICK_START, Scalar, call
from weft.derivation.replay.at import at
from weft.derivation.replay.edges import starts
from weft.derivation.simplify import simplify, starts_of


def window(s: Scalar) -> Predicate:
    """τ <= s < t."""
    return conjunction(Plain(call("<=", TICK_START, s)), Plain(call("<", s, TICK_END)))


def incremental(query: Query, *, from_now: bool = False) -> tuple[Event, ...]:
    """The branches of Q^I.  Those that the order of time makes impossible are left out.

    With ``from_now`` only rows that were not in the answer just before s (``--from now``, design section 2).
    """
    branches: dict[Event, None] = {}
    for event in starts(query.input):
        demanded = conjunction(window(event.instant), event.condition)
        if from_now:
            demanded = conjunction(demanded, _absent_before(query, event.instant))
        kept = simplify(demanded, starts_of(event.sources))
        if kept != FALSE:
            branches[replace(event, condition=kept)] = None
    return tuple(branches)


def _absent_before(query: Query, s: Scalar) -> Predicate:
    """No row of Q(s⁻) is the same row: two NULLs are the same when result rows are told apart."""
    names = {scan.alias: scan.alias + "_before" for scan in all_scans(query.input)}
    before = at(rename_relation(query.input, names), Instant(s, before=True))
    same = [Plain(call("<=>", rename_scalar(output.value, names), output.value)) for output in query.outputs]
    return NotExists(block(before.sources, conjunction(before.condition, *same)))


def snapshot(query: Query, s: Scalar) -> Event:
    """Q(s), the query at one instant, in the form of a branch."""
    found = at(query.input, Instant(s))
    kept = simplify(found.condition, starts_of(found.sources))
    return Event(Driver("greatest", s), found.sources, kept)
