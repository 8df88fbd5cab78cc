"""Aggregates whose arguments compare with NOW mean at an instant what the text means with the instant in it."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pytest

from netnews import MSGS, TABLES, USERS
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.sql.dialects.duckdb_dialect import MACROS, local_text

START = dt.datetime(2020, 1, 1)
HOUR = dt.timedelta(hours=1)
RECENT = "ts > NOW() - INTERVAL 1 DAY"
TEXTS = {
    f"SELECT newsgroup, COUNT_IF({RECENT}) AS n, COUNT(*) AS m FROM msgs GROUP BY newsgroup": (
        f"SELECT newsgroup, COUNT(CASE WHEN {RECENT} THEN 1 END), COUNT(*) FROM msgs GROUP BY newsgroup"
    ),
    f"SELECT COUNT(*) FILTER (WHERE {RECENT}) AS n FROM msgs": None,
    "SELECT SUM(CASE WHEN date < NOW() THEN 1 WHEN date IS NULL THEN 10 ELSE 100 END) AS n FROM msgs": None,
    "SELECT sender, MAX(CASE WHEN NOW() >= date THEN date END) AS d, MIN(COALESCE(date, ts)) AS e FROM msgs "
    "GROUP BY sender": None,
    f"SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(CASE WHEN {RECENT} THEN 1 END) > 1": None,
    f"SELECT newsgroup, COUNT(CASE WHEN {RECENT} THEN 1 END) AS n FROM msgs GROUP BY ROLLUP (newsgroup)": None,
    f"SELECT m.sender, COUNT(CASE WHEN m.{RECENT} THEN u.name END) AS n FROM msgs m LEFT JOIN users u "
    "ON u.name = m.sender GROUP BY m.sender": None,
}


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    """Random rows of msgs and users in DuckDB."""
    found, chance = duckdb.connect(), random.Random(25)
    for name, body in MACROS.items():
        found.execute(f"CREATE MACRO {name} AS {body}")
    for table in (MSGS, USERS):
        columns = ", ".join(f'"{each.name}" {each.type}' for each in table.columns)
        found.execute(f"CREATE TABLE {table.name} ({columns.replace('STRING', 'VARCHAR')})")
    for number in range(30):
        date = chance.choice([None, START + chance.randrange(72) * HOUR])
        values = [str(number), chance.choice("abc"), date, chance.choice("xy"), START + chance.randrange(72) * HOUR]
        found.execute("INSERT INTO msgs (msgid, sender, date, newsgroup, ts) VALUES (?, ?, ?, ?, ?)", values)
    found.execute("INSERT INTO users (name, ts) VALUES ('a', ?), ('a', ?), ('b', ?)", [START] * 3)
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_the_rows_of_each_case_give_the_aggregate(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    found, seen = plan(text, TABLES).text, set()
    for step in range(0, 120, 7):
        now = f"TIMESTAMP '{START + step * HOUR}'"
        rows, wanted = (_rows(connection, each.replace("NOW()", now)) for each in (found, TEXTS[text] or text))
        assert rows == wanted, now
        seen.add(rows)
    assert len(seen) > 2, "the aggregate never changed"


def _rows(connection: duckdb.DuckDBPyConnection, text: str) -> frozenset[tuple[Any, ...]]:
    return frozenset(connection.execute(local_text(text)).fetchall())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT MAX(NOW()) AS n FROM msgs", "would change every microsecond"),
        (
            "SELECT MAX(CASE WHEN sender = 'a' THEN NOW() END) AS n FROM msgs",
            "would change every microsecond",
        ),
        (f"SELECT COUNT(CASE WHEN {RECENT} THEN 1 END) OVER () AS n FROM msgs", "NOW() or a period in an aggregate"),
        (f"SELECT COUNT(*) FILTER (WHERE {RECENT}) OVER () AS n FROM msgs", "NOW() or a period in an aggregate"),
    ],
)
def test_a_value_that_is_never_the_same_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SqlError) as refused:
        plan(text, TABLES)
    assert reason in str(refused.value)
