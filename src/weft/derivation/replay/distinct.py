"""Define the rules of δ A.  The relation δ A has each row of A once.

starts(δ A) = starts(A) and ends(δ A) = ends(A).  At an event, an input row begins or ends, but another input row with
the same values may remain.

Proof: proofs/Operators.v: distinct_rule.

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
    """Return the distinct rows of the input at the instant."""
    return Distinct(at(distinct.input, instant))


def starts_of_distinct(distinct: Distinct) -> tuple[Event, ...]:
    """Return the events at which input rows begin.  The ledger removes repeated rows."""
    return starts(distinct.input)


def ends_of_distinct(distinct: Distinct) -> tuple[Event, ...]:
    """Return the events at which input rows end."""
    return ends(distinct.input)


at.register(Distinct, at_distinct)
starts.register(Distinct, starts_of_distinct)
ends.register(Distinct, ends_of_distinct)
