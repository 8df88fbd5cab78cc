"""First deliveries over large tables are ticks of their own: the answers are those of one tick; no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replayed import START, answers, replay_home
from weft.execution import driver_reader
from weft.execution.driver_reader import NOTHING
from weft.execution.ticks import batches
from weft.interruption import CancelToken, Stopped, cancellable_by, progress_reported_to
from weft.storage.temporal_sql import TemporalSql

if TYPE_CHECKING:
    from weft.api import Weft
    from weft.execution.ticks.tick_report import TickReport
    from weft.schedule.ticking import Ticked

DAY = 86_400_000_000
QUERIES = {
    "cats": "SELECT p.id FROM posts p WHERE p.word = 'cat'",
    "dogs": "SELECT p.id FROM posts p WHERE p.word = 'dog'",
    "replies": "SELECT p.id, r.id AS reply FROM posts p, posts r WHERE r.parent = p.id",
    "quiet": "SELECT p.id FROM posts p WHERE p.ts < NOW() - INTERVAL 1 DAY "
    "AND NOT EXISTS (SELECT * FROM posts r WHERE r.parent = p.id)",
    "both": "SELECT c.id FROM results.cats c, results.quiet q WHERE q.id = c.id",
    "words": "SELECT p.word, COUNT(*) AS n FROM posts p GROUP BY p.word",
}
PLANS = 5
"""The queries ``cats`` and ``dogs`` share a plan."""


def rows(first: int, count: int) -> str:
    return "".join(
        f"{n},{n // 2 if n % 3 else ''},{('cat', 'dog', 'cow')[n % 3]},1993-04-{5 + n // 4:02d}\n"
        for n in range(first, first + count)
    )


def home(folder: Path, *names: str) -> Weft:
    """Return a home with 40 posts and these queries. It was never ticked."""
    weft = replay_home(folder)
    load(weft, folder.parent, 0)
    for name in names or QUERIES:
        weft.install(name, QUERIES[name])
    return weft


def load(weft: Weft, folder: Path, first: int) -> None:
    file = folder / f"{weft.home.name}-{first}.csv"
    file.write_text("id,parent,word,at\n" + rows(first, 40))
    weft.ingest_file(file, "posts", ts_from="at")


def ran(ticked: Ticked) -> list[set[str]]:
    """Return the names of the queries of each tick that were not at its instant before."""

    def names(report: TickReport) -> set[str]:
        return {each.query.name for each in report.outcomes if each.tau != report.t}

    return [names(report) for report in ticked.reports]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each first delivery over a table with a row is large."""
    monkeypatch.setattr(batches, "ROWS_OF_A_BATCH", 1)


def test_batches_deliver_what_one_tick_delivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with home(tmp_path / "one") as weft:
        done = weft.tick(now=START + 30 * DAY)
        assert ran(done) == [set(QUERIES)], "the tables are small"
        wanted = {name: answers(weft, name) for name in QUERIES}
        assert all(wanted.values())
    monkeypatch.setattr(batches, "ROWS_OF_A_BATCH", 1)
    news: list[str] = []
    with home(tmp_path / "several") as weft, progress_reported_to(news.append):
        done = weft.tick(now=START + 30 * DAY)
        assert ran(done) == [{"cats", "dogs"}, {"replies"}, {"quiet"}, {"words"}, {"both"}]
        assert {report.t for report in done.reports} == {START + 30 * DAY}
        assert {name: answers(weft, name) for name in QUERIES} == wanted
        assert [each.partition(",")[2] for each in news] == [f" batch {n} of {PLANS}" for n in range(1, PLANS + 1)]
        assert len(weft.tick(now=START + 31 * DAY).reports) == 1, "a later tick is one tick"


@pytest.mark.usefixtures("large")
def test_the_batches_share_the_copy_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", replace(NOTHING, large=1_000_000))
    copied: list[str] = []
    table = TemporalSql.table

    def noted(self: TemporalSql, name: str, sql: str) -> int:
        copied.extend([sql] if name == "copy of posts" else [])
        return table(self, name, sql)

    monkeypatch.setattr(TemporalSql, "table", noted)
    with home(tmp_path / "home", "cats", "replies", "quiet") as weft:
        assert ran(weft.tick(now=START + 30 * DAY)) == [{"cats"}, {"replies"}, {"quiet"}]
        assert all(query.rows for query in weft.queries())
    (sql,) = copied
    assert "SELECT id, parent, ts, word FROM" in sql


@pytest.mark.usefixtures("large")
def test_many_plans_share_a_bounded_number_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch costs a tick and a commit, so the cost of a first tick does not follow the number of plans alone."""
    monkeypatch.setattr(batches, "MOST_BATCHES", 2)
    with home(tmp_path / "several", "cats", "dogs", "replies", "quiet", "words") as weft:
        assert ran(weft.tick(now=START + 30 * DAY)) == [{"cats", "dogs", "replies"}, {"quiet", "words"}]
        found = {query.name: answers(weft, query.name) for query in weft.queries()}
    monkeypatch.setattr(batches, "ROWS_OF_A_BATCH", 1_000_000)
    with home(tmp_path / "one", *found) as weft:
        assert len(weft.tick(now=START + 30 * DAY).reports) == 1
        assert {name: answers(weft, name) for name in found} == found


@pytest.mark.usefixtures("large")
def test_news_of_other_queries_come_with_the_first_batch(tmp_path: Path) -> None:
    with home(tmp_path / "home", "replies", "words") as weft:
        weft.tick(now=START + 8 * DAY)
        for name in ("quiet", "cats"):
            weft.install(name, QUERIES[name])
        done = weft.tick(now=START + 30 * DAY)
        assert ran(done) == [{"replies", "words", "quiet"}, {"cats"}]
        assert ran(weft.tick("cats", now=START + 30 * DAY)) == [set()]


@pytest.mark.usefixtures("large")
def test_a_stop_between_batches_leaves_the_others_to_the_next_tick(tmp_path: Path) -> None:
    token = CancelToken()

    def stop_before_the_third(news: str) -> None:
        if "batch 3" in news:
            token.cancel()

    with home(tmp_path / "home") as weft:
        with cancellable_by(token), progress_reported_to(stop_before_the_third), pytest.raises(Stopped):
            weft.tick(now=START + 30 * DAY)
        assert {query.name for query in weft.queries() if query.rows} == {"cats", "dogs", "replies"}
        first = {name: answers(weft, name) for name in ("cats", "replies")}
        load(weft, tmp_path, 40)
        weft.tick(now=START + 60 * DAY)
        assert {name: answers(weft, name)[: len(found)] for name, found in first.items()} == first
        found = {name: answers(weft, name) for name in QUERIES}
    with home(tmp_path / "other") as weft:
        weft.tick(now=START + 30 * DAY)
        load(weft, tmp_path, 40)
        weft.tick(now=START + 60 * DAY)
        assert {name: answers(weft, name) for name in QUERIES} == found


@pytest.mark.spark
@pytest.mark.usefixtures("large")
def test_a_query_that_another_reads_runs_with_it(tmp_path: Path) -> None:
    """``both`` begins with its installation. It is no first delivery, and takes the queries that it reads along."""
    with home(tmp_path / "home", "cats", "replies", "quiet") as weft:
        weft.tick("cats", now=START + 8 * DAY)
        weft.install("both", QUERIES["both"], start="now")
        done = weft.tick(now=START + 30 * DAY)
        assert ran(done) == [{"cats", "quiet", "both", "replies"}], "no batch is left for quiet"
        assert all(each.rows for each in weft.queries() if each.name != "both")
