"""Define the rules of NOW >= c and NOW < d, two conditions that change as time passes (paper section 4.2).

``NOW >= c`` becomes true at c and remains true.  ``NOW < d`` is true from the beginning of time until d.  NOW never
reaches a NULL threshold, because τ <= NULL is not true.

A comparison that turns several times (``Turns``) is the disjunction of its periods.  At an instant s, it is the
comparison itself, with s in place of NOW.  It becomes true where a period begins, unless the period is empty.

Proof: proofs/Predicates.v: now_from_rule, now_before_rule, disjunction_rule.

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
from weft.algebra.relation import UNIT, NowBefore, NowFrom, Plain, Predicate, Turns
from weft.algebra.scalar import MICROSECOND, Now, minus
from weft.algebra.traverse import substitute, thresholds
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


def at_turns(turns: Turns, instant: Instant) -> Predicate:
    """Return the comparison at the instant."""
    now = minus(instant.s, MICROSECOND) if instant.before else instant.s
    return Plain(substitute(turns.comparison, {Now(): now}))


def starts_of_turns(turns: Turns) -> tuple[Event, ...]:
    """Return the events at which a period begins and the comparison is true."""
    begun = dict.fromkeys(each.threshold for each in thresholds(turns) if isinstance(each, NowFrom))
    return tuple(Event(Driver("now_from", each), UNIT).where(at_turns(turns, Instant(each))) for each in begun)


def ends_of_turns(turns: Turns) -> tuple[Event, ...]:
    """Return the events at which a period ends and the comparison was true just before."""
    ended = dict.fromkeys(each.threshold for each in thresholds(turns) if isinstance(each, NowBefore))
    return tuple(
        Event(Driver("now_before", each), UNIT).where(at_turns(turns, Instant(each, before=True))) for each in ended
    )


at.register(NowFrom, at_now_from)
starts.register(NowFrom, starts_of_now_from)
ends.register(NowFrom, ends_of_now_from)
at.register(NowBefore, at_now_before)
starts.register(NowBefore, starts_of_now_before)
ends.register(NowBefore, ends_of_now_before)
at.register(Turns, at_turns)
starts.register(Turns, starts_of_turns)
ends.register(Turns, ends_of_turns)
