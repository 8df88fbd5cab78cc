"""Subqueries that stand for values, and ANY and ALL: the bound query and the text itself give the same rows.

DuckDB runs both.
"""

from __future__ import annotations

import duckdb
import pytest

from netnews import table
from weft.algebra.relation import Union
from weft.algebra.schema import INT, STRING
from weft.algebra.traverse import walk
from weft.errors import SqlError
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql

TABLES = {
    each.name: each
    for each in (
        table(1, "s", {"k": STRING, "x": INT}),
        table(2, "o", {"k": STRING, "x": INT}),
        table(3, "e", {"k": STRING, "x": INT}),
    )
}
ROWS = """
CREATE TABLE s (k VARCHAR, x INT, ts INT);
CREATE TABLE o (k VARCHAR, x INT, ts INT);
CREATE TABLE e (k VARCHAR, x INT, ts INT);
INSERT INTO s VALUES ('a', 1, 1), ('a', 3, 2), ('a', NULL, 3), ('b', 3, 4), ('b', 2, 5), (NULL, 7, 6), ('c', NULL, 8);
INSERT INTO o VALUES ('a', 3, 1), ('a', 2, 2), ('b', NULL, 3), ('b', 1, 4), ('d', NULL, 5);
"""
SIGNS = ("<", "<=", ">", ">=", "=", "<>")
COUNTED = "(SELECT COUNT(*) FROM o WHERE o.k = s.k)"
TEXTS = (
    *(f"SELECT k, x FROM s WHERE x {sign} (SELECT MAX(x) FROM {of})" for sign in SIGNS for of in ("o", "e")),
    *(f"SELECT k, x FROM s WHERE NOT (x {sign} (SELECT MIN(x) FROM o WHERE o.k = s.k))" for sign in SIGNS),
    *(f"SELECT k, x FROM s WHERE x {sign} ANY (SELECT x FROM {of})" for sign in SIGNS for of in ("o", "s", "e")),
    *(f"SELECT k, x FROM s WHERE x {sign} ALL (SELECT x FROM {of} WHERE x > 1)" for sign in SIGNS for of in ("o", "e")),
    *(f"SELECT k, x FROM s WHERE NOT (x {sign} ANY (SELECT x FROM {of}))" for sign in SIGNS for of in ("o", "e")),
    *(f"SELECT k, x FROM s WHERE NOT x {sign} ALL (SELECT x FROM o WHERE o.k = s.k)" for sign in SIGNS),
    *(f"SELECT k, x FROM s WHERE (SELECT COUNT(*) FROM o WHERE o.k = s.k) {test}" for test in ("> 1", "= 0", "< 2")),
    "SELECT k, x FROM s WHERE x IS NULL OR x >= (SELECT MAX(x) FROM o WHERE o.k = s.k)",
    "SELECT k, (SELECT SUM(o.x) FROM o WHERE o.k = s.k) AS total, (SELECT COUNT(*) FROM e) AS none FROM s",
    "SELECT k, CASE WHEN (SELECT COUNT(o.x) FROM o WHERE o.k = s.k) > 0 THEN 1 ELSE 0 END AS c FROM s",
    "SELECT k, COUNT(*) AS n FROM s GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM o WHERE o.k = s.k)",
    "SELECT k, COUNT(*) AS n, (SELECT MAX(o.x) FROM o WHERE o.k = s.k) AS m FROM s GROUP BY k",
    "SELECT k, SUM(x) + (SELECT MAX(x) FROM o) AS n FROM s GROUP BY k ORDER BY (SELECT MIN(x) FROM o) + SUM(x) LIMIT 2",
    "SELECT k, (SELECT o.x FROM o WHERE o.k = s.k ORDER BY o.ts LIMIT 1) AS first FROM s",
    "SELECT k, (SELECT x FROM e LIMIT 1) AS first FROM s",
    "SELECT k, (SELECT MAX(x) FROM o HAVING COUNT(*) > 7) AS m FROM s",
    "SELECT k, (SELECT MAX(o.x) FROM o WHERE o.x < (SELECT MAX(p.x) FROM o AS p WHERE p.k = s.k)) AS m FROM s",
    "SELECT s.k, o.x FROM s JOIN o ON o.k = s.k AND o.x > (SELECT MIN(x) FROM o)",
    "SELECT s.k, o.x FROM s LEFT JOIN o ON o.k = s.k WHERE COALESCE(o.x, 0) < (SELECT COUNT(*) FROM s)",
    "SELECT s.k, o.x FROM s JOIN o ON o.ts > (SELECT MIN(ts) FROM o) LEFT JOIN e ON e.k = s.k",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM o WHERE o.x > (SELECT MIN(x) FROM s))",
    "SELECT k, SUM(m) AS t FROM (SELECT k, (SELECT MAX(x) FROM o WHERE o.k = s.k) AS m FROM s) AS d GROUP BY k",
    "SELECT k FROM s WHERE x IN (SELECT MAX(o.x) FROM o GROUP BY o.k HAVING COUNT(*) > 1)",
    "SELECT k FROM s WHERE EXISTS (SELECT o.k FROM o WHERE o.k = s.k GROUP BY o.k HAVING COUNT(*) > 1)",
    "SELECT k, RANK() OVER (ORDER BY (SELECT COUNT(*) FROM o WHERE o.k = s.k)) AS r FROM s",
    "SELECT SUM((SELECT MAX(x) FROM o)) AS t FROM s",
    "SELECT (SELECT MAX(x) FROM o WHERE o.k = s.k) AS m, COUNT(*) AS n FROM s GROUP BY 1",
    f"SELECT {COUNTED} AS m, {COUNTED} + 1 AS more, COUNT(*) AS n FROM s GROUP BY {COUNTED} HAVING {COUNTED} < 7",
)


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(ROWS)
    connection.execute("SET default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC'")  # as in Spark
    return connection


@pytest.mark.parametrize("text", TEXTS)
def test_the_bound_query_has_the_rows_of_its_text(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    bound = query_sql(bind(text, TABLES)).replace("`", '"').replace("<=>", "IS NOT DISTINCT FROM")
    found, wanted = (set(rows.execute(each).fetchall()) for each in (bound, text))
    assert found == wanted


@pytest.mark.parametrize("test", ["> 1", "= 3", "<> 0", "BETWEEN 1 AND 4"])
def test_a_comparison_that_no_empty_group_meets_needs_no_union(test: str) -> None:
    query = bind(f"SELECT k FROM s WHERE (SELECT COUNT(*) FROM o WHERE o.k = s.k) {test}", TABLES)
    assert not any(isinstance(part, Union) for part in walk(query))


REFUSED = {
    "SELECT k FROM s WHERE x > (SELECT x FROM o)": "several rows",
    "SELECT k FROM s WHERE x > (SELECT MAX(x) FROM o GROUP BY k)": "several rows",
    "SELECT k FROM s WHERE x > (SELECT x FROM o UNION SELECT x FROM e)": "several rows",
    "SELECT k FROM s WHERE x > (SELECT x, k FROM o LIMIT 1)": "one column",
    "SELECT k FROM s WHERE x > (SELECT MAX(o.x) FROM o WHERE o.x < s.x)": "only by =",
    "SELECT k FROM s GROUP BY (SELECT MAX(x) FROM o)": "neither in GROUP BY nor in an aggregate",
    "SELECT s.k FROM s LEFT JOIN o ON o.x = (SELECT MAX(x) FROM e)": "cannot stand here",
    "SELECT CASE WHEN x > ANY (SELECT x FROM o) THEN 1 END AS c FROM s": "WHERE, ON or HAVING",
    "SELECT k FROM s WHERE x > ALL (SELECT x, k FROM o)": "one column",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert REFUSED[text] in f"{caught.value} {caught.value.hint}"
