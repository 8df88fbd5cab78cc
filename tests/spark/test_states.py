"""A tick continues from stored totals, and gives the same answers if they are lost, damaged or outdated."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from replayed import DAY, HOUR, START, answers, load, replay_home
from weft.algebra.schema import DOUBLE, INT, STRING, TIMESTAMP
from weft.api import Weft
from weft.arrangement import state_store
from weft.execution import driver_reader, first_groups, last_rows, totals
from weft.execution.driver_reader import NOTHING, ReadBounds
from weft.planning import first_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES: Final = {
    "counts": "SELECT newsgroup, COUNT(*) AS n, COUNT(inreplyto) AS replies FROM msgs GROUP BY newsgroup",
    "busy": "SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 4",
    "moving": "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY newsgroup",
    "all": "SELECT COUNT(*) AS n, MAX(ts) AS last FROM msgs",
    "first": "SELECT newsgroup, MIN(msgid) AS first FROM msgs GROUP BY newsgroup",
    "of_counts": "SELECT n, COUNT(*) AS groups FROM (SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup) g "
    "GROUP BY n",
    "threads": "SELECT m.msgid, g.n FROM msgs m JOIN (SELECT inreplyto, COUNT(*) AS n FROM msgs GROUP BY inreplyto) g "
    "ON g.inreplyto = m.msgid",
    "longest": "SELECT inreplyto, COUNT(*) AS n FROM msgs WHERE inreplyto IS NOT NULL GROUP BY inreplyto "
    "ORDER BY n DESC, inreplyto LIMIT 2",
    "first_of_each": "SELECT newsgroup, inreplyto, n FROM "
    "(SELECT *, RANK() OVER (PARTITION BY newsgroup ORDER BY n DESC) AS place FROM "
    "(SELECT newsgroup, inreplyto, COUNT(*) AS n FROM msgs GROUP BY newsgroup, inreplyto) t) r "
    "WHERE place <= 1",
    "sci": "SELECT inreplyto, COUNT(*) AS n FROM msgs WHERE newsgroup = 'sci.space' GROUP BY inreplyto",
    "before": "SELECT msgid, LAG(msgid, 2, 'none') OVER (PARTITION BY newsgroup ORDER BY ts, msgid) AS back FROM msgs",
    "of_three": "SELECT msgid, "
    "COUNT(inreplyto) OVER (ORDER BY ts, msgid ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM msgs",
    "sums": "SELECT newsgroup, SUM(CAST(LENGTH(msgid) AS DECIMAL(15,2)) * CAST(-0.37 AS DECIMAL(15,2))) AS s, "
    "AVG(CAST(LENGTH(inreplyto) AS DECIMAL(5,1))) AS a FROM msgs GROUP BY newsgroup",
    "rec": "SELECT inreplyto, COUNT(*) AS n FROM msgs WHERE newsgroup = 'rec.x' GROUP BY inreplyto",
}
STEPS: Final = 5
FILES: Final = ReadBounds(whole=-1, news=-1, scanned=-1, keys=-1, inputs=-1)
"""DuckDB reads the files of all tables."""


def batches(chance: random.Random) -> list[list[tuple[Any, ...]]]:
    """Messages of five days, a day each, with equal instants and NULL groups."""
    found: list[list[tuple[Any, ...]]] = []
    names: list[str] = []
    for day in range(STEPS):
        rows = []
        for instant in sorted(chance.randrange(0, 24) for _ in range(chance.choice([0, 3, 8] if day else [8]))):
            names.append(f"m{len(names)}")
            parent = chance.choice([None, *names])
            rows.append(
                (names[-1], chance.choice(["sci.space", "rec.x", None]), parent, START + day * DAY + instant * HOUR)
            )
        found.append(rows)
    return found


def lost(home: Path, _: random.Random) -> None:
    shutil.rmtree(home / "states", ignore_errors=True)


def damaged(home: Path, chance: random.Random) -> None:
    """Each file loses its end, or some of its bytes change."""
    for file in (home / "states").rglob("*.arrow"):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if chance.random() < 0.5 else data[:-30] + bytes(30))


def outdated(home: Path, _: random.Random) -> None:
    """Only the totals before the last ones remain, as after a kill between two ticks."""
    for folder in (home / "states").glob("*"):
        stems = sorted(int(path.stem) for path in folder.glob("*.json"))
        for stem in stems[1:]:
            (folder / f"{stem}.json").unlink()


def kept(_: Path, __: random.Random) -> None:
    """Nothing happens."""


def ticked(home: Weft, spark: SparkSession, rows: list[list[tuple[Any, ...]]], between: Callable[[int], None]) -> None:
    for day, batch in enumerate(rows):
        if batch:
            load(home, spark, "msgs", batch)
        if not day:
            for name, text in QUERIES.items():
                home.install(name, text)
        home.tick(now=START + (day + 1) * DAY)
        between(day)
    home.tick(now=START + 20 * DAY)


def delivered(home: Weft) -> dict[str, list[Any]]:
    return {name: sorted(((first, values) for _, first, values in answers(home, name)), key=repr) for name in QUERIES}


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> dict[str, list[Any]]:
    """The answers of a home that computes everything in one tick from the tables, and stores no totals."""
    whole = replay_home(tmp_path_factory.mktemp("at-once") / "home")
    for batch in filter(None, batches(random.Random(11))):
        load(whole, spark, "msgs", batch)
    for name, text in QUERIES.items():
        whole.install(name, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_store.StateStore, "totals", lambda *_: None)
        patch.setattr(state_store.StateStore, "write", lambda *_: None)
        whole.tick(now=START + 20 * DAY)
    return delivered(whole)


@pytest.mark.parametrize(
    "accident", [*(pytest.param(each, marks=pytest.mark.slow) for each in (lost, outdated)), damaged, kept]
)
def test_answers_do_not_depend_on_stored_totals(
    accident: Callable[[Path, random.Random], None],
    at_once: dict[str, list[Any]],
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(11)
    rows = batches(chance)
    continued: list[int] = []
    first: list[int] = []
    last: list[int] = []
    read, of_totals = Counter[str](), first_groups.FirstGroups._of_totals
    changes, of_first, of_last = totals.Totals.changes, first_groups.FirstGroups.input, last_rows.LastRows.changes

    def counted(self: totals.Totals, *arguments: Any) -> None:
        continued.append(1)
        changes(self, *arguments)

    def few(self: first_groups.FirstGroups, *arguments: Any) -> Any:
        first.append(1)
        return of_first(self, *arguments)

    def again(self: first_groups.FirstGroups, partitions: Any) -> Any:
        read["all partitions" if partitions is None else "some partitions"] += 1
        return of_totals(self, partitions)

    def new(self: last_rows.LastRows, *arguments: Any) -> None:
        last.append(1)
        of_last(self, *arguments)

    monkeypatch.setattr(last_rows.LastRows, "changes", new)
    monkeypatch.setattr(totals.Totals, "changes", counted)
    monkeypatch.setattr(first_groups.FirstGroups, "input", few)
    monkeypatch.setattr(first_groups.FirstGroups, "_of_totals", again)
    monkeypatch.setattr(first_rows, "_SPARE", 0)
    home = replay_home(tmp_path / "home")
    ticked(home, spark, rows, lambda _: accident(tmp_path / "home", chance))
    # The test would otherwise say nothing about what is stored. What is lost is computed as of the last tick.
    assert len(continued) > STEPS and min(len(first), len(last)) > 2
    assert read["all partitions"] and (accident is not kept or read["some partitions"]), read
    assert delivered(home) == at_once


def jobs(spark: SparkSession, work: Callable[[], object]) -> int:
    """The number of Spark jobs of a call."""
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    work()
    return len(context.statusTracker().getJobIdsForGroup("counted")) - before


def test_a_small_tick_of_states_runs_no_job(tmp_path: Path, spark: SparkSession) -> None:
    """DuckDB computes the states, and the branches of all queries together."""
    rows = batches(random.Random(5))
    home = replay_home(tmp_path / "home")
    load(home, spark, "msgs", rows[0])
    for name, text in QUERIES.items():
        home.install(name, text)
    home.tick(now=START + DAY)
    load(home, spark, "msgs", [("new", "sci.space", "m1", START + DAY + HOUR)])
    assert jobs(spark, lambda: home.tick(now=START + 2 * DAY)) == 0


def test_duckdb_reads_whole_tables_without_a_job(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are those of the same home whose tables are in the driver's memory."""
    rows = batches(random.Random(7))
    small, whole = replay_home(tmp_path / "small"), replay_home(tmp_path / "whole")
    ticked(small, spark, rows, lambda _: None)
    monkeypatch.setattr(driver_reader, "BOUNDS", FILES)
    assert jobs(spark, lambda: ticked(whole, spark, rows, lambda _: None)) == 0
    assert delivered(whole) == delivered(small)


NUMBERS: Final = (("name", STRING), ("n", INT), ("date", TIMESTAMP))


@pytest.mark.parametrize("others", [0, 6_000])
def test_spark_computes_values_that_overflow_in_duckdb(others: int, tmp_path: Path, spark: SparkSession) -> None:
    """DuckDB raises an error where an integer of Spark wraps around, also in the middle of a long result."""
    home = replay_home(tmp_path / "home")
    load(home, spark, "numbers", [("a", 1, START), ("b", 5, START)], NUMBERS)
    home.install("wrapped", "SELECT name, COUNT(DISTINCT n) AS n, MIN(n + 2147483547) AS m FROM numbers GROUP BY name")
    home.tick(now=START + HOUR)
    rest = [(f"o{number}", 1, START + HOUR) for number in range(others)]
    load(home, spark, "numbers", [*rest, ("a", 200, START + HOUR)], NUMBERS)
    home.tick(now=START + 2 * HOUR)
    found = {values for _, _, values in answers(home, "wrapped")}
    wanted = {("a", 1, 2147483548), ("b", 1, 2147483552), ("a", 2, 2147483747 - 2**32)}
    assert found == wanted | {(name, 1, 2147483548) for name, _, _ in rest}


def test_nan_is_a_key_of_the_look_ups_of_spark(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is equal to NaN, and NULL to nothing."""
    monkeypatch.setattr(driver_reader, "BOUNDS", NOTHING)
    columns = (("name", STRING), ("x", DOUBLE), ("date", TIMESTAMP))
    home = replay_home(tmp_path / "home")
    load(home, spark, "left_rows", [("a", 1.5, START)], columns)
    load(home, spark, "right_rows", [("b", float("nan"), START), ("c", None, START), ("d", 2.5, START)], columns)
    home.install("pairs", "SELECT l.name, r.name AS other FROM left_rows l JOIN right_rows r ON r.x = l.x")
    home.install(
        "counts",
        "SELECT l.name, g.n FROM left_rows l JOIN (SELECT x, COUNT(*) AS n FROM right_rows GROUP BY x) g ON g.x = l.x",
    )
    home.tick(now=START + HOUR)
    load(home, spark, "left_rows", [("nan", float("nan"), START + HOUR), ("null", None, START + HOUR)], columns)
    home.tick(now=START + 2 * HOUR)
    assert [values for _, _, values in answers(home, "pairs")] == [("nan", "b")]
    assert [values for _, _, values in answers(home, "counts")] == [("nan", 1)]


BEGINNING: Final = {
    "count": "SELECT COUNT(*) AS n FROM msgs WHERE newsgroup = 'rare'",
    "having": "SELECT 'empty' AS w FROM msgs WHERE newsgroup = 'rare' HAVING COUNT(*) = 0",
    "padded": "SELECT v.k, COUNT(m.msgid) AS n FROM (VALUES ('a'), ('b')) v(k) LEFT JOIN msgs m ON m.msgid = v.k "
    "GROUP BY v.k",
    "until": "SELECT COUNT(*) AS n FROM (VALUES (TIMESTAMP '1993-04-05 10:00:00'), (TIMESTAMP '1993-04-05 20:00:00')) "
    "v(due) WHERE NOW() < v.due",
    "since": "SELECT COUNT(*) AS n FROM (VALUES (TIMESTAMP '1980-01-01 00:00:00'), (TIMESTAMP '1993-04-05 20:00:00')) "
    "v(due) WHERE NOW() >= v.due",
}
WANTED: Final = {
    "count": [(0, (0,)), (30, (1,))],
    "having": [(0, ("empty",))],
    "padded": [(0, ("a", 0)), (0, ("b", 0)), (30, ("a", 1))],
    "until": [(0, (2,)), (10, (1,)), (20, (0,))],
    "since": [(0, (1,)), (20, (2,))],
}
"""The hours since ``START`` at which each row is an answer for the first time."""


@pytest.mark.parametrize("hours", [(1, 2, 9, 12, 15, 25, 40), (40,)])
def test_aggregates_of_no_rows_begin_with_time(hours: tuple[int, ...], tmp_path: Path, spark: SparkSession) -> None:
    """Answers that no row causes come in the first tick, and those that time alone causes in later ones."""
    home = replay_home(tmp_path / "home")
    load(home, spark, "msgs", [("m", "common", None, START)])
    for name, text in BEGINNING.items():
        home.install(name, text)
    for hour in hours:
        if hour > 30:
            load(home, spark, "msgs", [("a", "rare", None, START + 30 * HOUR)])
        home.tick(now=START + hour * HOUR)
    for name, rows in WANTED.items():
        found = sorted(((first - START) // HOUR, values) for _, first, values in answers(home, name))
        assert found == rows, name


def test_alternatives_of_an_or_look_up_by_their_own_equalities(tmp_path: Path, spark: SparkSession) -> None:
    """On the first day a row has partners with an equal x, and later those with an equal y."""
    text = (
        "SELECT e.g, MAX(d.v) AS v FROM e JOIN d ON (d.x = e.x AND NOW() < e.date + INTERVAL 1 DAY) "
        "OR (d.y = e.y AND NOW() >= e.date + INTERVAL 1 DAY) GROUP BY e.g"
    )
    home = replay_home(tmp_path / "home")
    load(home, spark, "e", [("a", "x1", "y1", START)], [(name, STRING) for name in "gxy"] + [("date", TIMESTAMP)])
    partners = [*((name, STRING) for name in "vxy"), ("date", TIMESTAMP)]
    load(home, spark, "d", [("1", "x1", "no", START)], partners)
    home.install("partners", text)
    home.tick(now=START + HOUR)
    load(home, spark, "d", [("2", "no", "y1", START + 2 * HOUR)], partners)
    home.tick(now=START + 3 * HOUR)
    home.tick(now=START + 2 * DAY)
    assert [(first, values) for _, first, values in answers(home, "partners")] == [
        (START, ("a", "1")),
        (START + DAY, ("a", "2")),
    ]
