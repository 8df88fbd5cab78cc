"""``weft bench tpch`` and ``weft bench nexmark``: compare a tick of each query of a suite with the full query in Spark.

    weft bench tpch --scale 1
    weft bench nexmark --events 10000000

Most of the data are loaded before the measurement. The rest arrives in batches. After each batch, each query has a tick
of its own, and Spark runs the full query over the same files. For comparison, Spark's Structured Streaming runs the
query over the same batches, if it accepts the query. All run in one Spark process. The report gives medians of the
processor seconds of this process and of Spark's JVM.

Each measurement is printed, and written to the file, as soon as it ends. A computation that takes longer than the time
limit is stopped, and the benchmark continues with the next query.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from weft.api.weft import Weft
from weft.bench.suite_data import SuiteData, write
from weft.bench.times import Times, folder_for_tables, write_figures
from weft.errors import JvmEnded, LimitExceeded, Refused, SqlError
from weft.execution.reader import Reader
from weft.runtime.session import spark_errors, stop_session
from weft.runtime.watchdog import limited

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_MODES: Final = ("append", "complete", "update")
"""The output modes of Structured Streaming, in the order in which they are tried."""
_NAMES: Final = {"first": "first delivery", "tick": "tick", "full": "full query", "stream": "stream"}
"""The measurements of a query as the report names them."""
_STATE: Final = "org.apache.spark.sql.execution.streaming.state"


@dataclass
class QueryTimes:
    """The times of a query. ``refused`` is the reason if Weft refuses the query, ``rows`` the new rows of each tick.

    ``ended`` maps a measurement without a result (``first``, ``tick``, ``full`` or ``stream``) to the reason: that it
    took longer than the time limit, or that the query failed.
    """

    query: str
    refused: str = ""
    stream_refused: str = ""
    ended: dict[str, str] = field(default_factory=dict)
    first: Times = field(default_factory=Times)
    tick: Times = field(default_factory=Times)
    full: Times = field(default_factory=Times)
    stream: Times = field(default_factory=Times)
    rows: list[int] = field(default_factory=list)

    @property
    def ticks(self) -> bool:
        """Whether Weft accepts the query and no tick of it has failed."""
        return not self.refused and "first" not in self.ended and "tick" not in self.ended


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


Parts = list[dict[str, Path]]
"""The files of each batch by table."""


def compare(
    data: SuiteData,
    names: Sequence[str],
    rounds: Rounds,
    seconds: float,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure the queries (all of the suite if ``names`` is empty), print the results, and write them to ``out``.

    ``seconds`` is the time limit of each tick, of each full query and of each batch of a stream. Raise Refused for a
    name that the suite does not have, and if the batches have all rows.
    """
    other = next((name for name in names if name not in data.queries), None)
    if other is not None:
        raise Refused(f"{other!r} is not a query of this benchmark", hint=f"Use one of {', '.join(data.queries)}.")
    if rounds.shares[0] < rounds.batch / 2:
        raise Refused(
            f"{rounds.warm + rounds.ticks} batches of {rounds.batch:g} of the rows leave no first delivery",
            hint="Use fewer ticks or a smaller --batch.",
        )
    texts = {name: text for name, text in data.queries.items() if name in names or not names}
    with (
        folder_for_tables(folder) as place,
        patch.dict(os.environ, WEFT_QUERY_SECONDS=str(seconds)),
    ):
        record = Record({name: QueryTimes(name) for name in texts}, seconds, out, progress)
        parts = _Ticks(data, texts, rounds, place, record).run()
        progress(report(list(record.times.values())))
        if rounds.full:
            streams(texts, rounds, parts, place / "streams", record)
            progress(report(list(record.times.values())))
        stop_session()
    if out is not None:
        progress(f"written to {out}")


@dataclass
class Record:
    """The times of the queries by name. Each measurement is printed, and written to ``out``, when it ends.

    ``seconds`` is the time limit of a measurement.
    """

    times: Mapping[str, QueryTimes]
    seconds: float
    out: Path | None
    progress: Callable[[str], None]

    def keep(self, query: str, what: str, kept: Times, took: Times, rows: int | None = None) -> None:
        """Add a measurement to ``kept``. ``what`` is its name on the screen."""
        kept.seconds += took.seconds
        kept.processor += took.processor
        answers = "" if rows is None else f", {rows:,} new rows"
        self._show(f"  {query}, {what}: {took.median:.2f} s of processors, {took.seconds[0]:.2f} s{answers}")

    def end(self, query: str, what: str, reason: str) -> None:
        """Record a measurement without a result."""
        self.times[query].ended[what] = reason
        self._show(f"  {query}, {_NAMES[what]}: {reason}")

    def _show(self, line: str) -> None:
        self.progress(line)
        found = [asdict(each) for each in self.times.values()]
        write_figures(self.out, json.dumps(found, indent=2) + "\n", lambda _: None)


@dataclass(frozen=True)
class _Ticks:
    """The ticks of all queries after each batch, and the full queries after some."""

    data: SuiteData
    texts: Mapping[str, str]
    rounds: Rounds
    place: Path
    record: Record

    def run(self) -> Parts:
        """Return the batches."""
        parts: Parts = []
        with Weft.open(self.place / "home", clock="replay", create=True) as weft:
            low = 0.0
            for number, high in enumerate(self.rounds.shares):
                parts.append(dict(write(self.data, low, high, self.place / f"part-{number}")))
                for table, file in parts[-1].items():
                    weft.ingest_file(file, table, ts_from="ts")
                if not number:
                    self._install(weft)
                    self.record.progress(f"loaded {sum(each.rows for each in weft.tables()):,} rows")
                low, now = high, self.data.instant(high) + 1
                for each in self.record.times.values():
                    if each.ticks:
                        self._tick(weft, each, now, number)
                if self.rounds.warm < number <= self.rounds.warm + self.rounds.full:
                    self._full_queries(weft)
        return parts

    def _install(self, weft: Weft) -> None:
        for name, text in self.texts.items():
            try:
                weft.install(name, text)
            except SqlError as refused:
                self.record.times[name].refused = refused.message

    def _tick(self, weft: Weft, times: QueryTimes, now: int, number: int) -> None:
        """Run a tick after the batch ``number``."""
        what, took = "tick" if number else "first", Times()
        outcomes = took.measure(lambda: weft.tick(times.query, now=now)).reports[-1].outcomes
        failed = [each.reason or "failed" for each in outcomes if each.failed]
        rows = sum(each.rows for each in outcomes)
        if failed:
            self.record.end(times.query, what, failed[0])
        elif not number:
            self.record.keep(times.query, _NAMES["first"], times.first, took, rows)
        elif number > self.rounds.warm:
            times.rows.append(rows)
            self.record.keep(times.query, f"tick {number - self.rounds.warm}", times.tick, took, rows)

    def _full_queries(self, weft: Weft) -> None:
        tables = {table.name: table for table in weft.tables()}
        for each in self.record.times.values():
            if "full" in each.ended:
                continue
            spark, took = weft.session(), Times()  # a new session after a query that exceeded its time limit
            reader = Reader(spark, weft.catalog.data, tables)
            for name, table in tables.items():
                columns = [column.name for column in table.schema.columns]
                reader.whole(name, columns).createOrReplaceTempView(name)
            try:
                with limited(self.record.seconds):
                    took.measure(spark.sql(self.texts[each.query]).write.format("noop").mode("overwrite").save)
            except (LimitExceeded, JvmEnded) as ended:
                self.record.end(each.query, "full", ended.message)
            else:
                self.record.keep(each.query, _NAMES["full"], each.full, took)


def streams(texts: Mapping[str, str], rounds: Rounds, parts: Parts, place: Path, record: Record) -> None:
    """Run each query as a stream over the batches. A stream can take many times as long as the ticks."""
    for name, text in texts.items():
        folder = place / name
        query = _started(text, parts[0], folder, record.times[name])
        if query is not None:
            _streamed(query, name, rounds, parts, folder, record)
        shutil.rmtree(folder)


def _started(text: str, first: Mapping[str, Path], folder: Path, times: QueryTimes) -> StreamingQuery | None:
    from weft.runtime.session import spark_session

    spark = spark_session(None).newSession()
    # The default state store holds its state in the JVM's heap.
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{_STATE}.RocksDBStateStoreProvider")
    for table, file in first.items():
        (folder / table).mkdir(parents=True)
        schema = spark.read.parquet(str(file)).schema
        spark.readStream.schema(schema).parquet(str(folder / table)).createOrReplaceTempView(table)
    for mode in _MODES:
        try:
            writer = spark.sql(text).writeStream.format("noop").outputMode(mode)
            return writer.option("checkpointLocation", str(folder / f"_state_{mode}")).start()
        except spark_errors() as error:
            times.stream_refused = str(error).splitlines()[0][:200]
    return None


def _streamed(query: StreamingQuery, name: str, rounds: Rounds, parts: Parts, folder: Path, record: Record) -> None:
    """Measure the stream for each batch."""
    try:
        for number, part in enumerate(parts):
            for table, file in part.items():
                shutil.copy(file, folder / table / f"part-{number}.parquet")
            took = Times()
            with limited(record.seconds):
                took.measure(query.processAllAvailable)
            if number > rounds.warm:
                record.keep(name, f"stream {number - rounds.warm}", record.times[name].stream, took)
    except (LimitExceeded, JvmEnded) as ended:  # the JVM has ended, and the stream with it
        record.end(name, "stream", ended.message)
    else:
        query.stop()


def report(times: Sequence[QueryTimes]) -> str:
    """Return a table with a line for each query: processor seconds, and the new rows of a tick.

    The column ``first`` has the first delivery, and ``ratio`` is the tick divided by the full query. A measurement
    without a result is named, with the reason, below the query.

    >>> def took(processor: float) -> Times:
    ...     return Times(seconds=[9.0], processor=[processor])
    >>> one = QueryTimes("q1", first=took(3.0), tick=took(0.5), full=took(2.0), stream=took(1.5), rows=[7])
    >>> two = QueryTimes("q4", full=took(2.0), ended={"first": "more than 60 s"})
    >>> print(report([one, QueryTimes("q2", "sessions"), QueryTimes("q3", tick=took(1.0), rows=[0]), two]))
    query    first    tick    full   ratio  stream  new rows
    q1        3.00    0.50    2.00    0.25    1.50         7
    q2    refused: sessions
    q3           -    1.00       -       -       -         0
    q4           -       -    2.00       -       -         -
          first delivery: more than 60 s
    """
    lines = ["query    first    tick    full   ratio  stream  new rows"]
    for each in times:
        if each.refused:
            lines.append(f"{each.query:<6}refused: {each.refused}")
            continue
        first, tick, full, stream = map(_median, (each.first, each.tick, each.full, each.stream))
        ratio = tick / full if tick is not None and full else None
        figures = "".join(f"{_shown(value):>8}" for value in (first, tick, full, ratio, stream))
        rows = f"{statistics.median(each.rows):.0f}" if each.rows else "-"
        lines.append(f"{each.query:<6}{figures}{rows:>10}")
        lines += [f"      {_NAMES[what]}: {reason}" for what, reason in each.ended.items()]
    return "\n".join(lines)


def _median(times: Times) -> float | None:
    return times.median if times.processor else None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
