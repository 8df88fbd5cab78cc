"""``weft bench tpch`` and ``weft bench nexmark``: compare a tick of each query of a suite with the full query in Spark.

    weft bench tpch --scale 1
    weft bench nexmark --events 10000000

Most of the data are loaded before the measurement. The rest arrives in batches. After each batch, each query has a tick
of its own, and Spark runs the full query over the same files. For comparison, Spark's Structured Streaming runs the
query over the same batches, if it accepts the query. All run in one Spark process. The report gives medians of the
processor seconds of this process and of Spark's JVM.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from weft.api.weft import Weft
from weft.bench.suite_data import SuiteData, write
from weft.bench.times import Times
from weft.errors import ExecutionError, SqlError
from weft.execution.reader import Reader
from weft.runtime.session import spark_errors, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MODES: Final = ("append", "complete", "update")
"""The output modes of Structured Streaming, in the order in which they are tried."""
_STATE: Final = "org.apache.spark.sql.execution.streaming.state"


@dataclass
class QueryTimes:
    """The times of a query. ``refused`` is the reason if Weft refuses the query, ``rows`` the new rows of each tick."""

    query: str
    refused: str = ""
    stream_refused: str = ""
    first: Times = field(default_factory=Times)
    tick: Times = field(default_factory=Times)
    full: Times = field(default_factory=Times)
    stream: Times = field(default_factory=Times)
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Rounds:
    """The number of unmeasured ticks, of measured ticks, and of measured rounds with full queries and streaming.

    ``batch`` is the share of all rows that arrives before a tick.
    """

    warm: int
    ticks: int
    full: int
    batch: float

    @property
    def shares(self) -> list[float]:
        """The shares of the rows that have arrived before the first batch and after each batch."""
        count = self.warm + self.ticks
        return [1 - self.batch * left for left in range(count, -1, -1)]


def compare(
    data: SuiteData,
    names: Sequence[str],
    rounds: Rounds,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure the queries (all of the suite if ``names`` is empty), print the results, and write them to ``out``."""
    texts = {name: text for name, text in data.queries.items() if name in names or not names}
    with TemporaryDirectory(prefix="weft-bench-", dir=folder) as text:
        place = Path(text)
        times = {name: QueryTimes(name) for name in texts}
        parts = _ticks(data, texts, rounds, place, times, progress)
        _write(list(times.values()), out)  # the streams can take many times as long
        progress(report(list(times.values())))
        if rounds.full:
            streams(texts, rounds, parts, place / "streams", times, progress)
            _write(list(times.values()), out)
            progress(report(list(times.values())))
        stop_session()
    if out is not None:
        progress(f"written to {out}")


def _write(times: Sequence[QueryTimes], out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps([asdict(each) for each in times], indent=2) + "\n", encoding="utf-8")


Parts = list[dict[str, Path]]
"""The files of each batch by table."""


def _ticks(
    data: SuiteData,
    texts: Mapping[str, str],
    rounds: Rounds,
    place: Path,
    times: Mapping[str, QueryTimes],
    progress: Callable[[str], None],
) -> Parts:
    parts: Parts = []
    with Weft.open(place / "home", clock="replay", create=True) as weft:
        low = 0.0
        for number, high in enumerate(rounds.shares):
            parts.append(dict(write(data, low, high, place / f"part-{number}")))
            for table, file in parts[-1].items():
                weft.ingest_file(file, table, ts_from="ts")
            if not number:
                _install(weft, texts, times)
                progress(f"loaded {sum(each.rows for each in weft.tables()):,} rows")
            low, now = high, data.instant(high) + 1
            for each in times.values():
                if not each.refused:
                    _tick(weft, each, now, number - rounds.warm)
            if rounds.warm < number <= rounds.warm + rounds.full:
                _full_queries(weft, texts, times)
            progress(f"  batch {number}: {sum(each.tick.seconds[-1] for each in times.values() if each.rows):.2f} s")
    return parts


def _install(weft: Weft, texts: Mapping[str, str], times: Mapping[str, QueryTimes]) -> None:
    for name, text in texts.items():
        try:
            weft.install(name, text)
        except SqlError as refused:
            times[name].refused = refused.message


def _tick(weft: Weft, times: QueryTimes, now: int, measured: int) -> None:
    """``measured`` is the number of the measured tick, from 1."""
    kept = times.tick if measured > 0 else Times() if times.first.seconds else times.first
    outcomes = kept.measure(lambda: weft.tick(times.query, now=now)).reports[-1].outcomes
    failed = [each.reason for each in outcomes if each.failed]
    if failed:
        raise ExecutionError(f"{times.query}: {failed[0]}")
    if measured > 0:
        times.rows.append(sum(each.rows for each in outcomes))


def _full_queries(weft: Weft, texts: Mapping[str, str], times: Mapping[str, QueryTimes]) -> None:
    tables = {table.name: table for table in weft.tables()}
    spark = weft.session()
    reader = Reader(spark, weft.catalog.data, tables)
    for name, table in tables.items():
        columns = [column.name for column in table.schema.columns]
        reader.whole(name, columns).createOrReplaceTempView(name)
    for name, text in texts.items():
        times[name].full.measure(spark.sql(text).write.format("noop").mode("overwrite").save)


def streams(
    texts: Mapping[str, str],
    rounds: Rounds,
    parts: Parts,
    place: Path,
    times: Mapping[str, QueryTimes],
    progress: Callable[[str], None],
) -> None:
    """Run each query as a stream over the batches."""
    from weft.runtime.session import spark_session

    spark = spark_session(None).newSession()
    # The default state store holds its state in the JVM's heap.
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{_STATE}.RocksDBStateStoreProvider")
    for name, text in texts.items():
        folder = place / name
        for table in parts[0]:
            (folder / table).mkdir(parents=True)
            schema = spark.read.parquet(str(parts[0][table])).schema
            spark.readStream.schema(schema).parquet(str(folder / table)).createOrReplaceTempView(table)
        query = _started(spark, text, folder, times[name])
        if query is not None:
            found = _streamed(query, parts, folder)
            measured = slice(1 + rounds.warm, None)
            times[name].stream = Times(seconds=found.seconds[measured], processor=found.processor[measured])
            progress(f"  {name} as a stream: {times[name].stream.median:.2f} s of processors")
        shutil.rmtree(folder)


def _started(spark: SparkSession, text: str, folder: Path, times: QueryTimes) -> StreamingQuery | None:
    for mode in _MODES:
        try:
            writer = spark.sql(text).writeStream.format("noop").outputMode(mode)
            return writer.option("checkpointLocation", str(folder / f"_state_{mode}")).start()
        except spark_errors() as error:
            times.stream_refused = str(error).splitlines()[0][:200]
    return None


def _streamed(query: StreamingQuery, parts: Parts, folder: Path) -> Times:
    """Return the times that the stream takes for each batch."""
    measured = Times()
    try:
        for number, part in enumerate(parts):
            for table, file in part.items():
                shutil.copy(file, folder / table / f"part-{number}.parquet")
            measured.measure(query.processAllAvailable)
    finally:
        query.stop()
    return measured


def report(times: Sequence[QueryTimes]) -> str:
    """Return a table with a line for each query: processor seconds, and the new rows of a tick.

    The column ``first`` has the first delivery, and ``ratio`` is the tick divided by the full query.

    >>> def took(processor: float) -> Times:
    ...     return Times(seconds=[9.0], processor=[processor])
    >>> one = QueryTimes("q1", first=took(3.0), tick=took(0.5), full=took(2.0), stream=took(1.5), rows=[7])
    >>> print(report([one, QueryTimes("q2", "sessions"), QueryTimes("q3", tick=took(1.0), rows=[0])]))
    query    first    tick    full   ratio  stream  new rows
    q1        3.00    0.50    2.00    0.25    1.50         7
    q2    refused: sessions
    q3           -    1.00       -       -       -         0
    """
    lines = ["query    first    tick    full   ratio  stream  new rows"]
    for each in times:
        if each.refused:
            lines.append(f"{each.query:<6}refused: {each.refused}")
            continue
        first, tick, full, stream = map(_median, (each.first, each.tick, each.full, each.stream))
        ratio = tick / full if tick is not None and full else None
        figures = "".join(f"{_shown(value):>8}" for value in (first, tick, full, ratio, stream))
        lines.append(f"{each.query:<6}{figures}{statistics.median(each.rows):>10.0f}")
    return "\n".join(lines)


def _median(times: Times) -> float | None:
    return times.median if times.processor else None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
