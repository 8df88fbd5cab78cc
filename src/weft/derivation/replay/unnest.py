"""Define the rules of the elements of an array.

The elements depend only on the row that contains the array.  The row is another input of the join, and supplies every
event.

at(Unnest, s) = Unnest, and there are no events.

Proof: proofs/Operators.v: unnest_rule.
"""

from __future__ import annotations

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Unnest
from weft.derivation.replay.rules import at, ends, starts


def at_unnest(unnest: Unnest, instant: Instant) -> Unnest:
    """Return the elements, which do not depend on the instant."""
    return unnest


def no_events(unnest: Unnest) -> tuple[Event, ...]:
    """Return no events, because the row that contains the array begins and ends."""
    return ()


at.register(Unnest, at_unnest)
starts.register(Unnest, no_events)
ends.register(Unnest, no_events)
