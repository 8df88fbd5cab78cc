"""Run one tick: find, commit and count every answer that begins in the window (design sections 1, 5, 6).

    plan (catalog) -> for each stratum: news and look-ups -> branches -> an output (Delta) -> count (catalog)

The catalog records the instant of the tick before the tick reads anything. An interrupted tick runs again at the same
instant. The repeated tick finds committed outputs by their Delta transactions. The tick ends when the catalog records
the end. The caller holds the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from weft.arrangement.state_store import StateStore
from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import Choice, PlanRecord, QueryRecord, TickRecord
from weft.errors import ClockError, ExecutionError, WeftError
from weft.execution.collector import fewer_collections
from weft.execution.crowds import crowds_of
from weft.execution.groups import Crowd, Member, compiled, synopsis_of
from weft.execution.isolate import isolated
from weft.execution.look_ups import LookUps
from weft.execution.phases import PLANNING, phase
from weft.execution.relations import ResultsTable, relations
from weft.execution.spark_runner import SparkRunner, limits
from weft.execution.synopsis.discarding import discard_taken_in
from weft.execution.synopsis.standing import TickSynopses, written_after
from weft.execution.synopsis.taking_in import SynopsisMember
from weft.execution.ticks.batches import batches
from weft.execution.ticks.strata import WindowStarts, member, strata
from weft.execution.ticks.stratum import extend
from weft.execution.ticks.tick_report import TickReport, TickRun, commit_tick
from weft.execution.windows import NEVER
from weft.failpoint import failpoint
from weft.faults import FAULTS
from weft.instants import MIN_INSTANT
from weft.interruption import report_progress, stop_here
from weft.planning.stored_synopsis import is_synopsis
from weft.storage.ledger import Added, added_by_query
from weft.storage.verify import require_undamaged
from weft.writing.outputs import Outputs, answers_name
from weft.writing.reserved import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")


def prepare(writer: Writer) -> None:
    """Settle the open reservations and ticks of dead writers, and verify the store. Every writer calls ``prepare``
    first.

    Raise StorageError if the store is damaged.
    """
    settle(writer)
    require_undamaged(writer)


@fewer_collections()
def run_tick(
    writer: Writer,
    session: Callable[[], SparkSession],
    *,
    choice: Choice,
    t: int | None,
    at: int,
) -> tuple[TickReport, ...]:
    """Finish an interrupted tick. Advance the chosen queries, and the queries that they read, to ``t``.

    If ``t`` is None, the tick is at the time of the home's clock. ``at`` is the wall clock time. ``session`` is called
    only if a query must be computed. Large first deliveries are ticks of their own (``batches``). Return the report of
    each tick. Raise ClockError for a ``t`` that the clock does not allow. Raise StorageError for a damaged store, and
    ExecutionError if Spark fails.
    """
    limits(writer)  # refuses invalid limits before anything is planned
    reports = []
    with phase(PLANNING):
        prepare(writer)
        writer.rechecks.run()
        died = writer.ticks.planned()
    if died is not None:
        with _running(writer, session, {}) as runner:
            reports.append(_run(writer, session, died, at, again=True, runner=runner))
    with phase(PLANNING):
        t = tick_instant(writer, t, at)
        some, ahead = batches(writer, choice)
    with _running(writer, session, ahead) as runner:  # the batches share what it has read
        for number, batch in enumerate(some, 1):
            if number > 1 and not writer.ticks.first_deliveries(batch):
                continue  # an earlier batch ran these queries, because its queries read their results
            if len(some) > 1:
                report_progress(f"ticking, batch {number} of {len(some)}")
                stop_here()
            with phase(PLANNING):
                planned = writer.ticks.plan(t, batch, at)
            failpoint("tick.planned")
            reports.append(_run(writer, session, planned, at, again=False, runner=runner))
    discard_taken_in(writer, planned.tick_id, at)
    return tuple(reports)


@contextmanager
def _running(
    writer: Writer, session: Callable[[], SparkSession], ahead: Mapping[str, Collection[str]]
) -> Iterator[SparkRunner]:
    look_ups = LookUps(layout.arrangements_folder(writer.path))
    state_store = StateStore(layout.states_folder(writer.path), writer.revisions.earliest)
    runner = SparkRunner(session, writer.data, limits(writer), look_ups, state_store, ahead)
    try:
        yield runner
    finally:
        runner.release()


def settle_tick(writer: Writer, at: int, session: Callable[[], SparkSession]) -> TickReport | None:
    """End an interrupted tick without computing new answers. Return its report, or None if the tick left no output.

    Count the answers in the committed outputs of the tick. A query without an output keeps its τ, and the next tick
    finds the missing answers. Synopses with an output are computed again, because their outputs belong together. Call
    this function before any other change to the queries and tables of the tick.
    """
    died = writer.ticks.planned()
    if died is None:
        return None
    outputs = Outputs(writer, died.tick_id, again=True)
    for output in writer.ticks.outputs(died.tick_id):
        if written_after(output.name):
            continue
        if outputs.find(output.name, output.path) is None:
            outputs.give_up(output.name, output.path)
            outputs.find(output.name, output.path)  # its writer may have committed just before ``give_up``
    if not outputs.stored:
        writer.ticks.abandon(died.tick_id)
        return None
    return _run(writer, session, died, at, again=True)


def tick_instant(catalog: CatalogParts, t: int | None, at: int) -> int:
    """Return the instant of a tick. No tick advances past the first instant of an open reservation.

    If ``t`` is None, start from the time of the home's clock. ``at`` is the wall clock time. Raise ClockError if the
    clock of a replay home is not set. Raise ClockError if a load with --hold runs in a home that never ticked.
    """
    home = catalog.home()
    if t is None:
        if home.clock == "wall":
            t = at
        elif home.now is None:
            raise ClockError(
                "this home has a replay clock, which is not set yet", hint="Set the clock: weft tick --now T."
            )
        else:
            t = home.now
    reserved = catalog.reservations.earliest()
    if reserved is not None and reserved <= MIN_INSTANT:
        raise ClockError(
            "a load with --hold is running, and this home was never ticked", hint="Tick again after the load has ended."
        )
    return t if reserved is None else min(t, reserved)


def _run(
    writer: Writer,
    session: Callable[[], SparkSession],
    tick: TickRecord,
    at: int,
    *,
    again: bool,
    runner: SparkRunner | None = None,
) -> TickReport:
    """Without a runner, the tick computes nothing but synopses."""
    with phase(PLANNING):
        found = crowds_of(writer, tick)
        crowds = [crowd for crowd, _ in found]
        members = writer.ticks.members(tick.tick_id, {crowd.plan_id for crowd in crowds})
    queries, taus = [query for query, _ in members], {query.query_id: tau for query, tau in members}
    read = {key for query in queries for key in query.reads}
    lower = {query.query_id: query for query in writer.queries.by_ids(read)}
    reached = {key: query.tau for key, query in lower.items()} | taus
    outputs = Outputs(writer, tick.tick_id, again)
    run = TickRun(writer, runner, at, tick, outputs, relations(writer, read), lower, reached)
    run.plans |= {crowd.plan_id: plan for crowd, plan in found}
    since = WindowStarts(writer, run.plans, run.lower, taus).since
    in_strata = dict(strata(_compile(run, queries)))
    for number, in_stratum in sorted({**({0: ()} if crowds else {}), **in_strata}.items()):
        by_id = {query.query_id: query for query in in_stratum}
        going = _each(run, by_id, lambda q: member(q, since(q), tick.t, run.lower, run.reached))
        _run_synopses(run, session, [each for each in going if each.query.plan_id in run.synopses])
        own = [each for each in going if each.query.plan_id not in run.synopses]
        _run_stratum(run, number, own, () if number else crowds)
    return commit_tick(run)


def _each(run: TickRun, items: Mapping[int, Item], compute: Callable[[Item], Result]) -> list[Result]:
    parts = isolated(items, lambda some: [compute(each) for each in some], run.set_aside)
    return [each for part in parts for each in part]


def _compile(run: TickRun, queries: Sequence[QueryRecord]) -> list[QueryRecord]:
    """A query is set aside if its plan cannot be restored or does not match the tables. A Spark query needs no plan if
    nothing is computed or if its answers are already written. A query with written answers is never set aside, because
    its answers must be counted.
    """
    schemas = {name: table.schema for name, table in run.tables.items()}
    written = {number for number, _ in strata(queries) if _written(run, number) is not None}
    using: dict[int, list[QueryRecord]] = {}
    for query in queries:
        using.setdefault(query.plan_id, []).append(query)

    def compile_all(records: list[PlanRecord]) -> None:
        for record in records:
            if is_synopsis(record.body):
                run.synopses[record.plan_id] = synopsis_of(record, schemas)
            elif run.runner is not None and any(q.stratum not in written for q in using[record.plan_id]):
                run.plans[record.plan_id] = compiled(record, schemas)

    def set_aside(failed: Mapping[int, WeftError]) -> None:
        run.set_aside({q.query_id: error for plan_id, error in failed.items() for q in using[plan_id]})

    isolated({record.plan_id: record for record in run.writer.queries.plans(using.keys())}, compile_all, set_aside)
    remaining = [query for query in queries if query.query_id not in run.failed]
    behind = _over_views_that_failed(run, [query for query in remaining if query.stratum not in written])
    if behind:
        run.set_aside(behind)
    return [query for query in remaining if query.query_id not in behind]


def _over_views_that_failed(run: TickRun, queries: Sequence[QueryRecord]) -> dict[int, ExecutionError]:
    """Return an error for each query that reads a view whose last refresh failed.

    A view with a failed refresh lacks the latest changes. A query that advanced to this tick's t would miss answers.
    """
    troubled = {view.table_id: view for view in run.writer.views.all() if view.trouble is not None}
    errors: dict[int, ExecutionError] = {}
    for query in queries if troubled else ():
        shape = run.plans.get(query.plan_id) or run.synopses.get(query.plan_id)
        read = () if shape is None else [table.id for table in shape.tables if table.source == "table"]
        view = next((troubled[key] for key in read if key in troubled), None)
        if view is not None:
            errors[query.query_id] = ExecutionError(
                f"the query reads the view {view.name}, whose refresh failed: {(view.trouble or '').rstrip('.')}",
                hint=f"After `weft view refresh {view.name}` succeeds, resume the query: `weft resume {query.name}`.",
            )
    return errors


def _written(run: TickRun, stratum: int) -> int | None:
    return run.outputs.find(answers_name(stratum), layout.LEDGER)


def _run_stratum(run: TickRun, number: int, members: Sequence[Member], crowds: Sequence[Crowd]) -> None:
    """A crowd reads no results of queries, so it is in stratum 0."""
    version = _written(run, number)
    if version is not None:
        added: Mapping[int, Added] = added_by_query(run.writer.data, version)
    elif run.runner is not None:
        try:
            added = extend(run, run.runner, members, crowds, answers_name(number))
        except FAULTS:
            if not crowds:
                raise
            run.runner.release()
            members, crowds = [*members, *(each for crowd in crowds for each in crowd)], ()
            members = [each for each in members if each.query.query_id not in run.failed]
            added = extend(run, run.runner, members, crowds, answers_name(number))
        if not added:
            run.outputs.give_up(answers_name(number), layout.LEDGER)
        members = [each for each in members if each.query.query_id not in run.failed]
    else:
        return
    read = added.keys() | run.lower.keys()
    apart = [each for crowd in crowds for each in crowd.those(read - run.failed.keys())]
    _note(run, [*members, *apart], added)
    run.crowds += crowds


def _run_synopses(run: TickRun, session: Callable[[], SparkSession], members: Sequence[Member]) -> None:
    if not members:
        return
    tables = {t.table_id: t for t in run.tables.values() if not isinstance(t, ResultsTable)}
    going = TickSynopses(run.writer, run.tick, run.outputs, tables, run.at, run.set_aside, session)
    if run.runner is None and not going.begun:
        return
    added = going.extend([SynopsisMember(each, run.synopses[each.query.plan_id]) for each in members])
    run.nexts |= {each.query.query_id: NEVER for each in members}
    _note(run, [each for each in members if each.query.query_id not in run.failed], added)


def _note(run: TickRun, members: Sequence[Member], added: Mapping[int, Added]) -> None:
    run.done += members
    run.added.update(added)
    for each in members:
        query = each.query
        if not each.empty:
            run.reached[query.query_id] = each.t
        if query.query_id in run.lower and (gained := added.get(query.query_id)):
            results = run.tables[query.results.name]
            assert isinstance(results, ResultsTable)
            run.tables[query.results.name] = results.extended(gained.rows, gained.last_first_at)
