"""``starts(E, w)`` and ``ends(E, w)``: where lives begin and end (design section 2).

- ``starts(E, w)``: pairs (row, s), s in the window w, where the row is in E at s and some witness of it began at s.
- ``ends(E, w)``: pairs (row, s), s in w, where the row was in E just before s and some witness of it ended at s.

The two are one set of rules read in two directions: a start is judged *at* s, an end *just before* s, and under
NOT EXISTS they change places.  The window is added by ``derivation.incremental``: an event carries its instant.

Law (tried against brute force, E evaluated at every instant): ``starts`` never gives a row that does not hold at s,
and every true entry into E and exit from E is among ``starts`` and ``ends``.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from weft.algebra.event import Driver, Event, Instant, Snapshot
from weft.algebra.relation import (
    TRUE,
    And,
    Domain,
    Exists,
    Filter,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Product,
    Relation,
    Scan,
    all_scans,
    conjunction,
    rename_relation,
)
from weft.algebra.scalar import Scalar, call
from weft.derivation.replay.at import at, at_predicate


class Edge(Enum):
    """Which end of a life an event is about."""

    START = "start"
    END = "end"

    @property
    def opposite(self) -> Edge:
        """What a row's edge is for those that it blocks."""
        return Edge.END if self is Edge.START else Edge.START

    def judged(self, s: Scalar) -> Instant:
        """The instant at which everything else is judged: s for a start, s⁻ for an end."""
        return Instant(s, before=self is Edge.END)


def starts(relation: Relation) -> tuple[Event, ...]:
    """The events at which rows of ``relation`` begin."""
    return edges(relation, Edge.START)


def ends(relation: Relation) -> tuple[Event, ...]:
    """The events at which rows of ``relation`` end."""
    return edges(relation, Edge.END)


def edges(relation: Relation, edge: Edge) -> tuple[Event, ...]:
    """The events of a relation, by the rule of its operator."""
    match relation:
        case Scan():
            return of_table(relation, edge)
        case Domain():
            return ()  # made after the rules have run; its values belong to a row outside, which has its own events
        case Product(inputs=inputs):
            return of_product(inputs, edge)
        case Filter(input=inner, predicate=predicate):
            return of_filter(inner, predicate, edge)


def of_table(scan: Scan, edge: Edge) -> tuple[Event, ...]:
    """starts(T) = its rows at their start; ends(T) = its rows at their end, none where nothing ends."""
    if edge is Edge.START:
        return (Event(Driver("arrival", scan.ref(scan.table.start), scan), (scan,), TRUE),)
    if scan.table.end is None:
        return ()
    end = scan.ref(scan.table.end)
    return (Event(Driver("departure", end, scan), (scan,), Plain(call("is not null", end))),)


def of_product(inputs: tuple[Relation, ...], edge: Edge) -> tuple[Event, ...]:
    """starts(A ⋈ B) = starts(A) ⋈ at(B, s) ∪ at(A, s) ⋈ starts(B); ends alike with s⁻; any number of inputs."""
    events = []
    for position, part in enumerate(inputs):
        others = inputs[:position] + inputs[position + 1 :]
        for event in edges(part, edge):
            for other in others:
                event = _joined(event, at(other, edge.judged(event.instant)))
            events.append(event)
    return tuple(events)


def of_filter(inner: Relation, predicate: Predicate, edge: Edge) -> tuple[Event, ...]:
    """starts(σp A) = σ at(p, s) starts(A) ∪ at(A, s) ⋈ starts(p); ends alike with s⁻."""
    rows = (_restricted(e, at_predicate(predicate, edge.judged(e.instant))) for e in edges(inner, edge))
    turns = (_joined(e, at(inner, edge.judged(e.instant))) for e in of_predicate(predicate, edge))
    return (*rows, *turns)


def of_predicate(predicate: Predicate, edge: Edge) -> tuple[Event, ...]:
    """The events at which a predicate turns by something of its own: a threshold, or a row of a subquery."""
    match predicate:
        case Plain():
            return ()
        case And(items=items):
            return of_and(items, edge)
        case Or(items=items):
            return tuple(event for item in items for event in of_predicate(item, edge))
        case NowFrom(threshold=threshold):
            # NOW >= c begins at c and never ends by itself.
            return (Event(Driver("now_from", threshold), (), TRUE),) if edge is Edge.START else ()
        case NowBefore(threshold=threshold):
            # NOW < d holds from the beginning of time and ends at d.
            return (Event(Driver("now_before", threshold), (), TRUE),) if edge is Edge.END else ()
        case Exists(body=body):
            return tuple(_inside(event, "EXISTS") for event in edges(body, edge))
        case NotExists(body=body):
            return of_not_exists(body, edge)


def of_and(items: tuple[Predicate, ...], edge: Edge) -> tuple[Event, ...]:
    """starts(p ∧ q) = starts(p) ∧ at(q, s) ∪ at(p, s) ∧ starts(q); ends alike with s⁻."""
    events = []
    for position, item in enumerate(items):
        others = conjunction(*items[:position], *items[position + 1 :])
        events += [_restricted(e, at_predicate(others, edge.judged(e.instant))) for e in of_predicate(item, edge)]
    return tuple(events)


def of_not_exists(body: Relation, edge: Edge) -> tuple[Event, ...]:
    """A ▷ B begins where B's last row ends and ends where B's first row begins.

    starts: (at(A, s) ⋈ ends(B)) ▷ at(B, s).  ends: (at(A, s⁻) ⋈ starts(B)) ▷ at(B, s⁻).
    """
    events = []
    for event in edges(witness(body), edge.opposite):
        unblocked = at_predicate(NotExists(body), edge.judged(event.instant))
        events.append(_inside(_restricted(event, unblocked), "NOT EXISTS"))
    return tuple(events)


def witness(body: Relation) -> Relation:
    """A copy of a subquery's body under range variables of its own.

    The rule of ▷ needs B twice, for the row that drives and for the check that no other row blocks; without a name
    of its own the first would be captured by the second.  Names only grow longer, so nested copies stay apart.
    """
    return rename_relation(body, {scan.alias: scan.alias + "_was" for scan in all_scans(body)})


def _joined(event: Event, snapshot: Snapshot) -> Event:
    condition = conjunction(snapshot.condition, event.condition)
    return replace(event, sources=snapshot.sources + event.sources, condition=condition)


def _restricted(event: Event, predicate: Predicate) -> Event:
    return replace(event, condition=conjunction(event.condition, predicate))


def _inside(event: Event, name: str) -> Event:
    return replace(event, driver=replace(event.driver, inside=(name, *event.driver.inside)))
