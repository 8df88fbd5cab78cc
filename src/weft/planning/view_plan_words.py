"""Explain the maintenance of a view in the paper's notation (``weft view explain``).

Shared parts get names, because the full expressions would fill pages (``planning.temporal_words``).  Names begin with
``E`` for parts of the view's expression, ``G`` for results of equations, ``D`` for computed changes, and ``p`` for
predicates on time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.algebra.relation import Scan, Select
from weft.algebra.scalar import Literal, conjuncts
from weft.algebra.schema import TableSchema
from weft.algebra.temporal import Extension, Temporal, each, mentions_time
from weft.derivation.temporal.delta_propagation import Kind
from weft.derivation.temporal.maintenance_plan import Derived
from weft.planning.summary import cut, first
from weft.planning.temporal_words import Naming
from weft.planning.view_plan import ViewPlan
from weft.planning.words import length, scalar_words
from weft.printable import InLines
from weft.sql.lower.scope import as_written


@dataclass(frozen=True)
class EventEffect:
    """The effect of one kind of event on a view, as lines with the computation and its equations."""

    event: str
    lines: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ViewExplanation(InLines):
    """A view as an expression over ``sources``, with its maintenance for each kind of event.

    Each source has a range variable and a table.

    - ``parts``: the queries of the auxiliary views that the view reads, by name.
    - ``changing``: the tables whose changes can change the view.
    - ``timely``: whether time alone can change the view.
    - ``time``: the view's conditions on time.
    - ``whole``: the events that read a full table.
    - ``called``: the table of each auxiliary view.
    - ``status``: lines on the state of the view.
    """

    view: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, str], ...]
    events: tuple[EventEffect, ...]
    changing: tuple[str, ...]
    timely: bool
    time: tuple[str, ...]
    whole: tuple[str, ...]
    called: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    status: tuple[str, ...] = ()

    @property
    def brief(self) -> tuple[str, ...]:
        """About ten lines of text with the most important facts."""
        read = {self._table(each): None for each in self.changing}
        changing = (
            f"The view can change when a row of {' or '.join(read)} begins or ends."
            if read
            else "The view never changes."
        )
        if not self.timely:
            time = "Time alone does not change the view: a row must begin or end."
        else:
            time = f"Time alone can change the view, too{': ' if self.time else '.'}{' and '.join(self.time)}"
        warnings = [f"WARNING: {each}" for each in self.whole]
        over = dict.fromkeys(
            table if table == alias else f"{table} (as {alias})"
            for alias, table in ((self._alias(alias, table), self._table(table)) for alias, table in self.sources)
        )
        return (
            f"Weft stores the rows of {self.name or 'the view'} with the periods in which they held.",
            cut(f"The view reads {', '.join(over)}."),
            cut(changing),
            cut(time),
            *(cut(each) for each in first(warnings, 3, "WARNING: {} more with --full")),
            *self.status,
            f"weft view explain {self.name or 'NAME'} --full shows what is computed, and the equations.",
        )

    def _alias(self, alias: str, name: str) -> str:
        return as_written(alias.removesuffix(_STORED) if name in self.called else alias)

    def _table(self, name: str) -> str:
        """For an auxiliary view, return the name of its table."""
        return self.called.get(name, name)


_STORED: Final = "_stored"
"""The suffix for range variables of auxiliary views (``derivation.temporal.column_pruning``)."""


def explained_view(
    view_plan: ViewPlan,
    parts: Mapping[str, str] | None = None,
    called: Mapping[str, str] | None = None,
    own: TableSchema | None = None,
) -> ViewExplanation:
    """Return the explanation of a view's maintenance for deletions, insertions, and the passing of time.

    ``parts`` maps the name of each auxiliary view to its query.  ``called`` maps the name of each auxiliary view to its
    table.  ``own`` is the table of the stored view, whose rows the maintenance reads.
    """
    plan, naming = view_plan.plan, Naming()
    if own is not None:
        plan = plan.with_own_rows(own)
    bases = {part.alias: part.table.name for part in each(plan.view) if isinstance(part, Scan)}
    view = naming.lines("V", plan.view, "E")
    naming.call(plan.view, "V")
    tables, events = dict(called or {}), []
    changing: dict[str, None] = {}
    whole: dict[str, None] = {}
    for table in view_plan.tables:
        for what, kind in _KINDS:
            derived = plan.change([table], [kind])
            events.append(EventEffect(f"{what} {table.name}", tuple(_lines(derived, naming))))
            changing |= {} if derived.empty else {table.name: None}
            for each_read in derived.reads_whole:
                names = (tables.get(name, name) for name in (table.name, each_read.table.name))
                whole["a change of {} reads all of {}".format(*names)] = None
    events.append(EventEffect("time passes, from :refreshed to NOW()", tuple(_lines(plan.refresh, naming))))
    for each_read in plan.refresh.reads_whole:
        name = tables.get(each_read.table.name, each_read.table.name)
        whole[f"a refresh reads all of {name}, even if only time has passed"] = None
    read = tuple((each, text) for each, text in (parts or {}).items() if each in bases.values())
    return ViewExplanation(
        tuple(view),
        tuple(bases.items()),
        read,
        tuple(events),
        changing=tuple(changing),
        timely=not plan.refresh.empty,
        time=_timely(plan.view),
        whole=tuple(whole),
        called=tables,
    )


def _timely(view: Temporal) -> tuple[str, ...]:
    conditions: dict[str, None] = {}
    for part in each(view):
        if isinstance(part, Select):
            for condition in conjuncts(part.predicate):
                if mentions_time(condition):
                    conditions[scalar_words(condition)] = None
        elif isinstance(part, Extension):
            match part.window:
                case Literal(value=int(micros)):
                    conditions[f"rows leave the window of {length(micros)}"] = None
                case window:
                    conditions[f"rows leave the window of {scalar_words(window)}"] = None
    return tuple(conditions)


_KINDS: tuple[tuple[str, Kind], ...] = (("deleted from", "deletions"), ("inserted into", "insertions"))


def _lines(derived: Derived, naming: Naming) -> list[str]:
    lines: list[str] = []
    for step in derived.trace:
        for sign, part in (("∇", step.delta.deleted), ("Δ", step.delta.inserted)):
            if part is not None:
                lines += naming.lines(f"by ({step.rule}) {sign}", part, "G")
    for sign, part in (("∇", derived.deleted), ("Δ", derived.inserted)):
        lines += [f"{sign}V = ∅"] if part is None else naming.lines(f"{sign}V", part, "D")
    lines += [f"dropped: {naming.words.dropped(dropped)}" for dropped in derived.dropped]
    lines += [f"reads all of {base.table.name} (as {base.alias})" for base in derived.reads_whole]
    return lines
