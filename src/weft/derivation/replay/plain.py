"""Define the rules of a condition without time.  The condition never changes and therefore has no events.

Proof: proofs/Predicates.v: plain_rule.
"""

from __future__ import annotations

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Plain
from weft.derivation.replay.rules import at, ends, starts


def at_plain(plain: Plain, instant: Instant) -> Plain:
    """Return the condition unchanged."""
    return plain


def turns_of_plain(plain: Plain) -> tuple[Event, ...]:
    """Return no events."""
    return ()


at.register(Plain, at_plain)
starts.register(Plain, turns_of_plain)
ends.register(Plain, turns_of_plain)
