"""A condition without time: it is the same at every instant, so it has no events."""

from __future__ import annotations

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Plain
from weft.derivation.replay.rules import at, ends, starts


def at_plain(plain: Plain, instant: Instant) -> Plain:
    """The condition itself."""
    return plain


def turns_of_plain(plain: Plain) -> tuple[Event, ...]:
    """None."""
    return ()


at.register(Plain, at_plain)
starts.register(Plain, turns_of_plain)
ends.register(Plain, turns_of_plain)
