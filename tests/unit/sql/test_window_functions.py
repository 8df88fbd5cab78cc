"""Window functions, LIMIT and the ALL of EXCEPT and INTERSECT: the bound query and the text itself give the same rows.

DuckDB runs both. The texts spell a total order where a function needs one, because engines break ties in any order.
"""

from __future__ import annotations

import duckdb
import pytest

from netnews import table
from weft.algebra.relation import Frame, SortKey, Windowed
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType
from weft.algebra.traverse import walk
from weft.errors import SqlError
from weft.sql.lower.query import bind
from weft.sql.rendering.render import frame_text, query_sql

SALES = table(1, "sales", {"id": INT, "shop": STRING, "amount": INT, "day": DATE, "note": STRING})
SHOPS = table(2, "shops", {"name": STRING, "city": STRING})
TABLES = {each.name: each for each in (SALES, SHOPS)}
ROWS = """
CREATE TABLE sales (id INT, shop VARCHAR, amount INT, day DATE, note VARCHAR, ts TIMESTAMP);
CREATE TABLE shops (name VARCHAR, city VARCHAR, ts TIMESTAMP);
INSERT INTO sales VALUES
  (1, 'a', 5, '2024-01-01', NULL, '2024-01-01'), (2, 'a', 5, '2024-01-03', 'x', '2024-01-03 10:00:00'),
  (3, 'a', NULL, '2024-01-04', 'y', '2024-01-04'), (4, 'b', 9, NULL, NULL, '2024-01-01'),
  (5, 'b', 1, '2024-01-02', 'z', '2024-01-02'), (6, NULL, 7, '2024-01-02', 'x', '2024-01-02'),
  (7, 'c', 3, '2024-01-09', NULL, '2024-01-09'), (2, 'a', 5, '2024-01-03', 'x', '2024-01-03 10:00:00'),
  (8, 'a', 2, '2024-01-03', NULL, '2024-01-03 10:00:00');
INSERT INTO shops VALUES ('a', 'Bonn', '2024-01-01'), ('b', 'Kiel', '2024-01-01'), ('d', 'Bonn', '2024-01-02'),
  ('a', 'Bonn', '2024-01-05');
"""
TEXTS = (
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS n FROM sales",
    "SELECT id, RANK() OVER (PARTITION BY shop ORDER BY amount) AS n, DENSE_RANK() OVER (ORDER BY amount DESC) AS d "
    "FROM sales",
    "SELECT id FROM sales QUALIFY RANK() OVER (PARTITION BY shop ORDER BY amount DESC) = 1",
    "SELECT id, RANK() OVER (ORDER BY amount) AS r FROM sales QUALIFY r <= 3 AND shop = 'a'",
    "SELECT * FROM (SELECT id, shop, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC, id) AS n FROM sales) AS d "
    "WHERE n = 1",
    "SELECT id, LAG(amount) OVER (PARTITION BY shop ORDER BY ts, id) AS l, LEAD(note, 2, '-') OVER (ORDER BY ts, id) "
    "AS e FROM sales",
    "SELECT id, LAG(amount, 1, -1) OVER (ORDER BY ts, id) AS l FROM sales",
    "SELECT id, SUM(amount) OVER (PARTITION BY shop) AS s, COUNT(*) OVER () AS c, AVG(amount) OVER (ORDER BY ts) AS a "
    "FROM sales",
    "SELECT id, SUM(amount) OVER (ORDER BY ts, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM sales",
    "SELECT id, SUM(amount) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS s FROM sales",
    "SELECT id, COUNT(note) OVER (ORDER BY amount RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) AS s FROM sales",
    "SELECT id, FIRST_VALUE(id) OVER (PARTITION BY shop ORDER BY amount DESC, id) AS f, LAST_VALUE(id) OVER "
    "(PARTITION BY shop ORDER BY ts, id) AS l FROM sales",
    "SELECT id, LAST_VALUE(id) OVER (PARTITION BY shop ORDER BY ts, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED "
    "FOLLOWING) AS l, NTH_VALUE(id, 2) OVER (PARTITION BY shop ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS n FROM sales",
    "SELECT id, NTH_VALUE(id, 2) OVER (PARTITION BY shop ORDER BY ts, id) AS n FROM sales",
    "SELECT id, FIRST_VALUE(note IGNORE NULLS) OVER (PARTITION BY shop ORDER BY ts, id, note) AS f, LAST_VALUE(note "
    "IGNORE NULLS) OVER (PARTITION BY shop ORDER BY ts, id) AS l FROM sales",
    "SELECT id, LAG(note IGNORE NULLS) OVER (PARTITION BY shop ORDER BY ts, id) AS a, LEAD(note, 2 IGNORE NULLS) OVER "
    "(ORDER BY ts, id) AS b, LAG(note, 2, shop IGNORE NULLS) OVER (ORDER BY ts, id) AS c FROM sales",
    "SELECT id, LAG(note, -1, '-' IGNORE NULLS) OVER (PARTITION BY shop ORDER BY ts DESC, id) AS a, NTH_VALUE(note, 2 "
    "IGNORE NULLS) OVER (ORDER BY ts, id) AS b FROM sales",
    "SELECT id, NTH_VALUE(note, 2 IGNORE NULLS) OVER (PARTITION BY shop ORDER BY amount, id ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING) AS b, LAG(note, 2 RESPECT NULLS) OVER (ORDER BY id) AS c FROM sales",
    "SELECT id, SUM(amount) FILTER (WHERE note IS NULL) OVER w AS s, RANK() OVER (w ORDER BY amount) AS r FROM sales "
    "WINDOW w AS (PARTITION BY shop)",
    "SELECT shop, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM sales GROUP BY shop",
    "SELECT shop, SUM(SUM(amount)) OVER (ORDER BY shop) AS s FROM sales GROUP BY shop HAVING COUNT(*) > 1",
    "SELECT shop FROM sales GROUP BY shop QUALIFY RANK() OVER (ORDER BY SUM(amount) DESC) = 1",
    "SELECT SUM(COUNT(*)) OVER () AS s FROM sales",
    "SELECT DISTINCT shop, MAX(amount) OVER (PARTITION BY shop) AS m FROM sales",
    "SELECT id, RANK() OVER (ORDER BY amount) - RANK() OVER (PARTITION BY shop ORDER BY ts) AS d FROM sales",
    "SELECT id FROM sales WHERE amount > 1 ORDER BY ts DESC, id LIMIT 3",
    "SELECT id FROM sales ORDER BY amount DESC, 1 LIMIT 2 OFFSET 1",
    "SELECT id AS k, amount * 2 AS twice FROM sales ORDER BY twice, k LIMIT 4",
    "SELECT id FROM sales ORDER BY amount NULLS LAST, id, ts OFFSET 6",
    "SELECT shop FROM sales GROUP BY shop ORDER BY COUNT(*) DESC, shop LIMIT 2",
    "SELECT shop, SUM(amount) AS s FROM sales GROUP BY shop ORDER BY s DESC, shop LIMIT 2",
    "SELECT DISTINCT shop FROM sales ORDER BY shop DESC LIMIT 2",
    "SELECT d.shop, COUNT(*) AS n FROM (SELECT shop FROM sales ORDER BY amount, id LIMIT 5) AS d GROUP BY d.shop",
    "SELECT id FROM sales UNION SELECT id + 10 FROM sales ORDER BY id DESC LIMIT 3",
    "SELECT id FROM (SELECT id FROM sales UNION ALL (SELECT id FROM sales ORDER BY id LIMIT 2)) AS d",
    "WITH top AS (SELECT id, amount FROM sales ORDER BY amount DESC, id LIMIT 2) SELECT a.id, b.id AS other FROM top "
    "AS a JOIN top AS b ON a.id < b.id",
    "SELECT id FROM sales WHERE shop IN (SELECT name FROM shops ORDER BY ts, city LIMIT 1)",
    "SELECT n.name FROM shops AS n WHERE EXISTS (SELECT 1 FROM sales AS s WHERE s.shop = n.name LIMIT 1)",
    "SELECT n.name FROM shops AS n WHERE 5 IN (SELECT s.amount FROM sales AS s WHERE s.shop = n.name ORDER BY s.ts, "
    "s.id LIMIT 1)",
    "SELECT n.name FROM shops AS n WHERE 2 IN (SELECT s.id FROM sales AS s WHERE s.shop = n.name QUALIFY ROW_NUMBER() "
    "OVER (ORDER BY s.ts, s.id) = 2)",
    "SELECT name, ROW_NUMBER() OVER (ORDER BY name, id) AS n FROM shops LEFT JOIN sales ON shop = name",
    "SELECT id, COUNT(*) AS n FROM (SELECT id FROM sales EXCEPT ALL SELECT id FROM sales WHERE note = 'y') AS d "
    "GROUP BY id",
    "SELECT shop, COUNT(*) AS n FROM (SELECT shop FROM sales EXCEPT ALL SELECT name FROM shops) AS d GROUP BY shop",
    "SELECT shop, COUNT(*) AS n FROM (SELECT shop FROM sales INTERSECT ALL SELECT name FROM shops) AS d GROUP BY shop",
)


SPELLED = {
    "`": '"',
    "<=>": "IS NOT DISTINCT FROM",
    "MIN_BY(": "ARG_MIN_NULL(",
    "MAX_BY(": "ARG_MAX_NULL(",
    "CAST(NULL AS STRING)": "CAST(NULL AS VARCHAR)",
}
"""How DuckDB spells what Spark has. Spark's MIN_BY returns NULL if the chosen row has it."""


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(ROWS)
    connection.execute("SET default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC'")  # as in Spark
    return connection


def _run(rows: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    for spark, plain in SPELLED.items():
        text = text.replace(spark, plain)
    return sorted(set(map(repr, rows.execute(text).fetchall())))


@pytest.mark.parametrize("text", TEXTS)
def test_the_bound_query_has_the_rows_of_its_text(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    assert _run(rows, query_sql(bind(text, TABLES))) == _run(rows, text)


def _windows(text: str) -> list[Windowed]:
    return [part for part in walk(bind(text, TABLES)) if isinstance(part, Windowed)]


def _keys(order: tuple[SortKey, ...]) -> list[str]:
    return [key.value.column for key in order]  # type: ignore[union-attr]


def test_rows_that_tie_are_in_the_order_of_the_other_columns() -> None:
    (made,) = _windows("SELECT id, note, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) AS n FROM sales")
    assert _keys(made.functions[0].order) == ["ts", "id", "note"]
    (made,) = _windows("SELECT id, RANK() OVER (ORDER BY ts) AS n, LAG(note) OVER (ORDER BY ts) AS l FROM sales")
    assert [_keys(each.order) for each in made.functions] == [["ts"], ["ts", "id", "note"]]


def test_functions_of_one_partition_share_an_operator() -> None:
    text = (
        "SELECT id, SUM(amount) OVER w AS s, COUNT(*) OVER w AS c, MAX(amount) OVER (PARTITION BY day) AS m FROM sales "
    )
    assert [len(each.functions) for each in _windows(f"{text} WINDOW w AS (PARTITION BY shop)")] == [1, 2]


def test_frames_are_those_of_spark() -> None:
    text = "SELECT SUM(amount) OVER (ORDER BY ts) AS a, SUM(amount) OVER () AS b, SUM(amount) OVER (ORDER BY ts RANGE "
    text += (
        "BETWEEN INTERVAL 2 HOURS PRECEDING AND UNBOUNDED FOLLOWING) AS c, SUM(id) OVER (ORDER BY day RANGE BETWEEN "
    )
    text += "1 PRECEDING AND INTERVAL 2 DAYS FOLLOWING) AS d FROM sales"
    (made,) = _windows(text)
    assert [each.frame for each in made.functions] == [
        Frame("range", None, 0),
        None,
        Frame("range", -7_200_000_000, None),
        Frame("range", -1, 2),
    ]


def test_both_bounds_of_a_frame_have_one_unit() -> None:
    """Spark refuses INTERVAL '3' DAY beside INTERVAL '1' HOUR."""
    frame = "RANGE BETWEEN INTERVAL {} PRECEDING AND INTERVAL {} FOLLOWING"
    text = f"SELECT COUNT(*) OVER (ORDER BY ts {frame}) AS n FROM sales"
    (made,) = _windows(text.format("3 DAYS", "90 MINUTES"))
    shown = "RANGE BETWEEN INTERVAL '4320' MINUTE PRECEDING AND INTERVAL '90' MINUTE FOLLOWING"
    assert frame_text(made.functions[0]) == shown
    (made,) = _windows(text.format("3 DAYS", "2 WEEKS"))
    assert frame_text(made.functions[0]) == "RANGE BETWEEN INTERVAL '3' DAY PRECEDING AND INTERVAL '14' DAY FOLLOWING"


TYPES = {
    "ROW_NUMBER() OVER (ORDER BY ts)": INT,
    "DENSE_RANK() OVER (ORDER BY ts)": INT,
    "COUNT(*) OVER ()": BIGINT,
    "SUM(amount) OVER ()": BIGINT,
    "AVG(amount) OVER ()": DOUBLE,
    "LAG(note) OVER (ORDER BY ts)": STRING,
    "LEAD(amount, 1, 0.5) OVER (ORDER BY ts)": DataType("DECIMAL", 11, 1),
    "FIRST_VALUE(ts) OVER (ORDER BY ts)": TIMESTAMP,
    "MIN_BY(day, amount) OVER (PARTITION BY shop)": DATE,
}


@pytest.mark.parametrize(
    ("inside", "behind"),
    [
        ("LAG(note, 2, '-' IGNORE NULLS)", "LAG(note, 2, '-') IGNORE NULLS"),
        ("LEAD(note IGNORE NULLS, 2)", "LEAD(note, 2) IGNORE NULLS"),
        ("NTH_VALUE(note IGNORE NULLS, 2)", "NTH_VALUE(note, 2) IGNORE NULLS"),
        ("LAG(note RESPECT NULLS)", "LAG(note)"),
        ("FIRST_VALUE(note, TRUE)", "FIRST_VALUE(note) IGNORE NULLS"),
    ],
)
def test_ignore_nulls_means_the_same_inside_the_parentheses_and_after_them(inside: str, behind: str) -> None:
    one, other = (bind(f"SELECT {call} OVER (ORDER BY ts) AS x FROM sales", TABLES) for call in (inside, behind))
    assert one == other


@pytest.mark.parametrize("call", TYPES)
def test_types_are_those_of_spark(call: str) -> None:
    assert bind(f"SELECT {call} AS x FROM sales", TABLES).types == (TYPES[call],)


REFUSED = {
    "SELECT id FROM sales WHERE ROW_NUMBER() OVER (ORDER BY ts) = 1": "QUALIFY",
    "SELECT SUM(ROW_NUMBER() OVER (ORDER BY ts)) AS s FROM sales": "a window function",
    "SELECT RANK() OVER (PARTITION BY shop) AS r FROM sales": "ORDER BY",
    "SELECT RANK(amount) OVER (ORDER BY ts) AS r FROM sales": "no argument",
    "SELECT ROW_NUMBER() OVER (ORDER BY ts ROWS 2 PRECEDING) AS r FROM sales": "a frame",
    "SELECT LAG(note, 0) IGNORE NULLS OVER (ORDER BY ts) AS r FROM sales": "the row itself",
    "SELECT RANK() IGNORE NULLS OVER (ORDER BY ts) AS r FROM sales": "IGNORE NULLS",
    "SELECT COUNT(note) IGNORE NULLS OVER (ORDER BY ts) AS r FROM sales": "an aggregate ignores NULLs by itself",
    "SELECT NTH_VALUE(note, 2) IGNORE NULLS OVER (ORDER BY ts ROWS 3 PRECEDING) AS r FROM sales": "UNBOUNDED PRECEDING",
    "SELECT LAG(note, id) OVER (ORDER BY ts) AS r FROM sales": "constant",
    "SELECT NTILE(4) OVER (ORDER BY ts) AS r FROM sales": "ROW_NUMBER",
    "SELECT COUNT(DISTINCT shop) OVER () AS r FROM sales": "DISTINCT",
    "SELECT SUM(amount) OVER (ORDER BY ts, id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM sales": "one key",
    "SELECT SUM(amount) OVER (ORDER BY ts RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM sales": "INTERVAL",
    "SELECT SUM(amount) OVER (ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) AS r FROM sales": "ends before",
    "SELECT SUM(amount) OVER w AS r FROM sales": "WINDOW w AS",
    "SELECT SUM(amount) OVER (w PARTITION BY id) AS r FROM sales WINDOW w AS (PARTITION BY shop)": "w",
    "SELECT SUM(amount) OVER (PARTITION BY NOW()) AS r FROM sales": "NOW()",
    "SELECT COUNT(*) OVER (ORDER BY id ROWS 3000000000 PRECEDING) AS n FROM sales": "2,147,483,647",
    "SELECT COUNT(*) OVER (ORDER BY day RANGE 3652060 PRECEDING) AS n FROM sales": "3,652,059",
    "SELECT COUNT(*) OVER (ORDER BY amount RANGE 9999999999 PRECEDING) AS n FROM sales": "UNBOUNDED",
    "SELECT id FROM sales QUALIFY nosuch = 1": "nosuch",
    "SELECT id FROM sales LIMIT id": "constant",
    "SELECT id FROM sales FETCH FIRST 3 ROWS ONLY": "LIMIT 5",
    "SELECT DISTINCT shop FROM sales ORDER BY ts LIMIT 3": "select list",
    "SELECT shop, id FROM sales GROUP BY shop, id ORDER BY amount LIMIT 3": "GROUP BY",
    "SELECT id FROM sales UNION SELECT id FROM sales ORDER BY amount LIMIT 3": "set operation",
    "SELECT id FROM (SELECT id FROM sales ORDER BY id) AS d": "ORDER BY",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert REFUSED[text] in f"{caught.value} {caught.value.hint}"
