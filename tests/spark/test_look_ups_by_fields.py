"""Queries that compare fields of nested columns have the answers that DuckDB gives at every instant.

The rows are random: structs and fields that are NULL or missing, and repeated rows. DuckDB has real STRUCT columns.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from oracle.engines import GRID
from replayed import first_instants, load, replay_home
from spark.test_random import WAYS
from weft.algebra.access import Lookup
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, DataType
from weft.api import Weft
from weft.catalog import layout
from weft.execution import driver_reader
from weft.execution.driver_reader import LocalRows, keys_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INFO = DataType.of_column("STRUCT<id: BIGINT, name: STRING, address: STRUCT<city: STRING>>")
COLUMNS = (("n", BIGINT), ("city", STRING), ("info", INFO), ("ts", TIMESTAMP))
TABLES = ("events", "users")
FIELDS = '{"id": "BIGINT", "name": "VARCHAR", "address": {"city": "VARCHAR"}}'
LAST = 9
CUTS = (4, LAST + 1)
SEEDS = {"driver": 1, "arrangements": 2, "spark": 3}
OTHERS = (1.5, {"x": 1})
"""Values of another type, which Spark and DuckDB read as the same text."""
QUERIES = (
    "SELECT e.n, u.city FROM events e JOIN users u ON u.info.id = e.n",
    "SELECT e.n, u.n AS m FROM events e JOIN users u ON u.info.address.city = e.info.address.city",
    "SELECT e.n, u.n AS m FROM events e JOIN users u ON u.info.id IS NOT DISTINCT FROM e.info.id WHERE u.city = 'a'",
    "SELECT a.n, b.n AS m FROM users a JOIN users b ON b.info.name = a.city JOIN events e ON e.info.id = b.info.id",
    "SELECT e.n, u.city FROM events e LEFT JOIN users u ON u.info.id = e.info.id",
    "SELECT e.n, u.n AS m FROM events e FULL JOIN users u ON u.info.address.city = e.city",
    "SELECT e.n FROM events e WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.info.id = e.n AND u.info.name = e.city)",
    "SELECT e.n FROM events e WHERE e.info.name IN (SELECT u.info.address.city FROM users u)",
    "SELECT e.n FROM events e WHERE e.n NOT IN (SELECT u.n FROM users u WHERE u.info.id = e.info.id)",
    "SELECT u.info.id AS id, COUNT(*) AS c FROM users u JOIN events e ON e.n = u.info.id GROUP BY u.info.id",
    "SELECT u.n, s.c FROM users u JOIN (SELECT info.id AS id, COUNT(*) AS c FROM events GROUP BY info.id) s "
    "ON s.id = u.info.id",
)
BY_NAMES = (
    "SELECT e.n, u.n AS m FROM events e JOIN users u ON u.city = e.info.name",
    *(text for text in QUERIES if "info.name" in text),
)
Row = tuple[Any, ...]


def info(chance: random.Random, others: Sequence[Any] = ()) -> str | None:
    """Return the JSON text of a random struct. A name may be one of the ``others``."""
    if chance.random() < 0.15:
        return None
    address = chance.choice([None, {}, {"city": None}, *({"city": each} for each in "abc")])
    given = {"id": chance.choice([None, 1, 2, 3]), "name": chance.choice([None, *"ab", *others]), "address": address}
    return json.dumps({name: value for name, value in given.items() if chance.random() < 0.9})


def drawn(chance: random.Random, others: Sequence[Any] = ()) -> list[Row]:
    """Return rows of a table, some of them several times. The ``others`` are names and, as text, cities."""
    cities = [None, *"abc", *(json.dumps(each, separators=(",", ":")) for each in others)]
    rows = [
        (chance.choice([None, 1, 2, 3]), chance.choice(cities), info(chance, others), GRID + chance.randint(0, LAST))
        for _ in range(12)
    ]
    return [*rows, *((*row[:3], GRID + chance.randint(0, LAST)) for row in rows[:2]), *rows[:2]]


def expected(held: Mapping[str, Sequence[tuple[Row, int | None]]], text: str, until: int) -> dict[Row, int]:
    """Map the rows that are answers before ``until`` to their first instants. ``held`` has the end of each row."""
    found: dict[Row, int] = {}
    begun = min(row[3] for rows in held.values() for row, _ in rows)
    for instant in range(begun, GRID + until):
        with duckdb.connect() as connection:
            for table, rows in held.items():
                there = [row[:3] for row, end in rows if row[3] <= instant and (end is None or instant < end)]
                connection.execute("CREATE TABLE given (n BIGINT, city VARCHAR, info JSON)")
                for row in there:
                    connection.execute("INSERT INTO given VALUES (?, ?, ?)", row)
                struct = f"from_json(info, '{FIELDS}') AS info"
                connection.execute(f"CREATE TABLE {table} AS SELECT * REPLACE ({struct}) FROM given")
                connection.execute("DROP TABLE given")
            for row in connection.execute(text).fetchall():
                found.setdefault(row, instant)
    return found


@pytest.mark.parametrize("way", SEEDS)
def test_fields_are_looked_up_in_each_way(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS[way])
    texts = QUERIES[::3] if way == "spark" else QUERIES  # Spark takes long to plan its scans
    weft, chance = replay_home(tmp_path / "home"), random.Random(SEEDS[way])
    rows = {table: drawn(chance) for table in TABLES}
    tick_twice(weft, spark, texts, rows)
    folder = layout.arrangements_folder(weft.home)
    by_fields = [each.name for each in folder.iterdir() if "." in each.name] if folder.exists() else []
    assert len(by_fields) == (6 if way == "arrangements" else 0)


@pytest.mark.parametrize("way", ["driver", "arrangements"])
def test_values_of_another_type_are_left_to_spark(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS[way])
    unsure: list[str] = []

    def noted(path: Lookup, rows: LocalRows) -> Any:
        keys = keys_for(path, rows)
        unsure.extend([path.view] if keys is None else [])
        return keys

    monkeypatch.setattr(driver_reader, "keys_for", noted)
    weft, chance = replay_home(tmp_path / "home"), random.Random(5)
    tick_twice(weft, spark, BY_NAMES, {table: drawn(chance, OTHERS) for table in TABLES})
    assert "users__by_city" in unsure
    assert any(layout.arrangements_folder(weft.home).rglob("unsure")) == (way == "arrangements")


def tick_twice(weft: Weft, spark: SparkSession, texts: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
    """Load the rows in two parts, with a tick after each, and compare the answers."""

    def extend(since: int, until: int) -> None:
        for table in TABLES:
            load(weft, spark, table, [row for row in rows[table] if since <= row[3] - GRID < until], COLUMNS)

    tick_at_cuts(weft, texts, extend)
    same_answers(weft, texts, {table: [(row, None) for row in rows[table]] for table in TABLES})


def tick_at_cuts(weft: Weft, texts: Sequence[str], extend: Callable[[int, int], None]) -> None:
    """Extend the tables up to each cut, with a tick after each. Install the queries after the first part."""
    done = 0
    for until in CUTS:
        extend(done, until)
        if not done:
            for number, text in enumerate(texts):
                weft.install(f"q{number}", text)
        weft.tick(now=GRID + until)
        assert {each.reason for each in weft.queries()} == {None}
        done = until


def same_answers(weft: Weft, texts: Sequence[str], held: Mapping[str, Sequence[tuple[Row, int | None]]]) -> None:
    some = 0
    for number, text in enumerate(texts):
        answers = expected(held, text, LAST + 1)
        assert first_instants(weft, f"q{number}") == answers, text
        some += bool(answers)
    assert some >= len(texts) - 1


def test_fields_of_tracked_tables_are_looked_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS["arrangements"])
    chance, weft = random.Random(4), replay_home(tmp_path / "home")
    held: dict[str, list[tuple[Row, int | None]]] = {}
    for table in TABLES:
        rows = {row[:3]: row for row in drawn(chance)}.values()
        held[table] = [(row, chance.choice([None, row[3] + chance.randint(1, 4)])) for row in rows]

    def extend(since: int, until: int) -> None:
        for table in TABLES:
            feed = tmp_path / f"{table}.jsonl"
            feed.write_text(changes(held[table], GRID + until))
            if not since:
                columns = [("id", BIGINT), *COLUMNS[:3]]
                weft.add_source(table, "changes", str(feed), ["id"], columns=columns)
            weft.poll_source(table, now=GRID + until)

    tick_at_cuts(weft, QUERIES, extend)
    same_answers(weft, QUERIES, held)


def changes(held: Sequence[tuple[Row, int | None]], until: int) -> str:
    """Return the lines of a feed for the changes before ``until``."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number, ((n, city, text, begin), end) in enumerate(held):
        row = {"n": n, "city": city, "info": None if text is None else json.loads(text)}
        found.append((begin, {"op": "I", "key": {"id": number}, "row": row}))
        found += [] if end is None else [(end, {"op": "D", "key": {"id": number}})]
    ordered = sorted((each for each in found if each[0] < until), key=lambda each: each[0])
    return "".join(json.dumps(change | {"time": at}) + "\n" for at, change in ordered)
