"""A condition without time: the same at every instant, so that it never turns by itself."""

from __future__ import annotations

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Plain
from weft.derivation.replay.rules import at, ends, starts


@at.register(Plain)
def at_plain(plain: Plain, instant: Instant) -> Plain:
    """The condition itself."""
    return plain


@starts.register(Plain)
@ends.register(Plain)
def turns_of_plain(plain: Plain) -> tuple[Event, ...]:
    """None."""
    return ()
