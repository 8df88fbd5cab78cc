"""The state of a running tick, and the tick's report with the counts of each query."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from weft.catalog import Writer, layout
from weft.catalog.records import Count, QueryRecord, TickRecord
from weft.errors import ExecutionError, QueryFault, WeftError
from weft.execution.groups import Crowd, Member
from weft.execution.isolate import isolated, reason
from weft.execution.phases import COUNTING, phase
from weft.execution.relations import Relation, ResultsTable
from weft.execution.spark_runner import SparkRunner
from weft.execution.ticks import due
from weft.execution.windows import NEVER
from weft.failpoint import failpoint
from weft.faults import log_defect
from weft.instants import MIN_INSTANT, SECOND_US, format_instant
from weft.planning.plan import Plan
from weft.planning.synopsis_plan import SynopsisPlan
from weft.printable import Brief, counted
from weft.storage.ledger import Added
from weft.writing.outputs import Outputs


@dataclass(frozen=True, repr=False)
class QueryOutcome(Brief):
    """The result of a tick for one query with the window [tau, t). Instants are in microseconds UTC.

    ``reason`` explains why the query got no rows or why the window ended before the tick's t. ``next_due`` is the next
    instant at which time alone can add a row. If this instant does not exist or was not computed, ``next_due`` is None.
    """

    query: QueryRecord
    tau: int | None
    t: int
    rows: int
    reason: str | None
    next_due: int | None

    @property
    def failed(self) -> bool:
        """Whether the tick set the query aside. ``reason`` is then the reason for that."""
        return self.query.state == "failed"

    def _brief(self) -> str:
        return f"{self.query.name} at {format_instant(self.t)}: {self.rows:,} new" + (
            f", {self.reason}" if self.reason else ""
        )


@dataclass(frozen=True)
class AlikeOutcomes:
    """The common outcome of many queries of one plan without new rows. ``but`` are the IDs of its other queries."""

    crowd: Crowd
    but: frozenset[int]
    reason: str | None

    def __len__(self) -> int:
        return len(self.crowd) - len(self.but)

    def of(self, member: Member) -> QueryOutcome:
        """Return the outcome of one of the queries."""
        return QueryOutcome(member.query, member.tau, member.t, 0, self.reason, None)


@dataclass(frozen=True, repr=False)
class TickReport(Brief):
    """The report of one tick: the tick's ID and instant, and the outcomes of its queries, sorted by query ID.

    ``own`` has each outcome that is kept by itself, among them those with new rows and those of failed queries.
    ``alike`` has the others, for each plan.
    """

    tick_id: int
    t: int
    own: tuple[QueryOutcome, ...]
    alike: tuple[AlikeOutcomes, ...] = ()

    @cached_property
    def outcomes(self) -> tuple[QueryOutcome, ...]:
        """The outcome of each query. This reads the records of all queries, if ``alike`` is not empty."""
        if not self.alike:
            return self.own
        others = [
            each.of(member) for each in self.alike for member in each.crowd if member.query.query_id not in each.but
        ]
        return tuple(sorted([*self.own, *others], key=lambda outcome: outcome.query.query_id))

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.own) + sum(map(len, self.alike))

    @property
    def rows(self) -> int:
        """The number of new rows."""
        return sum(each.rows for each in self.own)

    def _brief(self) -> str:
        new = ", ".join(f"{each.query.name} {each.rows:,} new" for each in self.own if each.rows)
        quiet = f"nothing new for {counted(self.queries, 'query', 'queries')}"
        return f"tick {self.tick_id} at {format_instant(self.t)}: {new or quiet}"


@dataclass
class TickRun:
    """The inputs of one tick, and its results so far. Most results are keyed by query ID.

    If the tick must not compute anything, ``runner`` is None, and later ticks find the answers. ``reached`` maps each
    query to the instant up to which its answers are complete. ``lower`` has the queries whose results other queries
    read.
    """

    writer: Writer
    runner: SparkRunner | None
    at: int
    tick: TickRecord
    outputs: Outputs
    tables: dict[str, Relation]
    lower: Mapping[int, QueryRecord]
    reached: dict[int, int | None]
    plans: dict[int, Plan] = field(default_factory=dict)
    synopses: dict[int, SynopsisPlan] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    done: list[Member] = field(default_factory=list)
    crowds: list[Crowd] = field(default_factory=list)
    added: dict[int, Added] = field(default_factory=dict)
    nexts: dict[int, int | None] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def set_aside(self, failed: Mapping[int, WeftError]) -> None:
        """Mark queries as failed, and remove them from the tick before their answers are committed.

        Without the mark, a recovery of the tick from the ledger would assume that a failed query has no answers.
        """
        names = {query.query_id: query.name for query in self.writer.queries.by_ids(failed)}
        reasons = {key: reason(names[key], error) for key, error in failed.items()}
        self.writer.ticks.set_aside(self.tick.tick_id, reasons)
        self._log_defects(names, failed)
        self.failed.update(reasons)
        self.lower = {key: replace(q, state="failed") if key in failed else q for key, q in self.lower.items()}

    def fail_counted(self, failed: Mapping[int, WeftError]) -> None:
        """Mark queries as failed after this tick has counted their answers.

        A resumed query continues at the end of this tick.
        """
        if not failed:
            return
        names = {query.query_id: query.name for query in self.writer.queries.by_ids(failed)}
        self._log_defects(names, failed)
        for key, error in failed.items():
            self.failed[key] = reason(names[key], error)
            self.writer.queries.set_state(names[key], "failed", self.failed[key])

    def _log_defects(self, names: Mapping[int, str], failed: Mapping[int, WeftError]) -> None:
        logs = layout.logs_folder(self.writer.path)
        for key, error in failed.items():
            if isinstance(error, QueryFault) and error.defect:
                log_defect(logs, self.at, f"tick {self.tick.tick_id}, query {names[key]}", error.__cause__ or error)

    @cached_property
    def t0(self) -> int | None:
        """The start of time, or None if time has not started."""
        return self.writer.home().t0

    @cached_property
    def most_rows(self) -> Mapping[str, int]:
        """The most rows that a query of an owner may add in one tick, for each owner with a limit."""
        return self.writer.users.most_rows()

    @cached_property
    def ticked(self) -> frozenset[int]:
        """The IDs of the queries that this tick has advanced. The set is final after the last stratum has run."""
        return frozenset(each.query.query_id for each in self.done)


def commit_tick(run: TickRun) -> TickReport:
    """Count the answers, close the tick, and return the tick's report."""
    with phase(COUNTING):
        outcomes, failed = _outcomes(run)
        counts = {key: _count(run, each) for key, each in outcomes.items()}
        together = {each.plan_id: _reason_of(run, each.sample) for each in run.crowds}
    failpoint("tick.counting")
    with phase(COUNTING):
        ended = run.at + int((time.monotonic() - run.began) * SECOND_US)
        alike = [plan_id for plan_id, plan in run.plans.items() if not plan.time_driven]
        run.writer.ticks.commit(
            run.tick.tick_id, counts, _versions(run), ended, together=together, alike=frozenset(alike)
        )
    failpoint("tick.committed")
    run.fail_counted(failed)
    for query in run.writer.queries.by_ids(run.failed):
        why = f"failed, and set aside: {run.failed[query.query_id]}"
        rows = outcomes[query.query_id].rows if query.query_id in failed else 0
        outcomes[query.query_id] = QueryOutcome(query, query.tau, run.tick.t, rows, why, None)
    others = tuple(AlikeOutcomes(each, frozenset(each.among(outcomes)), together[each.plan_id]) for each in run.crowds)
    own = tuple(outcomes[key] for key in sorted(outcomes))
    return TickReport(run.tick.tick_id, run.tick.t, own, others)


def _outcomes(run: TickRun) -> tuple[dict[int, QueryOutcome], dict[int, ExecutionError]]:
    reasons: dict[tuple[int, int | None, int], str | None] = {}
    failed: dict[int, ExecutionError] = {}
    done = {each.query.query_id: each for each in run.done}
    parts = isolated(done, lambda some: [_outcome(run, each, reasons) for each in some], failed.update)
    outcomes = {each.query.query_id: each for part in parts for each in part}
    for key in failed:
        member = done[key]
        outcomes[key] = QueryOutcome(member.query, member.tau, member.t, _rows(run, member.query), None, None)
    return outcomes, failed


def _rows(run: TickRun, query: QueryRecord) -> int:
    return run.added[query.query_id].rows if query.query_id in run.added else 0


def _reason(run: TickRun, member: Member, reasons: dict[tuple[int, int | None, int], str | None]) -> str | None:
    """``reasons`` caches the results of this function by plan and window."""
    like = (member.query.plan_id, member.tau, member.t)
    if like not in reasons:
        reasons[like] = _reason_of(run, member)
    return reasons[like]


def _reason_of(run: TickRun, member: Member) -> str | None:
    shape = run.plans.get(member.query.plan_id) or run.synopses.get(member.query.plan_id)
    return due.reason(member, shape, run.tables)


def _outcome(run: TickRun, member: Member, reasons: dict[tuple[int, int | None, int], str | None]) -> QueryOutcome:
    query = member.query
    rows = _rows(run, query)
    why = member.waits or (None if rows else _reason(run, member, reasons))
    next_due = _next_due(run, query) if query.reads else run.nexts.get(query.query_id)
    return QueryOutcome(query, member.tau, member.t, rows, why, next_due)


def _next_due(run: TickRun, query: QueryRecord) -> int | None:
    """Return the next instant at which time alone adds a row to the query or to its inputs, or None if unknown."""
    shape = run.plans.get(query.plan_id) or run.synopses.get(query.plan_id)
    own = NEVER if shape is not None and not shape.time_driven else run.nexts.get(query.query_id)
    # A query outside this tick does not advance and therefore adds no row.
    below = [run.lower[key] for key in query.reads if key in run.ticked]
    return due.earliest_due([own, *(_next_due(run, each) for each in below)])


def _count(run: TickRun, outcome: QueryOutcome) -> Count:
    gained = run.added.get(outcome.query.query_id)
    forward = outcome.t > MIN_INSTANT if outcome.tau is None else outcome.t >= outcome.tau
    until = outcome.t if forward else None
    return Count(outcome.rows, outcome.reason, outcome.next_due, until, gained.last_first_at if gained else None)


def _versions(run: TickRun) -> list[tuple[str, int, int]]:
    """At the next start, the catalog compares these versions with the versions in Delta."""
    read = [t for t in run.tables.values() if not isinstance(t, ResultsTable) and t.version >= 0]
    return [*((table.path, table.version, table.rows) for table in read), *run.outputs.stored.values()]
