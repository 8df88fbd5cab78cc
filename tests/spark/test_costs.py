"""The cost of a tick for many queries (design, section 5): Spark jobs, Delta commits, time.

Plans share one union and one commit. Queries of one shape share one plan. With more queries, the number of tasks grows,
but not the number of jobs.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replayed import DAY, START, Row, commits, first_instants, load, replay_home
from weft.api import Weft
from weft.api.standing import NewQuery
from weft.execution import duckdb_answers
from weft.schedule.ticking import Ticked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

GROUPS = 40
A_DAY = 120
Q4 = (
    "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 2 DAYS "
    "AND NOT EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)"
)
SHAPES = [
    f"SELECT {columns} FROM msgs m {condition}"
    for condition, columns in product(
        (
            "WHERE m.newsgroup = 'group7'",
            "WHERE m.newsgroup LIKE 'group1%'",
            "WHERE m.newsgroup <> 'group3' AND m.inreplyto IS NULL",
            "WHERE m.inreplyto IS NOT NULL OR m.newsgroup = 'group9'",
            "WHERE NOW() >= m.ts + INTERVAL 1 DAY",
            "JOIN msgs r ON r.inreplyto = m.msgid WHERE r.newsgroup = 'group2'",
            "WHERE EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid AND r.newsgroup <> 'group4')",
            "WHERE m.ts < NOW() - INTERVAL 2 DAYS AND NOT EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)",
            "WHERE LENGTH(m.msgid) > 3 AND m.newsgroup IN ('group5', 'group6')",
            "WHERE m.newsgroup = 'group8' AND NOW() < m.ts + INTERVAL 3 DAYS",
        ),
        ("m.msgid", "m.msgid, m.newsgroup", "m.newsgroup", "m.ts, m.msgid", "UPPER(m.msgid) AS loud"),
    )
]


def messages(first_day: int, days: int) -> list[Row]:
    """Return ``A_DAY`` messages per day. Every third message answers a message of the day before."""
    found: list[Row] = []
    for number in range(first_day * A_DAY, (first_day + days) * A_DAY):
        at = START + number * DAY // A_DAY
        parent = f"id{number - A_DAY}" if number % 3 == 0 and number >= A_DAY else None
        found.append((f"id{number}", f"group{number % GROUPS}", parent, at))
    return found


@dataclass(frozen=True)
class Cost:
    """The Spark jobs, Delta commits, seconds and new rows of one tick."""

    jobs: int
    commits: int
    seconds: float
    rows: int


def measured(weft: Weft, spark: SparkSession, tick: Callable[[], Ticked]) -> Cost:
    context, group = spark.sparkContext, f"cost-{time.monotonic_ns()}"
    before = _commits(weft)
    context.setJobGroup(group, group)
    began = time.perf_counter()
    done = tick()
    seconds = time.perf_counter() - began
    jobs = len(context.statusTracker().getJobIdsForGroup(group))
    rows = sum(outcome.rows for report in done.reports for outcome in report.outcomes)
    return Cost(jobs, _commits(weft) - before, seconds, rows)


def _commits(weft: Weft) -> int:
    return sum(commits(log.parent) for log in weft.home.rglob("_delta_log"))


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the messages of three days."""
    weft = replay_home(tmp_path_factory.mktemp("stored") / "home")
    load(weft, spark, "msgs", messages(0, 3))
    weft.close()
    return weft.home


def ticks(weft: Weft, spark: SparkSession, count: int) -> list[Cost]:
    """Return the costs of daily ticks with the messages of one day each. The first delivery is not included."""
    weft.tick(now=START + 3 * DAY)
    found = []
    for day in range(3, 3 + count):
        load(weft, spark, "msgs", messages(day, 1))
        found.append(measured(weft, spark, lambda: weft.tick(now=START + (day + 1) * DAY)))  # noqa: B023
    return found


def home_with(stored: Path, home: Path, texts: list[str]) -> Weft:
    shutil.copytree(stored, home)
    weft = replay_home(home)
    weft.install_all(NewQuery(f"q{number}", text) for number, text in enumerate(texts))
    return weft


def test_jobs_and_commits_do_not_grow_with_the_plans(stored: Path, spark: SparkSession, tmp_path: Path) -> None:
    costs = {}
    for count in (1, 5, 50):
        texts = SHAPES[:: len(SHAPES) // count][:count] if count > 1 else [Q4]
        weft = home_with(stored, tmp_path / f"home{count}", texts)
        assert len(weft.catalog.queries.plans()) == count
        costs[count] = ticks(weft, spark, 1)
        print(count, "plans", costs[count])
        assert all(cost.rows for cost in costs[count])
    assert {cost.commits for found in costs.values() for cost in found} == {1}
    one, five, fifty = (statistics.median(cost.jobs for cost in costs[count]) for count in (1, 5, 50))
    assert one == five == 0, "DuckDB computes them"
    # One job if Spark computes a shape, and another if a query without new rows computes the time of its next answer.
    assert fifty <= 2


@pytest.mark.parametrize("jobs", [0, 1], ids=["DuckDB", "Spark"])
def test_a_question_over_small_tables_is_at_most_one_job(
    stored: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    if jobs:
        monkeypatch.setattr(duckdb_answers, "is_same", lambda *_: False)
    weft = home_with(stored, tmp_path / "home", [])
    text = "SELECT m.msgid FROM msgs m, msgs r WHERE r.inreplyto = m.msgid UNION SELECT msgid FROM msgs"
    spark.sparkContext.setJobGroup("asked", "asked")
    asked = weft.try_query(text, now=START + 3 * DAY, limit=5)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("asked")) == jobs
    assert asked.count == 3 * A_DAY
    assert [row[0] for row in asked.rows] == sorted(f"id{number}" for number in range(3 * A_DAY))[:5]


def test_a_thousand_queries_of_one_shape_cost_what_one_does(stored: Path, spark: SparkSession, tmp_path: Path) -> None:
    costs = {}
    for count in (1, 1_000):
        texts = [
            Q4.replace("2 DAYS", f"{24 + n % 48} HOURS").replace(
                "WHERE", f"WHERE m.newsgroup = 'group{n % GROUPS}' AND", 1
            )
            for n in range(count)
        ]
        began = time.perf_counter()
        weft = home_with(stored, tmp_path / f"home{count}", texts)
        print(count, "queries installed in", time.perf_counter() - began)
        assert time.perf_counter() - began < 60 + 0.06 * count
        assert len(weft.catalog.queries.plans()) == 1
        costs[count] = ticks(weft, spark, 2)
        print(count, "queries", costs[count])
    few, many = costs.values()
    assert {cost.commits for cost in few + many} == {1}
    assert statistics.median(c.jobs for c in many) <= statistics.median(c.jobs for c in few) + 2
    assert sum(cost.rows for cost in many) > 100 * sum(cost.rows for cost in few)
    assert min(c.seconds for c in many) < 4 * min(c.seconds for c in few) + 1


def test_a_query_among_a_thousand_gets_what_it_gets_alone(stored: Path, tmp_path: Path) -> None:
    texts = [f"SELECT msgid FROM msgs WHERE newsgroup = 'group{n % (2 * GROUPS)}'" for n in range(200)]
    together, alone = (home_with(stored, tmp_path / name, chosen) for name, chosen in (("a", texts), ("b", texts[7:8])))
    for weft in (together, alone):
        weft.tick(now=START + 3 * DAY)
    assert first_instants(together, "q7") == first_instants(alone, "q0") != {}
    assert first_instants(together, f"q{GROUPS}") == {}


def test_two_thousand_queries_of_one_shape_each_get_their_own(
    stored: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Each query asks for replies from group g to group h.

    A reply is always in the group of its message, and the last ten groups h do not exist.
    """
    shutil.copytree(stored, tmp_path / "home")
    weft = replay_home(tmp_path / "home")
    pairs = list(product(range(GROUPS), range(GROUPS + 10)))
    weft.install_all(
        NewQuery(
            f"from{g}to{h}",
            "SELECT r.msgid FROM msgs m, msgs r WHERE r.inreplyto = m.msgid "
            f"AND r.newsgroup = 'group{g}' AND m.newsgroup = 'group{h}'",
        )
        for g, h in pairs
    )
    assert len(weft.catalog.queries.plans()) == 1
    load(weft, spark, "msgs", messages(3, 1))
    weft.tick(now=START + 4 * DAY)
    load(weft, spark, "msgs", messages(4, 1))
    weft.pause("from3to3")
    done = weft.tick(now=START + 5 * DAY)
    assert len(done.reports[-1].outcomes) == len(pairs) - 1
    replies = [(msgid, group, at) for msgid, group, parent, at in messages(0, 5) if parent is not None]
    for g, h in [*((n, n) for n in range(GROUPS)), (0, 1), (7, GROUPS + 3)]:
        until = START + (4 if g == h == 3 else 5) * DAY
        wanted = {(msgid,): at for msgid, group, at in replies if g == h and group == f"group{g}" and at < until}
        assert first_instants(weft, f"from{g}to{h}") == wanted
    assert sum(query.rows for query in weft.queries()) == sum(
        at < START + (4 if group == "group3" else 5) * DAY for _, group, at in replies
    )


def test_an_idle_tick_costs_no_job_and_no_commit(stored: Path, spark: SparkSession, tmp_path: Path) -> None:
    weft = home_with(stored, tmp_path / "home", [SHAPES[0], SHAPES[1], SHAPES[25]])
    weft.tick(now=START + 5 * DAY)
    idle = measured(weft, spark, lambda: weft.tick(now=START + 6 * DAY))
    assert (idle.jobs, idle.commits, idle.rows) == (0, 0, 0)
