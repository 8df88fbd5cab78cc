"""Define the rules of π A, a derived table.

starts(π A) = π starts(A) and ends(π A) = π ends(A).  The projection hides the input's columns, so the instant of the
event becomes an additional output.

Proof: proofs/Operators.v: project_rule.

>>> from shown import M, show_events
>>> show_events(starts(Project(M, "d", (Output("id", M.ref("msgid")),))))
when a row of msgs AS m arrives: d._instant
  FROM (SELECT m.msgid AS id, m.ts AS _instant
    FROM msgs AS m) AS d
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.algebra.event import INSTANT, Event, Instant
from weft.algebra.relation import Output, Project
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import TIMESTAMP
from weft.derivation.replay.rules import at, ends, starts


def at_project(project: Project, instant: Instant) -> Project:
    """Return the projection of the input at the instant."""
    return replace(project, input=at(project.input, instant))


def starts_of_project(project: Project) -> tuple[Event, ...]:
    """Return the events at which input rows begin, projected to the outputs."""
    return projected(starts(project.input), project.alias, project.outputs)


def ends_of_project(project: Project) -> tuple[Event, ...]:
    """Return the events at which input rows end.  A projected row may remain because of another input row."""
    return projected(ends(project.input), project.alias, project.outputs)


def projected(events: Iterable[Event], alias: str, outputs: tuple[Output, ...]) -> tuple[Event, ...]:
    """Project the events to ``outputs`` and the instant, as a derived table with the name ``alias``."""
    instant = ColumnRef(alias, INSTANT, TIMESTAMP)
    return tuple(
        Event(
            replace(event.driver, instant=instant),
            Project(event.relation, alias, (*outputs, Output(INSTANT, event.instant))),
        )
        for event in events
    )


at.register(Project, at_project)
starts.register(Project, starts_of_project)
ends.register(Project, ends_of_project)
