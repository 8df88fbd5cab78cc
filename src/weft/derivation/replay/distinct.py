"""δ A: each row once; an event says only that some witness of the row begins or ends.

starts(δ A) = starts(A) and ends(δ A) = ends(A).

>>> from shown import M, show_events
>>> show_events(starts(Distinct(M)))
when a row of msgs AS m arrives: m.ts
  FROM msgs AS m
"""

from __future__ import annotations

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Distinct
from weft.derivation.replay.rules import at, ends, starts


def at_distinct(distinct: Distinct, instant: Instant) -> Distinct:
    """The input's rows at s, each once."""
    return Distinct(at(distinct.input, instant))


def starts_of_distinct(distinct: Distinct) -> tuple[Event, ...]:
    """The input's starts; a second witness repeats a row, which the ledger recognizes."""
    return starts(distinct.input)


def ends_of_distinct(distinct: Distinct) -> tuple[Event, ...]:
    """The input's ends."""
    return ends(distinct.input)


at.register(Distinct, at_distinct)
starts.register(Distinct, starts_of_distinct)
ends.register(Distinct, ends_of_distinct)
