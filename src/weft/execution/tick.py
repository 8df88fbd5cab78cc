"""One tick: every answer that begins in the window is found, committed once, and counted (design sections 1, 5, 6).

    plan (catalog) -> for each stratum: news and look-ups -> branches -> an output (Delta) -> count (catalog)

The clock is an input, logged before anything is read: a tick that died is run again with its own t, and the outputs
that it had committed already are recognised by their transactions.  It is done when the catalog says so.  Called with
the lease held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import Choice, QueryRecord, TickRecord
from weft.errors import ClockError, ExecutionError, JvmEnded, LimitExceeded, PlanMismatch, WeftError
from weft.execution import due
from weft.execution.attempts import Attempts, failures, limits, too_many
from weft.execution.collector import collecting_seldom
from weft.execution.counting import Run, TickReport, committed
from weft.execution.groups import Member, compiled, grouped, synopsis_of
from weft.execution.isolate import failing_queries, reason
from weft.execution.look_ups import LookUps
from weft.execution.looking_back import LookingBack
from weft.execution.new_answers import NewAnswers, new_answers
from weft.execution.outputs import Output, Outputs, answers_name
from weft.execution.phases import PLANNING, phase
from weft.execution.relations import Results, relations
from weft.execution.strata import member, strata
from weft.execution.synopsis.discarding import discard_taken_in
from weft.execution.synopsis.standing import Standing, SynopsesOfTick, written_after
from weft.execution.tables import settle
from weft.failpoint import failpoint
from weft.instants import MIN_INSTANT
from weft.planning.synopsis_plan import is_synopsis
from weft.runtime.session import root_cause, spark_errors
from weft.storage.ledger import Added, added_by_query
from weft.storage.verify import require_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prepare(writer: Writer) -> None:
    """What every writer does first: settles what dead writers left open, and looks whether the store is whole.

    Raises StorageError where it is not.
    """
    settle(writer)
    require_whole(writer)


@collecting_seldom()
def run_tick(
    writer: Writer,
    session: Callable[[], SparkSession],
    *,
    choice: Choice,
    t: int | None,
    at: int,
) -> tuple[TickReport, ...]:
    """Finishes a tick that died, if there is one, then extends the chosen queries, and what they read, to ``t``.

    ``t`` None is the home's clock, ``at`` the wall's time.  ``session`` is called only where there is something to
    compute.  Raises ClockError for a t that the clock does not allow, StorageError for a damaged store, ExecutionError
    where Spark fails.
    """
    limits(writer.data)  # refused, if they cannot be, before anything is planned
    reports = []
    with phase(PLANNING):
        prepare(writer)
        died = writer.ticks.planned()
    if died is not None:
        reports.append(_run(writer, session, died, at, again=True))
    with phase(PLANNING):
        planned = writer.ticks.plan(tick_instant(writer, t, at), choice, at)
    failpoint("tick.planned")
    reports.append(_run(writer, session, planned, at, again=False))
    discard_taken_in(writer, planned.tick_id, at)
    return tuple(reports)


def settle_tick(writer: Writer, at: int) -> TickReport | None:
    """Ends a tick that died without computing anything; what came of it, None where there is none or nothing of it.

    Its outputs that are in Delta are counted.  The queries of the others keep their tau, so that the next tick finds
    what this one did not write.  Starts no Spark.  Called before anything else changes what the tick names.
    """
    died = writer.ticks.planned()
    if died is None:
        return None
    outputs = Outputs(writer, died.tick_id, again=True)
    for output in writer.ticks.outputs(died.tick_id):
        if written_after(output.name):
            continue
        if outputs.found(output.name, output.path) is None:
            outputs.give_up(output.name, output.path)
            outputs.found(output.name, output.path)  # its commit may have come just before
    if not outputs.stored:
        writer.ticks.abandon(died.tick_id)
        return None
    return _run(writer, None, died, at, again=True)


def tick_instant(catalog: CatalogParts, t: int | None, at: int) -> int:
    """The t of a tick that is asked for ``t`` (None: the home's clock) while the wall's time is ``at``.

    Raises ClockError where there is none.
    """
    home = catalog.home()
    if t is None:
        if home.clock == "wall":
            t = at
        elif home.now is None:
            raise ClockError("this home's clock is replay and has not been set", hint="Say when: weft tick --now T.")
        else:
            t = home.now
    reserved = catalog.reservations.earliest()
    if reserved is not None and reserved <= MIN_INSTANT:
        raise ClockError(
            "a load holds this home where it is, before its first tick", hint="Tick again when the load is done."
        )
    return t if reserved is None else min(t, reserved)


def _run(
    writer: Writer,
    session: Callable[[], SparkSession] | None,
    tick: TickRecord,
    at: int,
    *,
    again: bool,
) -> TickReport:
    with phase(PLANNING):
        members = writer.ticks.members(tick.tick_id)
    queries, taus = [query for query, _ in members], {query.query_id: tau for query, tau in members}
    read = {key for query in queries for key in query.reads}
    lower = {query.query_id: query for query in writer.queries.by_ids(read)}
    reached = {key: query.tau for key, query in lower.items()} | taus
    outputs = Outputs(writer, tick.tick_id, again)
    look_ups = LookUps(layout.arrangements_folder(writer.path))
    attempts = Attempts(session, writer.data, limits(writer.data), look_ups) if session is not None else None
    run = Run(writer, attempts, at, tick, outputs, relations(writer, read), lower, reached)
    since = LookingBack(writer, run.plans, run.lower, taus).since
    try:
        for number, found in strata(_compile(run, queries)):
            going = [member(q, since(q), tick.t, run.lower, run.reached) for q in found]
            _run_synopses(run, [each for each in going if each.query.plan_id in run.synopses])
            _run_stratum(run, number, [each for each in going if each.query.plan_id not in run.synopses])
    finally:
        if attempts is not None:
            attempts.release()
    return committed(run)


def _compile(run: Run, queries: Sequence[QueryRecord]) -> list[QueryRecord]:
    """The queries whose plans still fit the tables; the others are set aside as failed, with the reason.

    Where nothing is computed by Spark, no plan of its queries is needed, and none is found unfit.
    """
    schemas = {name: table.schema for name, table in run.tables.items()}
    fit = []
    failed: dict[int, WeftError] = {}
    records = {record.plan_id: record for record in run.writer.queries.plans({query.plan_id for query in queries})}
    for query in queries:
        record = records[query.plan_id]
        try:
            if is_synopsis(record.body):
                if query.plan_id not in run.synopses:
                    run.synopses[query.plan_id] = synopsis_of(record, schemas)
            elif run.attempts is not None and query.plan_id not in run.plans:
                run.plans[query.plan_id] = compiled(record, schemas)
            fit.append(query)
        except PlanMismatch as error:
            failed[query.query_id] = error
    if failed:
        _set_aside(run, failed)
    return fit


def _set_aside(run: Run, failed: Mapping[int, WeftError]) -> None:
    """Takes queries out of the tick before their answers are committed: a tick that is recovered from its commit in the
    ledger must not take them for queries without an answer."""
    names = {query.query_id: query.name for query in run.writer.queries.by_ids(failed)}
    reasons = {key: reason(names[key], error) for key, error in failed.items()}
    run.writer.ticks.set_aside(run.tick.tick_id, reasons)
    run.failed.update(reasons)
    run.lower = {key: replace(q, state="failed") if key in failed else q for key, q in run.lower.items()}


def _run_stratum(run: Run, number: int, members: Sequence[Member]) -> None:
    """Writes a stratum's answers, or finds them written, and lets the next stratum read them."""
    name = answers_name(number)
    version = run.outputs.found(name, layout.LEDGER)
    if version is not None:
        added: Mapping[int, Added] = added_by_query(run.writer.data, version)
    elif run.attempts is not None:
        added = _extend(run, run.attempts, number, members)
        members = [each for each in members if each.query.query_id not in run.failed]
    else:
        return
    _note(run, members, added)


def _run_synopses(run: Run, members: Sequence[Member]) -> None:
    """Takes in what the queries that are kept as synopses have to, without Spark."""
    if not members:
        return
    tables = {t.table_id: t for t in run.tables.values() if not isinstance(t, Results)}
    going = SynopsesOfTick(run.writer, run.tick, run.outputs, tables, run.at, partial(_set_aside, run))
    if run.attempts is None and not going.begun:
        return
    added = going.extend([Standing(each, run.synopses[each.query.plan_id]) for each in members])
    run.nexts |= {each.query.query_id: due.NEVER for each in members}
    _note(run, [each for each in members if each.query.query_id not in run.failed], added)


def _note(run: Run, members: Sequence[Member], added: Mapping[int, Added]) -> None:
    """Has the next stratum read what the queries were taken to."""
    run.done += members
    run.added.update(added)
    for each in members:
        query = each.query
        if not each.empty:
            run.reached[query.query_id] = each.t
        if query.query_id in run.lower and (gained := added.get(query.query_id)):
            results = run.tables[query.results.name]
            assert isinstance(results, Results)
            run.tables[query.results.name] = results.extended(gained.rows, gained.last_first_at)


def _extend(run: Run, attempts: Attempts, number: int, members: Sequence[Member]) -> Mapping[int, Added]:
    """Computes and commits a stratum's answers: what was added, by query."""
    quiet = due.quiet(members, run.plans, run.tables, run.t0)
    run.nexts |= {m.query.query_id: m.query.next_due for m in members if m.query.query_id in quiet}
    moving = [each for each in members if each.query.query_id not in quiet]
    added: Mapping[int, Added] = {}
    if moving:
        attempts.begin(run.tables, small=not any(each.tau is None for each in moving))
        found = _answers(run, attempts, moving)
        added = found.added
        if added:
            with attempts.planned():
                rows = found.numbered(moving, run.tick.tick_id)
                run.outputs.write(Output(answers_name(number), layout.LEDGER, rows))
        settled = {*added, *run.failed}
        _foresee(run, attempts, [each for each in moving if each.query.query_id not in settled])
    if not added:
        run.outputs.give_up(answers_name(number), layout.LEDGER)
    return added


def _answers(run: Run, attempts: Attempts, members: Sequence[Member]) -> NewAnswers:
    """The new rows, held in memory.

    All queries are run together.  Where that fails, those at fault are found one by one and set aside; the others, each
    of which has run alone by then, go on.
    """
    seconds, most = attempts.limits.seconds, attempts.limits.rows
    try:
        return _together(run, attempts, members, seconds, apart=False)
    except failures() as error:
        attempts.release()
        groups = [group for each in grouped(members, run.plans, run.t0) for group in each]
        faulty: set[int] = set()
        for key, found in failing_queries(
            attempts, groups, lambda reader, group: new_answers(reader, (group,), most=most)
        ):
            _set_aside(run, {key: found})
            faulty.add(key)
        if not faulty and not isinstance(error, LimitExceeded | JvmEnded):
            raise _failed(error) from error
    rest = [each for each in members if each.query.query_id not in faulty]
    try:
        return _together(run, attempts, rest, seconds * max(1, len(rest)), apart=True)
    except failures() as error:
        raise _failed(error) from error


def _failed(error: Exception) -> ExecutionError:
    return ExecutionError(
        f"the tick failed, and no query alone is at fault: {root_cause(error)}",
        hint="Nothing is lost: the next tick does this one again. Spark's log in the home's logs/ has the whole story.",
    )


def _together(run: Run, attempts: Attempts, members: Sequence[Member], seconds: float, *, apart: bool) -> NewAnswers:
    """The new rows of the queries, less those of queries that would add too many, which are set aside."""
    windows, most = grouped(members, run.plans, run.t0), attempts.limits.rows
    found = attempts.run(lambda reader: new_answers(reader, *windows, most=most, apart=apart), seconds)
    many = {key: too_many(each.rows, most) for key, each in found.added.items() if each.rows > most}
    if not many:
        return found
    _set_aside(run, many)
    return found.without(many)


def _foresee(run: Run, attempts: Attempts, members: Sequence[Member]) -> None:
    """Notes when time alone will next add a row to queries that got none.

    Where rows keep arriving, the next tick looks at them anyway: then it is worth only what it costs on the driver.
    Where Spark cannot tell, it is not known, and the query is simply run at the next tick.  One that goes beyond its
    limits at this is set aside: it would do so at each tick.
    """
    groups = due.foreseen(members, run.plans)
    if not groups:
        return
    busy = any(due.arrived(each, run.plans[each.query.plan_id], run.tables) for each in members)
    try:
        run.nexts |= attempts.run(
            lambda reader: due.next_due(reader, *groups, small_only=busy), attempts.limits.seconds
        )
    except (LimitExceeded, JvmEnded):
        attempts.release()
        for key, error in failing_queries(attempts, groups, lambda reader, group: due.next_due(reader, group)):
            if isinstance(error, LimitExceeded | JvmEnded):
                _set_aside(run, {key: error})
    except spark_errors():
        return
