"""``weft bench tapestry``: compare a tick of the paper's five queries with the five full queries (section 6.2).

    weft bench tapestry --messages 380000 --messages 3800000

Ticks and full queries alternate in one Spark session over the same tables. Each tick has 3,800 new messages. The report
gives medians. Absolute times depend on the machine.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from weft.bench.bench_home import COLUMNS, NEW, QUERIES, BenchHome, TickTimes, arrival
from weft.bench.delta_session import delta_session
from weft.bench.times import folder_for_tables, write_figures
from weft.errors import Refused
from weft.execution.groups import instant
from weft.execution.phases import measure_phases
from weft.execution.reader import Reader
from weft.planning.plan import at_instant, plan
from weft.runtime.session import stop_session

_BYTES: Final = 700
"""The maximum number of bytes on disk per message during a measurement."""


@dataclass
class Size(TickTimes):
    """The measurements for one number of messages, in seconds."""

    messages: int
    load: float = 0.0
    first_tick: float = 0.0
    cold: list[float] = field(default_factory=list)
    """The durations of the first ticks, in seconds. The medians exclude these ticks."""
    references: list[float] = field(default_factory=list)
    """The durations of an empty Spark job plus a commit of one row by Delta Lake, in seconds."""
    full: dict[str, list[float]] = field(default_factory=dict)
    disk: int = 0

    @property
    def reference(self) -> float:
        """The median of ``references``."""
        return statistics.median(self.references)

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
    each_size(messages, (warm, ticks, full), folder, out, progress, (measure, report, _json))


SizeTimes = TypeVar("SizeTimes", bound=TickTimes)
Steps: TypeAlias = tuple[
    Callable[[Path, int, tuple[int, int, int], Callable[[str], None]], SizeTimes],
    Callable[[SizeTimes], str],
    Callable[[SizeTimes], dict[str, Any]],
]
"""Functions that measure one size, report the measurement, and turn it into JSON."""


def each_size(
    messages: Sequence[int],
    rounds: tuple[int, int, int],
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
    steps: Steps[SizeTimes],
) -> None:
    """Measure each number of messages as ``compare`` does. ``rounds`` is the third argument of the first step."""
    measured, reported, as_json = steps
    sizes = []
    for count in messages:
        with folder_for_tables(folder) as place:
            require_room(count, place)
            sizes.append(measured(place / "home", count, rounds, progress))
        progress(reported(sizes[-1]))
    if len(sizes) > 1:
        ratio = sizes[-1].tick / sizes[0].tick
        progress(f"tick at {messages[-1]:,} / tick at {messages[0]:,}: {ratio:.2f}")
    write_figures(out, json.dumps([as_json(size) for size in sizes], indent=2) + "\n", progress)
    stop_session()


def require_room(messages: int, place: Path) -> None:
    """Raise Refused if the disk is too small for the tables, their arrangements and Spark's sort files."""
    needed, free = messages * _BYTES, shutil.disk_usage(place).free
    if free < needed:
        raise Refused(
            f"{messages:,} messages need about {needed / 1e9:.1f} GB in {place.parent}, which has {free / 1e9:.1f} GB",
            hint="Name a folder on another disk with --folder.",
        )


class Bench(BenchHome):
    """A home with the table and the five queries."""

    def full(self) -> dict[str, float]:
        """Run each full query at the current instant with Spark over the same files. Return the seconds by query."""
        return {name: self.timed(work)[0] for name, work in self.in_full().items()}

    def in_full(self) -> dict[str, Callable[[], int]]:
        """Return a function for each query that runs the full query as ``full`` does."""
        tables = {table.name: table for table in self.catalog.tables.all()}
        schemas = {name: table.schema for name, table in tables.items()}
        reader = Reader(self.spark, self.catalog.data, tables)
        reader.whole("msgs", [name for name, _ in COLUMNS]).createOrReplaceTempView("msgs")
        works: dict[str, Callable[[], int]] = {}
        for name, text in QUERIES.items():
            (branch,) = at_instant(plan(text, schemas).query, instant(arrival(self.count)))
            distinct = re.sub(r",[^,]* AS _first_at", "", branch.sql.replace("SELECT ", "SELECT DISTINCT ", 1), count=1)
            works[name] = partial(self._drain, distinct)
        return works

    def _drain(self, sql: str) -> int:
        self.spark.sql(sql).write.format("noop").mode("overwrite").save()
        return 0


def references(folder: Path, warm: int, measured: int) -> list[float]:
    """Return the durations of an empty Spark job plus a commit of one row by Delta Lake, in seconds.

    They have a JVM of their own, because Weft's Spark has no Delta Lake. ``warm`` durations are left out.
    """
    spark, seconds = delta_session(folder), []
    for _ in range(warm + measured):
        before = time.perf_counter()
        spark.range(0).count()
        spark.range(1).write.format("delta").mode("append").save(str(folder / "reference"))
        seconds.append(time.perf_counter() - before)
    stop_session()
    return seconds[warm:]


def measure(home: Path, count: int, rounds: tuple[int, int, int], progress: Callable[[str], Any]) -> Size:
    """Measure a home with ``count`` messages.

    ``rounds`` has three numbers: the unmeasured rounds, the measured rounds, and the measured rounds with full queries.
    """
    bench, size = Bench(home), Size(count)
    warm, ticks, in_full = rounds
    before = time.perf_counter()
    bench.load(count)
    size.load = time.perf_counter() - before
    bench.install(QUERIES)
    size.first_tick = bench.tick()[0]
    progress(f"{count:,} messages: loaded in {size.load:.0f} s, first delivery in {size.first_tick:.1f} s")
    for number in range(warm + ticks):
        bench.load(NEW)
        with measure_phases() as parts:
            seconds, jobs, rows = bench.tick()
        full = bench.full() if in_full and warm - 1 <= number < warm + in_full else {}
        if number < warm:
            size.cold.append(seconds)
        else:
            size.count((seconds, jobs, rows), parts)
            for name, each in full.items():
                size.full.setdefault(name, []).append(each)
            full_text = f"; in full {sum(full.values()):.2f} s" if full else ""
            progress(f"  tick {seconds:.2f} s, {jobs} jobs, {rows} rows{full_text}")
    size.disk = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    bench.close()
    size.references = references(home.parent, warm, ticks)
    return size


def report(size: Size) -> str:
    """Return a summary of one measurement in a few lines."""
    full = ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in size.full.items())
    parts = ", ".join(f"{name} {statistics.median(each):.2f} s" for name, each in size.parts.items())
    compared = (
        f"  five queries in full      {size.full_total:6.2f} s  ({full})\n"
        f"  ratio                     {size.tick / size.full_total:6.2f}\n"
        if full
        else ""
    )
    return (
        f"{size.messages:,} messages, {NEW:,} new a tick, median of {len(size.ticks)}:\n"
        f"  tick of the five queries  {size.tick:6.2f} s  (from {min(size.ticks):.2f} to {max(size.ticks):.2f})\n"
        f"{compared}"
        f"  of the tick: {parts}\n"
        f"  the first ticks, not counted: {', '.join(f'{seconds:.2f} s' for seconds in size.cold)}\n"
        f"  an empty job and a commit of one row by Spark {size.reference:.2f} s, the tick is "
        f"{size.tick / size.reference:.1f} times that\n"
        f"  jobs a tick {statistics.median(size.jobs):.0f}, new rows a tick {statistics.median(size.rows):.0f}, "
        f"on disk {size.disk / 1e6:.0f} MB"
    )


def _json(size: Size) -> dict[str, Any]:
    return {
        **asdict(size),
        "tick": size.tick,
        "reference": size.reference,
        "full_total": size.full_total,
        "ratio": size.tick / size.full_total if size.full else None,
    }
