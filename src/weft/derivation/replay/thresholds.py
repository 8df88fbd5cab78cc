"""Define the rules of NOW >= c and NOW < d, two conditions that change as time passes (paper section 4.2).

``NOW >= c`` becomes true at c and remains true.  ``NOW < d`` is true from the beginning of time until d.  NOW never
reaches a NULL threshold, because τ <= NULL is not true.

Proof: proofs/Predicates.v: now_from_rule, now_before_rule.

>>> from shown import M, show_events
>>> show_events(starts(NowFrom(M.ref("due"))))
when NOW reaches m.due
>>> show_events(ends(NowBefore(M.ref("due"))))
when NOW reaches m.due
>>> at(NowBefore(M.ref("due")), Instant(M.start, before=True)) == not_ended(M.ref("due"), Instant(M.start, before=True))
True
"""

from __future__ import annotations

from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import UNIT, NowBefore, NowFrom, Predicate
from weft.derivation.replay.rules import at, ends, starts
from weft.derivation.replay.scan import begun, not_ended


def at_now_from(since: NowFrom, instant: Instant) -> Predicate:
    """Return the condition c <= s."""
    return begun(since.threshold, instant)


def at_now_before(until: NowBefore, instant: Instant) -> Predicate:
    """Return the condition s < d."""
    return not_ended(until.threshold, instant)


def starts_of_now_from(since: NowFrom) -> tuple[Event, ...]:
    """Return one event, at the threshold c."""
    return (Event(Driver("now_from", since.threshold), UNIT),)


def ends_of_now_from(since: NowFrom) -> tuple[Event, ...]:
    """Return no events, because NOW never decreases."""
    return ()


def starts_of_now_before(until: NowBefore) -> tuple[Event, ...]:
    """Return no events, because the condition is true from the beginning of time."""
    return ()


def ends_of_now_before(until: NowBefore) -> tuple[Event, ...]:
    """Return one event, at the threshold d."""
    return (Event(Driver("now_before", until.threshold), UNIT),)


at.register(NowFrom, at_now_from)
starts.register(NowFrom, starts_of_now_from)
ends.register(NowFrom, ends_of_now_from)
at.register(NowBefore, at_now_before)
starts.register(NowBefore, starts_of_now_before)
ends.register(NowBefore, ends_of_now_before)
