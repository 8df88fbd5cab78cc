"""Conditions on months and time zones, and windows of time, on Spark: answers begin at the right instants, for any
sequence of ticks.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from evaluated import DAY, micros, months_later, shown, truncated
from replayed import first_instants, load, replay_home
from weft.algebra.schema import INT, STRING, TIMESTAMP
from weft.instants import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = [("k", STRING), ("c", TIMESTAMP), ("ts", TIMESTAMP)]
START = dt.datetime(2023, 1, 1)
TIMES = {
    "month end": dt.datetime(2023, 2, 28, 12),
    "midnight": dt.datetime(2023, 2, 28),
    "long month": dt.datetime(2023, 1, 31, 12),
    "middle": dt.datetime(2023, 2, 15, 18),
    "skipped": dt.datetime(2023, 3, 26, 2, 30),
    "repeated": dt.datetime(2023, 10, 29, 2, 30),
    "changed": dt.datetime(2023, 10, 29, 2),
    "leap day": dt.datetime(2024, 2, 29, 6),
}
ZONE = "Europe/Berlin"
WANTED: dict[str, Callable[[dt.datetime, dt.datetime], bool]] = {
    "NOW() - INTERVAL 1 MONTH >= e.c": lambda now, c: months_later(now, -1) >= c,
    "NOW() - INTERVAL 1 MONTH < e.c AND NOW() > e.c + INTERVAL 20 DAYS": (
        lambda now, c: months_later(now, -1) < c and now > c + 20 * DAY
    ),
    "e.c + INTERVAL 1 MONTH <= NOW()": lambda now, c: now >= months_later(c, 1),
    "ADD_MONTHS(NOW(), -1) > e.c": lambda now, c: months_later(truncated("DAY", now), -1) > c,
    f"FROM_UTC_TIMESTAMP(NOW(), '{ZONE}') >= e.c": lambda now, c: shown(now, ZONE) >= c,
    f"FROM_UTC_TIMESTAMP(NOW(), '{ZONE}') < e.c AND NOW() > e.c - INTERVAL 90 MINUTES": (
        lambda now, c: shown(now, ZONE) < c and now > c - dt.timedelta(minutes=90)
    ),
    f"CAST(CONVERT_TIMEZONE('{ZONE}', NOW()) AS DATE) > CAST(e.c AS DATE)": (
        lambda now, c: shown(now, ZONE).date() > c.date()
    ),
    "CASE WHEN NOW() > e.c THEN 'late' ELSE e.k END IN ('late', 'middle')": lambda now, c: now > c or c.day == 15,
    "COALESCE(IF(e.k = 'midnight', NULL, e.c), NOW()) > e.c + INTERVAL 3 DAYS": (
        lambda now, c: c == TIMES["midnight"] and now > c + 3 * DAY
    ),
}  # fmt: skip
TICKS = ("2023-03-28 18:00:00", "2023-03-29", "2023-03-31 12:00:00.000001", "2023-10-29 00:45:00", "2024-07-01")


def expected(holds: Callable[[dt.datetime, dt.datetime], bool], c: dt.datetime) -> dt.datetime | None:
    """The first instant at which a condition holds: at half an hour, or a microsecond later."""
    halves = (START + n * dt.timedelta(minutes=30) for n in range(48 * 547))
    steps = (each + more for each in halves for more in (dt.timedelta(0), dt.timedelta(microseconds=1)))
    return next((now for now in steps if holds(now, c)), None)


def test_answers_begin_when_the_calendar_says(spark: SparkSession, tmp_path: Path) -> None:
    weft = replay_home(tmp_path / "home")
    load(weft, spark, "events", [(k, micros(c), micros(START)) for k, c in TIMES.items()], COLUMNS)
    for number, condition in enumerate(WANTED):
        weft.install(f"q{number}", f"SELECT e.k FROM events e WHERE {condition}")
    for now in TICKS:
        weft.tick(now=parse_instant(now))
    for number, (condition, holds) in enumerate(WANTED.items()):
        wanted = {(k,): micros(at) for k, c in TIMES.items() if (at := expected(holds, c)) is not None}
        assert first_instants(weft, f"q{number}") == wanted, condition
    weft.close()


@pytest.mark.slow
def test_counts_of_the_last_month(spark: SparkSession, tmp_path: Path) -> None:
    """Counts above a condition that turns several times: each value has the first instant that plain Python finds."""
    weft = replay_home(tmp_path / "home")
    rows = [(at.strftime("%H"), micros(at), micros(at)) for at in TIMES.values()]
    load(weft, spark, "events", rows, COLUMNS)
    recent: dict[str, Callable[[dt.datetime, dt.datetime], bool]] = {
        "e.ts > NOW() - INTERVAL 1 MONTH": lambda now, c: c > months_later(now, -1),
        f"e.ts > FROM_UTC_TIMESTAMP(NOW(), '{ZONE}') - INTERVAL 1 MONTH": lambda now, c: (
            c > months_later(shown(now, ZONE), -1)
        ),
    }
    where, filtered = recent
    weft.install("where", f"SELECT COUNT(*) AS n, MAX(e.k) AS k FROM events e WHERE {where}")
    weft.install("filter", f"SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE {filtered}) AS m FROM events e")
    for now in (TICKS[1], TICKS[2], TICKS[4]):
        weft.tick(now=parse_instant(now))
    counted, both = dict[tuple[object, ...], int](), dict[tuple[object, ...], int]()
    for now in (min(TIMES.values()) + n * dt.timedelta(minutes=30) for n in range(48 * 517)):  # time begins at a row
        arrived = [at for at in TIMES.values() if at <= now]
        found, clocked = ([at for at in arrived if holds(now, at)] for holds in recent.values())
        counted.setdefault((len(found), max((at.strftime("%H") for at in found), default=None)), micros(now))
        both.setdefault((len(arrived), len(clocked)), micros(now))
    assert first_instants(weft, "where") == counted
    assert first_instants(weft, "filter") == both
    weft.close()


def test_windows_of_time_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    weft = replay_home(tmp_path / "home")
    minutes = (0, 1, 9, 10, 12, 31, 31, 58)
    rows = [(n, micros(START) + minute * 60_000_000) for n, minute in enumerate(minutes)]
    load(weft, spark, "clicks", rows, [("n", INT), ("ts", TIMESTAMP)])
    spark.createDataFrame(
        [(n, dt.datetime.fromtimestamp(ts / 1e6, dt.timezone.utc)) for n, ts in rows], "n INT, ts TIMESTAMP"
    ).createOrReplaceTempView("given_clicks")
    for number, window in enumerate(WINDOWS):
        text = "SELECT window.start AS s, window.end AS e, COUNT(*) AS n FROM {} GROUP BY " + window
        weft.install(f"w{number}", text.format("clicks") + " HAVING window.end <= NOW()")
        weft.install(f"each{number}", f"SELECT c.n, {window}.start AS s FROM clicks c")
    for minute in (5, 11, 40, 500):
        weft.tick(now=micros(START) + minute * 60_000_000)
    for number, window in enumerate(WINDOWS):
        grouped = spark.sql(
            f"SELECT UNIX_MICROS(window.start), UNIX_MICROS(window.end), COUNT(*) FROM given_clicks GROUP BY {window}"
        )
        wanted = {tuple(row): row[1] for row in grouped.collect()}
        assert first_instants(weft, f"w{number}") == wanted, window
        each = spark.sql(f"SELECT n, UNIX_MICROS({window}.start) FROM given_clicks")
        assert first_instants(weft, f"each{number}").keys() == {tuple(row) for row in each.collect()}, window
    weft.close()


def test_aggregates_that_compare_with_now(spark: SparkSession, tmp_path: Path) -> None:
    weft = replay_home(tmp_path / "home")
    times = {"a": (0, 10, 20, 200), "b": (15, 100)}
    rows = [(k, micros(START) + minute * 60_000_000) for k, minutes in times.items() for minute in minutes]
    load(weft, spark, "clicks", rows, [("k", STRING), ("ts", TIMESTAMP)])
    recent = "c.ts > NOW() - INTERVAL 1 HOUR"
    weft.install("counts", f"SELECT c.k, COUNT_IF({recent}) AS n, COUNT(*) AS m FROM clicks c GROUP BY c.k")
    weft.install("none", f"SELECT c.k FROM clicks c GROUP BY c.k HAVING COUNT(*) FILTER (WHERE {recent}) = 0")
    for minute in (5, 12, 75, 130, 500):
        weft.tick(now=micros(START) + minute * 60_000_000)
    wanted: dict[tuple[str, int, int], int] = {}
    for k, minutes in times.items():
        for now in sorted({*minutes, *(minute + 60 for minute in minutes)}):
            counts = sum(now - 60 < minute <= now for minute in minutes), sum(minute <= now for minute in minutes)
            wanted.setdefault((k, *counts), micros(START) + now * 60_000_000)
    assert first_instants(weft, "counts") == wanted
    none = {k: min(at for (key, n, _), at in wanted.items() if key == k and n == 0) for k in times}
    assert first_instants(weft, "none") == {(k,): at for k, at in none.items()}
    weft.close()


WINDOWS = (
    "WINDOW(ts, '10 minutes')",
    "WINDOW(ts, '10 minutes', '4 minutes', '1 minute')",
    "WINDOW(ts, '1 hour', '30 minutes')",
    "WINDOW(ts, '45 minutes', '45 minutes', '-5 minutes')",
)
