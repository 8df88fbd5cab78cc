"""``weft bench aggregates``: compare a tick of five queries with aggregates with the five full queries in Spark.

    weft bench aggregates --messages 380000 --messages 3800000

The table is that of ``weft bench tapestry``, and each tick has 3,800 new messages. In each round, the paper's five
queries have a tick of their own in the same Spark session. The report gives medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.bench.bench_home import COLUMNS, NEW, QUERIES, BenchHome, TickTimes, arrival
from weft.bench.tapestry import each_size
from weft.bench.times import Times
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
    """The measurements for one number of messages. ``paper`` are the ticks of the paper's queries.

    ``first`` is the first delivery of the five queries, ``own`` their ticks.
    """

    messages: int
    first: Times = field(default_factory=Times)
    own: Times = field(default_factory=Times)
    paper: Times = field(default_factory=Times)
    full: dict[str, Times] = field(default_factory=dict)

    @property
    def full_total(self) -> float:
        """The sum of the medians of the five full queries, in processor seconds."""
        return sum(times.median for times in self.full.values())


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

    def full(self, times: dict[str, Times]) -> None:
        """Run each full query at the current instant with Spark over the same files. Add the times by query."""
        tables = {table.name: table for table in self.catalog.tables.all()}
        reader = Reader(self.spark, self.catalog.data, tables)
        reader.whole("msgs", [name for name, _ in COLUMNS]).createOrReplaceTempView("msgs")
        now = f"TIMESTAMP '{format_instant(arrival(self.count)).removesuffix(' UTC')}'"
        for name, text in TEXTS.items():
            query = self.spark.sql(text.replace("NOW()", now))
            times.setdefault(name, Times()).measure(query.write.format("noop").mode("overwrite").save)


def _measure(home: Path, count: int, rounds: tuple[int, int, int], progress: Callable[[str], None]) -> AggregateTimes:
    bench, size = Bench(home), AggregateTimes(count)
    warm, ticks, in_full = rounds
    bench.load(count)
    bench.install({**QUERIES, **TEXTS})
    bench.tick(QUERIES)
    size.first.measure(lambda: bench.tick(TEXTS))
    progress(f"{count:,} messages: first delivery {_line(size.first)}")
    for number in range(warm + ticks):
        bench.load(NEW)
        paper, own = (size.paper, size.own) if number >= warm else (Times(), Times())
        paper.measure(lambda: bench.tick(QUERIES))
        with measure_phases() as parts:
            found = own.measure(lambda: bench.tick(TEXTS))
        progress(f"  tick {_line(own)}, {found[1]} jobs, {found[2]} rows; of the paper's queries {_line(paper)}")
        if number >= warm:
            size.count(found, parts)
        if warm <= number < warm + in_full:
            bench.full(size.full)
    bench.close()
    return size


def _line(times: Times) -> str:
    return f"{times.processor[-1]:.2f} s of processors, {times.seconds[-1]:.2f} s on the clock"


def report(size: AggregateTimes) -> str:
    """Return a summary of one measurement, in processor seconds.

    >>> def took(processor: float) -> Times:
    ...     return Times(seconds=[9.0], processor=[processor])
    >>> size = AggregateTimes(9, ticks=[9.0], jobs=[2], rows=[5], own=took(1.0), paper=took(0.5))
    >>> size.first, size.full["groups"] = took(3.0), took(8.0)
    >>> print(report(size))
    9 messages, 3,800 new a tick, processor seconds, median of 1:
      first delivery              3.00 s
      tick of the five queries    1.00 s  (2.00 times that of the paper's queries, 0.50 s)
      five queries in full        8.00 s  (groups 8.00)
      ratio                       0.12
      jobs a tick 2, new rows a tick 5
    """
    own, paper = size.own.median, size.paper.median
    lines = [
        f"{size.messages:,} messages, {NEW:,} new a tick, processor seconds, median of {len(size.ticks)}:",
        f"  first delivery            {size.first.median:6.2f} s",
        f"  tick of the five queries  {own:6.2f} s  "
        f"({own / paper:.2f} times that of the paper's queries, {paper:.2f} s)",
    ]
    if size.full:
        full = ", ".join(f"{name} {times.median:.2f}" for name, times in size.full.items())
        lines.append(f"  five queries in full      {size.full_total:6.2f} s  ({full})")
        lines.append(f"  ratio                     {own / size.full_total:6.2f}")
    lines.append(
        f"  jobs a tick {statistics.median(size.jobs):.0f}, new rows a tick {statistics.median(size.rows):.0f}"
    )
    return "\n".join(lines)


def _json(size: AggregateTimes) -> dict[str, Any]:
    return {**asdict(size), "tick": size.tick, "full_total": size.full_total}
