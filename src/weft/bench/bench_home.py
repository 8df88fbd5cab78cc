"""Provide a home for benchmarks. The home contains a generated NetNews, holds the lease, and measures ticks.

The generated NetNews can have any size. The same seed gives the same messages. Each day has 3,800 messages, as in the
paper's table (section 6.2.1). Six of ten messages are replies, mostly to recent messages. One group in fifty is
comp.databases. The number of a message determines the time of the message. The instant "four weeks ago" therefore
advances through the table as fast as the table grows.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from weft.algebra.schema import STRING, TIMESTAMP, DataType
from weft.catalog import Catalog, Writer, open_catalog
from weft.catalog.liveness import this_process
from weft.catalog.records import Choice, QueryDefinition
from weft.execution.append_rows import append
from weft.execution.ticks.tick import run_tick
from weft.planning.form import stored_form
from weft.planning.plan import columns_of, plan
from weft.runtime.session import spark_session
from weft.schedule.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

NEW: Final = 3_800
"""The number of messages that arrive between two ticks."""
_BATCH = 200_000
_AN_HOUR = 3_600_000_000


@dataclass(kw_only=True)
class TickTimes:
    """Measurements of ticks: seconds, Spark jobs, new rows.

    ``parts`` maps each phase of a tick (``execution.phases``) to seconds. The entry ``the rest`` has all other time.
    """

    ticks: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)

    @property
    def tick(self) -> float:
        """The median duration of a tick in seconds."""
        return statistics.median(self.ticks)

    def count(self, measured: tuple[float, int, int], parts: Mapping[str, float]) -> None:
        """Add the result of ``BenchHome.tick``, and the seconds of the tick's phases."""
        seconds, jobs, rows = measured
        self.ticks.append(seconds)
        self.jobs.append(jobs)
        self.rows.append(rows)
        for name, part in {**parts, "the rest": seconds - sum(parts.values())}.items():
            self.parts.setdefault(name, []).append(part)


class BenchHome:
    """A new home with the table of messages, or an existing home with ``count`` messages."""

    def __init__(self, home: Path, count: int = 0) -> None:
        if not count:
            shutil.rmtree(home, ignore_errors=True)
        self.folder = home.parent
        self.catalog: Catalog = open_catalog(home, create=not count, clock="replay", at=now_us())
        self.spark: SparkSession = spark_session(home)
        self.writer: Writer = self.catalog.writer("bench", this_process(), now_us(), 24 * _AN_HOUR)
        if not count:
            self.catalog.tables.create("msgs", list(COLUMNS), None, "date")
        self.count = count

    def load(self, count: int) -> None:
        """Append ``count`` messages as a load does."""
        table = self.catalog.tables.named("msgs")
        load = self.catalog.loads.begin(table.table_id, "generated", "bench", None, now_us())
        end = self.count + count
        while self.count < end:
            size = min(_BATCH, end - self.count)
            batch = messages(self.count, size)
            append(self.writer, table, load, batch, now_us(), None)
            self.count += size

    def install(self, texts: Mapping[str, str], since: int | None = None) -> None:
        """Install the queries. ``texts`` maps names to SQL texts.

        If ``since`` is given, the first window of the queries begins at this instant, in microseconds UTC.
        """
        schemas = {table.name: table.schema for table in self.catalog.tables.all()}
        definitions = []
        for name, text in texts.items():
            shape = plan(text, schemas)
            form = stored_form(shape)
            definitions.append(
                QueryDefinition(
                    name=name,
                    user="bench",
                    sql=text,
                    signature=form.signature,
                    plan_body=form.body,
                    parameters=form.parameters,
                    names=form.names,
                    columns=columns_of(shape.query),
                    from_instant=since,
                )
            )
        self.writer.queries.install_all(definitions, now_us())

    def tick(self, names: Iterable[str] | None = None) -> tuple[float, int, int]:
        """Run a tick of the named queries (default: all) at the last message.

        Return (seconds, Spark jobs, new rows).
        """
        ids = None if names is None else tuple(self.catalog.queries.named(name).query_id for name in names)

        def run() -> int:
            reports = run_tick(
                self.writer,
                lambda: self.spark,
                choice=Choice(ids),
                t=arrival(self.count),
                at=now_us(),
            )
            return reports[-1].rows

        return self.timed(run)

    def timed(self, work: Callable[[], T]) -> tuple[float, int, T]:
        """Call ``work``, and return the seconds, the number of Spark jobs, and the result of ``work``."""
        context = self.spark.sparkContext
        group = f"bench-{time.monotonic_ns()}"
        context.setJobGroup(group, group)
        before = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - before
        return seconds, len(context.statusTracker().getJobIdsForGroup(group)), result

    def close(self) -> None:
        """Release the lease and close the catalog."""
        self.writer.release()
        self.catalog.close()


PER_DAY: Final = 3_800
DAY: Final = 86_400_000_000
BEGIN: Final = 733_968_000_000_000  # 1993-04-05 00:00 UTC
COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("msgid", STRING),
    ("sender", STRING),
    ("subject", STRING),
    ("date", TIMESTAMP),
    ("newsgroup", STRING),
    ("inreplyto", STRING),
    ("body", STRING),
)
GROUPS: Final = (
    "comp.databases",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.sys.sun.admin",
    *(f"misc.group{number:02d}" for number in range(46)),
)


QUERIES: Final = {
    "Q1": "SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'",
    "Q2": "SELECT msgid FROM msgs WHERE newsgroup LIKE 'comp.sys.%'",
    "Q3": ("SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'"),
    "Q4": (
        "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
        "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)"
    ),
    "Q5": (
        "SELECT m.msgid FROM msgs m, msgs m1, msgs m2 "
        "WHERE m.inreplyto IS NULL AND m1.inreplyto = m.msgid AND m2.inreplyto = m1.msgid"
    ),
}
"""The paper's test queries (figure 4). The column ``inreplyto`` is NULL for a message that is not a reply."""


def arrival(number: int) -> int:
    """Return the ts of the message with this number in microseconds UTC."""
    return BEGIN + number * DAY // PER_DAY


def messages(first: int, count: int, seed: int = 1992) -> pa.Table:
    """Return ``count`` messages, starting at number ``first``, with the table's columns, _own_time and _seq."""
    random = Random(seed * 1_000_003 + first)
    numbers = range(first, first + count)
    parents = [_parent(number, random) for number in numbers]
    instants = [arrival(number) for number in numbers]
    text = [" ".join(random.choices(_WORDS, k=8)) for _ in numbers]
    return pa.table(
        {
            "msgid": pa.array([_id(number) for number in numbers]),
            "sender": pa.array([f"user{random.randrange(5_000)}" for _ in numbers]),
            "subject": pa.array([body[:24] for body in text]),
            "date": pa.array(instants, pa.timestamp("us", "UTC")),
            "newsgroup": pa.array(random.choices(GROUPS, k=count)),
            "inreplyto": pa.array([None if parent is None else _id(parent) for parent in parents], pa.string()),
            "body": pa.array(text),
            "_own_time": pa.array(instants, pa.int64()),
            "_seq": pa.array(range(count), pa.int64()),
        }
    )


_WORDS: Final = [f"word{number}" for number in range(997)]


def _parent(number: int, random: Random) -> int | None:
    """Return the number of the message to which this message replies, or None. Most messages reply to a recent
    message.
    """
    back = 1 + int(random.expovariate(1 / 2_000))
    return number - back if random.random() < 0.6 and back <= number else None


def _id(number: int) -> str:
    # The multiplication spreads the IDs like real IDs. Sorted IDs would compress and prune better.
    return f"{number * 0x9E3779B97F4A7C15 % 2**64}.{number}@news.example"
