"""Define the rules of A ∪ B.

A row that begins in an input begins in the union.  A row that ends in one input may remain in the union because of the
other input.

starts(A ∪ B) = starts(A) ∪ starts(B) and ends(A ∪ B) = ends(A) ∪ ends(B), with the column names of the union.

Proof: proofs/Operators.v: union_rule, unions_rule.

>>> from weft.algebra.relation import Project
>>> from shown import M, R, show_events
>>> ids = [Project(scan, alias, (Output("id", scan.ref("msgid")),)) for scan, alias in ((M, "a"), (R, "b"))]
>>> show_events(starts(Union("u", tuple(ids)))[1:])
when a row of replies AS r arrives: u._instant
  FROM (SELECT b.id, b._instant
    FROM (SELECT r.msgid AS id, r.ts AS _instant
      FROM replies AS r) AS b) AS u
"""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra.event import Event, Instant
from weft.algebra.relation import Output, Relation, Union, attributes
from weft.derivation.replay.project import projected
from weft.derivation.replay.rules import at, ends, starts


def at_union(union: Union, instant: Instant) -> Union:
    """Return the union of the inputs at the instant."""
    return Union(union.alias, tuple(at(part, instant) for part in union.inputs))


def starts_of_union(union: Union) -> tuple[Event, ...]:
    """Return the events at which rows of an input begin, with the columns of the union."""
    return _all(union, starts)


def ends_of_union(union: Union) -> tuple[Event, ...]:
    """Return the events at which rows of an input end, with the columns of the union."""
    return _all(union, ends)


def _all(union: Union, turns: Callable[[Relation], tuple[Event, ...]]) -> tuple[Event, ...]:
    names = [ref.column for ref in attributes(union)]
    events: list[Event] = []
    for part in union.inputs:
        outputs = tuple(Output(name, ref) for name, ref in zip(names, attributes(part), strict=True))
        events += projected(turns(part), union.alias, outputs)
    return tuple(events)


at.register(Union, at_union)
starts.register(Union, starts_of_union)
ends.register(Union, ends_of_union)
