"""Explain a plan before the query is installed: the SQL that will run, and the reason for each answer.

This module has no side effects and does not use Spark.  The SQL is that of a tick that runs only this query.  ``:tau``
is the first instant of the window, and ``:t`` is the first instant after the window.  ``views`` has the definitions of
the views in the SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.event import Event
from weft.algebra.scalar import TICK_END, ColumnRef, Scalar
from weft.algebra.schema import DataType
from weft.derivation.monotone import lasts
from weft.derivation.stateful import states
from weft.planning.event_words import why
from weft.planning.form import signature
from weft.planning.note import Note
from weft.planning.plan import (
    BEGINNING,
    Branch,
    Plan,
    at_instant,
    columns_of,
    columns_read,
    for_one,
    with_constants,
)
from weft.planning.state_text import StateText, sized, state_texts
from weft.planning.summary import CauseSummary, first, summary
from weft.planning.view_text import ViewText, view_texts
from weft.planning.warnings import notes, view_notes
from weft.planning.words import meanings, spoken
from weft.printable import InLines
from weft.sql.rendering import render


@dataclass(frozen=True)
class BranchText:
    """A branch as text: the kind of its driver, the table of its driver (or None), the reason for its answers, and its
    SQL.
    """

    driver: str
    table: str | None
    why: str
    sql: str


@dataclass(frozen=True, repr=False)
class Explanation(InLines):
    """The output of ``explain``.

    ``first`` has the branches of the first delivery (Q^M).  ``later`` has the branches of later ticks (Q^I).
    ``first_states`` and ``states`` have the aggregates and window functions that these branches read.  A parameter is a
    tuple of name, type and value as SQL.  Only an installed query has the fields ``name``, ``how_many``
    and ``next_due``. ``how_many`` is the number of answers in words, and ``next_due`` is the next instant at which the
    query is due.
    """

    query: str
    columns: tuple[tuple[str, DataType], ...]
    signature: str
    parameters: tuple[tuple[str, DataType, str], ...]
    first: tuple[BranchText, ...]
    later: tuple[BranchText, ...]
    views: tuple[ViewText, ...]
    states: tuple[StateText, ...]
    first_states: tuple[StateText, ...]
    closed: bool
    closed_reason: str
    from_now: bool
    time_driven: bool
    lasting: bool
    notes: tuple[Note, ...]
    summary: CauseSummary
    how_many: str | None = None
    next_due: str | None = None
    name: str | None = None

    def sized(self, rows: Mapping[str, int]) -> Explanation:
        """Choose the engines of states from the sizes of tables, as far as ``rows`` has them by name."""
        first, later = ([sized(each, rows) for each in texts] for texts in (self.first_states, self.states))
        return replace(self, first_states=tuple(first), states=tuple(later))

    @property
    def brief(self) -> tuple[str, ...]:
        """About ten lines of text with the most important facts."""
        lines = [f"{note.level.upper()}: {note.line}" for note in self.notes if note.line]
        if self.first and not self.closed:
            lines.append("NOTE: the first delivery reads the whole history and takes longer than later ones")
        pointer = f"weft explain {self.name or '…'} --full shows the SQL that runs, and what it reads."
        home = [each for each in (self.how_many, self.next_due) if each]
        return (*self.summary.lines, *first(lines, _NOTES, "NOTE: {} more with --full"), *home, pointer)


_NOTES: Final = 3


def explain(plan: Plan) -> Explanation:
    """Return the explanation of a plan."""
    runs = plan.with_numbered_columns
    later = branches(plan, runs.branches, whole=False)
    # With --from now, the first window is [now, t), so the query has no separate first delivery.
    delivered = () if plan.from_now else runs.first
    texts = state_texts(later)
    at_first = branches(plan, delivered, whole=True)
    lasting = lasts(plan.standing)
    known = meanings(plan.evaluated)
    return Explanation(
        query=plan.text,
        columns=columns_of(plan.query),
        signature=signature(plan),
        parameters=tuple((f"p{n}", value.type, render.scalar(value)) for n, value in enumerate(plan.values, 1)),
        first=_texts(plan, delivered, at_first, known),
        later=_texts(plan, runs.branches, later, known),
        views=_views(later),
        states=texts,
        first_states=state_texts(at_first, whole=True),
        closed=plan.verdict.closed,
        closed_reason=plan.verdict.reason,
        from_now=plan.from_now,
        time_driven=plan.time_driven,
        lasting=lasting,
        notes=(*notes(plan, later, texts, lasting=lasting), *view_notes(plan)),
        summary=summary(plan),
    )


@dataclass(frozen=True)
class AskedOnce:
    """What ``weft try`` runs: the normalized query, the SELECTs, and the states that they read.

    The union of the SELECTs is the answer at the instant ``:t``.
    """

    query: str
    selects: tuple[str, ...]
    states: tuple[StateText, ...]


def asked_once(plan: Plan, rows: Mapping[str, int] = {}) -> AskedOnce:
    """Return what ``weft try`` runs.  ``rows`` has the sizes of tables, as far as they are known."""
    found = at_instant(plan.with_numbered_columns.query, TICK_END)
    texts = (sized(each, rows) for each in state_texts(found, stored=False))
    return AskedOnce(plan.text, tuple(branch.sql for branch in found), tuple(texts))


def branches(plan: Plan, events: Sequence[Event], *, whole: bool) -> tuple[Branch, ...]:
    """Return the branches of a tick that runs only this query, with the query's constants.

    If ``whole`` is true, the branches read full tables, as in the first delivery, and only ``:t`` remains unbound.
    Otherwise, ``:tau`` and ``:t`` remain unbound.
    """
    window: dict[str, Scalar] = {"tau": BEGINNING} if whole else {}
    return tuple(for_one(event, plan.values, window, whole) for event in events)


def _texts(
    plan: Plan, events: Sequence[Event], compiled: Sequence[Branch], known: Mapping[ColumnRef, Scalar]
) -> tuple[BranchText, ...]:
    """``events`` have the range variables of the query's text.  ``compiled`` may have other range variables."""
    texts = []
    for event, branch in zip(events, compiled, strict=True):
        driver = event.driver
        reason = why(spoken(with_constants(event, plan.values), known))
        table = branch.event.driver.scan.table.name if branch.event.driver.scan else None
        texts.append(BranchText(driver.kind, table, reason, branch.sql))
    return tuple(texts)


def _views(compiled: Sequence[Branch]) -> tuple[ViewText, ...]:
    read = [path for branch in compiled for path in branch.paths.values()]
    computed = {state.name for branch in compiled for state in states(branch.event.relation)}
    return view_texts(read, columns_read(compiled), computed)
