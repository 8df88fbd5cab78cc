"""One tick: every answer that begins in the window is found, committed once, and counted (design sections 1, 5, 6).

    plan (catalog) -> news and look-ups -> branches -> ledger (one Delta commit) -> count (catalog)

The clock is an input, logged before anything is read: a tick that died is run again with its own t, and what it had
committed already is recognised by its transaction.  Called with the lease held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import MIN_INSTANT, Choice, QueryRecord, TableRecord, TickRecord
from weft.errors import ClockError, ExecutionError, PlanMismatch
from weft.execution import due, ledger
from weft.execution.answers import candidates, union
from weft.execution.groups import Member, compiled, grouped, tau_of
from weft.execution.isolate import failing_queries
from weft.execution.reader import Reader
from weft.execution.tables import settle
from weft.failpoint import failpoint
from weft.planning.plan import Plan
from weft.runtime.session import spark_errors
from weft.runtime.settings import small
from weft.storage.delta_log import delta_snapshot, latest_version
from weft.storage.fence import spend
from weft.storage.ledger import APP_ID, count_by_query
from weft.storage.verify import require_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class QueryOutcome:
    """What a tick did for one query; instants in microseconds UTC.

    ``next_due`` is the next instant at which time alone can add a row (None: none, or not looked for).
    """

    query: QueryRecord
    tau: int | None
    t: int
    rows: int
    reason: str | None
    next_due: int | None


@dataclass(frozen=True)
class TickReport:
    """A tick and its outcomes, by query in the order of their ids."""

    tick_id: int
    t: int
    outcomes: tuple[QueryOutcome, ...]


@dataclass
class _Run:
    """What one tick works with."""

    writer: Writer
    home: Path
    session: Callable[[], SparkSession]
    at: int
    tick: TickRecord
    tables: Mapping[str, TableRecord]
    plans: dict[int, Plan] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def t(self) -> int:
        return self.tick.t

    @cached_property
    def t0(self) -> int | None:
        return self.writer.home().t0


def prepare(writer: Writer, home: Path) -> None:
    """What every writer does first: settles what dead writers left open, and looks whether the store is whole.

    Raises StorageError where it is not.
    """
    settle(writer, home)
    require_whole(writer, home)


def run_tick(
    writer: Writer,
    home: Path,
    session: Callable[[], SparkSession],
    *,
    choice: Choice,
    t: int | None,
    at: int,
) -> tuple[TickReport, ...]:
    """Finishes a tick that died, if there is one, then extends the chosen queries to ``t`` (None: the home's clock).

    ``at`` is the wall's time.  ``session`` is called only where there is something to compute.  Raises ClockError for a
    t that the clock does not allow, StorageError for a damaged store, ExecutionError where Spark fails.
    """
    prepare(writer, home)
    reports = []
    died = writer.ticks.planned()
    if died is not None:
        reports.append(_run(writer, home, session, died, at))
    instant = _clock(writer, t, at)
    planned = writer.ticks.plan(instant, choice, at)
    failpoint("tick.planned")
    reports.append(_run(writer, home, session, planned, at))
    return tuple(reports)


def settle_tick(writer: Writer, home: Path, at: int) -> None:
    """Finishes a planned tick that died where its answers are in the ledger, and gives it up where they are not.

    Needs no Spark.  Its transaction's number is spent before it is given up: whoever still runs it commits nothing.
    """
    died = writer.ticks.planned()
    if died is None:
        return
    if ledger.committed(home, died.tick_id) is None:
        spend(layout.ledger_folder(home), APP_ID, died.tick_id)
        writer.ticks.abandon(died.tick_id)
    else:
        _run(writer, home, _no_session, died, at)


def _no_session() -> SparkSession:
    raise ExecutionError("a tick that is in the ledger was computed again")


def _clock(catalog: CatalogParts, t: int | None, at: int) -> int:
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


def _run(writer: Writer, home: Path, session: Callable[[], SparkSession], tick: TickRecord, at: int) -> TickReport:
    tables = {table.name: table for table in writer.tables.all()}
    run = _Run(writer, home, session, at, tick, tables)
    members = [Member(query, tau_of(query, tau)) for query, tau in writer.ticks.members(tick.tick_id)]
    version = ledger.committed(home, tick.tick_id)
    if version is not None:
        counts, outcomes = count_by_query(home, version), None
    else:
        members = _compile(run, members)
        version, counts, outcomes = _extend(run, members)
    return _commit(run, members, version, counts, outcomes or {})


def _compile(run: _Run, members: Sequence[Member]) -> list[Member]:
    """The members whose plans still fit the tables; the others are set aside as failed, with the reason."""
    schemas = {name: table.schema for name, table in run.tables.items()}
    fit = []
    failed: dict[int, str] = {}
    for member in members:
        key = member.query.plan_id
        try:
            if key not in run.plans:
                run.plans[key] = compiled(run.writer.queries.plan(key), schemas)
            fit.append(member)
        except PlanMismatch as error:
            failed[member.query.query_id] = str(error)
    if failed:
        _set_aside(run, failed)
    return fit


def _set_aside(run: _Run, failed: Mapping[int, str]) -> None:
    """Takes queries out of the tick before anything of it is committed: a tick that is recovered from its commit in the
    ledger must not take them for queries without an answer."""
    run.writer.ticks.set_aside(run.tick.tick_id, failed)
    run.failed.update(failed)


def _extend(run: _Run, members: Sequence[Member]) -> tuple[int | None, dict[int, int], dict[int, int | None]]:
    """Computes and commits: (the ledger's version or None, rows by query, next due by query)."""
    shapes = run.plans
    quiet = {m.query.query_id for m in members if due.is_quiet(m, shapes[m.query.plan_id], run.tables, run.t, run.t0)}
    moving = [member for member in members if member.query.query_id not in quiet]
    nexts: dict[int, int | None] = {m.query.query_id: m.query.next_due for m in members if m.query.query_id in quiet}
    if not moving:
        return None, {}, nexts
    spark = run.session()
    reader = Reader(spark, run.home, run.tables)
    try:
        with small(spark, when=not any(member.tau is None for member in moving)):
            rows, counts = _answers(run, spark, reader, moving)
            version = None
            if counts:
                failpoint("tick.computed")
                version = ledger.write(spark, run.home, rows, moving, run.tick.tick_id)
            empty = [m for m in moving if m.query.query_id not in counts and m.query.query_id not in run.failed]
            # Where Spark cannot tell, it is not known, and the query is simply run at the next tick.
            with suppress(*spark_errors()):
                nexts.update(due.next_due(spark, reader, empty, run.plans, run.t))
    finally:
        reader.release()
    return version, counts, nexts


def _answers(
    run: _Run, spark: SparkSession, reader: Reader, members: Sequence[Member]
) -> tuple[DataFrame, dict[int, int]]:
    """The new rows, held in memory, and how many there are of each query.

    Where Spark refuses the union, the queries at fault are found one by one and set aside; the others go on.
    """
    while True:
        groups = [found for _, found in grouped(members, run.plans, run.t, run.t0)]
        try:
            parts = [candidates(spark, reader, each) for each in groups]
            rows = ledger.fresh(reader, union(spark, parts), members)
            counts = {row["query_id"]: row["count"] for row in rows.groupBy("query_id").count().collect()}
            return rows, counts
        except spark_errors() as error:
            reader.release()
            faulty = failing_queries(spark, reader, [group for each in groups for group in each], error)
            _set_aside(run, faulty)
            members = [member for member in members if member.query.query_id not in faulty]


def _commit(
    run: _Run,
    members: Sequence[Member],
    version: int | None,
    counts: Mapping[int, int],
    nexts: Mapping[int, int | None],
) -> TickReport:
    outcomes = []
    for member in members:
        query = member.query
        if query.query_id in run.failed:
            continue
        rows = counts.get(query.query_id, 0)
        reason = None if rows else due.reason(member, run.plans.get(query.plan_id), run.tables, run.t)
        outcomes.append(QueryOutcome(query, member.tau, run.t, rows, reason, nexts.get(query.query_id)))
    failpoint("tick.counting")
    run.writer.ticks.commit(
        run.tick.tick_id,
        version,
        {o.query.query_id: (o.rows, o.reason, o.next_due) for o in outcomes},
        _versions(run, version),
        run.at,
    )
    failpoint("tick.committed")
    for query_id, why in run.failed.items():
        query = run.writer.queries.by_id(query_id)
        outcomes.append(QueryOutcome(query, query.tau, run.t, 0, f"failed, and set aside: {why}", None))
    outcomes.sort(key=lambda outcome: outcome.query.query_id)
    return TickReport(run.tick.tick_id, run.t, tuple(outcomes))


def _versions(run: _Run, version: int | None) -> list[tuple[str, int, int]]:
    """What was read and written, for the catalog to hold against Delta at the next start."""
    found = [(table.path, table.version, table.rows) for table in run.tables.values() if table.version >= 0]
    if version is not None:
        folder = layout.ledger_folder(run.home)
        now = delta_snapshot(folder, check_files=False)
        assert latest_version(folder) == now.version
        found.append((layout.LEDGER, now.version, now.rows or 0))
    return found
