"""The language on Spark: set operations, derived tables, constants, names, and many queries with one plan.

The queries run in one home with two ticks. ``oracle.reference`` evaluates each text at every instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from oracle.engines import GRID, Sqlite
from oracle.expressions import LAST
from oracle.grammar import TABLES
from oracle.histories import COLUMNS, Row
from oracle.laws import same
from oracle.reference import reference
from replayed import first_instants, load, replay_home
from weft.algebra.schema import DataType
from weft.api import Weft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# k, n, x, d, f, ts
ROWS: dict[str, tuple[Row, ...]] = {
    "m": ((1, 1, "a", 3, True, 0), (0, 2, "b", None, False, 2), (1, 0, "ab", 7, None, 4), (2, None, "a", 6, True, 6)),
    "r": ((1, 1, "a", 5, True, 1), (None, 0, None, 2, None, 3), (0, 1, "b", 8, False, 5), (2, 2, "ab", None, True, 8)),
    "u": ((1, 5, "a", 4, True, 2), (0, 1, "c", None, None, 2), (2, 0, "b", 9, False, 7)),
}
QUERIES = {
    "derived": "SELECT d.k AS c FROM (SELECT k, x FROM m WHERE x <> 'b') AS d JOIN r ON r.k = d.k",
    "derived_now": "SELECT d.k AS c FROM (SELECT k, d AS e FROM m WHERE NOW() > ts + INTERVAL 2 MICROSECONDS) AS d "
    "WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = d.k AND NOW() < u.d)",
    "union": "SELECT k AS c FROM m UNION SELECT n FROM u WHERE NOW() >= d",
    "union_joined": "SELECT a.c AS c, r.x AS y FROM (SELECT k AS c FROM m UNION ALL SELECT n FROM u) AS a "
    "JOIN r ON r.k = a.c",
    "except": "SELECT x AS c FROM m EXCEPT SELECT x FROM r",
    "except_now": "SELECT x AS c FROM m EXCEPT SELECT x FROM r WHERE NOW() < r.d",
    "intersect": "SELECT k AS c, x AS y FROM m INTERSECT SELECT k, x FROM r "
    "WHERE NOW() > r.ts + INTERVAL 1 MICROSECONDS",
    "under_not_exists": "SELECT u.x AS c FROM u WHERE NOT EXISTS "
    "(SELECT 1 FROM m WHERE m.k = u.k AND NOW() < m.d UNION SELECT 1 FROM r WHERE r.n = u.n)",
    "not_in_union": "SELECT u.k AS c FROM u WHERE u.k NOT IN (SELECT k FROM m WHERE f UNION ALL SELECT n FROM r)",
    "cte": "WITH w AS (SELECT k, n FROM m WHERE NOW() - INTERVAL 3 MICROSECONDS <= ts), v(a) AS (SELECT n FROM w) "
    "SELECT w.k AS c, v.a AS b FROM w JOIN v ON v.a <> w.k",
    "constants": "WITH v(a, b) AS (VALUES (1, 'one'), (2, 'two'), (7, NULL)) SELECT v.a AS c, v.b AS y, m.x AS z "
    "FROM v JOIN m ON m.k = v.a",
    "constants_alone": "WITH v(a) AS (VALUES (3), (4)) SELECT a AS c FROM v",
    "constants_absent": "WITH v(a) AS (VALUES (0), (1), (2), (5)) SELECT a AS c FROM v WHERE a NOT IN "
    "(SELECT k FROM m WHERE NOW() > ts + INTERVAL 1 MICROSECONDS)",
    "distinct_inside": "SELECT d.x AS c FROM (SELECT DISTINCT x FROM r WHERE x IS NOT NULL) AS d "
    "WHERE EXISTS (SELECT DISTINCT 1 FROM m WHERE m.x = d.x)",
    "listed": "SELECT k AS c, ts AS s FROM m WHERE x IN ('a', 'ab')",
    "listed_too": "SELECT k AS c, ts AS s FROM m WHERE x IN ('b', 'c', 'd')",
    "numbers_listed": "SELECT x AS c FROM u WHERE k IN (0, 2) AND n NOT IN (1, 9)",
    "numbers_listed_too": "SELECT x AS c FROM u WHERE k IN (1) AND n NOT IN (7, 8, 9)",
    "decimals": "SELECT x AS c FROM m WHERE k < 1.5",
    "decimals_too": "SELECT x AS c FROM m WHERE k < 0.25",
    "never": "SELECT x AS c FROM m WHERE NOW() < ts AND k < k",
    "named_like_a_column": "SELECT k.x AS c FROM m AS k WHERE k.x NOT IN (SELECT n.x FROM r AS n WHERE n.x IS NOT NULL "
    "AND n.n = k.n)",
    "left_join": "SELECT m.x AS c, m.n AS y FROM m LEFT JOIN r ON r.k = m.k AND NOW() >= r.d "
    "WHERE r.k IS NULL AND r.x IS NULL",
    "left_joins": "SELECT u.x AS c FROM u LEFT JOIN m ON m.n < u.n LEFT JOIN r ON r.x = u.x "
    "WHERE m.n IS NULL AND r.x IS NULL",
    "nested_not_in": "SELECT x AS c FROM u WHERE k NOT IN (SELECT n FROM r WHERE k NOT IN (SELECT n FROM m))",
}
# Syntax that SQLite, which evaluates the reference, does not support.
SPELLED = {
    "semi": (
        "SELECT m.x AS c FROM m LEFT SEMI JOIN r ON r.k = m.k AND NOW() >= r.d",
        "SELECT m.x AS c FROM m WHERE EXISTS (SELECT 1 FROM r WHERE r.k = m.k AND NOW() >= r.d)",
    ),
    "anti": (
        "SELECT m.x AS c, m.n AS y FROM m LEFT ANTI JOIN r USING (x, k)",
        "SELECT m.x AS c, m.n AS y FROM m WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.x = m.x AND r.k = m.k)",
    ),
    "intersect_first": (
        "SELECT x AS c FROM u UNION SELECT x FROM m INTERSECT SELECT x FROM r",
        "SELECT x AS c FROM u UNION SELECT i FROM (SELECT x AS i FROM m INTERSECT SELECT x FROM r) AS q",
    ),
    "parentheses": (
        "SELECT m.x AS c FROM m WHERE EXISTS ((SELECT 1 FROM r WHERE r.k = m.k)) AND m.k IN ((SELECT u.k FROM u))",
        "SELECT m.x AS c FROM m WHERE EXISTS (SELECT 1 FROM r WHERE r.k = m.k) AND m.k IN (SELECT u.k FROM u)",
    ),
    "keywords": (
        "SELECT `select`.x AS c FROM m AS `select`, r AS `except` WHERE `except`.k = `select`.k",
        "SELECT m.x AS c FROM m, r AS e WHERE e.k = m.k",
    ),
}
# Equivalent JSON functions of SQLite.
JSON = {
    "json_part": (
        """SELECT m.k AS c, m.ts AS s FROM m WHERE GET_JSON_OBJECT('{"t": ["' || m.x || '"]}', '$.t[0]') = 'a'""",
        """SELECT m.k AS c, m.ts AS s FROM m WHERE json_extract('{"t": ["' || m.x || '"]}', '$.t[0]') = 'a'""",
    ),
    "json_field": (
        """SELECT FROM_JSON('{"a": {"b": "' || m.x || '"}}', 'a STRUCT<b: STRING>').a.b AS c FROM m JOIN r
        ON FROM_JSON('{"k": ' || CAST(m.k AS STRING) || '}', 'k INT').k = r.k AND NOW() >= r.d""",
        """SELECT m.x AS c FROM m JOIN r ON m.k = r.k AND NOW() >= r.d""",
    ),
    "json_array": (
        """SELECT u.x AS c, u.k AS y FROM u WHERE NOT EXISTS (SELECT 1 FROM m WHERE NOW() < m.d
        AND ARRAY_CONTAINS(FROM_JSON('["' || m.x || '", "c"]', 'ARRAY<STRING>'), u.x))""",
        """SELECT u.x AS c, u.k AS y FROM u WHERE NOT EXISTS (SELECT 1 FROM m WHERE NOW() < m.d
        AND EXISTS (SELECT 1 FROM json_each('["' || m.x || '", "c"]') AS e WHERE e.value = u.x))""",
    ),
    "json_elements": (
        """SELECT u.x AS c, u.n AS y FROM u WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.k <> u.k
        AND EXISTS(SPLIT(m.x, ''), t -> t = u.x AND u.n > 0))""",
        """SELECT u.x AS c, u.n AS y FROM u WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.k <> u.k
        AND u.x IN (substr(m.x, 1, 1), substr(m.x, 2, 1)) AND u.n > 0)""",
    ),
    "json_item": (
        """SELECT FROM_JSON('[' || CAST(m.k AS STRING) || ', 7]', 'ARRAY<INT>')[m.n] AS c FROM m
        WHERE SIZE(SPLIT(m.x, 'b')) = 1""",
        """SELECT CASE m.n WHEN 0 THEN m.k WHEN 1 THEN 7 END AS c FROM m WHERE instr(m.x, 'b') = 0""",
    ),
}
TEXTS = {name: (text, text) for name, text in QUERIES.items()} | SPELLED | JSON


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weft]:
    """A home with the rows and all queries, after ticks at 5 and at the end."""
    weft = replay_home(tmp_path_factory.mktemp("language") / "home")
    types = [(name, DataType.parse(kind)) for name, kind in COLUMNS.items()]
    for table in TABLES:
        rows = [(*row[:3], None if row[3] is None else row[3] + GRID, row[4], row[5] + GRID) for row in ROWS[table]]
        load(weft, spark, table, rows, types)
    for name, (text, _) in TEXTS.items():
        weft.install(name, text)
    for until in (5, LAST + 1):
        weft.tick(now=GRID + until)
    yield weft
    weft.close()


@pytest.fixture(scope="module")
def engine() -> Sqlite:
    found = Sqlite()
    found.load({table: [(*row, None) for row in rows] for table, rows in ROWS.items()})
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_the_answers_are_those_of_the_text_at_every_instant(name: str, home: Weft, engine: Sqlite) -> None:
    wanted = reference(engine, TEXTS[name][1]).first()
    query = home.catalog.queries.named(name)
    assert query.reason is None and query.state == "active"
    assert (wanted == {}) == (name == "never"), "a query without answers shows nothing"
    instants = [kind.name == "TIMESTAMP" for _, kind in query.columns]
    found = {
        tuple(v - GRID if at and v is not None else v for v, at in zip(row, instants, strict=True)): s - GRID
        for row, s in first_instants(home, name).items()
    }
    same(name, found, wanted)


def test_queries_that_differ_in_lists_and_digits_share_plans(home: Weft) -> None:
    for name in ("listed", "numbers_listed", "decimals"):
        first, second = (home.catalog.queries.named(each) for each in (name, f"{name}_too"))
        assert first.plan_id == second.plan_id


def test_a_query_that_can_have_no_row_is_tried_without_an_error(home: Weft) -> None:
    for never in ("FALSE", "NOW() < ts", "k < k"):
        assert home.try_query(f"SELECT k, x, d FROM m WHERE {never}", now=GRID + LAST).rows == ()
    assert home.try_query("SELECT k AS c FROM m UNION SELECT n FROM u", now=GRID + LAST).count == 4
