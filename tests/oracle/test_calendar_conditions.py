"""Conditions on months, time zones and cases of NOW: any partition into ticks delivers each row at its first instant.

The reference evaluates the condition in plain Python at every instant at which it can change: the half hours of the
days around the times of the rows, and the microsecond after each.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import pytest

from evaluated import instant_of, months_later, shown, truncated
from oracle.derived import Standing, earliest, rows_of, run, schemas
from oracle.engines import EPOCH, DuckDb, Row
from oracle.histories import History
from oracle.shards import shards
from weft.sql.dialects.duckdb_dialect import MACROS

Holds: TypeAlias = Callable[[dt.datetime, dt.datetime], bool]
HOUR = dt.timedelta(hours=1)
MICRO = dt.timedelta(microseconds=1)
BERLIN = "Europe/Berlin"
CONDITIONS: dict[str, Holds] = {
    "NOW() - INTERVAL 1 MONTH >= {d}": lambda now, d: months_later(now, -1) >= d,
    "NOW() - INTERVAL 1 MONTH < {d}": lambda now, d: months_later(now, -1) < d,
    "NOW() + INTERVAL 2 MONTHS = {d}": lambda now, d: months_later(now, 2) == d,
    "NOT (NOW() - INTERVAL 1 YEAR < {d})": lambda now, d: months_later(now, -12) >= d,
    "{d} + INTERVAL 1 MONTH <= NOW()": lambda now, d: months_later(d, 1) <= now,
    "ADD_MONTHS(NOW(), -1) >= {d}": lambda now, d: months_later(truncated("DAY", now), -1) >= d,
    "TIMESTAMPDIFF(MONTH, {d}, NOW()) >= 1": lambda now, d: now >= _a_month_counted(d),
    "YEAR(NOW()) = YEAR({d})": lambda now, d: now.year == d.year,
    f"FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}') >= {{d}}": lambda now, d: shown(now, BERLIN) >= d,
    f"FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}') < {{d}}": lambda now, d: shown(now, BERLIN) < d,
    f"CAST(CONVERT_TIMEZONE('{BERLIN}', NOW()) AS DATE) = CAST({{d}} AS DATE)": (
        lambda now, d: shown(now, BERLIN).date() == d.date()
    ),
    "CASE WHEN NOW() > {d} THEN 'late' ELSE 'open' END = 'open'": lambda now, d: now <= d,
    "LEAST({d}, NOW()) > TIMESTAMP '2001-02-28 12:00:00'": (
        lambda now, d: min(now, d) > dt.datetime(2001, 2, 28, 12)
    ),
}  # fmt: skip
TEXTS: tuple[tuple[str, Callable[[list[bool]], bool]], ...] = (
    ("SELECT m.k FROM m WHERE {own}", lambda others: True),
    (
        "SELECT m.k FROM m WHERE {own} AND NOT EXISTS (SELECT 1 FROM r WHERE r.k = m.k AND {other})",
        lambda others: not any(others),
    ),
    ("SELECT m.k FROM m WHERE {own} AND EXISTS (SELECT 1 FROM r WHERE r.k = m.k AND {other})", any),
)
DAYS = (dt.datetime(2001, 1, 28), dt.datetime(2001, 2, 26), dt.datetime(2001, 3, 24), dt.datetime(2001, 10, 26))


def _a_month_counted(d: dt.datetime) -> dt.datetime:
    last = months_later(d, 1)
    return last if last.day == d.day else dt.datetime.combine(last.date() + dt.timedelta(days=1), d.time())


def a_time(chance: random.Random) -> dt.datetime:
    """A half hour near the end of a month or a change of the clock."""
    return chance.choice(DAYS) + chance.randrange(48 * 6) * HOUR / 2


def instants(times: Sequence[dt.datetime]) -> list[dt.datetime]:
    """The half hours of days on which a condition can change, each with the microsecond after it."""
    days = {truncated("DAY", months_later(time, months)) for time in times for months in (-2, 0, 1, 2, 12)}
    around = {day + n * dt.timedelta(days=1) for day in days for n in range(-1, 5)}
    around |= {dt.datetime(year, 1, 1) for year in (2001, 2002)}
    halves = {day + n * HOUR / 2 for day in around for n in range(48)}
    return sorted({EPOCH, *(half + more for half in halves for more in (0 * MICRO, MICRO) if half > EPOCH)})


def engine() -> DuckDb:
    """DuckDB with Spark's functions of times."""
    found = DuckDb()
    for name in ("UNIX_MICROS(x)", "TIMESTAMP_MICROS(x)"):
        found.connection.execute(f"CREATE MACRO {name} AS {MACROS[name]}")
    for name, function in (("FROM_UTC_TIMESTAMP", shown), ("TO_UTC_TIMESTAMP", instant_of)):
        found.connection.create_function(name, function, ["TIMESTAMP", "VARCHAR"], "TIMESTAMP")
    return found


def micros(time: dt.datetime) -> int:
    return (time - EPOCH) // MICRO


Kept: TypeAlias = tuple[int, dt.datetime, dt.datetime]
"""The columns k, d and ts of a row."""


@dataclass(frozen=True)
class Trial:
    """A query with one or two conditions over random rows of m and r."""

    own: str
    other: str
    text: str
    demanded: Callable[[list[bool]], bool]
    rows: dict[str, list[Kept]]

    @classmethod
    def drawn(cls, chance: random.Random) -> Trial:
        own, other = chance.choice(list(CONDITIONS)), chance.choice(list(CONDITIONS))
        text, demanded = chance.choice(TEXTS)
        rows = {name: [(k, a_time(chance), a_time(chance)) for k in range(1, 3)] for name in ("m", "r")}
        return cls(own, other, text.format(own=own.format(d="m.d"), other=other.format(d="r.d")), demanded, rows)

    @property
    def history(self) -> History:
        found: dict[str, tuple[Row, ...]] = {
            name: tuple((k, 0, "a", micros(d), True, micros(ts), None) for k, d, ts in rows)
            for name, rows in self.rows.items()
        }
        return History({**found, "u": ()}, ())

    @cached_property
    def times(self) -> list[dt.datetime]:
        """The instants at which an answer can change."""
        return instants([time for rows in self.rows.values() for row in rows for time in row[1:]])

    def holds(self, now: dt.datetime, row: Kept) -> bool:
        k, d, ts = row
        if ts > now or not CONDITIONS[self.own](now, d):
            return False
        return self.demanded(
            [CONDITIONS[self.other](now, e) for j, e, since in self.rows["r"] if j == k and since <= now]
        )

    def wanted(self) -> dict[Row, int]:
        """The first instant of each answer."""
        first = {row[0]: next((now for now in self.times if self.holds(now, row)), None) for row in self.rows["m"]}
        return {(k,): micros(now) for k, now in first.items() if now is not None}


@pytest.mark.parametrize("shard", shards(40, 2))
def test_any_partition_into_ticks(shard: int) -> None:
    chance = random.Random(f"calendar {shard}")
    duck = engine()
    for _ in range(6):
        trial = Trial.drawn(chance)
        duck.load(trial.history.rows)
        standing, delivered = Standing.of(trial.text, schemas(trial.history)), dict[Row, int]()
        cuts = sorted(micros(cut) for cut in chance.sample(trial.times[1:], 3))
        for tau, t in pairwise([0, *cuts, micros(dt.datetime(2005, 1, 1))]):
            group = standing.group([standing.member(1, tau or None)], t)
            for row, s in earliest(run(duck, rows_of(group, None))).items():
                delivered.setdefault(row, s)
        assert _readable(delivered) == _readable(trial.wanted()), (trial, cuts)


def _readable(found: dict[Row, int]) -> dict[Row, str]:
    return {row: str(EPOCH + at * MICRO) for row, at in found.items()}
