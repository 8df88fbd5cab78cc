"""The answers of those queries of one stratum that Spark runs: found, committed; and when time alone adds the next.

All queries are run together.  Where that fails, those at fault are found one by one and set aside; the others, each of
which has run alone by then, go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.catalog import layout
from weft.errors import ExecutionError, JvmEnded, LimitExceeded, QueryFault
from weft.execution import due
from weft.execution.answers import union
from weft.execution.groups import Member, grouped
from weft.execution.isolate import failing_queries, isolated
from weft.execution.new_answers import NewAnswers, new_answers
from weft.execution.outputs import Output
from weft.execution.reader import Reader
from weft.execution.spark_runner import Attempts, spark_faults, too_many
from weft.execution.tick_report import Run
from weft.faults import FAULTS
from weft.runtime.session import disk_is_full, session_started, spark_errors
from weft.storage.ledger import Added

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def extend(run: Run, attempts: Attempts, members: Sequence[Member], name: str) -> Mapping[int, Added]:
    """Computes the new answers of the queries and commits them as the output ``name``: what was added, by query.

    Queries at fault are set aside.  Raises ExecutionError where it fails and no query alone is at fault, and what
    belongs to the home.
    """
    judged = isolated(by_query(members), lambda some: due.quiet(some, run.plans, run.tables, run.t0), run.set_aside)
    quiet = {key for part in judged for key in part}
    run.nexts |= {m.query.query_id: m.query.next_due for m in members if m.query.query_id in quiet}
    moving = [each for each in members if each.query.query_id not in {*quiet, *run.failed}]
    if not moving:
        return {}
    attempts.begin(run.tables, small=not any(each.tau is None for each in moving))
    added = _write(run, attempts, _answers(run, attempts, moving), moving, name)
    _foresee(run, attempts, [each for each in moving if each.query.query_id not in {*added, *run.failed}])
    return added


def by_query(members: Sequence[Member]) -> dict[int, Member]:
    """The members by the ids of their queries."""
    return {each.query.query_id: each for each in members}


def _answers(run: Run, attempts: Attempts, members: Sequence[Member]) -> NewAnswers:
    """The new rows, held in memory."""
    seconds, most = attempts.limits.seconds, attempts.limits.rows
    try:
        return _together(run, attempts, members, seconds, apart=False)
    except FAULTS as error:
        attempts.release()
        groups = [group for each in grouped(members, run.plans, run.t0) for group in each]
        faulty: set[int] = set()
        for key, found in failing_queries(
            attempts, groups, lambda reader, group: new_answers(reader, (group,), most=most)
        ):
            run.set_aside({key: found})
            faulty.add(key)
        if not faulty and not isinstance(error, LimitExceeded | JvmEnded):
            raise _failed(error) from error
    rest = [each for each in members if each.query.query_id not in faulty]
    try:
        return _together(run, attempts, rest, seconds * max(1, len(rest)), apart=True)
    except FAULTS as error:
        raise _failed(error) from error


def _failed(error: ExecutionError) -> ExecutionError:
    return ExecutionError(
        f"the tick failed, and no query alone is at fault: {error.message}",
        hint="Nothing is lost: the next tick does this one again. Spark's log in the home's logs/ has the whole story.",
    )


def _together(run: Run, attempts: Attempts, members: Sequence[Member], seconds: float, *, apart: bool) -> NewAnswers:
    """The new rows of the queries, less those of queries that would add too many, which are set aside."""
    windows, most = grouped(members, run.plans, run.t0), attempts.limits.rows
    found = attempts.run(lambda reader: new_answers(reader, *windows, most=most, apart=apart), seconds)
    many = {key: too_many(each.rows, most) for key, each in found.added.items() if each.rows > most}
    if not many:
        return found
    run.set_aside(many)
    return found.without(many)


def _write(
    run: Run, attempts: Attempts, found: NewAnswers, members: Sequence[Member], name: str
) -> Mapping[int, Added]:
    """Numbers the answers and commits them: what was added, by query."""
    if not found.added:
        return {}
    with attempts.planned() as reader:
        try:
            return _commit(run, found, members, name, None)
        except spark_errors() as error:
            # Spark numbers rows only as it writes them.  What is not in Delta then is not committed.
            if disk_is_full(error) or not session_started():
                raise
        return _commit(run, found, members, name, reader)


def _commit(
    run: Run, found: NewAnswers, members: Sequence[Member], name: str, reader: Reader | None
) -> Mapping[int, Added]:
    """The same; with a reader, Spark computes the numbered rows before they are written, to find the query at fault."""

    def numbered(some: list[Member]) -> DataFrame | pa.Table:
        rows = found.without(found.added.keys() - by_query(some).keys()).numbered(some, run.tick.tick_id)
        if reader is not None and not isinstance(rows, pa.Table):
            with spark_faults():
                reader.keep(rows).count()
        return rows

    adding = {key: each for key, each in by_query(members).items() if key in found.added}
    parts = isolated(adding, numbered, run.set_aside)
    left = found.without(found.added.keys() & run.failed.keys())
    if left.added:
        run.outputs.write(Output(name, layout.LEDGER, _joined(left, parts)))
    return left.added


def _joined(found: NewAnswers, parts: Sequence[DataFrame | pa.Table]) -> DataFrame | pa.Table:
    tables = [each for each in parts if isinstance(each, pa.Table)]
    if tables:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return union(found.spark, [each for each in parts if not isinstance(each, pa.Table)])


def _foresee(run: Run, attempts: Attempts, members: Sequence[Member]) -> None:
    """Notes when time alone will next add a row to queries that got none.

    Where rows keep arriving, the next tick looks at them anyway: then it is worth only what it costs on the driver.
    Where Spark cannot tell, it is not known, and the query is simply run at the next tick.  A query that goes beyond
    its limits at this, or meets a defect, is set aside: it would do so at each tick.
    """
    arrived = isolated(
        by_query(members),
        lambda some: any(due.arrived(each, run.plans[each.query.plan_id], run.tables) for each in some),
        run.set_aside,
    )
    groups = due.foreseen([each for each in members if each.query.query_id not in run.failed], run.plans)
    if not groups:
        return
    ask = partial(due.next_due, small_only=any(arrived))
    try:
        run.nexts |= attempts.run(lambda reader: ask(reader, *groups), attempts.limits.seconds)
    except FAULTS as error:
        attempts.release()
        if not _counts(error):
            return
        for key, found in failing_queries(attempts, groups, lambda reader, group: due.next_due(reader, group)):
            if _counts(found):
                run.set_aside({key: found})


def _counts(error: ExecutionError) -> bool:
    """Whether a query is set aside for an error that only left its next instant unknown."""
    return error.defect if isinstance(error, QueryFault) else True
