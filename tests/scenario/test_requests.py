"""How many requests a warm process makes to the object store, counted in front of the S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from s3_server import environment, lossy, new_bucket
from weft.api import Weft
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, weeks, write_week
from weft.store import S3Access

TABLES = 12
QUIET, FIVE_QUERIES = 3, 40
"""The most requests of a tick without news, and of a tick of five queries with news."""


class Counted:
    """The requests since the last look."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, method: str, path: str) -> None:
        self.seen.append(f"{method} {path}")

    def since(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def home(
    spark: SparkSession, counted: Counted, s3_access: S3Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Weft]:
    """A home with a replay clock, whose requests are counted."""
    bucket = new_bucket(s3_access)
    with lossy(bucket, counted) as behind:
        for name, value in environment(behind.access).items():
            monkeypatch.setenv(name, value)
        with Weft.open(tmp_path / "home", create=True, clock="replay", store=f"{bucket}/home") as made:
            yield made


@pytest.mark.timeout(600)
def test_a_quiet_tick_over_many_tables_asks_for_almost_nothing(home: Weft, counted: Counted) -> None:
    for number in range(TABLES):
        home.make_table(f"t{number}", {"id": "BIGINT", "amount": "BIGINT"})
        rows = [{"id": id, "amount": 25 * id, "ts": datetime(2026, 3, 1)} for id in (1, 2)]
        home.append(f"t{number}", rows, ts_from="ts")
        sql = f"SELECT t.id FROM t{number} t WHERE t.amount > 30"
        home.install(f"q{number}", sql, keep="synopsis", user="anna")
    counted.since()
    first = home.tick(now="2026-03-02")
    assert sum(each.rows for each in first.reports[-1].outcomes) == TABLES
    assert len(counted.since()) > TABLES
    home.tick(now="2026-03-03")  # checks the table of states, which the first tick has made
    counted.since()
    quiet = home.tick(now="2026-03-04")
    assert sum(each.rows for each in quiet.reports[-1].outcomes) == 0
    requests = counted.since()
    assert len(requests) <= QUIET, requests


@pytest.mark.timeout(600)
def test_a_tick_of_five_queries_asks_for_little(home: Weft, counted: Counted, tmp_path: Path) -> None:
    numbers: dict[str, int] = {}
    for week in range(4):
        home.ingest_mail([write_week(tmp_path / "news", week, weeks()[week], numbers)], ts_from="date")
        if not week:
            for name, user, sql, _ in QUERIES[:5]:
                home.install(name, sql, user=user)
        counted.since()
        done = home.tick(now=BEGIN + timedelta(days=7 * (week + 1)))
        requests = counted.since()
        assert sum(each.rows for each in done.reports[-1].outcomes)
    assert len(requests) <= FIVE_QUERIES, "\n".join(requests)
