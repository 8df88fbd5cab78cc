"""Law 1 over tracked tables on Spark: random queries over random histories in which rows end and return.

A feed sends the changes in random parts, with a tick after each part. The reference evaluates the texts at every
instant.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oracle.engines import GRID, Sqlite
from oracle.expressions import LAST
from oracle.grammar import TABLES, query
from oracle.histories import COLUMNS, History, Row
from oracle.histories import history as drawn
from oracle.laws import same
from oracle.reference import reference
from oracle.spelling import Text
from replayed import replay_home
from spark.test_random import MOST_SELECTS, WAYS, delivered, since
from weft.algebra.schema import DataType
from weft.api import Weft
from weft.errors import SqlError
from weft.execution import driver_reader, maintenance, parameters
from weft.execution.driver_reader import ReadBounds
from weft.instants import format_rfc3339
from weft.storage import compaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOMES = 2
QUERIES_A_HOME = 4
VALUES = [name for name in COLUMNS if name != "ts"]
_STARS = re.compile(r"EXISTS \(SELECT \* ")


def coalesced(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows with maximal periods, as a source has them: each row exists at most once at a time."""
    found: list[Row] = []
    for value in dict.fromkeys(row[:5] for row in rows):
        held = [n for n in range(LAST + 2) if any(r[:5] == value and r[5] <= n < (r[6] or LAST + 9) for r in rows)]
        for n in held:
            if n - 1 not in held:
                end = next((later for later in range(n, LAST + 2) if later not in held), None)
                found.append((*value, n, end))
    return tuple(found)


def world(number: int) -> tuple[History, list[Text], tuple[int, ...]]:
    """Return a history in which rows of all tables end, queries of which most have answers, and the instants of the
    ticks.
    """
    chance = random.Random(9_000 + number)
    found = [each for each in (drawn(chance) for _ in range(60)) if len(each.ending) == len(TABLES)]
    found = [each for each in found if all(each.rows.values())]
    history = max(found, key=lambda each: sum(map(len, each.rows.values())))
    history = replace(history, rows={name: coalesced(rows) for name, rows in history.rows.items()})
    engine = Sqlite()
    engine.load(history.rows)
    texts: list[Text] = []
    while len(texts) < QUERIES_A_HOME:
        text = query(chance)
        if "*" in _STARS.sub("", text.spark) or text.spark.count("SELECT") > MOST_SELECTS:
            continue  # in a star query, only one table has the column ts
        seen = reference(engine, text.plain)
        if (seen.first() and seen.changes) or chance.random() < 0.1:
            texts.append(Text(re.sub(r"\bts\b", "valid_from", text.spark), text.plain))
    return history, texts, (*sorted(chance.sample(range(1, LAST + 1), 2)), LAST + 1)


def changes(rows: tuple[Row, ...], low: int, high: int) -> str:
    """Return the lines of a feed for the changes in [low, high)."""
    result: list[tuple[int, str, dict[str, Any]]] = []
    for k, n, x, d, f, begin, end in rows:
        key = {"k": k, "n": n, "x": x, "d": None if d is None else format_rfc3339(d + GRID), "f": f}
        result += [(at, op, key) for at, op in ((begin, "I"), (end, "D")) if at is not None and low <= at < high]
    ordered = sorted(result, key=lambda each: each[0])
    return "".join(f"{json.dumps({'op': op, 'time': at + GRID, 'key': key})}\n" for at, op, key in ordered)


def arrive(weft: Weft, folder: Path, history: History, low: int, high: int) -> None:
    """Poll each table's source for the changes in [low, high)."""
    for table in TABLES:
        feed = folder / f"{table}.jsonl"
        if not low:
            feed.write_text(changes(history.rows[table], 0, LAST + 2))
            columns = [(name, DataType.parse(COLUMNS[name])) for name in VALUES]
            weft.add_source(table, "changes", str(feed), VALUES, columns=columns)
        feed.write_text(changes(history.rows[table], 0, high))
        weft.poll_source(table, now=GRID + high)


@pytest.mark.parametrize(
    ("number", "way"),
    [
        pytest.param(number, way, marks=[pytest.mark.slow] if number != (way == "arrangements") else [])
        for number in range(HOMES)
        for way in WAYS
        if way != "large"  # DuckDB reads no tracked table whole
    ],
)
def test_random_queries_over_tracked_tables(
    number: int, way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS[way])
    monkeypatch.setattr(maintenance, "BOUNDS", ReadBounds())
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=2))
    monkeypatch.setattr(parameters, "FEW", 0)  # two queries per plan are enough for the parameter table
    history, texts, cuts = world(number)
    engine = Sqlite()
    engine.load(history.rows)
    expected = [reference(engine, text.plain) for text in texts]
    weft = replay_home(tmp_path / "home")
    begun = min((row[5] for rows in history.rows.values() for row in rows if row[5] < cuts[0]), default=cuts[0])
    done = 0
    for until in cuts:
        arrive(weft, tmp_path, history, done, until)
        if not done:
            for count, text in enumerate(texts):
                weft.install(f"q{count}", text.spark)
        else:
            list(weft.maintain(retain=0))
        weft.tick(now=GRID + until)
        assert {each.reason for each in weft.queries()} == {None}
        done = until
        for count, text in enumerate(texts):
            same(f"{text}\nup to {until}", delivered(weft, f"q{count}"), since(expected[count], begun, until))
    assert any(weft.results("q0")) or any(query.rows for query in weft.queries())


def test_the_present_is_what_try_gives(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "staff.csv"
    file.write_text("id,name\n1,Ann\n2,Ben\n")
    weft = replay_home(tmp_path / "home")
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=GRID)
    file.write_text("id,name\n1,Anna\n3,Coy\n")
    weft.poll_source("staff", now=GRID + 10)
    assert weft.try_query("SELECT * FROM staff", now=GRID + 20).rows == ((1, "Anna"), (3, "Coy"))
    assert weft.try_query("SELECT * FROM staff", now=GRID + 9).rows == ((1, "Ann"), (2, "Ben"))
    text = "SELECT name FROM staff WHERE valid_to IS NULL"
    assert weft.try_query(text, now=GRID + 9).rows == ()
    past = f"SELECT name FROM staff FOR SYSTEM_TIME AS OF TIMESTAMP_MICROS({GRID + 9})"
    stretch = f"FOR SYSTEM_TIME FROM TIMESTAMP_MICROS({GRID + 9}) TO TIMESTAMP_MICROS({GRID + 11}) AS b"
    for bounds in (ReadBounds(), ReadBounds(whole=-1)):  # by the driver, and by Spark from the files
        monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
        assert weft.try_query(past, now=GRID + 20).rows == (("Ann",), ("Ben",))
        there = f"SELECT b.name, s.name AS now FROM staff s JOIN staff {stretch} ON b.id = s.id"
        assert weft.try_query(there, now=GRID + 20).rows == (("Ann", "Anna"), ("Anna", "Anna"), ("Coy", "Coy"))
    assert [row[0] for row in weft.try_query(f"SELECT * FROM staff {stretch}", now=GRID + 20).rows] == [1, 1, 2, 3]
    result = weft.history("staff", where="name LIKE 'Ann%' OR valid_to < NOW() - INTERVAL 1 DAY")
    assert [(each.values, each.begin, each.end) for each in result.stretches] == [
        ((1, "Ann"), GRID, GRID + 10),
        ((1, "Anna"), GRID + 10, None),
    ]
    assert weft.history("staff", where="TRUE").stretches == weft.history("staff").stretches
    with pytest.raises(SqlError):
        weft.history("staff", where="id = reflect('java.lang.System', 'exit', 0)")


def names(weft: Weft, query: str) -> list[tuple[Any, ...]]:
    """Return the answers in the order of delivery, with their first instants in units of the grid."""
    return [(*row.values, row.first_at - GRID) for row in weft.results(query)]


def test_a_row_that_a_correction_makes_an_answer_is_delivered_once(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "staff.csv"
    file.write_text("id,name,dept\n1,Ann,D\n2,Ben,S\n")
    weft = replay_home(tmp_path / "home")
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=GRID)
    weft.add_view("kept", "SELECT s.name, s.dept FROM staff s")
    alone = "SELECT s.name FROM staff s WHERE NOT EXISTS (SELECT 1 FROM staff o WHERE o.id <> s.id AND o.dept <> 'S')"
    texts = {"depts": "SELECT name, dept FROM staff", "alone": alone, "kept_ones": "SELECT name, dept FROM kept"}
    for name, text in texts.items():
        weft.install(name, text)
    weft.tick(now=GRID + 5)
    assert names(weft, "depts") == [("Ann", "D", 0), ("Ben", "S", 0)]
    assert names(weft, "alone") == [("Ann", 0)] and names(weft, "kept_ones") == names(weft, "depts")
    weft.install("moved", "SELECT name FROM results.depts WHERE dept = 'X'")
    weft.install("from_now", texts["depts"], start="now")
    weft.tick(now=GRID + 10)
    weft.correct_source("staff", {"id": 1}, GRID + 2, GRID + 4, {"dept": "X"}, now=GRID + 11)
    weft.correct_source("staff", {"id": 1}, GRID + 6, GRID + 7, {"dept": "S"}, now=GRID + 11)
    weft.tick(now=GRID + 20)
    assert names(weft, "depts")[2:] == [("Ann", "X", 2), ("Ann", "S", 6)]
    assert names(weft, "kept_ones") == names(weft, "depts")  # a correction added past rows to the view
    assert names(weft, "moved") == [("Ann", 2)]
    assert names(weft, "alone")[1:] == [("Ben", 6)]
    assert names(weft, "from_now") == [("Ann", "S", 6), ("Ann", "D", 7)]  # both rows are newer than the query
    weft.correct_source("staff", {"id": 1}, GRID + 2, GRID + 4, None, now=GRID + 21)
    weft.tick(now=GRID + 30)
    assert len(names(weft, "depts")) == 4 and len(names(weft, "alone")) == 2 and len(names(weft, "moved")) == 1
