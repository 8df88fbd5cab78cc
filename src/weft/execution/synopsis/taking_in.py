"""Process the new states of one tick for queries that are evaluated together.

In this process, DuckDB processes batches of about ``AT_ONCE`` rows. The state between two batches is in memory. On
Spark, a batch has millions of rows, and the state is a table of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from weft.algebra.formula import Matches, subformulas
from weft.catalog.records import QueryRecord, TableRecord
from weft.derivation.synopsis.construct import Stored, Synopsis, shared
from weft.derivation.synopsis.fixpoints import stepped
from weft.execution import arrow_answers
from weft.execution.driver_reader import rows_of
from weft.execution.engines import choosing
from weft.execution.engines.choosing import Choice, bounded
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine, Rows
from weft.execution.engines.spark import SparkEngine
from weft.execution.groups import Member
from weft.execution.spark_runner import too_many
from weft.execution.synopsis.answers import ledger_rows
from weft.execution.synopsis.batch import EMPTY, EngineState, State, given_state, prepared, stored_schema
from weft.execution.synopsis.evaluating import Step, evaluation_errors, stepped_on
from weft.execution.synopsis.news import News
from weft.execution.synopsis.relations import EngineRelation
from weft.planning.synopsis_events import Events, FormulaEvents
from weft.planning.synopsis_plan import SynopsisPlan
from weft.storage.stored_relations import read_relation_log
from weft.storage.table import Table
from weft.store import Store

_PLAIN_SCALE: Final = 6
"""The greatest scale of a DECIMAL whose text is the same on both engines. The synopsis stores this text."""
ON_SPARK: Final = 20_000_000
"""The number of rows in one batch on Spark. Some window functions process a batch in one task."""


@dataclass(frozen=True)
class SynopsisMember:
    """A query in a tick, with its plan."""

    member: Member
    plan: SynopsisPlan


@dataclass(frozen=True)
class TakenIn:
    """The result of processing states: answers in the form of the ledger, the last state, and stored relations.

    ``relations`` has the new rows of the stored relations, or on Spark their changes as ``EngineRelation.change_to``
    returns them. A relation without a change is missing.
    """

    answers: list[pa.Table]
    last: tuple[int, int] | None
    relations: Mapping[Stored, pa.Table] = field(default_factory=dict)
    changes: Mapping[Stored, tuple[Rows, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Together:
    """Queries that process the same states with one synopsis.

    ``last`` is the last processed state, or None. ``most`` is the maximum number of answers of a query in the tick.
    ``path_of`` returns the path of a stored relation.
    """

    members: Sequence[SynopsisMember]
    data: Store
    tables: Mapping[int, TableRecord]
    last: tuple[int, int] | None
    most: int
    path_of: Callable[[str], str]

    @property
    def plan(self) -> SynopsisPlan:
        """The plan of the first query, which determines the states."""
        return self.members[0].plan

    @property
    def member(self) -> Member:
        """The first query. All queries have the same window."""
        return self.members[0].member

    @property
    def synopsis(self) -> Synopsis:
        """The synopsis of all formulas."""
        return shared([part.formula for part, _ in self.parts], self.plan.semantics)

    @property
    def parts(self) -> list[tuple[FormulaEvents, QueryRecord]]:
        """The formulas in order, each with its query."""
        return [(part, each.member.query) for each in self.members for part in each.plan.parts]

    @property
    def events(self) -> tuple[Events, ...]:
        """The events that the formulas read, without duplicates."""
        return tuple(dict.fromkeys(each for part, _ in self.parts for each in part.events))

    @property
    def news(self) -> News:
        """The new rows. A query over the history reads all rows."""
        read = {each.id: each for one in self.members for each in one.plan.tables}
        begin, points = (None if self.plan.history else self.member.tau), self.plan.points
        log = None if points is None else self.tables[points.id]
        return News(self.data, [self.tables[key] for key in read], log, begin, self.member.t)

    def choice(self) -> Choice:
        """Choose the engine that processes the states."""
        here = self._only_here()
        if here is not None:
            return Choice("driver", here)
        bounds = choosing.BOUNDS
        stored = [rows_of(self.relation_table(each).files()) for each in self.plan.stored]
        kept = bounded([("the synopsis", sum(stored))], bounds.stored, "stored row")
        return kept if kept.by == "Spark" else bounded(self.news.sizes(bounds.events), bounds.events, "new row")

    def _only_here(self) -> str | None:
        """Return the reason why only this process can evaluate the synopsis, or None."""
        formulas = self.synopsis.formulas
        if any(map(stepped, formulas)):
            return "its formula has a fixpoint, which is evaluated state by state"
        if any(isinstance(part, Matches) for each in formulas for part in subformulas(each)):
            return "its formula has MATCHES, and Spark reads some patterns differently"
        for events in self.events:
            columns = [events.table.column(name) for name in events.reads]
            if any(each is not None and (each.type.scale or 0) > _PLAIN_SCALE for each in columns):
                return f"{events.table.name} has decimals whose text Spark writes differently"
        return None

    def relation_table(self, stored: Stored) -> Table:
        """Return the Delta table of a stored relation."""
        return Table(self.data / self.path_of(self.plan.relation(stored)))

    def in_this_process(self) -> TakenIn:
        """Process the states with DuckDB. Raise LimitExceeded if a query has too many answers."""
        synopsis, state, answers = self.synopsis, self._state(), Answers(self.most)
        before, news, events = state, self.news, self.events
        for points in news.states(state.tp):
            with duckdb_engine() as engine, evaluation_errors():
                engine.given("points", points)
                step = self._step(engine, synopsis, given_state(engine, state), news, events)
                assert step is not None, "each batch has states"
                self._add_answers(step, answers)
                rows = {stored: step.stored_rows(stored) for stored in step.stored}
            relations = {stored: table for stored, table in rows.items() if table.num_rows}
            state = State(step.batch.extent.last, step.batch.now, relations)
        if state is before:
            return TakenIn([], None)
        assert state.tp is not None and state.at is not None
        every = {each: state.relations.get(each, stored_schema(each).empty_table()) for each in synopsis.stored}
        return TakenIn(answers.rows, (state.tp, state.at), {} if self.plan.history else every)

    def on_spark(self, engine: SparkEngine, t: int, needed: Sequence[int], done: Callable[[Stored], bool]) -> TakenIn:
        """Process the states on Spark, and compute the changes of the stored relations at ``t`` (µs UTC).

        ``needed`` is as in ``EngineRelation.change_to``. A relation for which ``done`` is true needs no change. Raise
        LimitExceeded if a query has too many answers.
        """
        synopsis, answers = self.synopsis, Answers(self.most)
        relations = {
            stored: EngineRelation(engine, stored, self.relation_table(stored), f"relation_{number}")
            for number, stored in enumerate(synopsis.stored, 1)
        }
        state = self._engine_state(relations)
        before, events = state, self.events
        for number, news in enumerate(self.news.parts(ON_SPARK), 1):
            engine.table("points", news.points(engine, state.tp))
            step = self._step(engine, synopsis, state, news, events)
            if step is not None:
                self._add_answers(step, answers)
                state = _after(engine, step, number)
        if state is before:
            return TakenIn([], None)
        assert state.tp is not None and state.at is not None
        changes = {}
        for stored, relation in () if self.plan.history else relations.items():
            change = None if done(stored) else relation.change_to(state.relations.get(stored), t, needed)
            if change is not None:
                changes[stored] = change
        return TakenIn(answers.rows, (state.tp, state.at), changes=changes)

    def _step(
        self,
        engine: Engine,
        synopsis: Synopsis,
        state: EngineState,
        news: News,
        events: Sequence[Events],
    ) -> Step | None:
        """Take one step with the states in the table ``points``. Return None if the table has no rows."""
        bounds = news.bounds(engine, state.tp)
        if bounds is None:
            return None
        given = news.events(engine, events, bounds)
        return stepped_on(engine, synopsis, state, prepared(engine, synopsis, state, "points", given))

    def _add_answers(self, step: Step, answers: Answers) -> None:
        after = None if self.last is None or not self.plan.history else self.last[0]
        for number, (part, query) in enumerate(self.parts):
            answers.add(query.query_id, ledger_rows(part, step, number, query, after=after, most=self.most))

    @property
    def _fresh(self) -> bool:
        """Whether the states are processed from the first one on."""
        return self.plan.history or self.last is None

    def _state(self) -> State:
        if self._fresh:
            return EMPTY
        assert self.last is not None and self.member.tau is not None
        relations = {}
        for stored in self.synopsis.stored:
            log = read_relation_log(self.relation_table(stored), stored_schema(stored))
            relations[stored] = log.as_of(self.member.tau)
        return State(*self.last, relations)

    def _engine_state(self, relations: Mapping[Stored, EngineRelation]) -> EngineState:
        if self._fresh:
            return EngineState()
        assert self.last is not None and self.member.tau is not None
        names = {stored: relation.read(self.member.tau) for stored, relation in relations.items()}
        return EngineState(*self.last, {stored: name for stored, name in names.items() if name is not None})


def _after(engine: Engine, step: Step, number: int) -> EngineState:
    """Store the relations after the batch with this number as tables."""
    names = {}
    for place, (stored, query) in enumerate(step.stored.items(), 1):
        name = f"after_{number}_{place}"
        if query is not None and engine.table(name, query):
            names[stored] = name
    return EngineState(step.batch.extent.last, step.batch.now, names)


@dataclass
class Answers:
    """Collects the answers of queries. A query may have at most ``most`` answers in a tick."""

    most: int
    rows: list[pa.Table] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, query_id: int, rows: pa.Table) -> None:
        """Add answers of a query. Raise LimitExceeded if the query exceeds ``most`` answers."""
        self.rows.append(rows)
        self.counts[query_id] = self.counts.get(query_id, 0) + rows.num_rows
        if self.counts[query_id] > self.most:
            self.rows = [arrow_answers.each_once(pa.concat_tables(self.rows))]
            self.counts = {key: each.rows for key, each in arrow_answers.added(self.rows[0]).items()}
            if self.counts[query_id] > self.most:
                raise too_many(self.counts[query_id], self.most)
