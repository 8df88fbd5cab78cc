"""``weft bench engines``: compare the two engines of views and synopses, DuckDB in this process and Spark.

    weft bench engines --periods 10000000 --events 10000000

The directory of ``weft bench views`` gets a history with the given number of periods. Each engine computes the first
periods of the three views. After one large batch of changes it recomputes the views, and after another one it
maintains them. The log of ``weft bench synopses`` gets the given number of events. Each engine processes all events in
one tick of the three formulas. Both engines start from copies of the same home, and must give the same numbers of
periods and answers.

The report has the seconds on the clock, the processor seconds of this process and of Spark, and the greatest memory of
both. On a machine with other load, only the processor seconds are comparable.
"""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Final
from unittest.mock import patch

from weft.api.weft import Weft
from weft.bench.directory import BEGIN, DAY
from weft.bench.synopses import FORMULAS, TABLES, EventLog, instant_after, load_events
from weft.bench.times import Times, folder_for_tables, write_figures
from weft.bench.view_refreshes import VIEWS, record_days, record_history, require_days
from weft.errors import ExecutionError
from weft.execution.engines import choosing
from weft.execution.engines.choosing import NOTHING, EngineBounds
from weft.runtime.session import running_jvm, session_started, spark_session, stop_session

_EVERYTHING: Final = EngineBounds(*[2**62] * 5)
ENGINES: Final = {"driver": _EVERYTHING, "Spark": NOTHING}
"""The bounds that force each engine."""
FROM_SCRATCH: Final = {"again": -1, "share": 2**62}
MAINTAINED: Final = {"again": 2**62}
EMPLOYEES: Final = 100_000
_LOADED: Final = 1_000_000
_BIG_BATCH_DAYS: Final = 500
"""The days of changes in a large batch. A day has 1,000 changes, which are 2,000 log rows."""


@dataclass(frozen=True)
class EngineTime:
    """A computation on one engine: the seconds on the clock, the processor seconds, and the greatest memory in MB.

    ``rows`` is the number of periods that changed, or of answers.
    """

    what: str
    engine: str
    seconds: float
    processor: float
    own_memory: int
    spark_memory: int
    rows: int


def compare(periods: int, events: int, folder: Path | None, out: Path | None, progress: Callable[[str], None]) -> None:
    """Measure both engines, print the results, and write the figures to ``out`` as JSON lines.

    0 ``periods`` or 0 ``events`` omits the views or the synopses. Raise Refused for fewer periods than the tables have
    rows. Raise ExecutionError if the engines give different numbers of rows.
    """
    if periods:
        require_days([periods], EMPLOYEES)
    times: list[EngineTime] = []
    with folder_for_tables(folder) as place:
        for prepare, measure, size in ((_history, _views, periods), (_events, _synopses, events)):
            if not size:
                continue
            home = place / "home"
            prepare(home, size, progress)
            for engine in ENGINES:
                copy = place / engine
                shutil.copytree(home, copy)
                times += _in_its_process(measure, copy, engine)
                shutil.rmtree(copy)
            shutil.rmtree(home)
    _check(times)
    progress(report(times))
    write_figures(out, "".join(json.dumps(asdict(each)) + "\n" for each in times), progress)


def _in_its_process(measure: Callable[[Weft, str], Iterator[EngineTime]], home: Path, engine: str) -> list[EngineTime]:
    """Measure in a new process, because the greatest memory is that of a process since its start."""
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        try:
            return processes.submit(_measured, measure, home, engine).result()
        except KeyboardInterrupt:
            for process in active_children():
                process.terminate()
            raise


def _measured(measure: Callable[[Weft, str], Iterator[EngineTime]], home: Path, engine: str) -> list[EngineTime]:
    with patch.object(choosing, "BOUNDS", ENGINES[engine]), Weft.open(home) as weft:
        found = []
        for each in measure(weft, engine):
            print(_line(each), flush=True)
            found.append(each)
    stop_session()
    return found


def _history(home: Path, periods: int, progress: Callable[[str], None]) -> None:
    with Weft.open(home, clock="replay", create=True) as weft:
        days = record_history(weft, periods, EMPLOYEES)
    progress(f"recorded {periods:,} periods of {days:,} days")


def _events(home: Path, events: int, progress: Callable[[str], None]) -> None:
    log = EventLog.generated(events)
    with Weft.open(home, clock="replay", create=True) as weft:
        for first in range(0, events, _LOADED):
            load_events(weft, log.rows.slice(first, _LOADED), TABLES, home.parent / "events.parquet")
        for name, text in FORMULAS.items():
            weft.install(name, text, keep="synopsis", language="monpoly")
    progress(f"loaded {events:,} events")


def _views(weft: Weft, engine: str) -> Iterator[EngineTime]:
    day = (max(table.last_ts or BEGIN for table in weft.catalog.tables.all()) - BEGIN) // DAY
    for name, text in VIEWS.items():
        weft.add_view(name, text, batched=True)
        yield _timed(f"{name}, first", engine, partial(_refreshed, weft, name, day))
    for how, bounds in (("from scratch", FROM_SCRATCH), ("maintained", MAINTAINED)):
        record_days(weft, EMPLOYEES, day + 1, day + 1 + _BIG_BATCH_DAYS)
        day += _BIG_BATCH_DAYS
        with patch.object(choosing, "BOUNDS", replace(choosing.BOUNDS, **bounds)):
            for name in VIEWS:
                yield _timed(f"{name}, a batch, {how}", engine, partial(_refreshed, weft, name, day))


def _refreshed(weft: Weft, name: str, day: int) -> int:
    found = {each.name: each for each in weft.refresh_views(name, now=BEGIN + (day + 1) * DAY - 1)}[name]
    if found.trouble is not None:
        raise found.trouble
    return found.changed + found.gone


def _synopses(weft: Weft, engine: str) -> Iterator[EngineTime]:
    events = sum(table.rows for table in weft.catalog.tables.all())
    yield _timed("three synopses, a tick", engine, lambda: _ticked(weft, instant_after(events)))


def _ticked(weft: Weft, now: int) -> int:
    outcomes = weft.tick(now=now).reports[-1].outcomes
    failed = [f"{each.query.name}: {each.reason}" for each in outcomes if each.failed]
    if failed:
        raise ExecutionError("; ".join(failed))
    return sum(each.rows for each in outcomes)


def _timed(what: str, engine: str, work: Callable[[], int]) -> EngineTime:
    """Measure a computation. Spark is started and warm before."""
    if engine == "Spark" and not session_started():
        work_of_spark = spark_session(None).range(1_000_000).selectExpr("SUM(id)", "MAX(id % 7)")
        work_of_spark.collect()
    times = Times()
    rows = times.measure(work)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return EngineTime(what, engine, round(times.seconds[0], 1), round(times.median, 1), own, _spark_memory(), rows)


def _spark_memory() -> int:
    if not session_started():
        return 0
    lines = Path(f"/proc/{running_jvm().process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def _check(times: Sequence[EngineTime]) -> None:
    rows: dict[str, int] = {}
    for each in times:
        if rows.setdefault(each.what, each.rows) != each.rows:
            raise ExecutionError(f"{each.what}: {rows[each.what]:,} rows on one engine, {each.rows:,} on the other")


def _line(each: EngineTime) -> str:
    return (
        f"  {each.what} on {each.engine}: {each.seconds:,.1f} s, processors {each.processor:,.1f} s, "
        f"{each.rows:,} rows, memory {each.own_memory:,} MB + {each.spark_memory:,} MB"
    )


def report(times: Sequence[EngineTime]) -> str:
    """Return a line for each computation, with the ratios of Spark to the driver.

    >>> one = EngineTime("v, first", "driver", 10.0, 12.0, 900, 0, 5)
    >>> print(report([one, EngineTime("v, first", "Spark", 20.0, 36.0, 300, 2000, 5)]))
    v, first: driver 12.0 s, Spark 36.0 s of processors, ratio 3.0; on the clock 10.0 s and 20.0 s, ratio 2.0
    """
    by = {(each.what, each.engine): each for each in times}
    lines = []
    for what in dict.fromkeys(each.what for each in times):
        one, other = by[what, "driver"], by[what, "Spark"]
        lines.append(
            f"{what}: driver {one.processor} s, Spark {other.processor} s of processors, "
            f"ratio {other.processor / max(one.processor, 0.1):.1f}; "
            f"on the clock {one.seconds} s and {other.seconds} s, ratio {other.seconds / max(one.seconds, 0.1):.1f}"
        )
    return "\n".join(lines)
