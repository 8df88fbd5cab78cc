"""``weft bench aggregates``: compare a tick of five queries with aggregates with the five full queries in Spark.

    weft bench aggregates --messages 380000 --messages 3800000

The table is that of ``weft bench tapestry``, and each tick has 3,800 new messages. In each round, the paper's five
queries have a tick of their own in the same Spark session. The report gives medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.bench.bench_home import COLUMNS, NEW, QUERIES, BenchHome, TickTimes, arrival
from weft.bench.tapestry import each_size
from weft.execution.phases import measure_phases
from weft.execution.reader import Reader
from weft.instants import format_instant

TEXTS: Final = {
    "groups": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5",
    "threads": (
        "SELECT newsgroup, thread, n FROM "
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY newsgroup ORDER BY n DESC, thread) AS place FROM "
        "(SELECT newsgroup, inreplyto AS thread, COUNT(*) AS n FROM msgs WHERE inreplyto IS NOT NULL "
        "GROUP BY newsgroup, inreplyto) AS t) AS ranked WHERE place <= 10"
    ),
    "moving": (
        "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY newsgroup "
        "HAVING COUNT(*) > 5"
    ),
    "replies": (
        "SELECT m.msgid, r.replies FROM msgs m LEFT JOIN (SELECT inreplyto, COUNT(*) AS replies FROM msgs "
        "GROUP BY inreplyto) AS r ON r.inreplyto = m.msgid"
    ),
    "before": "SELECT msgid, LAG(ts) OVER (PARTITION BY sender ORDER BY ts, msgid) AS before FROM msgs",
}
"""Groups with more than five messages, the ten longest threads of each group, a moving count of one day, a left join
with an aggregate, and the time of the author's message before."""


@dataclass
class AggregateTimes(TickTimes):
    """The measurements for one number of messages, in seconds. ``paper`` are the ticks of the paper's queries."""

    messages: int
    first_tick: float = 0.0
    paper: list[float] = field(default_factory=list)
    full: dict[str, list[float]] = field(default_factory=dict)

    @property
    def full_total(self) -> float:
        """The sum of the medians of the five full queries."""
        return sum(statistics.median(times) for times in self.full.values())


def compare(
    messages: Sequence[int],
    ticks: int,
    warm: int,
    full: int,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure each number of messages, print the results, and write the figures to ``out`` as JSON.

    ``full`` is the number of measured rounds that also run the full queries. Raise Refused if the disk is too small.
    """
    each_size(messages, (warm, ticks, full), folder, out, progress, (_measure, report, _json))


class Bench(BenchHome):
    """A home with the table, the paper's queries and the five queries with aggregates."""

    def full(self) -> dict[str, float]:
        """Run each full query at the current instant with Spark over the same files. Return the seconds by query."""
        tables = {table.name: table for table in self.catalog.tables.all()}
        reader = Reader(self.spark, self.catalog.data, tables)
        reader.whole("msgs", [name for name, _ in COLUMNS]).createOrReplaceTempView("msgs")
        now, times = f"TIMESTAMP '{format_instant(arrival(self.count)).removesuffix(' UTC')}'", {}
        for name, text in TEXTS.items():
            before = time.perf_counter()
            self.spark.sql(text.replace("NOW()", now)).write.format("noop").mode("overwrite").save()
            times[name] = time.perf_counter() - before
        return times


def _measure(home: Path, count: int, rounds: tuple[int, int, int], progress: Callable[[str], None]) -> AggregateTimes:
    bench, size = Bench(home), AggregateTimes(count)
    warm, ticks, in_full = rounds
    bench.load(count)
    bench.install({**QUERIES, **TEXTS})
    bench.tick(QUERIES)
    size.first_tick = bench.tick(TEXTS)[0]
    progress(f"{count:,} messages: first delivery in {size.first_tick:.1f} s")
    for number in range(warm + ticks):
        bench.load(NEW)
        paper = bench.tick(QUERIES)[0]
        with measure_phases() as parts:
            seconds, jobs, rows = bench.tick(TEXTS)
        progress(f"  tick {seconds:.2f} s, {jobs} jobs, {rows} rows; of the paper's queries {paper:.2f} s")
        if number < warm:
            continue
        size.count((seconds, jobs, rows), parts)
        size.paper.append(paper)
        if number < warm + in_full:
            for name, each in bench.full().items():
                size.full.setdefault(name, []).append(each)
    bench.close()
    return size


def report(size: AggregateTimes) -> str:
    """Return a summary of one measurement.

    >>> print(report(AggregateTimes(9, ticks=[1.0], jobs=[2], rows=[5], paper=[0.5], full={"groups": [8.0]})))
    9 messages, 3,800 new a tick, median of 1:
      tick of the five queries    1.00 s  (2.00 times that of the paper's queries, 0.50 s)
      five queries in full        8.00 s  (groups 8.00)
      ratio                       0.12
      jobs a tick 2, new rows a tick 5
    """
    paper = statistics.median(size.paper)
    lines = [
        f"{size.messages:,} messages, {NEW:,} new a tick, median of {len(size.ticks)}:",
        f"  tick of the five queries  {size.tick:6.2f} s  ({size.tick / paper:.2f} times that of the paper's queries, "
        f"{paper:.2f} s)",
    ]
    if size.full:
        full = ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in size.full.items())
        lines.append(f"  five queries in full      {size.full_total:6.2f} s  ({full})")
        lines.append(f"  ratio                     {size.tick / size.full_total:6.2f}")
    lines.append(
        f"  jobs a tick {statistics.median(size.jobs):.0f}, new rows a tick {statistics.median(size.rows):.0f}"
    )
    return "\n".join(lines)


def _json(size: AggregateTimes) -> dict[str, Any]:
    return {**asdict(size), "tick": size.tick, "full_total": size.full_total}
