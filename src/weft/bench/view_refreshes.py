"""``weft bench views``: what a batch of changes costs temporal views, beside their values computed anew by Spark.

    weft bench views --periods 1000000 --periods 10000000

A directory of employees gets a history of so many periods, and three views over it.  Then batches of 1,000 changes
come, a day apart, and each view is maintained after each; in some rounds Spark computes the views' values anew from
the same files, by the same SQL.  The homes are measured in turn in one process, and medians are reported.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.algebra.temporal import Base
from weft.api.weft import Weft
from weft.bench.directory import BEGIN, DAY, FEWEST, Kept, days_of, tables
from weft.errors import DerivationError, ExecutionError, Refused
from weft.execution.history_log import record
from weft.execution.reader import Reader
from weft.extraction.sources.apply_changes import record_changes
from weft.planning.view_plan import bound_view
from weft.runtime.session import stop_session
from weft.sql.render_temporal import Evaluation, Leaf, value_sql

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
"""Figure 3 of the paper, a join of four tables, a moving window."""
_RECORDED: Final = 500_000
"""Changes of the history that are recorded at once, at most."""
_AIM: Final = 0.1
_GROWTH: Final = 1.5


@dataclass
class Maintenance:
    """A view: its ``first`` maintenance, over all of the history, those after a batch, and Spark's recomputations.

    Seconds; ``periods`` are the view's at the last comparison.
    """

    view: str
    first: float = 0.0
    batches: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    periods: int = 0

    @property
    def batch(self) -> float:
        """The median after a batch."""
        return statistics.median(self.batches)

    @property
    def ratio(self) -> float | None:
        """A batch as a part of a recomputation; None where there was none."""
        return self.batch / statistics.median(self.full) if self.full else None


@dataclass
class Case:
    """A history of so many periods: the seconds that a batch's recording took, and its views."""

    periods: int
    employees: int
    recording: list[float] = field(default_factory=list)
    views: list[Maintenance] = field(default_factory=lambda: [Maintenance(name) for name in VIEWS])


def compare(
    periods: Sequence[int],
    employees: int,
    rounds: tuple[int, int, int],
    folder: Path | None,
    out: Path | None,
    say: Callable[[str], None],
) -> None:
    """Measures each history, says what it finds, and writes the figures to ``out`` as JSON.

    ``rounds``: not counted, counted, and how many of these recompute the views, too.  Raises Refused for a history that
    has fewer periods than the tables have rows, ExecutionError where a view is not what its recomputation gives.
    """
    _check(periods, employees)
    warm, counted, full = rounds
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=folder) as text:
        found = [_Directory(Path(text) / f"home-{count}", Case(count, employees), say) for count in periods]
        for number in range(warm + counted):
            for each in found:
                # The first round that is not counted warms Spark, too: once is enough.
                in_full = number - warm in range(full) or (number == 0 and full > 0 and each is found[0])
                each.round(in_full, number >= warm)
        for each in found:
            each.weft.close()
    cases = [each.case for each in found]
    say(report(cases))
    if out is not None:
        out.write_text(json.dumps([_json(case) for case in cases], indent=2) + "\n", encoding="utf-8")
        say(f"written to {out}")
    stop_session()


def _check(periods: Sequence[int], employees: int) -> None:
    if employees < FEWEST:
        raise Refused(f"{employees:,} employees are too few for the changes of a day", hint=f"Take {FEWEST:,} or more.")
    few = next((count for count in periods if days_of(count, employees) < 1), None)
    if few is not None:
        rows = sum(table.rows for table in tables(employees))
        raise Refused(
            f"{few:,} periods are no history: the tables of {employees:,} employees have {rows:,} rows at any time",
            hint="Ask for more --periods, or for fewer --employees.",
        )


class _Directory:
    """A home with the directory, its history and the views, maintained at the end of the history."""

    def __init__(self, home: Path, case: Case, say: Callable[[str], None]) -> None:
        self.weft = Weft.open(home, clock="replay", create=True)
        self.case, self.say = case, say
        self.tables = tables(case.employees)
        self.day = days_of(case.periods, case.employees)
        with self.weft.opened.writing("bench") as writer:
            for table in self.tables:
                writer.tables.create(table.name, table.typed, [table.key], tracked=True)
                self._history(writer, table)
        say(f"{case.periods:,} periods are recorded, {self.day:,} days")
        for view in case.views:
            self.weft.add_view(view.view, VIEWS[view.view], batched=True)
            view.first = self._maintain(view)
            say(f"  {view.view}: first maintenance {view.first:.1f} s")

    @property
    def now(self) -> int:
        """The last instant of the present day, after all that has changed in it, µs UTC."""
        return BEGIN + (self.day + 1) * DAY - 1

    def _history(self, writer: Writer, kept: Kept) -> None:
        """Records a table's history, many days at once."""
        step = max(_RECORDED // kept.daily, 1)
        log = writer.tables.named(kept.name).stored
        self._record(writer, kept, BEGIN, kept.first(log))
        for first in range(1, self.day + 1, step):
            last = min(first + step, self.day + 1)
            self._record(writer, kept, BEGIN + first * DAY, kept.days(first, last, log))

    def _record(self, writer: Writer, kept: Kept, at: int, rows: pa.Table) -> None:
        table = writer.tables.named(kept.name)
        load_id = writer.loads.begin(table.table_id, "generated", "bench", None, self.weft.clock())
        done = record(writer, table, load_id, at, lambda _: rows, None)
        writer.loads.finish(load_id, done.began + done.ended, 0, 0, 0, self.weft.clock())

    def round(self, in_full: bool, counted: bool) -> None:
        """One batch: recorded, then each view maintained, and ``in_full`` computed anew, too."""
        self.day += 1
        taken = _timed(self._batch)
        told = [f"recording {taken:.2f} s"]
        if counted:
            self.case.recording.append(taken)
        for view in self.case.views:
            seconds = self._maintain(view)
            told.append(f"{view.view} {seconds:.2f} s")
            if counted:
                view.batches.append(seconds)
        for view in self.case.views if in_full else ():
            seconds = self._recompute(view)
            told.append(f"{view.view} anew {seconds:.2f} s")
            if counted:
                view.full.append(seconds)
        self.say(f"  {self.case.periods:,}: {', '.join(told)}")

    def _batch(self) -> None:
        """The changes of a day into the four tables, as a poll records what a source tells of changes."""
        home, at = self.weft.opened, BEGIN + self.day * DAY
        for kept in self.tables:
            with home.writing("bench") as writer:
                table, changes = writer.tables.named(kept.name), kept.changes(self.day)
                done, late = record_changes(writer, home, table, "generated", changes, at, None)
            if (done.began, late) != (kept.daily, 0):
                raise ExecutionError(f"of {kept.daily} changes of {kept.name} {done.began} were recorded, {late} late")

    def _maintain(self, view: Maintenance) -> float:
        def work() -> None:
            for done in self.weft.refresh_views(view.view, now=self.now):
                if done.trouble is not None:
                    raise done.trouble

        return _timed(work)

    def _recompute(self, view: Maintenance) -> float:
        """Seconds in which Spark computes and counts the view's periods anew; raises where there are others."""
        before = time.perf_counter()
        view.periods = self._counted(view.view)
        seconds = time.perf_counter() - before
        shown = self.weft.show_view(view.view).periods
        if shown != view.periods:
            raise ExecutionError(f"{view.view} has {shown:,} periods; computed anew it has {view.periods:,}")
        return seconds

    def _counted(self, name: str) -> int:
        catalog, spark = self.weft.catalog, self.weft.session()
        records = {table.name: table for table in catalog.tables.all()}
        known = {table.name: table.schema for table in catalog.tables.known()}
        view_plan, since = bound_view(catalog.views.named(name).sql, known), catalog.home().t0
        assert since is not None, "the home's time has begun"
        reader = Reader(spark, catalog.data, records)
        for table in view_plan.tables:
            columns = [column.name for column in table.columns]
            reader.whole(table.name, columns).createOrReplaceTempView(table.name)
        return spark.sql(value_sql(view_plan.plan.view, _table_of, Evaluation(self.now, since))).count()


def _table_of(leaf: Leaf) -> str:
    if not isinstance(leaf, Base):
        raise DerivationError("the value of a view is over its tables, not over their changes")
    return leaf.table.name


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def report(cases: Sequence[Case]) -> str:
    """A line a history and view: the medians, their ratio, and the growth over the shortest history, with the aims.

    >>> few = Case(10, 5, [0.5], [Maintenance("v", 3.0, [1.0, 2.0, 9.0], [40.0], 7)])
    >>> many = Case(100, 5, [0.5], [Maintenance("v", 9.0, [3.0])])
    >>> print(report([few, many]))
    10 periods: recording 0.50 s
      v: a batch 2.00 s; anew 40.00 s, ratio 0.050 (aim 0.1)
    100 periods: recording 0.50 s, 1.00 times that of 10
      v: a batch 3.00 s; 1.50 times that of 10 (aim 1.5)
    """
    least, lines = min(cases, key=lambda case: case.periods), []
    for case in cases:
        recording = statistics.median(case.recording)
        line = f"{case.periods:,} periods: recording {recording:.2f} s"
        if case is not least:
            line += f", {recording / statistics.median(least.recording):.2f} times that of {least.periods:,}"
        lines.append(line)
        for view, shortest in zip(case.views, least.views, strict=True):
            told = [f"  {view.view}: a batch {view.batch:.2f} s"]
            if view.ratio is not None:
                told.append(f"anew {statistics.median(view.full):.2f} s, ratio {view.ratio:.3f} (aim {_AIM})")
            if case is not least:
                told.append(f"{view.batch / shortest.batch:.2f} times that of {least.periods:,} (aim {_GROWTH})")
            lines.append("; ".join(told))
    return "\n".join(lines)


def _json(case: Case) -> dict[str, Any]:
    return {
        **asdict(case),
        "views": [{**asdict(view), "batch": view.batch, "ratio": view.ratio} for view in case.views],
    }
