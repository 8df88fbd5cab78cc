"""``weft bench synopses``: measure the events that synopses process per second, and compare with the stored history.

    weft bench synopses --events 1000000 --batch 1000 --batch 100000

In the generated log, managers approve documents. Users publish and open documents. Users also receive and lose
permissions to open documents. The log has one event per time point and five events per second. The number of users and
documents is constant. Three formulas (once, since, an aggregation) process the log in batches of each size. At three
places in the log, the answers of one batch are also computed from all events up to the end of the batch.

After the batches, the formulas are installed in one home and measured end to end: load events, tick, commit the
answers. Ticks of each size are measured near the start and near the end of the log. Between the measured ticks, ticks
of the largest size process the log. If SQL can express a formula, the query over the stored history is also measured.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.api import Weft
from weft.api.standing import Keep
from weft.bench.times import folder_for_tables, write_figures
from weft.derivation.synopsis.construct import Synopsis, synopsis
from weft.errors import ExecutionError
from weft.execution.phases import measure_phases
from weft.execution.synopsis.batch import EMPTY, StateBatch
from weft.execution.synopsis.evaluating import evaluate
from weft.formula.parse_formula import reading
from weft.formula.signature import signature

SIGNATURE: Final = (
    "approve(m:int, d:int) publish(u:int, d:int) grant(u:int, d:int) revoke(u:int, d:int) access(u:int, d:int)"
)
FORMULAS: Final = {
    "once": "publish(u, d) AND NOT ONCE[0,7d] EXISTS m. approve(m, d)",
    "since": "access(u, d) AND NOT (NOT revoke(u, d) SINCE grant(u, d))",
    "aggregation": "access(u, d) AND EXISTS c. ((c <- CNT x; u ONCE[0,1h] access(u, x)) AND 10 < c)",
}
"""The formulas of the benchmark.
The first formula finds documents published without approval in the last seven days. The second formula finds documents
opened without a grant. The third formula finds users who opened more than ten documents within an hour.
"""
_USERS: Final = 100
_DOCUMENTS: Final = 500
_A_SECOND: Final = 5
_NAMES: Final = ("approve", "publish", "grant", "revoke", "access")
TABLES: Final = [(name, ("m" if name == "approve" else "u", "d")) for name in _NAMES]
"""The table of each kind of event, with its columns."""
_SHARES: Final = (1, 1, 3, 2, 3)
"""For each predicate of ``_NAMES``, the number of events among ten events."""
_AIM: Final = 50_000
_PLACES: Final = 3


@dataclass
class FormulaRun:
    """The run of a formula in batches of one size: the seconds, answers and stored tuples of each batch."""

    formula: str
    batch: int
    seconds: list[float] = field(default_factory=list)
    answers: int = 0
    tuples: list[int] = field(default_factory=list)
    bytes: int = 0
    """The number of bytes stored at the end of the run."""

    @property
    def rate(self) -> float:
        """The number of events per second over the entire log."""
        return self.batch * len(self.seconds) / sum(self.seconds)

    @property
    def growth(self) -> float:
        """The median time of the last fifth of the batches, divided by the median time of the second fifth.

        The first fifth warms up the process.
        """
        fifth = max(len(self.seconds) // 5, 1)
        return statistics.median(self.seconds[-fifth:]) / statistics.median(
            self.seconds[fifth : 2 * fifth] or self.seconds
        )


@dataclass
class FromHistory:
    """The evaluation of a batch from all events (``events``) up to the end of the batch."""

    formula: str
    batch: int
    events: int
    seconds: float


def compare(
    events: int, batches: Sequence[int], out: Path | None, progress: Callable[[str], None], *, ticks: bool = True
) -> None:
    """Measure each formula with each batch size, print the results, and write the figures to ``out`` as JSON lines.

    With ``ticks``, also measure the ticks of homes with these formulas, and with queries over the stored history.
    Raise ExecutionError if the answers from the history differ from those of the synopses.
    """
    log = EventLog.generated(events)
    runs, from_history = [], []
    for name, text in FORMULAS.items():
        of_formula = synopsis(reading(text, signature(SIGNATURE)).formula, "set")
        for batch in batches:
            run, compared = _run_formula(name, of_formula, log, batch, largest=batch == max(batches))
            runs.append(run)
            from_history += compared
            progress(_line(run))
            for each in compared:
                progress(f"  answered from a history of {each.events:,} events: {each.seconds:.2f} s a batch")
    homes = list(_ticked(log, batches, progress)) if ticks else []
    lines = [json.dumps(each) for each in (*map(_json, runs), *map(asdict, from_history), *homes)]
    write_figures(out, "\n".join(lines) + "\n", progress)


def _ticked(log: EventLog, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[dict[str, object]]:
    answers: dict[str, int] = {}
    for ticks in measure_ticks(log.rows, TABLES, FORMULAS, sizes, "synopsis"):
        progress(ticks.summary())
        yield ticks.as_json()
        if ticks.size == max(sizes):
            answers = ticks.answers
    for name, text in HISTORY_QUERIES.items():
        for ticks in measure_ticks(log.rows, TABLES, {name: text}, [max(sizes)], "history"):
            progress(ticks.summary())
            yield ticks.as_json()
            if ticks.answers[name] != answers[name]:
                raise ExecutionError(
                    f"{name}: {answers[name]} answers from the synopsis, {ticks.answers[name]} from the stored history"
                )


def _run_formula(
    name: str, of_formula: Synopsis, log: EventLog, size: int, *, largest: bool
) -> tuple[FormulaRun, list[FromHistory]]:
    """Process the log with a formula. With ``largest``, also evaluate some batches from the history."""
    run, compared, state = FormulaRun(name, size), [], EMPTY
    number = log.events // size
    places = {(number * place) // _PLACES - 1 for place in range(1, _PLACES + 1)} if largest else set()
    for place, batch in enumerate(log.batches(size)):
        before = time.perf_counter()
        state, answers = evaluate(of_formula, state, batch)
        run.seconds.append(time.perf_counter() - before)
        run.answers += answers.num_rows
        run.tuples.append(state.tuples)
        if place in places:
            compared.append(_from_history(name, of_formula, log, (place * size, (place + 1) * size), answers))
    run.bytes = sum(table.nbytes for table in state.relations.values())
    return run, compared


def _from_history(
    name: str, of_formula: Synopsis, log: EventLog, window: tuple[int, int], expected: pa.Table
) -> FromHistory:
    """Evaluate the formula from all events before the end of ``window``, and compare the answers in ``window``."""
    first, end = window
    before = time.perf_counter()
    _, answers = evaluate(of_formula, EMPTY, log.batch(0, end))
    recent = answers.filter(pc.greater_equal(answers.column("tp"), first))
    seconds = time.perf_counter() - before
    if not recent.equals(expected):
        raise ExecutionError(f"{name}: {expected.num_rows} answers, from the history {recent.num_rows}")
    return FromHistory(name, end - first, end, seconds)


@dataclass(frozen=True)
class EventLog:
    """A generated log with one event per time point. The columns are ``tp, kind, c1, c2``."""

    rows: pa.Table

    @property
    def events(self) -> int:
        """The number of events."""
        return int(self.rows.num_rows)

    @classmethod
    def generated(cls, events: int) -> EventLog:
        """Generate a log. The same number of events gives the same log."""
        from weft.storage.local_sql import connect

        kinds = [kind for kind, share in enumerate(_SHARES) for _ in range(share)]
        drawn = "(hash(i * 8 + {place}) % {most})::BIGINT"
        columns = (
            f"{kinds}[{drawn.format(place=1, most=len(kinds))} + 1]::TINYINT AS kind, "
            f"{drawn.format(place=2, most=_USERS)} AS c1, {drawn.format(place=3, most=_DOCUMENTS)} AS c2"
        )
        with connect() as connection:
            text = f"SELECT i AS tp, {columns} FROM range({events}) AS numbers(i) ORDER BY i"
            return cls(connection.sql(text).to_arrow_table())

    def batches(self, size: int) -> Iterator[StateBatch]:
        """Return the log in batches of ``size`` events, without an incomplete last batch."""
        return (self.batch(first, first + size) for first in range(0, self.events - size + 1, size))

    def batch(self, first: int, end: int) -> StateBatch:
        """Return the events at the time points in [``first``, ``end``)."""
        rows = self.rows.slice(first, end - first)
        seconds = pc.divide(rows.column("tp"), _A_SECOND)
        points = pa.table({"tp": rows.column("tp"), "at": pc.multiply(seconds, 1_000_000)})
        kinds = rows.column("kind")
        events = {
            name: rows.filter(pc.equal(kinds, pa.scalar(number, pa.int8()))).select(["tp", "c1", "c2"])
            for number, name in enumerate(_NAMES)
        }
        return StateBatch(points, events)


def _line(run: FormulaRun) -> str:
    """Return a summary of a run in one line.

    >>> _line(FormulaRun("once", 1000, [0.1] * 5, 3, [7] * 5, 2048))[:62]
    'once, batches of 1,000: 10,000 events a second (aim 50,000); l'
    """
    return (
        f"{run.formula}, batches of {run.batch:,}: {run.rate:,.0f} events a second (aim {_AIM:,}); "
        f"last batches {run.growth:.2f} times the first; {run.answers:,} answers; "
        f"stored: {run.tuples[-1]:,} tuples, {run.bytes // 1024:,} kB"
    )


def _json(run: FormulaRun) -> dict[str, object]:
    rates = {"rate": round(run.rate), "growth": round(run.growth, 2), "batches": len(run.seconds)}
    median = {"seconds": round(statistics.median(run.seconds), 4), "tuples": run.tuples[-1]}
    return {
        "formula": run.formula,
        "batch": run.batch,
        **rates,
        **median,
        "answers": run.answers,
        "bytes": run.bytes,
    }


_BEGIN: Final = 1_600_000_000_000_000
_STEP: Final = 200_000
"""The time between two events (µs). The log has five events per second. The first event is at ``_BEGIN``."""
_ROUNDS: Final = 12
"""The number of measured ticks of each size at each end of the log."""

HISTORY_QUERIES: Final = {
    "once": (
        "SELECT p.u, p.d, p.ts AS at FROM publish p WHERE NOT EXISTS (SELECT 1 FROM approve a WHERE a.d = p.d AND "
        "a.ts <= p.ts AND a.ts >= p.ts - INTERVAL 7 DAYS)"
    ),
}
"""Queries over the stored history, for those formulas that SQL can express efficiently.

The SQL of standing queries has no aggregates. A query for SINCE needs a nested NOT EXISTS, and is very slow in Spark.
"""


@dataclass
class SynopsisTicks:
    """Ticks of one size over a log: the seconds of ticks and loads near the start and near the end of the log.

    ``kept`` says whether the queries read synopses or the stored history. ``queries`` has the names of the queries.
    ``processor`` has the processor seconds of this process in each tick.
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
        """The median duration of the ticks near the end of the log, in seconds."""
        return statistics.median(self.last)

    @property
    def growth(self) -> float:
        """The median duration of the ticks near the end of the log, divided by the median duration near the start."""
        return self.tick / statistics.median(self.first)

    def summary(self) -> str:
        """Return a summary of the ticks in one line."""
        parts = ", ".join(f"{name} {statistics.median(each):.2f}" for name, each in self.parts.items())
        return (
            f"{', '.join(self.queries)} from the {self.kept}, ticks of {self.size:,}: "
            f"{self.size / self.tick:,.0f} events a second in ticks of {self.tick:.2f} s ({parts}; "
            f"{statistics.median(self.processor):.2f} s of this process's time); last ticks {self.growth:.2f} times "
            f"the first; loads: {self.size / statistics.median(self.loads):,.0f} events a second"
            + (f"; stored: {self.rows:,} rows" if self.kept == "synopsis" else "")
        )

    def as_json(self) -> dict[str, object]:
        """Return the medians of the measurements."""
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
    """Measure ticks of each size over a log. ``rows`` has the columns ``tp, kind, c1, c2``.

    ``tables`` has the columns of each kind of event.
    """
    for size in sizes:
        with folder_for_tables(None) as place:
            yield _Home(place, rows, tables, SynopsisTicks(keep, tuple(texts), size)).run(texts, max(sizes))


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
        return instant_after(self.done)

    def _taken_in(self, weft: Weft, size: int, seconds: list[float]) -> None:
        """Load ``size`` events and run a tick. Append the duration of the tick to ``seconds``."""
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
        load_events(weft, self.rows.slice(self.done, size), self.tables, self.folder / f"{next(self.files)}.parquet")
        self.done += size


def load_events(weft: Weft, rows: pa.Table, tables: Sequence[tuple[str, tuple[str, str]]], file: Path) -> None:
    """Load events, which have the columns ``tp, kind, c1, c2``, into the tables of their kinds.

    ``tables`` is as in ``measure_ticks``. ``file`` is a temporary file.
    """
    micros = pc.add(pc.multiply(rows.column("tp"), pa.scalar(_STEP)), pa.scalar(_BEGIN))
    ts = micros.cast(pa.timestamp("us", "UTC"))
    for number, (table, (first, second)) in enumerate(tables):
        columns = {first: rows.column("c1"), second: rows.column("c2"), "ts": ts}
        own = pa.table(columns).filter(pc.equal(rows.column("kind"), pa.scalar(number, pa.int8())))
        if own.num_rows:
            pq.write_table(own, file)
            weft.ingest_file(file, table, ts_from="ts")
            file.unlink()


def instant_after(events: int) -> int:
    """Return the instant after the last of so many events (µs UTC)."""
    return _BEGIN + (events - 1) * _STEP + 1
