"""Define the rules of p ∧ q and p ∨ q.

starts(p ∧ q) = starts(p) ∧ at(q, s) ∪ at(p, s) ∧ starts(q).  The rule for ``ends`` is the same with s⁻ in place of s.

starts(p ∨ q) = starts(p) ∪ starts(q), and ends(p ∨ q) = ends(p) ∪ ends(q).  If q holds when p ends, ``ends`` contains
this event, although the row stays in the answer.

Proof: proofs/Predicates.v: conjunction_rule, disjunction_rule.

>>> from weft.algebra.relation import NowBefore, NowFrom
>>> from shown import M, show_events
>>> show_events(starts(And((NowFrom(M.ref("due")), NowBefore(M.ref("expires"))))))
when NOW reaches m.due
  WHERE m.due < m.expires
"""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra.event import Event, Instant
from weft.algebra.relation import And, Or, Predicate, conjunction, disjunction
from weft.derivation.replay.rules import at, ends, starts


def at_and(both: And, instant: Instant) -> Predicate:
    """Return the conjunction of the items at the instant."""
    return conjunction(*(at(item, instant) for item in both.items))


def at_or(either: Or, instant: Instant) -> Predicate:
    """Return the disjunction of the items at the instant."""
    return disjunction(*(at(item, instant) for item in either.items))


def starts_of_and(both: And) -> tuple[Event, ...]:
    """Return the events at which one item becomes true while all other items are true."""
    return _meanwhile(both, starts, before=False)


def ends_of_and(both: And) -> tuple[Event, ...]:
    """Return the events at which one item becomes false.  Just before the event, all other items are true."""
    return _meanwhile(both, ends, before=True)


def starts_of_or(either: Or) -> tuple[Event, ...]:
    """Return the events at which an item becomes true."""
    return tuple(event for item in either.items for event in starts(item))


def ends_of_or(either: Or) -> tuple[Event, ...]:
    """Return the events at which an item becomes false."""
    return tuple(event for item in either.items for event in ends(item))


def _meanwhile(both: And, turns: Callable[[Predicate], tuple[Event, ...]], *, before: bool) -> tuple[Event, ...]:
    events = []
    for position, item in enumerate(both.items):
        others = conjunction(*both.items[:position], *both.items[position + 1 :])
        events += [event.where(at(others, Instant(event.instant, before))) for event in turns(item)]
    return tuple(events)


at.register(And, at_and)
starts.register(And, starts_of_and)
ends.register(And, ends_of_and)
at.register(Or, at_or)
starts.register(Or, starts_of_or)
ends.register(Or, ends_of_or)
