"""Run the synopses of one tick: process the new states in batches, and write the results.

    new table rows -> batches of states -> answers for the ledger, and new contents of the stored relations

Queries that process the same states are evaluated together and share stored relations. The tick writes the last
processed states before all other results of synopses. Without this output, the tick has written no results of synopses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer, layout
from weft.catalog.records import TableRecord, TickRecord
from weft.derivation.synopsis.construct import Stored
from weft.errors import WeftError
from weft.execution import arrow_answers
from weft.execution.driver_reader import BOUNDS
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.isolate import isolated
from weft.execution.look_ups import ANSWER, LookUps
from weft.execution.new_answers import answer_files, known_answers
from weft.execution.phases import COMMITTING, TAKING_IN, phase
from weft.execution.spark_runner import limits, on_spark, too_many
from weft.execution.synopsis.answers import LEDGER_COLUMNS
from weft.execution.synopsis.batch import stored_schema
from weft.execution.synopsis.relations import EngineRelation
from weft.execution.synopsis.taking_in import SynopsisMember, TakenIn, Together
from weft.planning.synopsis_plan import SynopsisPlan
from weft.storage.data_files import FileForm, NewFile, file_batches
from weft.storage.delta_log import DataFile
from weft.storage.ledger import Added, added_by_query, ledger_schema
from weft.storage.stored_relations import RelationChange, RelationLog, cache_written, read_relation_log, table_schema
from weft.storage.table import Table
from weft.storage.time_limit import time_limit
from weft.store import Store
from weft.writing.outputs import Outputs, TickOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
class _Written:
    """An output to write. ``schema`` is the schema of the output's table, or None if the table exists.

    If the output changes a relation log in this process, ``log`` and ``change`` are set.
    """

    output: TickOutput
    schema: pa.Schema | None = None
    log: RelationLog | None = None
    change: RelationChange | None = None


@dataclass
class _Results:
    """The results of some queries. ``relations`` has the outputs of changed relations."""

    answers: list[pa.Table] = field(default_factory=list)
    relations: list[_Written] = field(default_factory=list)
    states: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class TickSynopses:
    """Evaluates the synopses of a tick and writes the results.

    ``at`` is the wall-clock time (µs UTC). ``set_aside`` marks queries as failed and removes them from the tick.
    ``session`` is called only if Spark must compute.
    """

    writer: Writer
    tick: TickRecord
    outputs: Outputs
    tables: Mapping[int, TableRecord]
    at: int
    set_aside: Callable[[Mapping[int, WeftError]], None]
    session: Callable[[], SparkSession]

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
        self._commit([*answers, *sorted(results.relations, key=lambda each: each.output.name)])
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
        """Evaluate queries that process the same states, on the engine that suits the number of rows."""
        allowed = limits(self.writer)
        together = taken_together(self.writer.data, some, self.tables, allowed.rows)
        if together.choice().by == "driver":
            with time_limit(allowed.seconds):
                return self._results(together, self._within_limits(some, together.in_this_process()))
        compute = partial(together.on_spark, t=self.tick.t, needed=self._needed, done=partial(self._is_done, together))
        rows = sum(count for _, count in together.news.sizes())
        taken = on_spark(self.session, compute, rows=rows, probing=False, strict=True, seconds=allowed.seconds)
        return self._results(together, self._within_limits(some, taken))

    def _within_limits(self, some: Sequence[SynopsisMember], taken: TakenIn) -> TakenIn:
        """Raise LimitExceeded if a query has more new rows than its owner may add in one tick."""
        most = self.writer.users.most_rows()
        if most and taken.answers:
            added = arrow_answers.added(arrow_answers.each_once(pa.concat_tables(taken.answers)))
            for query in (each.member.query for each in some):
                rows = added[query.query_id].rows if query.query_id in added else 0
                if rows > most.get(query.user, rows):
                    raise too_many(rows, most[query.user], of_owner=True)
        return taken

    def _is_done(self, together: Together, stored: Stored) -> bool:
        return self.outputs.find(*_output(together.plan.relation(stored))) is not None

    def _has_news(self, one: SynopsisMember) -> bool:
        table = one.plan.points
        read = one.plan.tables if table is None else (table,)
        lasts = (self.tables[each.id].last_ts for each in read)
        return any(last is not None and (one.member.tau is None or last >= one.member.tau) for last in lasts)

    def _results(self, together: Together, taken: TakenIn) -> _Results:
        if taken.last is None:
            return _Results()
        results = _Results(taken.answers, states={together.plan.states: taken.last})
        for stored, rows in taken.relations.items():
            if not self._is_done(together, stored):
                results.relations += self._changed(together.plan.relation(stored), rows)
        for stored, (files, replaces) in taken.changes.items():
            name, path = _output(together.plan.relation(stored))
            given = files if isinstance(files, pa.Table) else partial(_written, files)
            output = TickOutput(name, path, given, self.at if replaces else None)
            results.relations.append(_Written(output, table_schema(stored_schema(stored))))
        return results

    def _changed(self, relation: str, rows: pa.Table) -> list[_Written]:
        log = read_relation_log(Table(self.writer.data / path_of(relation)), rows.schema)
        change = log.change_to(rows, self.tick.t, self._needed)
        return [] if change is None else [self._written(*_output(relation), log, change)]

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
        output = TickOutput(name, path, change.rows, self.at if change.replaces else None)
        return _Written(output, table_schema(log.relation), log, change)

    def _commit(self, written: Sequence[_Written]) -> None:
        for each in written:
            table = Table(self.writer.data / each.output.path)
            if each.schema is not None and not table.exists():
                table.ensure(each.schema, {})
        with phase(COMMITTING):
            versions = self.outputs.write_all([each.output for each in written])
        for each, version in zip(written, versions, strict=True):
            if each.log is not None and each.change is not None:
                cache_written(Table(self.writer.data / each.output.path), version, each.log, each.change)

    @cached_property
    def _needed(self) -> list[int]:
        """The τ of each synopsis query. A query may be evaluated again from its τ."""
        queries = self.writer.queries.of_synopses()
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


def _written(files: Sequence[NewFile], _: FileForm) -> Sequence[NewFile]:
    return files


def _by_query(some: Sequence[SynopsisMember]) -> dict[int, SynopsisMember]:
    return {each.member.query.query_id: each for each in some}


def _joined(parts: Iterable[_Results]) -> _Results:
    results = _Results()
    for part in parts:
        results.answers += part.answers
        results.relations += part.relations
        results.states |= part.states
    return results


def taken_together(
    data: Store, some: Sequence[SynopsisMember], tables: Mapping[int, TableRecord], most: int
) -> Together:
    """Return queries that process the same states. A query may have at most ``most`` answers in a tick."""
    plan, tau = some[0].plan, some[0].member.tau
    return Together(some, data, tables, last_state(data, plan, tau), most, path_of)


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
    with duckdb_engine() as engine:
        for number, stored in enumerate(plan.stored, 1):
            name = plan.relation(stored)
            relation = EngineRelation(engine, stored, Table(data / path_of(name)), f"relation_{number}")
            counts[name] = 0 if tau is None else relation.size(tau)
    return counts


def _read_through(files: Sequence[DataFile], queries: Sequence[int], keys: pa.Table) -> pa.Table:
    """Return those answers among ``keys`` that the ledger contains. Read one file at a time to save memory."""
    wanted = pc.field("row_hash").isin(pc.unique(keys.column("row_hash")))
    parts = [batch for file in answer_files(files, queries) for batch in file_batches(file, ANSWER, wanted)]
    return pa.Table.from_batches([each for each in parts if each.num_rows], ANSWER)
