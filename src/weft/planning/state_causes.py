"""Find what changes the rows of states: rows that arrive or end, and time (``derivation.stateful``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.algebra.event import Event
from weft.algebra.relation import TRUE, StateSchema, condition, conjunction, conjuncts
from weft.algebra.traverse import Node, scans, substitute
from weft.derivation.incremental import changes
from weft.derivation.merge import mergeable_blocks
from weft.derivation.order import exclude_each_other
from weft.derivation.recursion import is_round
from weft.derivation.stateful import states, written
from weft.planning.state_sql import inputs
from weft.planning.words import calculated, condition_words, meanings, several


def possible(events: Iterable[Event]) -> list[Event]:
    """Return the events whose conditions do not contradict the order of time."""
    return [event for event in events if not exclude_each_other(conjuncts(condition(event.block)))]


def all_states(node: Node) -> tuple[StateSchema, ...]:
    """Return the states that the node reads, and the states inside them, outermost first, each once."""
    found: dict[StateSchema, None] = {}
    for state in states(node):
        found |= {state: None, **dict.fromkeys(all_states(state.operator))}
    return tuple(found)


def causes(state: StateSchema) -> list[Event]:
    """Return the events that change groups or partitions of the state, in the names of the query's text.

    No row of a table is there when time begins, so constant rows change nothing in a join with a table.  The rows of a
    recursion's last round are no cause, because rows of tables cause them.
    """
    inner, columns, count = inputs(written(state))
    events = [event for event in possible(changes(inner, columns[:count])) if not _is_of_round(event)]
    return [event for event in events if event.driver.kind != "beginning" or not any(scans(event.block))]


def _is_of_round(event: Event) -> bool:
    return event.driver.scan is not None and is_round(event.driver.scan)


def base_events(events: Iterable[Event], read: Iterable[StateSchema]) -> Iterator[Event]:
    """Yield the events that rows of tables or time cause: those among ``events``, and those inside the states."""
    for event in (*events, *(event for state in read for event in causes(state))):
        if event.driver.scan is None or not isinstance(event.driver.scan.table, StateSchema):
            yield event


def input_words(state: StateSchema) -> str | None:
    """Return the condition on the rows of a state's input as a sentence, or None if there is no condition."""
    inner, _, _ = inputs(written(state))
    parts = mergeable_blocks(inner, ())
    if len(parts) != 1 or parts[0].condition == TRUE:
        return None
    known = meanings(inner)
    demanded = condition_words(substitute(conjunction(*conjuncts(parts[0].condition)), known))
    values = calculated(written(state))
    subject = f"{several(values, 'and')} {'are' if len(values) > 1 else 'is'} over" if values else "it has only"
    return f"{subject} rows with {demanded}"
