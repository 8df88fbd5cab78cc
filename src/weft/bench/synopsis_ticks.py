"""Measure synopses as standing queries end to end: load events into a home, tick, and commit the answers.

Three formulas are installed in one home.  Ticks of each size are measured near the start of the log and near its end;
in between, the log is processed in the largest ticks.  Queries over the stored history are measured as well, if SQL can
express the formula.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.api import Weft
from weft.api.standing import Keep
from weft.execution.phases import measure_phases

_BEGIN: Final = 1_600_000_000_000_000
_STEP: Final = 200_000
"""The first event's time and the distance of events (µs UTC): five a second, no two at one instant."""
_ROUNDS: Final = 12
"""Ticks of one size at each end of the log."""

HISTORY_QUERIES: Final = {
    "once": (
        "SELECT p.u, p.d, p.ts AS at FROM publish p WHERE NOT EXISTS (SELECT 1 FROM approve a WHERE a.d = p.d AND "
        "a.ts <= p.ts AND a.ts >= p.ts - INTERVAL 7 DAYS)"
    ),
}
"""The formulas as queries over the stored history, as far as SQL can express them efficiently.

SQL has no count over a window at each row, and SINCE needs a nested NOT EXISTS, which is very slow in Spark.
"""


@dataclass
class SynopsisTicks:
    """Ticks of one size over a log: seconds of each near its start and near its end, and of their loads.

    ``kept`` says what the queries are answered from, ``queries`` are their names, and ``processor`` has the seconds of
    this process in each tick.
    """

    kept: Keep
    queries: tuple[str, ...]
    size: int
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    rows: int = 0

    @property
    def tick(self) -> float:
        """The median near the log's end, in seconds."""
        return statistics.median(self.last)

    @property
    def growth(self) -> float:
        """The median near the log's end divided by that near its start."""
        return self.tick / statistics.median(self.first)

    def summary(self) -> str:
        """Summarize the ticks in one line."""
        parts = ", ".join(f"{name} {statistics.median(each):.2f}" for name, each in self.parts.items())
        return (
            f"{', '.join(self.queries)} from the {self.kept}, ticks of {self.size:,}: "
            f"{self.size / self.tick:,.0f} events a second in ticks of {self.tick:.2f} s ({parts}; "
            f"{statistics.median(self.processor):.2f} s of this process's time); last ticks {self.growth:.2f} times "
            f"the first; loads: {self.size / statistics.median(self.loads):,.0f} events a second"
            + (f"; stored: {self.rows:,} rows" if self.kept == "synopsis" else "")
        )

    def as_json(self) -> dict[str, object]:
        """Return the medians."""
        return {
            "kept": self.kept,
            "queries": list(self.queries),
            "ticks_of": self.size,
            "rate": round(self.size / self.tick),
            "tick": round(self.tick, 4),
            "growth": round(self.growth, 2),
            "processor": round(statistics.median(self.processor), 4),
            "load_rate": round(self.size / statistics.median(self.loads)),
            "parts": {name: round(statistics.median(each), 4) for name, each in self.parts.items()},
            "answers": self.answers,
            "rows": self.rows,
        }


def measure_ticks(
    rows: pa.Table,
    tables: Sequence[tuple[str, tuple[str, str]]],
    texts: Mapping[str, str],
    sizes: Sequence[int],
    keep: Keep,
) -> Iterator[SynopsisTicks]:
    """Measure ticks of each size over the log ``rows`` (tp, kind, c1, c2); ``tables`` are its kinds with their
    columns.
    """
    for size in sizes:
        with TemporaryDirectory(prefix="weft-bench-") as folder:
            yield _Home(Path(folder), rows, tables, SynopsisTicks(keep, tuple(texts), size)).run(texts, max(sizes))


@dataclass
class _Home:
    folder: Path
    rows: pa.Table
    tables: Sequence[tuple[str, tuple[str, str]]]
    ticks: SynopsisTicks
    done: int = 0
    files: Iterator[int] = field(default_factory=count)

    def run(self, texts: Mapping[str, str], largest: int) -> SynopsisTicks:
        size, keep = self.ticks.size, self.ticks.kept
        rounds = min(_ROUNDS, max(1, (self.rows.num_rows - largest) // (2 * size)))
        with Weft.open(self.folder / "home", clock="replay", create=True) as weft:
            self._load(weft, min(largest, 1_000))
            for name, text in texts.items():
                weft.install(name, text, keep=keep, language="monpoly" if keep == "synopsis" else "sql")
            weft.tick(now=self._now)
            self._taken_in(weft, largest, [])  # creates the arrangements and tables that later ticks use
            for _ in range(rounds):
                self._taken_in(weft, size, self.ticks.first)
            while self.rows.num_rows - self.done >= rounds * size + largest:
                self._taken_in(weft, largest, [])
            for _ in range(rounds):
                self._taken_in(weft, size, self.ticks.last)
            self.ticks.answers = {query.name: query.rows for query in weft.queries()}
            if keep == "synopsis":
                self.ticks.rows = sum(rows for name in texts for _, rows in weft.show(name).stored)
        return self.ticks

    @property
    def _now(self) -> int:
        """Return the instant after the last loaded event (µs UTC)."""
        return _BEGIN + (self.done - 1) * _STEP + 1

    def _taken_in(self, weft: Weft, size: int, seconds: list[float]) -> None:
        """Load some events and tick; append the tick's seconds."""
        began = time.perf_counter()
        self._load(weft, size)
        loaded = time.perf_counter() - began
        began, used = time.perf_counter(), time.process_time()
        with measure_phases() as parts:
            weft.tick(now=self._now)
        seconds.append(time.perf_counter() - began)
        if seconds is self.ticks.last:
            self.ticks.loads.append(loaded)
            self.ticks.processor.append(time.process_time() - used)
            for name, part in {**parts, "the rest": seconds[-1] - sum(parts.values())}.items():
                self.ticks.parts.setdefault(name, []).append(part)

    def _load(self, weft: Weft, size: int) -> None:
        """Load the next events, one Parquet file per table."""
        rows = self.rows.slice(self.done, size)
        micros = pc.add(pc.multiply(rows.column("tp"), pa.scalar(_STEP)), pa.scalar(_BEGIN))
        ts = micros.cast(pa.timestamp("us", "UTC"))
        for number, (table, (first, second)) in enumerate(self.tables):
            columns = {
                first: rows.column("c1"),
                second: rows.column("c2"),
                "ts": ts,
            }
            own = pa.table(columns).filter(pc.equal(rows.column("kind"), pa.scalar(number, pa.int8())))
            if own.num_rows:
                file = self.folder / f"{next(self.files)}.parquet"
                pq.write_table(own, file)
                weft.ingest_file(file, table, ts_from="ts")
                file.unlink()
        self.done += size
