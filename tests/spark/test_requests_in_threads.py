"""Requests that run at the same time over one Spark session do not disturb each other.

A computation sees the settings that it chose, the answers are those of one thread alone, and a cancelled one ends
without the others.  The queries' answers are computed in Python.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from weft.api.weft import Weft
from weft.execution import answers, duckdb_answers
from weft.interruption import CancelToken, Stopped, cancellable_by
from weft.runtime import settings

DAY = dt.timedelta(days=1)
START = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
THREADS, ROUNDS = 6, 2
Row = tuple[int, str, int]
"""The ID, the customer and the total of an order, which arrives at noon of the day ``id % 20``."""
ROWS: list[Row] = [(n, f"customer {n % 7}", n * 3 % 50) for n in range(400)]


def _alive(row: Row, day: int) -> bool:
    return row[0] % 20 < day


QUERIES: Mapping[str, Callable[[list[Row]], list[tuple[Any, ...]]]] = {
    "SELECT o.id FROM orders o WHERE o.total > 40": lambda rows: [(id_,) for id_, _, total in rows if total > 40],
    "SELECT o.customer, COUNT(*) AS n FROM orders o GROUP BY o.customer": lambda rows: [
        (name, len(own)) for name in {each[1] for each in rows} if (own := [each for each in rows if each[1] == name])
    ],
    "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.total = b.total AND a.id < b.id": lambda rows: [
        (a[0], b[0]) for a in rows for b in rows if a[2] == b[2] and a[0] < b[0]
    ],
    "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT * FROM orders p WHERE p.id = o.id + 1)": lambda rows: [
        (each[0],) for each in rows if each[0] + 1 not in {one[0] for one in rows}
    ],
}


class Watched:
    """The settings that each thread must see: those of the session, and those of the blocks that the thread is in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wrong: list[str] = []
        self.checks = 0
        self._own = threading.local()
        self._session: dict[str, str] = {}
        original = settings._settings

        @contextmanager
        def watched(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
            with original(spark, wanted):
                blocks = self._blocks()
                blocks.append(wanted)
                try:
                    self.check(spark)
                    yield
                    self.check(spark)
                finally:
                    blocks.pop()

        def text(*given: Any) -> str:
            self.check(self._spark)
            return originally(*given)

        originally = answers.ledger_select
        monkeypatch.setattr(settings, "_settings", watched)
        monkeypatch.setattr(answers, "ledger_select", text)

    def _blocks(self) -> list[Mapping[str, str]]:
        if not hasattr(self._own, "blocks"):
            self._own.blocks = []
        blocks: list[Mapping[str, str]] = self._own.blocks
        return blocks

    def begin(self, spark: SparkSession) -> None:
        self._spark = spark
        names = {*settings._SMALL, *settings._ROWS_ONLY, *settings._GIVEN, *settings._SCAN}
        self._session = {name: str(spark.conf.get(name)) for name in sorted(names)}

    def check(self, spark: SparkSession) -> None:
        expected = dict(self._session)
        for block in self._blocks():
            expected |= block
        found = {name: str(spark.conf.get(name)) for name in self._session}
        self.checks += 1
        self.wrong += [
            f"{name} is {found[name]}, not {value}" for name, value in expected.items() if found[name] != value
        ]


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", create=True, clock="replay") as made:
        made.make_table("orders", "id INT, customer STRING, total INT")
        rows = [
            {"id": n, "customer": name, "total": total, "ts": START + (n % 20) * DAY + DAY / 2}
            for n, name, total in ROWS
        ]
        made.append("orders", rows, ts_from="ts")
        made.make_table("ticked", "id INT")
        made.install(
            "counted", "SELECT t.id FROM ticked t WHERE NOT EXISTS (SELECT * FROM ticked u WHERE u.id = -t.id)"
        )
        yield made


def _ask(home: Weft, seed: int, wrong: list[str]) -> None:
    chosen = random.Random(seed)
    for _ in range(ROUNDS):
        (text, oracle), day = chosen.choice(list(QUERIES.items())), chosen.randrange(3, 20)
        found = home.try_query(text, now=START + day * DAY, limit=None)
        expected = sorted(oracle([each for each in ROWS if _alive(each, day)]))
        if sorted(tuple(row.values()) for row in found.to_dicts()) != expected:
            wrong.append(f"{text} at day {day}")


def _tick(home: Weft, wrong: list[str]) -> None:
    for number in range(1, 5):
        now = START + (30 + number) * DAY
        home.append("ticked", [{"id": number, "ts": now - DAY / 2}], ts_from="ts")
        if home.tick(now=now).reports[-1].outcomes[0].rows != 1:
            wrong.append(f"tick {number}")


def _cancel(home: Weft, ended: list[str]) -> None:
    """Begin computations, and cancel each soon."""
    for number in range(4):
        token = CancelToken()
        timer = threading.Timer(0.1 * number, token.cancel)
        timer.start()
        try:
            with cancellable_by(token):
                home.try_query(list(QUERIES)[2], now=START + 19 * DAY)
            ended.append("done")
        except Stopped:
            ended.append("stopped")
        timer.cancel()


def _run(home: Weft, threads: int) -> tuple[list[str], list[str]]:
    """Run all at once.  Return what was wrong, and how the cancelled ones ended."""
    wrong: list[str] = []
    ended: list[str] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the main thread reports it
            wrong.append(repr(error))

    works: list[Callable[[], None]] = [lambda seed=seed: _ask(home, seed, wrong) for seed in range(threads)]  # type: ignore[misc]
    works += [lambda: _tick(home, wrong), lambda: _cancel(home, ended)]
    running = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return wrong, ended


@pytest.mark.spark
def test_threads_do_not_share_what_one_changes(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_answers, "is_same", lambda *_: False)  # Spark computes the answers
    watched = Watched(monkeypatch)
    watched.begin(home.session())
    wrong, ended = _run(home, THREADS)
    watched.check(home.session())
    assert (wrong, watched.wrong[:3], len(ended)) == ([], [], 4)
    assert watched.checks > THREADS * ROUNDS


@pytest.mark.spark
def test_the_watch_sees_a_setting_of_another_thread(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the turn, a thread sees the settings of a block in which another thread is."""
    watched = Watched(monkeypatch)
    watched.begin(home.session())
    monkeypatch.setattr(settings, "turn", nullcontext)
    inside, over = threading.Event(), threading.Event()

    def other() -> None:
        with settings.small(home.session()):
            inside.set()
            over.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(20)
    watched.check(home.session())
    over.set()
    thread.join()
    assert watched.wrong
