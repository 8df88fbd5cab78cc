"""Compute and commit the answers of one stratum's Spark queries. Find the instant at which time alone adds an answer.

All queries run together. If the common run fails, the failing queries are set aside one by one, and the others
continue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.catalog import layout
from weft.errors import ExecutionError, JvmEnded, LimitExceeded, QueryFault
from weft.execution import driver_reader
from weft.execution.answers import union
from weft.execution.engines.duckdb import DuckdbFailed
from weft.execution.executor_files import write_files
from weft.execution.groups import Crowd, Member, grouped
from weft.execution.guarded import too_large
from weft.execution.isolate import failing_queries, isolated
from weft.execution.new_answers import NewAnswers, Rows, Writing, new_answers
from weft.execution.phases import COMMITTING, phase
from weft.execution.reader import Reader
from weft.execution.spark_runner import SparkRunner, spark_faults, too_many
from weft.execution.ticks import due
from weft.execution.ticks.tick_report import TickRun
from weft.faults import FAULTS
from weft.runtime.session import disk_is_full, session_started, spark_errors
from weft.storage.data_files import FileForm, NewFile
from weft.storage.ledger import Added
from weft.writing.outputs import TickOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_OF_A_FILE: Final = 1_000_000


def extend(
    run: TickRun, runner: SparkRunner, members: Sequence[Member], crowds: Sequence[Crowd], name: str
) -> Mapping[int, Added]:
    """Compute the new answers of the queries, and commit these answers as one output.

    Return the number and the last instant of each query's new answers. Failing queries are set aside. Errors of the
    home pass through unchanged. Raise ExecutionError if the computation fails but every query succeeds alone. With
    crowds, raise one of FAULTS if the computation fails: the caller then repeats it with the queries of the crowds.
    """
    judged = isolated(
        by_query(members), lambda some: due.quiet_queries(some, run.plans, run.tables, run.t0), run.set_aside
    )
    quiet = {key for part in judged for key in part}
    run.nexts |= {m.query.query_id: m.query.next_due for m in members if m.query.query_id in quiet}
    moving = [each for each in members if each.query.query_id not in {*quiet, *run.failed}]
    going = [each for each in crowds if not due.is_quiet(each.sample, run.plans[each.plan_id], run.tables, run.t0)]
    if not moving and not going:
        return {}
    runner.begin(run.tables, small=not any(each.tau is None for each in moving))
    try:
        added = _added(run, runner, moving, going, name, by_duckdb=True)
    except DuckdbFailed:  # DuckDB could not write its rows, so nothing is committed
        runner.release()
        moving = [each for each in moving if each.query.query_id not in run.failed]
        added = _added(run, runner, moving, going, name, by_duckdb=False)
    _foresee(run, runner, [each for each in moving if each.query.query_id not in {*added, *run.failed}])
    return added


def _added(
    run: TickRun,
    runner: SparkRunner,
    members: Sequence[Member],
    crowds: Sequence[Crowd],
    name: str,
    *,
    by_duckdb: bool,
) -> Mapping[int, Added]:
    if crowds:
        new = _together(run, runner, members, crowds, runner.limits.seconds, by_duckdb=by_duckdb)
    else:
        new = _answers(run, runner, members, by_duckdb=by_duckdb)
    return _write(run, runner, new, _with_news(members, crowds, new), name)


def _with_news(members: Sequence[Member], crowds: Sequence[Crowd], new: NewAnswers) -> list[Member]:
    """Return the members, and the queries of the crowds that have new answers."""
    return [*members, *(each for crowd in crowds for each in crowd.those(new.added))]


def by_query(members: Sequence[Member]) -> dict[int, Member]:
    """Map query IDs to members."""
    return {each.query.query_id: each for each in members}


def _answers(run: TickRun, runner: SparkRunner, members: Sequence[Member], *, by_duckdb: bool) -> NewAnswers:
    seconds, most = runner.limits.seconds, runner.limits.rows
    try:
        return _together(run, runner, members, (), seconds, by_duckdb=by_duckdb)
    except FAULTS as error:
        runner.release()
        groups = [group for each in grouped(members, run.plans, run.t0) for group in each]
        faulty: set[int] = set()
        for key, fault in failing_queries(
            runner, groups, lambda reader, group: new_answers(reader, (group,), most=most), error
        ):
            run.set_aside({key: fault})
            faulty.add(key)
        if not faulty and not isinstance(error, LimitExceeded | JvmEnded):
            raise _failed(error) from error
    rest = [each for each in members if each.query.query_id not in faulty]
    try:
        return _together(run, runner, rest, (), seconds * max(1, len(rest)), by_duckdb=False, apart=True)
    except FAULTS as error:
        raise _failed(error) from error


def _failed(error: ExecutionError) -> ExecutionError:
    return ExecutionError(
        f"the tick failed, and no single query is at fault: {error.message}",
        hint="Read Spark's log in the home's logs/ for the details. Nothing is lost: the next tick repeats this tick.",
    )


def _together(
    run: TickRun,
    runner: SparkRunner,
    members: Sequence[Member],
    crowds: Sequence[Crowd],
    seconds: float,
    *,
    by_duckdb: bool,
    apart: bool = False,
) -> NewAnswers:
    """Set aside the queries that would add too many rows."""
    windows, most = grouped(members, run.plans, run.t0, crowds), runner.limits.rows
    compute = partial(new_answers, most=most, apart=apart, by_duckdb=by_duckdb)
    new = runner.run(lambda reader: compute(reader, *windows), seconds)
    own = {each.query.query_id: run.most_rows.get(each.query.user, most) for each in _with_news(members, crowds, new)}
    many = {
        key: too_many(each.rows, min(own[key], most), of_owner=own[key] < most)
        for key, each in new.added.items()
        if each.rows > min(own[key], most)
    }
    if not many:
        return new
    run.set_aside(many)
    return new.without(many)


def _write(
    run: TickRun, runner: SparkRunner, new: NewAnswers, members: Sequence[Member], name: str
) -> Mapping[int, Added]:
    if not new.added:
        return {}
    if isinstance(new.rows, pa.Table):
        return _commit(run, new, members, name, None)
    with runner.planned() as reader:
        try:
            return _commit(run, new, members, name, None)
        except spark_errors() as error:
            # Spark numbers rows only during a write. If the numbering failed, no row was committed.
            if disk_is_full(error) or not session_started():
                raise
        return _commit(run, new, members, name, reader)


def _commit(
    run: TickRun, new: NewAnswers, members: Sequence[Member], name: str, reader: Reader | None
) -> Mapping[int, Added]:
    """With a ``reader``, Spark computes the rows of each query before the write, to find the query that fails."""

    def numbered(some: list[Member]) -> list[Rows]:
        rows = new.without(new.added.keys() - by_query(some).keys()).numbered(some, run.tick.tick_id)
        for each in rows:
            if reader is not None and not isinstance(each, pa.Table) and not callable(each):
                with spark_faults():
                    reader.keep(each).count()
        return rows

    adding = {key: each for key, each in by_query(members).items() if key in new.added}
    parts = isolated(adding, numbered, run.set_aside)
    remaining = new.without(new.added.keys() & run.failed.keys())
    if remaining.added:
        with phase(COMMITTING):
            given = _given(remaining, [each for part in parts for each in part])
            run.outputs.write(TickOutput(name, layout.LEDGER, given))
    return remaining.added


def _to_write(rows: DataFrame, count: int) -> pa.Table | Writing:
    """Return the rows if the driver should write them, or else a function by which the executors write them."""
    if count <= driver_reader.BOUNDS.written:
        try:
            return rows.toArrow()
        except spark_errors() as error:
            if not too_large(error):
                raise
    # Each task of Python costs milliseconds, also one without rows, and Spark may have 200 partitions.
    tasks = max(rows.sparkSession.sparkContext.defaultParallelism, -(-count // _ROWS_OF_A_FILE))
    return partial(write_files, rows.coalesce(tasks))


def _given(new: NewAnswers, parts: Sequence[Rows]) -> pa.Table | Writing:
    """Return all rows, or a function that writes them. DuckDB's rows are always written by a function."""
    writing = [each for each in parts if callable(each)]
    tables = [each for each in parts if isinstance(each, pa.Table)]
    frames = [each for each in parts if not isinstance(each, pa.Table) and not callable(each)]
    if frames:
        count = sum(
            each.rows for key, each in new.added.items() if new.delivered is None or key not in new.delivered.added
        )
        rows = _to_write(union(frames[0].sparkSession, frames), count)
    else:
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if not writing:
        return rows

    def write(form: FileForm) -> list[NewFile]:
        others = rows(form) if callable(rows) else [form.write([rows])] if rows.num_rows else []
        return [*others, *(file for each in writing for file in each(form))]

    return write


def _foresee(run: TickRun, runner: SparkRunner, members: Sequence[Member]) -> None:
    """For each query without new rows, record the instant at which time alone adds the next row.

    If a row arrived in this tick, the instant is computed only from rows in the driver's memory. While rows arrive,
    each tick runs the query anyway. If Spark cannot compute the instant, the next tick runs the query. A query that
    exceeds its limits or meets a defect of Weft is set aside, because each tick would have the same problem.
    """
    arrived = isolated(
        by_query(members),
        lambda some: any(due.arrived(each, run.plans[each.query.plan_id], run.tables) for each in some),
        run.set_aside,
    )
    alive = [each for each in members if each.query.query_id not in run.failed]
    groups = due.time_driven_groups(alive, run.plans, run.t0)
    if not groups:
        return
    ask = partial(due.next_due, small_only=any(arrived))
    try:
        run.nexts |= runner.run(lambda reader: ask(reader, *groups), runner.limits.seconds)
    except FAULTS as error:
        runner.release()
        if not _counts(error):
            return
        for key, fault in failing_queries(runner, groups, lambda reader, group: due.next_due(reader, group), error):
            if _counts(fault):
                run.set_aside({key: fault})


def _counts(error: ExecutionError) -> bool:
    return error.defect if isinstance(error, QueryFault) else True
