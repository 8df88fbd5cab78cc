"""Ticks that DuckDB computes start no Spark, and give what the texts give at every instant."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from every_instant import Timeline
from replayed import DAY, HOUR, START, Row, first_instants, replay_home
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP
from weft.execution import driver_reader, duckdb_answers
from weft.execution.append_rows import append
from weft.execution.driver_reader import ReadBounds
from weft.planning import alike_branches
from weft.storage.columns import arrow_type
from weft.storage.temporal_sql import TemporalSql

COLUMNS = (("msgid", STRING), ("newsgroup", STRING), ("inreplyto", STRING), ("size", BIGINT), ("ts", TIMESTAMP))
QUERIES = {
    "Q1": "SELECT msgid FROM msgs WHERE newsgroup = 'a'",
    "Q2": "SELECT msgid, size FROM msgs WHERE newsgroup LIKE 'b.%'",
    "Q3": "SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'a'",
    "Q4": "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 1 DAY "
    "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)",
    "Q5": "SELECT DISTINCT m.newsgroup FROM msgs m, msgs m1, msgs m2 "
    "WHERE m.inreplyto IS NULL AND m1.inreplyto = m.msgid AND m2.inreplyto = m1.msgid",
    "small": "SELECT m.msgid, m.size + 1 AS more FROM msgs m WHERE m.size < 5 AND m.ts > NOW() - INTERVAL 2 HOURS",
    "large": "SELECT m.msgid, m.size + 1 AS more FROM msgs m WHERE m.size < 90 AND m.ts > NOW() - INTERVAL 2 HOURS",
}
"""``small`` and ``large`` share a plan."""


def messages(count: int) -> list[Row]:
    """Return messages in the order of their ts, some of which reply to earlier or later ones."""
    chance, rows = random.Random(count), []
    for number in range(count):
        parent = f"m{chance.randrange(count)}" if chance.random() < 0.6 else None
        group = chance.choice(("a", "b.x", "b.", "B.x", None))
        size = None if chance.random() < 0.1 else chance.randrange(100)
        rows.append((f"m{number}", group, parent, size, START + number * HOUR))
    return rows


def arrive(weft: Any, rows: list[Row]) -> None:
    """Append rows, whose last value is their ts."""
    table = weft.catalog.tables.named("msgs")
    columns = zip(COLUMNS[:-1], zip(*rows, strict=True), strict=False)
    batch = {name: pa.array(values, arrow_type(kind)) for (name, kind), values in columns}
    own = pa.array([row[-1] for row in rows], pa.int64())
    with weft.writing("test") as writer:
        load = weft.catalog.loads.begin(table.table_id, "a test", "file", None, START)
        given = pa.table({**batch, "_own_time": own, "_seq": pa.array(range(len(rows)), pa.int64())})
        append(writer, table, load, given, START, None)


@pytest.mark.parametrize(
    ("bounds", "most", "fewest"),
    [(ReadBounds(), 100, 4), (ReadBounds(), 3, 4), (ReadBounds(), 100, 1), (ReadBounds(whole=-1), 100, 1)],
    ids=["rows", "several statements", "alike", "files"],
)
def test_answers_are_those_of_every_instant_without_spark(
    bounds: ReadBounds, most: int, fewest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``most`` is the number of SELECTs of a statement, and ``fewest`` that of the queries that share a SELECT."""

    def no_spark() -> Any:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    monkeypatch.setattr(duckdb_answers, "_SELECTS", most)
    monkeypatch.setattr(alike_branches, "FEWEST", fewest)
    weft, rows = replay_home(tmp_path / "home"), messages(60)
    monkeypatch.setattr(weft.opened, "session", no_spark)
    weft.catalog.tables.create("msgs", list(COLUMNS[:-1]), None, "newsgroup")
    for first, last in ((0, 30), (30, 45), (45, 60)):
        arrive(weft, rows[first:last])
        if not first:
            for name, text in QUERIES.items():
                weft.install(name, text)
        weft.tick(now=rows[last - 1][-1] + 1)
    weft.tick(now=rows[-1][-1] + 2 * DAY)
    assert {query.reason for query in weft.queries()} == {None}

    stored = {
        name: pa.array(values, arrow_type(kind))
        for (name, kind), values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    timeline = Timeline({"msgs": pa.table(stored)})
    instants = [row[-1] + later for row in rows for later in (0, DAY + 1)]
    for name, text in QUERIES.items():
        wanted = timeline.first(text, instants)
        assert first_instants(weft, name) == wanted != {}, name


def test_a_tick_computes_alike_branches_in_one_select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would plan a branch for each of the shapes otherwise."""
    conditions = ("m.size > 50", "m.newsgroup = 'a'", "m.msgid <> 'm1'")
    chosen = [" AND ".join(some) for count in (1, 2, 3) for some in combinations(conditions, count)]
    columns = ("m.msgid, m.newsgroup", "m.newsgroup, m.msgid", "m.msgid, m.inreplyto")
    texts = [f"SELECT {some} FROM msgs m WHERE {where}" for some, where in product(columns, chosen)]
    weft, rows = replay_home(tmp_path / "home"), messages(60)
    weft.catalog.tables.create("msgs", list(COLUMNS[:-1]), None, "newsgroup")
    arrive(weft, rows[:30])
    for number, text in enumerate(texts):
        weft.install(f"q{number}", text)
    weft.tick(now=rows[29][-1] + 1)
    arrive(weft, rows[30:])
    run, statements = TemporalSql.rows, list[str]()

    def recorded(sql: TemporalSql, text: str) -> pa.Table:
        statements.append(text)
        return run(sql, text)

    monkeypatch.setattr(TemporalSql, "rows", recorded)
    assert weft.tick(now=rows[59][-1] + 1).reports[-1].rows > len(texts)
    assert sum(each.count("FROM msgs__news") for each in statements) == 1


def test_a_tick_of_duckdb_loads_no_module_of_spark_or_views(tmp_path: Path) -> None:
    """They would take longer to load than a small tick takes."""
    weft = replay_home(tmp_path / "home")
    weft.catalog.tables.create("msgs", list(COLUMNS[:-1]), None, "newsgroup")
    arrive(weft, messages(20))
    weft.install("counts", "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup")
    weft.install("old", QUERIES["Q4"])
    weft.close()
    code = f"""
import sys
from weft.api import Weft
weft = Weft.open({str(tmp_path / "home")!r})
print(weft.tick(now={START + 9 * DAY}).reports[-1].rows > 0)
print([name for name in sys.modules if name.startswith(("pyspark", "weft.execution.temporal", "weft.extraction"))])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["True", "[]"]


@pytest.mark.parametrize("bounds", [ReadBounds(), ReadBounds(whole=-1)], ids=["rows", "files"])
def test_tables_have_any_names(bounds: ReadBounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relations of DuckDB that are not tables of the home have other names."""
    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    weft = replay_home(tmp_path / "home")
    monkeypatch.setattr(weft.opened, "session", lambda: pytest.fail("Spark was asked for"))
    names = ("msgs_rows", "msgs", "msgs_files", "msgs_copy", "known_answers", "new_answers", "given0")
    for name in names:
        weft.catalog.tables.create(name, list(COLUMNS[:-1]), None, "newsgroup")
    arrive(weft, messages(5))
    text = "SELECT m.msgid FROM {} WHERE m.size < 100 AND {}"
    others = [f"NOT EXISTS (SELECT * FROM {name} WHERE size > 0)" for name in names if name != "msgs"]
    weft.install("several", text.format("msgs m", " AND ".join(others)))
    weft.install("pair", text.format("msgs_rows r, msgs m", "r.size < m.size"))
    weft.tick(now=START + DAY)
    assert {query.reason for query in weft.queries()} == {None}
    assert len(first_instants(weft, "several")) == sum(row[3] is not None for row in messages(5))
