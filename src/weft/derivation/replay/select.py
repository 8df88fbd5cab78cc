"""Define the rules of σp A.

A row of σp A begins for two reasons: a row of A begins while p is true, or p becomes true for a row in A.

starts(σp A) = σ at(p, s) starts(A) ∪ at(A, s) ⋈ starts(p).
ends(σp A) = σ at(p, s⁻) ends(A) ∪ at(A, s⁻) ⋈ ends(p).

Proof: proofs/Operators.v: select_rule.

>>> from weft.algebra.relation import NowFrom
>>> from shown import M, show_events
>>> show_events(starts(Select(M, NowFrom(M.ref("due")))))
when a row of msgs AS m arrives: m.ts
  FROM msgs AS m
  WHERE m.due <= m.ts
when NOW reaches m.due
  FROM msgs AS m
  WHERE m.ts <= m.due
"""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Join, Predicate, Relation, Select
from weft.derivation.replay.rules import at, ends, starts


def at_select(select: Select, instant: Instant) -> Select:
    """Return the input rows that satisfy the predicate at the instant."""
    return Select(at(select.input, instant), at(select.predicate, instant))


def starts_of_select(select: Select) -> tuple[Event, ...]:
    """Return the events at which an input row begins or the predicate becomes true."""
    return _passed(select, starts, before=False)


def ends_of_select(select: Select) -> tuple[Event, ...]:
    """Return the events at which an input row ends or the predicate becomes false."""
    return _passed(select, ends, before=True)


def _passed(
    select: Select, turns: Callable[[Relation | Predicate], tuple[Event, ...]], *, before: bool
) -> tuple[Event, ...]:
    events = [e.where(at(select.predicate, Instant(e.instant, before))) for e in turns(select.input)]
    for event in turns(select.predicate):
        rows = at(select.input, Instant(event.instant, before))
        events.append(event.over(Join((rows, event.relation))))
    return tuple(events)


at.register(Select, at_select)
starts.register(Select, starts_of_select)
ends.register(Select, ends_of_select)
