"""Run the synopses of one tick: process the new states in batches, and write the results.

    new table rows -> batches of states -> answers for the ledger, and new contents of the stored relations

Queries that process the same states are evaluated together and share stored relations. The tick writes the last
processed states before all other results of synopses. Without this output, the tick has written no results of synopses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer, layout
from weft.catalog.records import TableRecord, TickRecord
from weft.derivation.synopsis.construct import Synopsis, shared
from weft.errors import WeftError
from weft.execution import arrow_answers
from weft.execution.driver_reader import BOUNDS
from weft.execution.groups import Member
from weft.execution.isolate import isolated
from weft.execution.look_ups import ANSWER, LookUps
from weft.execution.new_answers import answer_files, known_answers
from weft.execution.phases import COMMITTING, TAKING_IN, phase
from weft.execution.spark_runner import limits, too_many
from weft.execution.synopsis.answers import LEDGER_COLUMNS, ledger_rows
from weft.execution.synopsis.batch import EMPTY, State, stored_schema
from weft.execution.synopsis.evaluating import evaluate_shared
from weft.execution.synopsis.news import News
from weft.planning.synopsis_plan import SynopsisPlan
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DataFile
from weft.storage.ledger import Added, added_by_query, ledger_schema
from weft.storage.stored_relations import RelationChange, RelationLog, cache_written, read_relation_log, table_schema
from weft.storage.table import Table
from weft.storage.time_limit import time_limit
from weft.store import Store
from weft.writing.outputs import Outputs, TickOutput

STATES: Final = pa.schema([("states", pa.string()), ("tp", pa.int64()), ("at", pa.int64())])
"""The schema of the last processed states.

``states`` identifies a sequence of states. ``tp`` is the number of the last processed state in this sequence, and
``at`` is the time of this state (µs UTC).
"""
GONE_THROUGH: Final = "synopses"
"""The name of the output with the last processed states."""
ANSWERS: Final = f"{layout.LEDGER}-synopses"
STATES_NAME: Final = "states"
_STATES_PATH: Final = f"{layout.SYNOPSES}/{STATES_NAME}"


def path_of(relation: str) -> str:
    """Return the path to the table of a stored relation."""
    return f"{layout.SYNOPSES}/{relation}"


def _output(relation: str) -> tuple[str, str]:
    return f"synopsis-{relation}", path_of(relation)


def written_after(name: str) -> bool:
    """Return whether a tick writes the output ``name`` after ``GONE_THROUGH``."""
    return name == ANSWERS or name.startswith("synopsis-")


@dataclass(frozen=True)
class SynopsisMember:
    """A query in a tick, with its plan."""

    member: Member
    plan: SynopsisPlan


@dataclass
class _Results:
    """The results of some queries. ``relations`` has the changes of stored relations by name."""

    answers: list[pa.Table] = field(default_factory=list)
    relations: dict[str, tuple[RelationLog, RelationChange]] = field(default_factory=dict)
    states: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Written:
    """An output to write. If the output changes a relation log, ``log`` and ``change`` are set."""

    output: TickOutput
    log: RelationLog | None = None
    change: RelationChange | None = None


@dataclass
class TickSynopses:
    """Evaluates the synopses of a tick and writes the results.

    ``at`` is the wall-clock time (µs UTC). ``set_aside`` marks queries as failed and removes them from the tick.
    """

    writer: Writer
    tick: TickRecord
    outputs: Outputs
    tables: Mapping[int, TableRecord]
    at: int
    set_aside: Callable[[Mapping[int, WeftError]], None]

    @property
    def begun(self) -> bool:
        """Whether the tick may have written results before a crash."""
        return self.outputs.find(GONE_THROUGH, _STATES_PATH) is not None

    def extend(self, members: Sequence[SynopsisMember]) -> Mapping[int, Added]:
        """Advance each query to the end of its window. Return the new answers by query ID.

        Raise LeaseLost or StorageError if a write fails. A query that fails is set aside before the first write.
        """
        with phase(TAKING_IN):
            results = _joined(self._evaluated(members))
        if not results.states:
            return {}
        version = self.outputs.find(ANSWERS, layout.LEDGER)
        rows = self._numbered(results, members) if version is None else None
        self._write_states(results)
        # A repeated tick checks each output, so the order of the outputs is irrelevant.
        answers = [_Written(TickOutput(ANSWERS, layout.LEDGER, rows))] if rows is not None and rows.num_rows else []
        changed = (self._written(*_output(name), *change) for name, change in sorted(results.relations.items()))
        self._commit([*answers, *changed])
        if version is not None:
            return added_by_query(self.writer.data, version)
        return {} if rows is None else arrow_answers.added(rows)

    def _evaluated(self, members: Sequence[SynopsisMember]) -> Iterator[_Results]:
        together: dict[tuple[str, int | None, str, bool], list[SynopsisMember]] = {}
        for each in self._arrived(members):
            key = (each.plan.states, each.member.tau, each.plan.semantics, each.plan.history)
            together.setdefault(key, []).append(each)
        # If the ledger already has the answers of this tick, no query may be set aside.
        done = self.outputs.find(ANSWERS, layout.LEDGER) is not None
        for some in together.values():
            if done:
                yield self._in_time(some)
            else:
                yield from isolated(_by_query(some), self._in_time, self.set_aside)

    def _arrived(self, members: Sequence[SynopsisMember]) -> list[SynopsisMember]:

        def arrived(some: list[SynopsisMember]) -> list[SynopsisMember]:
            return [each for each in some if not each.member.empty and self._has_news(each)]

        return [each for part in isolated(_by_query(members), arrived, self.set_aside) for each in part]

    def _in_time(self, some: Sequence[SynopsisMember]) -> _Results:
        with time_limit(limits(self.writer).seconds):
            return self._take_in(some)

    def _has_news(self, one: SynopsisMember) -> bool:
        table = one.plan.points
        read = one.plan.tables if table is None else (table,)
        lasts = (self.tables[each.id].last_ts for each in read)
        return any(last is not None and (one.member.tau is None or last >= one.member.tau) for last in lasts)

    def _take_in(self, some: Sequence[SynopsisMember]) -> _Results:
        """Evaluate queries that process the same states. Drop the old answers of queries over the full history."""
        plan, member = some[0].plan, some[0].member
        synopsis = shared([part.formula for each in some for part in each.plan.parts], plan.semantics)
        events = dict.fromkeys(each for one in some for part in one.plan.parts for each in part.events)
        last = None if member.tau is None else last_state(self.writer.data, plan, member.tau)
        state = EMPTY if plan.history or last is None else self._state(plan, synopsis, member.tau, last)
        begin = None if plan.history else member.tau
        tables = [self.tables[each.id] for each in {each.id: each for one in some for each in one.plan.tables}.values()]
        log = None if plan.points is None else self.tables[plan.points.id]
        news = News(self.writer.data, tables, log, begin, member.t)
        before, answers = state, _Answers(limits(self.writer).rows)
        for points in news.states(state.tp):
            state, rows = evaluate_shared(synopsis, state, news.batch(points, events))
            places = iter(rows if last is None else [_after(each, last[0]) for each in rows])
            for one in some:
                for part in one.plan.parts:
                    answers.add(one.member.query.query_id, ledger_rows(part, next(places), points, one.member.query))
        if state is before:
            return _Results()
        assert state.tp is not None and state.at is not None
        results = _Results(answers.rows, states={plan.states: (state.tp, state.at)})
        for stored in () if plan.history else synopsis.stored:
            relation = plan.relation(stored)
            if self.outputs.find(*_output(relation)) is None:
                stored_rows = state.relations.get(stored, stored_schema(stored).empty_table())
                results.relations |= self._changed(relation, stored_rows)
        return results

    def _changed(self, relation: str, rows: pa.Table) -> dict[str, tuple[RelationLog, RelationChange]]:
        log = read_relation_log(Table(self.writer.data / path_of(relation)), rows.schema)
        change = log.change_to(rows, self.tick.t, self._needed)
        return {} if change is None else {relation: (log, change)}

    def _state(self, plan: SynopsisPlan, synopsis: Synopsis, tau: int | None, last: tuple[int, int]) -> State:
        """``last`` is the last state before ``tau`` that the queries processed."""
        assert tau is not None
        relations = {}
        for stored in synopsis.stored:
            schema = stored_schema(stored)
            relations[stored] = read_relation_log(
                Table(self.writer.data / path_of(plan.relation(stored))), schema
            ).as_of(tau)
        return State(*last, relations)

    def _write_states(self, results: _Results) -> None:
        if self.outputs.find(GONE_THROUGH, _STATES_PATH) is not None:
            return
        log = read_relation_log(Table(self.writer.data / _STATES_PATH), STATES)
        there = log.as_of(self.tick.t)
        rows = dict(zip(there.column("states").to_pylist(), there.to_pylist(), strict=True))
        rows |= {name: {"states": name, "tp": tp, "at": at} for name, (tp, at) in results.states.items()}
        wanted = pa.Table.from_pylist(list(rows.values()), STATES)
        # Write this output even without a change. The output says that other outputs may exist.
        change = log.change_to(wanted, self.tick.t, self._needed, always=True)
        assert change is not None
        self._commit([self._written(GONE_THROUGH, _STATES_PATH, log, change)])

    def _written(self, name: str, path: str, log: RelationLog, change: RelationChange) -> _Written:
        table = Table(self.writer.data / path)
        if not table.exists():
            table.ensure(table_schema(log.relation), {})
        return _Written(TickOutput(name, path, change.rows, self.at if change.replaces else None), log, change)

    def _commit(self, written: Sequence[_Written]) -> None:
        with phase(COMMITTING):
            versions = self.outputs.write_all([each.output for each in written])
        for each, version in zip(written, versions, strict=True):
            if each.log is not None and each.change is not None:
                cache_written(Table(self.writer.data / each.output.path), version, each.log, each.change)

    @cached_property
    def _needed(self) -> list[int]:
        """The τ of each synopsis query. A query may be evaluated again from its τ."""
        queries = self.writer.queries.with_plans_like(SynopsisPlan.MARK)
        return [query.tau for query, _ in queries if query.tau is not None]

    def _numbered(self, results: _Results, members: Sequence[SynopsisMember]) -> pa.Table:
        rows = pa.concat_tables([LEDGER_COLUMNS.empty_table(), *results.answers])

        def numbered(some: list[SynopsisMember]) -> pa.Table:
            queries = {each.member.query.query_id: each.member.query for each in some}
            own = pc.is_in(rows.column("query_id"), value_set=pa.array(queries, pa.int64()))
            new = self._new(rows.filter(own), some)
            adding = {key: queries[key] for key in arrow_answers.added(new)}
            before = {key: query.rows for key, query in adding.items()}
            columns = {key: query.types for key, query in adding.items()}
            return arrow_answers.numbered(new, before, columns, self.tick.tick_id)

        counts = arrow_answers.added(rows)
        going = {key: each for key, each in _by_query(members).items() if key in counts}
        parts = isolated(going, numbered, self.set_aside)
        return pa.concat_tables([ledger_schema().empty_table(), *parts])

    def _new(self, rows: pa.Table, members: Sequence[SynopsisMember]) -> pa.Table:
        """Return the answers that the ledger lacks, without duplicates."""
        rows = arrow_answers.each_once(rows)
        # An answer that contains a time point is always new. The ledger may already contain an answer without a time
        # point.
        queries = [each.member.query for each in members if each.plan.language == "sql" and each.member.query.rows]
        files, ids = Table(self.writer.data / layout.LEDGER).files(), [query.query_id for query in queries]
        if not queries or not rows.num_rows or not files:
            return rows
        keys = rows.select(ANSWER.names)
        look_ups = LookUps(layout.arrangements_folder(self.writer.path))
        known = known_answers(files, ids, keys, BOUNDS, look_ups).rows
        return arrow_answers.without_known(rows, _read_through(files, ids, keys) if known is None else known)


def _by_query(some: Sequence[SynopsisMember]) -> dict[int, SynopsisMember]:
    return {each.member.query.query_id: each for each in some}


def _joined(parts: Iterable[_Results]) -> _Results:
    results = _Results()
    for part in parts:
        results.answers += part.answers
        results.relations |= part.relations
        results.states |= part.states
    return results


def _after(answers: pa.Table, last: int) -> pa.Table:
    return answers.filter(pc.greater(answers.column("tp"), last))


def last_state(data: Store, plan: SynopsisPlan, tau: int | None) -> tuple[int, int] | None:
    """Return the number and the time (µs UTC) of the last processed state before ``tau``, or None."""
    if tau is None:
        return None
    last = read_relation_log(Table(data / _STATES_PATH), STATES).as_of(tau)
    last = last.filter(pc.equal(last.column("states"), plan.states))
    return (last.column("tp")[0].as_py(), last.column("at")[0].as_py()) if last.num_rows else None


def rows_stored(data: Store, plan: SynopsisPlan, tau: int | None) -> dict[str, int]:
    """Return the number of rows in each stored relation at ``tau``, by name."""
    counts = {}
    for stored in plan.stored:
        name, schema = plan.relation(stored), stored_schema(stored)
        counts[name] = 0 if tau is None else read_relation_log(Table(data / path_of(name)), schema).as_of(tau).num_rows
    return counts


@dataclass
class _Answers:
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


def _read_through(files: Sequence[DataFile], queries: Sequence[int], keys: pa.Table) -> pa.Table:
    """Return those answers among ``keys`` that the ledger contains. Read one file at a time to save memory."""
    wanted = pc.field("row_hash").isin(pc.unique(keys.column("row_hash")))
    parts = [batch for file in answer_files(files, queries) for batch in file_batches(file, ANSWER, wanted)]
    return pa.Table.from_batches([each for each in parts if each.num_rows], ANSWER)
