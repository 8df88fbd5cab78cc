"""``try``, ``backtest``, ``why`` and the preview of a replacement start no Spark for a query that DuckDB computes.

A fixture fails each test without the mark ``spark`` that starts Spark.  Python computes the expected rows.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from weft.algebra.sort_key import Key, compared
from weft.api import Weft
from weft.demo.rehearsal import BY_SPARK
from weft.errors import ExecutionError, LimitExceeded
from weft.execution import ad_hoc, driver_reader, duckdb_answers, new_answers
from weft.execution.groups import instant
from weft.execution.states import _by_duckdb_alone
from weft.execution.why import MOST_MEMBERS
from weft.interruption import CancelToken, Stopped, cancellable_by
from weft.planning.plan import at_instant, plan
from weft.storage.time_limit import require_time, time_limit

START = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
DAY = dt.timedelta(days=1)
COLUMNS = {"i": "INT", "d": "DOUBLE", "t": "STRING", "m": "DECIMAL(9,2)", "y": "DATE", "b": "BOOLEAN"}
ENGINES = ["memory", "files", pytest.param("Spark", marks=pytest.mark.spark)]
"""DuckDB with rows in memory, DuckDB with a table of answers, as for a large window, and Spark."""
SLOW = "SELECT COUNT(*) AS n FROM facts a, facts b, facts c, facts d, facts e WHERE a.i + b.i + c.i + d.i + e.i < 0"


def _drawn(chosen: random.Random, number: int) -> dict[str, Any]:
    values: dict[str, tuple[Any, ...]] = {
        "i": (None, -3, 0, 7, 10),
        "d": (None, -1.5, 0.0, 2.5, float("inf"), float("-inf"), float("nan")),
        "t": (None, "", "a", "B", "é", "10", "9"),
        "m": (None, *map(Decimal, ("-1.50", "0.00", "10.25", "9.00"))),
        "y": (None, dt.date(1969, 12, 31), dt.date(2026, 3, 1), dt.date(9999, 1, 1)),
        "b": (None, False, True),
    }
    return {**{name: chosen.choice(some) for name, some in values.items()}, "ts": START + number % 9 * DAY}


ROWS = [_drawn(random.Random(number), number) for number in range(60)]


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        home.make_table("facts", ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        home.append("facts", ROWS, ts_from="ts")
        yield home


def _by(engine: str, patch: pytest.MonkeyPatch) -> None:
    if engine == "files":
        patch.setattr(new_answers, "_collected", lambda *_, **__: None)
    if engine == "Spark":
        patch.setattr(duckdb_answers, "is_same", lambda *_: False)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_sorted_by_the_keys_and_then_by_all_columns(
    weft: Weft, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = random.Random(3)
    names, everything = list(COLUMNS), [Key(column) for column in range(len(COLUMNS))]
    expected = sorted(repr(row) for row in weft.try_query("SELECT i, d, t, m, y, b FROM facts", limit=None).rows)
    _by(engine, monkeypatch)
    orders = set()
    for _ in range(12):
        keys = [
            Key(column, chosen.random() < 0.5, chosen.random() < 0.5)
            for column in chosen.sample(range(len(COLUMNS)), chosen.randrange(4))
        ]
        parts = [
            f"{names[key.column]} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for key in keys
        ]
        text = f"SELECT i, d, t, m, y, b FROM facts{' ORDER BY ' + ', '.join(parts) if parts else ''}"
        rows = weft.try_query(text, limit=None).rows
        assert sorted(map(repr, rows)) == expected
        assert all(compared([*keys, *everything], *pair) <= 0 for pair in itertools.pairwise(rows)), text
        assert repr(weft.try_query(text, limit=7).rows) == repr(rows[:7])
        orders.add(repr(rows))
    assert len(orders) > 8


@pytest.mark.parametrize("engine", ENGINES)
def test_a_backtest_counts_each_interval(weft: Weft, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _by(engine, monkeypatch)
    found = weft.backtest("SELECT t, COUNT(*) AS n FROM facts GROUP BY t", until=START + 9 * DAY, limit=None)
    expected, counts = set[tuple[Any, ...]](), dict[Any, int]()
    for day in range(9):
        for row in ROWS[day::9]:
            counts[row["t"]] = counts.get(row["t"], 0) + 1
        expected |= set(counts.items())
    assert {values for _, values in found.answers} == expected
    assert found.count == len(expected) == sum(found.counts) > 20
    assert [at for at, _ in found.answers] == sorted(at for at, _ in found.answers)
    width = -(-(found.until - found.begin) // 60)
    assert all(found.counts[(at - found.begin) // width] for at, _ in found.answers)
    shown = weft.backtest("SELECT t, COUNT(*) AS n FROM facts GROUP BY t", until=START + 9 * DAY, limit=5)
    assert shown.answers == found.answers[:5]


def test_why_and_the_preview_of_a_replacement_start_no_spark(weft: Weft) -> None:
    weft.install("late", "SELECT t FROM facts WHERE i = 7 AND ts < NOW() - INTERVAL 2 DAYS")
    weft.tick(now=START + 5 * DAY)
    rows = len(list(weft.results("late")))
    why = weft.why("late", 1)
    assert rows and [each.values[0] for each in why.combinations[0].witnesses] == [7]
    new = weft.replacement("late", "SELECT t FROM facts WHERE i >= 7 AND ts < NOW() - INTERVAL 2 DAYS")
    assert (new.known, new.only_old) == (rows, 0)


def test_a_cancelled_query_of_duckdb_ends_at_once(weft: Weft) -> None:
    token = CancelToken()
    timer = threading.Timer(0.5, token.cancel)
    timer.start()
    begin = time.monotonic()
    with cancellable_by(token), pytest.raises(Stopped):
        weft.try_query(SLOW)
    assert time.monotonic() - begin < 20


def test_a_query_of_duckdb_has_the_limits_of_a_tick(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECONDS", "1")
    with pytest.raises(LimitExceeded, match=r"longer than 1 s"):
        weft.try_query(SLOW)
    monkeypatch.setenv("WEFT_QUERY_ROWS", "5")
    with pytest.raises(LimitExceeded, match="the limit is 5"):
        weft.try_query("SELECT t, i FROM facts")


def test_exhausted_memory_is_not_a_defect(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ad_hoc, "new_answers", exhausted)
    with pytest.raises(ExecutionError, match="more memory than this process has"):
        weft.try_query("SELECT t FROM facts")


def test_spark_has_the_rest_of_the_time_limit() -> None:
    with pytest.raises(LimitExceeded, match="longer than 100 s"), time_limit(100, spent=99.8):
        time.sleep(0.5)
        require_time()


def test_the_rehearsal_of_a_server_has_queries_for_spark(tmp_path: Path) -> None:
    """They load and compile the code of Spark, so each query needs it."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        texts = ("msgid", "newsgroup", "sender", "subject", "inreplyto")
        home.make_table("msgs", f"{', '.join(f'{name} STRING' for name in texts)}, date TIMESTAMP")
        for text in BY_SPARK:
            branches = at_instant(plan(text, home.opened.schemas(text)).query, instant(0))
            assert branches and not _by_duckdb_alone(branches), text


def test_why_over_a_large_table_shows_some_members(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    weft.install("counted", "SELECT COUNT(*) AS n FROM facts")
    weft.tick(now=START + 9 * DAY)
    (whole,) = weft.why("counted", 9).combinations[0].witnesses
    monkeypatch.setattr(driver_reader, "BOUNDS", replace(driver_reader.BOUNDS, whole=10))
    (some,) = weft.why("counted", 9).combinations[0].witnesses
    assert (whole.count, some.count) == (60, MOST_MEMBERS + 1)
    assert len(some.members) == MOST_MEMBERS
