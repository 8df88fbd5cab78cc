"""Define the rules of A ⋈ B with any number of inputs.

A combination of rows begins when the last of its rows begins, and ends when the first of its rows ends.

starts(A ⋈ B) = starts(A) ⋈ at(B, s) ∪ at(A, s) ⋈ starts(B).
ends(A ⋈ B) = ends(A) ⋈ at(B, s⁻) ∪ at(A, s⁻) ⋈ ends(B).

Proof: proofs/Operators.v: join_rule, join_of_three.

>>> from shown import M, R, show_events
>>> show_events(starts(Join((M, R))))
when a row of msgs AS m arrives: m.ts
  FROM replies AS r, msgs AS m
  WHERE r.ts <= m.ts
when a row of replies AS r arrives: r.ts
  FROM msgs AS m, replies AS r
  WHERE m.ts <= r.ts
"""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Join, Relation
from weft.derivation.replay.rules import at, ends, starts


def at_join(join: Join, instant: Instant) -> Join:
    """Return the join of the inputs at the instant."""
    return Join(tuple(at(part, instant) for part in join.inputs))


def starts_of_join(join: Join) -> tuple[Event, ...]:
    """Join each row that starts in one input with the rows of the other inputs at its start."""
    return _met(join, starts, before=False)


def ends_of_join(join: Join) -> tuple[Event, ...]:
    """Join each row that ends in one input with the rows of the other inputs just before its end."""
    return _met(join, ends, before=True)


def _met(join: Join, turns: Callable[[Relation], tuple[Event, ...]], *, before: bool) -> tuple[Event, ...]:
    events = []
    for position, part in enumerate(join.inputs):
        others = join.inputs[:position] + join.inputs[position + 1 :]
        for event in turns(part):
            instant = Instant(event.instant, before)
            # The driver is the last source in FROM.
            beside = tuple(at(other, instant) for other in reversed(others))
            events.append(event.over(Join((*beside, event.relation))))
    return tuple(events)


at.register(Join, at_join)
starts.register(Join, starts_of_join)
ends.register(Join, ends_of_join)
