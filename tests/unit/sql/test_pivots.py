"""PIVOT and UNPIVOT: the bound query has the rows of a text without them.  DuckDB runs both."""

from __future__ import annotations

import duckdb
import pytest

from netnews import table
from weft.algebra.schema import BOOLEAN, DATE, INT, STRING
from weft.errors import SqlError
from weft.sql.dialects.duckdb_dialect import local_text
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql

SALES = table(1, "sales", {"shop": STRING, "quarter": STRING, "amount": INT, "open": BOOLEAN, "day": DATE})
TABLES = {"sales": SALES, "plan": table(2, "plan", {"shop": STRING, "q1": INT, "q2": INT, "note": STRING})}
ROWS = """
CREATE TABLE sales (shop VARCHAR, quarter VARCHAR, amount INT, open BOOLEAN, day DATE, ts TIMESTAMP);
CREATE TABLE plan (shop VARCHAR, q1 INT, q2 INT, note VARCHAR, ts TIMESTAMP);
INSERT INTO sales VALUES ('a', 'q1', 3, true, NULL, '2024-01-01'), ('a', 'q2', 4, true, NULL, '2024-01-01'),
  ('a', 'q1', 5, false, NULL, '2024-01-01'), ('b', 'q3', 1, true, NULL, '2024-01-01'),
  ('c', 'q2', NULL, true, NULL, '2024-01-01');
INSERT INTO plan VALUES ('a', 1, 2, 'x', '2024-01-01'), ('b', NULL, 3, NULL, '2024-01-01');
"""
NARROW = "(SELECT shop, quarter, amount FROM sales)"
ALIKE = {
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR quarter IN ('q1', 'q2'))": (
        "SELECT shop, SUM(amount) FILTER (WHERE quarter = 'q1'), SUM(amount) FILTER (WHERE quarter = 'q2') FROM sales "
        "GROUP BY shop"
    ),
    f"SELECT * FROM {NARROW} PIVOT (COUNT(amount) AS n, MAX(amount) AS m FOR quarter IN ('q2' AS two))": (
        "SELECT shop, CASE WHEN COUNT(*) FILTER (WHERE quarter = 'q2') > 0 THEN COUNT(amount) FILTER (WHERE quarter = "
        "'q2') END, MAX(amount) FILTER (WHERE quarter = 'q2') FROM sales GROUP BY shop"
    ),
    f"SELECT p.shop FROM {NARROW} PIVOT (SUM(amount) FOR quarter IN ('q1', 'q2')) AS p WHERE p.q1 > p.q2": "SELECT 'a'",
    "WITH s AS (SELECT quarter, amount FROM sales) SELECT * FROM s PIVOT (SUM(amount) FOR quarter IN ('q1', 'q9'))": (
        "SELECT 8, NULL"
    ),
    "SELECT * FROM (SELECT shop, q1, q2 FROM plan) UNPIVOT (amount FOR quarter IN (q1, q2 AS 'second'))": (
        "VALUES ('a', 'q1', 1), ('a', 'second', 2), ('b', 'second', 3)"
    ),
    "SELECT u.shop, u.v FROM (SELECT shop, q1, q2 FROM plan) UNPIVOT INCLUDE NULLS (v FOR k IN (q1, q2)) AS u "
    "JOIN sales s ON s.shop = u.shop WHERE u.shop = 'b'": "VALUES ('b', NULL), ('b', 3)",
}


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(ROWS)
    return connection


def _run(rows: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    return sorted(set(map(repr, rows.execute(text).fetchall())))


@pytest.mark.parametrize("text", ALIKE)
def test_the_bound_query_has_the_rows_of_the_plain_text(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    bound = local_text(query_sql(bind(text, TABLES)))
    assert _run(rows, bound) == _run(rows, ALIKE[text])


REFUSED = {
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount), MAX(amount) FOR quarter IN ('q1'))": "AS s",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR quarter IN (SELECT shop FROM plan))": "constants",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR quarter IN (shop))": "constants",
    f"SELECT * FROM {NARROW} PIVOT (SUM(nosuch) FOR quarter IN ('q1'))": "'nosuch'",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR nosuch IN ('q1'))": "'nosuch'",
    f"SELECT * FROM {NARROW} PIVOT (UPPER(shop) FOR quarter IN ('q1'))": "PIVOT takes aggregates",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR (shop, quarter) IN (('a', 'q1')))": "need a name",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR quarter IN ())": "IN () has no value",
    f"SELECT * FROM {NARROW} PIVOT (SUM(amount) FOR (shop, quarter) IN ('a' AS x))": "2",
    "SELECT * FROM plan p JOIN sales s PIVOT (SUM(amount) FOR quarter IN ('q1'))": "the whole join",
    "SELECT * FROM nosuch PIVOT (SUM(amount) FOR quarter IN ('q1'))": "there is no table",
    "SELECT * FROM plan UNPIVOT ((a, b) FOR k IN ((q1, q2)))": "several columns at once",
    "SELECT * FROM plan UNPIVOT (v FOR k IN (q1, note))": "the columns of UNPIVOT have the types INT and STRING",
    "SELECT * FROM plan UNPIVOT (v FOR k IN (q1, nosuch))": "'nosuch'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert REFUSED[text] in f"{caught.value} {caught.value.hint}"


def test_columns_of_a_refused_pivot_are_no_further_reasons() -> None:
    pivot = f"{NARROW} PIVOT (SUM(nosuch) FOR quarter IN ('q1')) AS p"
    text = f"SELECT p.q1, s.day FROM {pivot} JOIN sales s ON s.shop = p.shop"
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert "'nosuch'" in str(caught.value) and not caught.value.reasons
