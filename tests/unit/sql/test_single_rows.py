"""EXISTS and subqueries without an aggregate as values: keys and equalities prevent a second row.  DuckDB runs both."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from netnews import table
from weft.algebra.schema import BIGINT, INT, STRING
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.sql.dialects.duckdb_dialect import local_text
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql

STAFF = replace(table(1, "staff", {"name": STRING, "boss": STRING, "office": INT}, end="until"), key=("Name",))
ROOMS = replace(table(2, "rooms", {"floor": INT, "no": BIGINT, "label": STRING}), key=("floor", "no"))
TASKS = table(3, "tasks", {"id": INT, "owner": STRING, "floor": INT, "room": INT, "weight": INT})
TABLES = {each.name: each for each in (STAFF, ROOMS, TASKS)}
ROWS = """
CREATE TABLE staff (name VARCHAR, boss VARCHAR, office INT, until TIMESTAMP, ts TIMESTAMP);
CREATE TABLE rooms (floor INT, no BIGINT, label VARCHAR, ts TIMESTAMP);
CREATE TABLE tasks (id INT, owner VARCHAR, floor INT, room INT, weight INT, ts TIMESTAMP);
INSERT INTO staff VALUES ('anna', 'cleo', 1, NULL, '2024-01-01'), ('bob', 'anna', NULL, NULL, '2024-01-01'),
  ('cleo', NULL, 3, NULL, '2024-01-01');
INSERT INTO rooms VALUES (1, 1, 'a', '2024-01-01'), (1, 2, NULL, '2024-01-01'), (2, 1, 'c', '2024-01-01');
INSERT INTO tasks VALUES (1, 'anna', 1, 1, 5, '2024-01-01'), (2, 'bob', 1, 2, 6, '2024-01-01'),
  (3, 'dan', 2, 1, 7, '2024-01-01'), (4, NULL, NULL, 1, 8, '2024-01-01'), (5, 'anna', 9, 9, 9, '2024-01-01');
"""
STANDS = (
    "SELECT t.id, EXISTS (SELECT 1 FROM staff s WHERE s.boss = t.owner AND s.office < t.weight) AS leads FROM tasks t",
    "SELECT id FROM tasks WHERE CASE WHEN EXISTS (SELECT 1 FROM rooms WHERE no = room) THEN id > 1 ELSE id = 1 END",
    "SELECT COUNT(*) AS n FROM tasks t WHERE (SELECT s.office FROM staff s WHERE s.name = t.owner) > 0",
    "SELECT boss, COUNT(*) AS n FROM (SELECT (SELECT s.boss FROM staff s WHERE s.name = t.owner) AS boss FROM tasks t) "
    "GROUP BY boss",
    "SELECT t.id, COUNT(*) OVER (PARTITION BY t.floor) AS n FROM tasks t WHERE (SELECT DISTINCT u.owner FROM tasks u "
    "WHERE u.owner = t.owner) = 'anna'",
    "SELECT t.id, (SELECT s.boss FROM staff s WHERE s.name = t.owner) AS boss FROM tasks t",
    "SELECT t.id FROM tasks t WHERE (SELECT s.boss FROM staff s WHERE t.owner = s.name AND s.office > 0) = 'cleo'",
    "SELECT t.id, (SELECT r.label FROM rooms r WHERE r.floor = t.floor AND r.no = t.room) AS label FROM tasks t",
    "SELECT id, (SELECT e.office FROM staff s JOIN staff e ON e.name = s.boss WHERE s.name = owner) AS o FROM tasks",
    "SELECT t.id, (SELECT office FROM staff WHERE name = 'cleo') AS o FROM tasks t",
    "SELECT t.id, (SELECT d.boss FROM (SELECT name, boss FROM staff) d WHERE d.name = t.owner) AS boss FROM tasks t",
    "SELECT s.name, (SELECT SUM(t.weight) FROM tasks t WHERE t.owner = s.name GROUP BY t.owner) AS w FROM staff s",
    "SELECT s.name, (SELECT d.w FROM (SELECT owner, SUM(weight) AS w FROM tasks GROUP BY owner) d WHERE d.owner = "
    "s.name) AS w FROM staff s",
    "SELECT s.name, (SELECT DISTINCT t.owner FROM tasks t WHERE t.owner = s.name) AS o FROM staff s",
    "SELECT s.name FROM staff s WHERE COALESCE((SELECT b.office FROM staff b WHERE b.name = s.boss), 0) < 2",
)


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(ROWS)
    return connection


def _run(rows: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    return sorted(set(map(repr, rows.execute(text).fetchall())))


@pytest.mark.parametrize("text", STANDS)
def test_the_bound_query_has_the_rows_of_its_text(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    assert plan(text, TABLES).branches
    assert _run(rows, local_text(query_sql(bind(text, TABLES)))) == _run(rows, text)


REFUSED = (
    "SELECT t.id, (SELECT s.boss FROM staff s WHERE s.office = t.room) AS b FROM tasks t",
    "SELECT t.id, (SELECT r.label FROM rooms r WHERE r.floor = t.floor) AS label FROM tasks t",
    "SELECT t.id, (SELECT r.label FROM rooms r WHERE r.floor = t.floor AND r.no = r.floor + r.no) AS b FROM tasks t",
    "SELECT id, (SELECT r.label FROM rooms r WHERE r.floor = t.floor AND r.no = CAST(room AS DOUBLE)) FROM tasks t",
    "SELECT t.id, (SELECT s.boss FROM staff s WHERE s.name = t.owner OR s.name = 'x') AS b FROM tasks t",
    "SELECT t.id, (SELECT s.boss FROM staff s WHERE s.name <=> t.owner) AS b FROM tasks t",
    "SELECT t.id, (SELECT s.boss FROM staff s, tasks u WHERE s.name = t.owner) AS b FROM tasks t",
    "SELECT s.name, (SELECT t.owner FROM tasks t WHERE t.owner = s.name) AS o FROM staff s",
    "SELECT name, (SELECT SUM(weight) FROM tasks t WHERE t.owner = s.name GROUP BY t.owner, t.room) AS w FROM staff s",
    "SELECT t.id, (SELECT s.boss FROM staff s WHERE s.name = t.owner UNION SELECT 'x' FROM rooms) AS b FROM tasks t",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_subquery_that_may_have_several_rows_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="several rows"):
        bind(text, TABLES)
