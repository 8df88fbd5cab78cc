"""``weft bench views``: compare the refresh of temporal views after a batch of changes with a recomputation in Spark.

    weft bench views --periods 1000000 --periods 10000000

A directory of employees gets three views and a history with the given number of periods. Every day, 1,000 further
changes arrive in one batch, and each view is refreshed after each batch. In some rounds Spark also recomputes the views
from the same files with the same SQL. Each round measures every home, in one process. The report gives medians.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.algebra.relation import Scan
from weft.api.weft import Weft
from weft.bench.directory import BEGIN, CHANGES, DAY, MIN_EMPLOYEES, DirectoryTable, days_of, tables
from weft.bench.times import folder_for_tables, write_figures
from weft.errors import DerivationError, ExecutionError, Refused
from weft.execution.history_log import record_one
from weft.execution.reader import Reader
from weft.extraction.sources.apply_changes import record_changes
from weft.period_sql.notation import SPARK
from weft.planning.view_plan import bound_view
from weft.runtime.session import stop_session
from weft.sql.rendering.render_temporal import Evaluation, Leaf, value_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.catalog import Writer

VIEWS: Final[Mapping[str, str]] = {
    "figure_3": (
        "SELECT s.id, s.project, s.supervisor FROM (SELECT id FROM employees WHERE dept = 'Development') AS e "
        "JOIN assignments AS s ON s.id = e.id "
        "WHERE period_start(e) >= NOW() - INTERVAL 1 YEAR AND period_end(e) < NOW()"
    ),
    "join_of_four": (
        "SELECT e.id, e.name, p.title, p.lead, d.building FROM employees AS e JOIN assignments AS s ON s.id = e.id "
        "JOIN projects AS p ON p.project = s.project JOIN departments AS d ON d.dept = e.dept"
    ),
    "seven_days": "SELECT dept, COUNT(*) AS staff FROM employees GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS)",
}
"""The views: figure 3 of the paper, a join of four tables, and a moving window."""
_RECORDED: Final = 500_000
"""The maximum number of changes that one commit of the history records."""
_AIM: Final = 0.1
_GROWTH: Final = 1.2


@dataclass
class RefreshTimes:
    """The times of a view in seconds: the ``first`` refresh over the history, later refreshes, and recomputations.

    ``periods`` is the number of the view's periods at the last comparison.
    """

    view: str
    first: float = 0.0
    batches: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    periods: int = 0

    @property
    def batch(self) -> float:
        """The median duration of a refresh after a batch, in seconds."""
        return statistics.median(self.batches)

    @property
    def ratio(self) -> float | None:
        """The median duration of a refresh divided by that of a recomputation, or None without recomputations."""
        return self.batch / statistics.median(self.full) if self.full else None


@dataclass
class HistoryTimes:
    """The seconds for recording each batch of a history, and the times of each view."""

    periods: int
    employees: int
    recording: list[float] = field(default_factory=list)
    views: list[RefreshTimes] = field(default_factory=lambda: [RefreshTimes(name) for name in VIEWS])


def compare(
    periods: Sequence[int],
    employees: int,
    rounds: tuple[int, int, int],
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure each history, print the results, and write the figures to ``out`` as JSON.

    ``rounds`` has three numbers: the unmeasured rounds, the measured rounds, and the measured rounds that recompute
    views. Raise Refused if a history has fewer periods than the tables have rows. Raise ExecutionError if a view and
    its recomputation differ.
    """
    require_days(periods, employees)
    warm, counted, full = rounds
    with folder_for_tables(folder) as place:
        directories = [
            _Directory(place / f"home-{count}", HistoryTimes(count, employees), progress) for count in periods
        ]
        for number in range(warm + counted):
            for each in directories:
                # To warm up Spark, the first unmeasured round also recomputes the views of one home.
                in_full = number - warm in range(full) or (number == 0 and full > 0 and each is directories[0])
                each.round(in_full, number >= warm)
        for each in directories:
            each.weft.close()
    cases = [each.case for each in directories]
    progress(report(cases))
    write_figures(out, json.dumps([_json(case) for case in cases], indent=2) + "\n", progress)
    stop_session()


def require_days(periods: Sequence[int], employees: int) -> None:
    """Raise Refused for employees that are too few for a day's changes, and for periods that are too few for a day."""
    if employees < MIN_EMPLOYEES:
        raise Refused(
            f"{employees:,} employees are too few for the changes of a day", hint=f"Use {MIN_EMPLOYEES:,} or more."
        )
    few = next((count for count in periods if days_of(count, employees) < 1), None)
    if few is not None:
        rows = sum(table.rows for table in tables(employees))
        raise Refused(
            f"{few:,} periods are too few: {rows:,} rows of {employees:,} employees have at least one period each",
            hint=f"Use {rows + CHANGES:,} periods or more.",
        )


class _Directory:
    def __init__(self, home: Path, case: HistoryTimes, progress: Callable[[str], None]) -> None:
        self.weft = Weft.open(home, clock="replay", create=True)
        self.case, self.say = case, progress
        self.tables = tables(case.employees)
        self.day = record_history(self.weft, case.periods, case.employees)
        progress(f"recorded {case.periods:,} periods of {self.day:,} days")
        for view in case.views:
            self.weft.add_view(view.view, VIEWS[view.view], batched=True)
            view.first = self._maintain(view)
            progress(f"  {view.view}: first refresh {view.first:.1f} s")

    @property
    def now(self) -> int:
        """The last instant of the current day, after all changes of the day (µs UTC)."""
        return BEGIN + (self.day + 1) * DAY - 1

    def round(self, in_full: bool, counted: bool) -> None:
        """Record one batch and refresh each view. With ``in_full``, also recompute each view."""
        self.day += 1
        recording = _timed(self._batch)
        times = [f"recording {recording:.2f} s"]
        if counted:
            self.case.recording.append(recording)
        for view in self.case.views:
            seconds = self._maintain(view)
            times.append(f"{view.view} {seconds:.2f} s")
            if counted:
                view.batches.append(seconds)
        for view in self.case.views if in_full else ():
            seconds = self._recompute(view)
            times.append(f"{view.view} recomputed {seconds:.2f} s")
            if counted:
                view.full.append(seconds)
        self.say(f"  {self.case.periods:,}: {', '.join(times)}")

    def _batch(self) -> None:
        """The changes are recorded in the same way as by a poll."""
        home, at = self.weft.opened, BEGIN + self.day * DAY
        for table in self.tables:
            with home.writing("bench") as writer:
                known, changes = writer.tables.named(table.name), table.changes(self.day)
                recorded, late = record_changes(writer, home, known, "generated", changes, at)
            if (recorded.began, late) != (table.daily, 0):
                raise ExecutionError(
                    f"{recorded.began} of {table.daily} changes of {table.name} were recorded, {late} of them late"
                )

    def _maintain(self, view: RefreshTimes) -> float:
        def work() -> None:
            for refreshed in self.weft.refresh_views(view.view, now=self.now):
                if refreshed.trouble is not None:
                    raise refreshed.trouble

        return _timed(work)

    def _recompute(self, view: RefreshTimes) -> float:
        """Return the seconds. Raise ExecutionError if the view has a different number of periods."""
        before = time.perf_counter()
        view.periods = self._count_recomputed(view.view)
        seconds = time.perf_counter() - before
        shown = self.weft.show_view(view.view).periods
        if shown != view.periods:
            raise ExecutionError(f"{view.view} has {shown:,} periods, but its recomputation has {view.periods:,}")
        return seconds

    def _count_recomputed(self, name: str) -> int:
        catalog, spark = self.weft.catalog, self.weft.session()
        records = {table.name: table for table in catalog.tables.all()}
        known = {table.name: table.schema for table in catalog.tables.known()}
        view_plan, since = bound_view(catalog.views.named(name).sql, known), catalog.home().t0
        assert since is not None, "the home's time has begun"
        reader = Reader(spark, catalog.data, records)
        for table in view_plan.tables:
            columns = [column.name for column in table.columns]
            reader.whole(table.name, columns).createOrReplaceTempView(table.name)
        return spark.sql(value_sql(view_plan.plan.view, _table_of, Evaluation(self.now, since), SPARK)).count()


def record_history(weft: Weft, periods: int, employees: int) -> int:
    """Create the tables of a directory with a history of about ``periods`` periods. Return the number of its days."""
    days = days_of(periods, employees)
    with weft.opened.writing("bench") as writer:
        for table in tables(employees):
            writer.tables.create(table.name, table.typed, [table.key], tracked=True)
            _record(weft, writer, table, BEGIN, table.first(writer.tables.named(table.name).stored))
    record_days(weft, employees, 1, days + 1)
    return days


def record_days(weft: Weft, employees: int, first: int, last: int) -> None:
    """Record the changes of the days in [``first``, ``last``), many days at once."""
    with weft.opened.writing("bench") as writer:
        for table in tables(employees):
            step, log = max(_RECORDED // table.daily, 1), writer.tables.named(table.name).stored
            for day in range(first, last, step):
                _record(weft, writer, table, BEGIN + day * DAY, table.days(day, min(day + step, last), log))


def _record(weft: Weft, writer: Writer, table: DirectoryTable, at: int, rows: pa.Table) -> None:
    known = writer.tables.named(table.name)
    load_id = writer.loads.begin(known.table_id, "generated", "bench", None, weft.clock())
    recorded = record_one(writer, known, load_id, at, lambda _: rows, None)
    writer.loads.finish(load_id, recorded.began + recorded.ended, 0, 0, 0, weft.clock())


def _table_of(leaf: Leaf) -> str:
    if not isinstance(leaf, Scan):
        raise DerivationError("the value of a view depends on its tables, not on their changes")
    return leaf.table.name


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def report(cases: Sequence[HistoryTimes]) -> str:
    """Return a table with the medians, ratios and growth of each history and view.

    The growth is relative to the shortest history. For some figures, the table also shows the target (``aim``).

    >>> few = HistoryTimes(10, 5, [0.5], [RefreshTimes("v", 3.0, [1.0, 2.0, 9.0], [40.0], 7)])
    >>> many = HistoryTimes(100, 5, [0.5], [RefreshTimes("v", 9.0, [3.0])])
    >>> print(report([few, many]))
    10 periods: recording 0.50 s
      v: a batch 2.00 s; recomputed 40.00 s, ratio 0.050 (aim 0.1)
    100 periods: recording 0.50 s, 1.00 times that of 10
      v: a batch 3.00 s; 1.50 times that of 10 (aim 1.2)
    """
    least, lines = min(cases, key=lambda case: case.periods), []
    for case in cases:
        recording = statistics.median(case.recording)
        line = f"{case.periods:,} periods: recording {recording:.2f} s"
        if case is not least:
            line += f", {recording / statistics.median(least.recording):.2f} times that of {least.periods:,}"
        lines.append(line)
        for view, shortest in zip(case.views, least.views, strict=True):
            times = [f"  {view.view}: a batch {view.batch:.2f} s"]
            if view.ratio is not None:
                times.append(f"recomputed {statistics.median(view.full):.2f} s, ratio {view.ratio:.3f} (aim {_AIM})")
            if case is not least:
                times.append(f"{view.batch / shortest.batch:.2f} times that of {least.periods:,} (aim {_GROWTH})")
            lines.append("; ".join(times))
    return "\n".join(lines)


def _json(case: HistoryTimes) -> dict[str, Any]:
    return {
        **asdict(case),
        "views": [{**asdict(view), "batch": view.batch, "ratio": view.ratio} for view in case.views],
    }
