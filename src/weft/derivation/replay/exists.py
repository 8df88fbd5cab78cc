"""Define the rules of EXISTS (A ⋉ B).  EXISTS is true while the body B has a row.

starts(EXISTS B) = starts(B) and ends(EXISTS B) = ends(B), as for an input of a join.

Proof: proofs/Predicates.v: exists_rule.

>>> from weft.algebra.relation import Select
>>> from shown import R, TIED, show_events
>>> show_events(starts(Exists(Select(R, TIED))))
when a row of replies AS r arrives inside EXISTS: r.ts
  FROM replies AS r
  WHERE r.inreplyto = m.msgid
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Exists
from weft.derivation.replay.rules import at, ends, starts


def at_exists(exists: Exists, instant: Instant) -> Exists:
    """Return EXISTS over the rows of the body at the instant."""
    return Exists(at(exists.body, instant))


def starts_of_exists(exists: Exists) -> tuple[Event, ...]:
    """Return the events at which rows of the body begin."""
    return tuple(inside(event, "EXISTS") for event in starts(exists.body))


def ends_of_exists(exists: Exists) -> tuple[Event, ...]:
    """Return the events at which rows of the body end.  EXISTS may remain true because of another row."""
    return tuple(inside(event, "EXISTS") for event in ends(exists.body))


def inside(event: Event, name: str) -> Event:
    """Record that the driver of the event is inside a subquery with the operator ``name``."""
    return replace(event, driver=replace(event.driver, inside=(name, *event.driver.inside)))


at.register(Exists, at_exists)
starts.register(Exists, starts_of_exists)
ends.register(Exists, ends_of_exists)
