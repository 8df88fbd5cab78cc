"""Define the rules of constant rows.  Constant rows exist for ever from t0, the beginning of time (design section 2).

``at`` needs no condition for an instant s, because every instant is t0 or later.  Just before s, the rows exist only if
s is later than t0.

Proof: proofs/Tables.v: values_rule.

>>> from weft.algebra.scalar import Literal
>>> from weft.algebra.schema import INT, Column
>>> from shown import show_events
>>> show_events(starts(Values("v", (Column(1, "k", INT),), ((Literal(7, INT),),))))
when time begins: :t0
  FROM (SELECT 7 AS k) AS v
"""

from __future__ import annotations

from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import Plain, Relation, Select, Values
from weft.algebra.scalar import TIME_START, call
from weft.derivation.replay.rules import at, ends, starts


def at_values(values: Values, instant: Instant) -> Relation:
    """Return all rows.  If the instant is just before s, the rows are subject to the condition t0 < s."""
    return Select(values, Plain(call("<", TIME_START, instant.s))) if instant.before else values


def starts_of_values(values: Values) -> tuple[Event, ...]:
    """Return one event with all rows, at the beginning of time."""
    return (Event(Driver("beginning", TIME_START), values),)


def ends_of_values(values: Values) -> tuple[Event, ...]:
    """Return no events, because constant rows never end."""
    return ()


at.register(Values, at_values)
starts.register(Values, starts_of_values)
ends.register(Values, ends_of_values)
