"""Define the rules of NOT EXISTS (A ▷ B).  NOT EXISTS is true while the body B has no row.

NOT EXISTS becomes true when the last row of the body ends, and becomes false when the first row of the body begins.

starts(NOT EXISTS B) = ends(B) ▷ at(B, s).  ends(NOT EXISTS B) = starts(B) ▷ at(B, s⁻).

Proof: proofs/Predicates.v: not_exists_rule.

>>> from weft.algebra.relation import NowBefore, Select, conjunction
>>> from shown import R, TIED, show_events
>>> show_events(starts(NotExists(Select(R, conjunction(TIED, NowBefore(R.ref("due")))))))
when NOW reaches r_was.due inside NOT EXISTS
  FROM replies AS r_was
  WHERE r_was.ts < r_was.due
    AND r_was.inreplyto = m.msgid
    AND NOT EXISTS (SELECT 1
      FROM replies AS r
      WHERE r.ts <= r_was.due
        AND r.inreplyto = m.msgid
        AND r_was.due < r.due)
"""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra.event import Event, Instant
from weft.algebra.relation import NotExists, Relation
from weft.algebra.traverse import range_variables, rename
from weft.derivation.replay.exists import inside
from weft.derivation.replay.rules import at, ends, starts


def at_not_exists(absent: NotExists, instant: Instant) -> NotExists:
    """Return NOT EXISTS over the rows of the body at the instant."""
    return NotExists(at(absent.body, instant))


def starts_of_not_exists(absent: NotExists) -> tuple[Event, ...]:
    """Return the events at which the last row of the body ends."""
    return _unblocked(absent, ends, before=False)


def ends_of_not_exists(absent: NotExists) -> tuple[Event, ...]:
    """Return the events at which the first row of the body begins."""
    return _unblocked(absent, starts, before=True)


def _unblocked(absent: NotExists, turns: Callable[[Relation], tuple[Event, ...]], *, before: bool) -> tuple[Event, ...]:
    events = []
    for event in turns(witness(absent.body)):
        unblocked = event.where(at(absent, Instant(event.instant, before)))
        events.append(inside(unblocked, "NOT EXISTS"))
    return tuple(events)


def witness(body: Relation) -> Relation:
    """Copy a subquery's body with renamed range variables.

    The rule uses the body B twice: once for the row that drives the event, and once to check that the body has no other
    row.  With the same names, the second B would capture the names of the first.  Each copy adds another suffix, so
    nested copies do not clash.
    """
    return rename(body, {alias: alias + "_was" for alias in range_variables(body)})


at.register(NotExists, at_not_exists)
starts.register(NotExists, starts_of_not_exists)
ends.register(NotExists, ends_of_not_exists)
