"""The driver computes a small state only if DuckDB gives Spark's values."""

from __future__ import annotations

import pytest

from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.derivation.stateful import states
from weft.planning.plan import for_one, standing_plan
from weft.planning.state_engine import branch_same_in_duckdb, same_in_duckdb

COLUMNS = {"k": "STRING", "n": "INT", "r": "DOUBLE", "f": "FLOAT", "d": "TIMESTAMP", "b": "BINARY"}
COLUMNS |= {"low": "DECIMAL(2,2)", "wide": "DECIMAL(38,10)", "money": "DECIMAL(10,2)"}
TABLE = TableSchema(
    1,
    "t",
    (
        *(Column(number, name, DataType.parse(kind)) for number, (name, kind) in enumerate(COLUMNS.items(), 1)),
        Column(19, "ts", TIMESTAMP),
    ),
)


RECURSIVE = (
    "WITH RECURSIVE w AS (SELECT k, n FROM t UNION SELECT {}, t.n FROM w JOIN t ON TRUE WHERE {}) SELECT k, n FROM w"
)


def alike(text: str) -> bool:
    """Whether DuckDB may compute all states of the query."""
    found = [state for event in standing_plan(text, {"t": TABLE}).branches for state in states(event.relation)]
    assert found
    return all(map(same_in_duckdb, found))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 5",
        "SELECT k, COUNT(*) AS n FROM t WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY k",
        "SELECT k, SUM(n + 1) AS s, AVG(r) AS a, STDDEV(r) AS d FROM t WHERE k LIKE 'a%' GROUP BY k",
        "SELECT r, COUNT(*) AS n FROM t GROUP BY r",
        "SELECT k, SUM(money * (1 - money) * (1 + money)) AS s FROM t GROUP BY k",
        "SELECT n % 3 AS m, COUNT(*) AS c FROM t GROUP BY n % 3",
        "SELECT WINDOW(ts, '7 seconds').start AS s, COUNT(*) AS c FROM t GROUP BY WINDOW(ts, '7 seconds')",
        "SELECT COUNT(*) AS c FROM t GROUP BY WINDOW(ts, '10 minutes', '4 minutes')",
        "SELECT k, LAG(ts) OVER (PARTITION BY k ORDER BY ts, n) AS before FROM t",
        "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY ts) AS s FROM t",
        "SELECT k, FIRST_VALUE(n) OVER (PARTITION BY k ORDER BY ts, n) AS f, NTH_VALUE(n, 2) IGNORE NULLS OVER "
        "(PARTITION BY k ORDER BY ts) AS s FROM t",
        "SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) "
        "AS n FROM t",
        "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING) AS s FROM t",
        "SELECT DATE_TRUNC('MONTH', d) + INTERVAL 1 MONTH AS m, COUNT(*) AS n FROM t GROUP BY ALL",
        "SELECT * FROM (SELECT k, n FROM t) PIVOT (COUNT(*) FOR n IN (1, 2))",
        "SELECT a.k, b.n FROM t a LEFT JOIN (SELECT k, COUNT(*) AS n FROM t GROUP BY k) b ON b.k = a.k",
        "SELECT k, COUNT(*) AS n FROM t WHERE k IN ('a', 'b') AND n NOT IN (1, 2) GROUP BY k",
        "SELECT k, SUM(n / 2) AS s FROM t GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM t WHERE k RLIKE 'a+' GROUP BY k",
        "SELECT k, MAX(LENGTH(k) + 2147483647) AS m FROM t GROUP BY k",
        "SELECT CONCAT(k, 'x') AS c, COUNT(*) AS n FROM t GROUP BY CONCAT(k, 'x')",
        RECURSIVE.format("t.k", "t.k RLIKE 'a+'"),
        RECURSIVE.format("CONCAT(w.k, t.k)", "w.n <=> t.n"),
        RECURSIVE.format("t.k", "w.k IN ('a', 'b')"),
        RECURSIVE.format("s.p", "w.n = t.n").replace(" WHERE", " LATERAL VIEW EXPLODE(SPLIT(t.k, ' ')) s AS p WHERE"),
    ],
)
def test_duckdb_computes(text: str) -> None:
    assert alike(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, SUM(wide * money) AS s FROM t GROUP BY k",  # Spark removes digits after the point
        "SELECT k, SUM(money * money * money * money * money) AS s FROM t GROUP BY k",  # 18 digits are too few
        "SELECT n % n AS m, COUNT(*) AS c FROM t GROUP BY n % n",
        "SELECT CAST(k AS INT) AS i, COUNT(*) AS n FROM t GROUP BY CAST(k AS INT)",
        "SELECT f, COUNT(*) AS n FROM t GROUP BY f",
        "SELECT b, COUNT(*) AS n FROM t GROUP BY b",
        "SELECT k, COUNT(*) AS n FROM t WHERE k RLIKE 'a$' GROUP BY k",
        "SELECT k, AVG(n) OVER (PARTITION BY k) AS a FROM t",
        "SELECT k, SUM(r) OVER (PARTITION BY k ORDER BY ts) AS s FROM t",
        "SELECT k, ROW_NUMBER() OVER (PARTITION BY r ORDER BY ts) AS place FROM t",
        RECURSIVE.format("LPAD(t.k, 3, 'x')", "w.n = t.n"),
    ],
)
def test_spark_computes(text: str) -> None:
    assert not alike(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("SELECT CAST(money AS STRING) AS m FROM t", True),
        ("SELECT CAST(low AS STRING) AS m FROM t", False),  # .05 in DuckDB, 0.05 in Spark
        ("SELECT money, money * n AS m FROM t", True),
        ("SELECT low FROM t", False),
        ("SELECT wide FROM t", False),
        ("SELECT k FROM t WHERE money + money > 5 AND wide > 1 AND money = 0.125", True),
        ("SELECT k FROM t WHERE wide > CAST(wide AS DECIMAL(38,2))", False),
        ("SELECT k FROM t WHERE wide - 1 > 0", False),
        ("SELECT k FROM t WHERE COALESCE(wide, CAST(n AS DECIMAL(38,0))) > 0", False),
        ("SELECT CAST(d AS STRING) AS text FROM t", True),
        ("SELECT CAST(d + INTERVAL 9000 YEARS AS STRING) AS text FROM t", False),  # 11020 in DuckDB, +11020 in Spark
        ("SELECT n + n * 2 - 1 AS m FROM t", True),
        ("SELECT r, r * 2 - n AS g FROM t WHERE r > n AND r IS NOT NULL", True),
        ("SELECT k, AVG(n) AS a FROM t GROUP BY k HAVING AVG(n) > 1", True),
        ("SELECT k FROM t WHERE r = 0", False),  # -0.0 may be another value
        ("SELECT GREATEST(r, n) AS g FROM t", False),
        ("SELECT r / 2 AS h FROM t WHERE r / n > 1", True),
        ("SELECT money / 2 AS h FROM t", False),
        ("SELECT k FROM t WHERE LENGTH(k) - LENGTH(REPLACE(k, 'c', '')) = HOUR(d)", True),
        ("SELECT k || '!' AS c, CONCAT(k, n) AS m FROM t", False),  # n is no text
        ("SELECT CONCAT(k, '-', k) AS c FROM t WHERE k || 'b' = 'ab'", True),
        (r"SELECT k FROM t WHERE k RLIKE '^(a|b)[^&]*x{2,3}\\.\\d'", True),
        ("SELECT k FROM t WHERE k RLIKE 'a.b'", False),  # the ends of lines differ
        ("SELECT k FROM t WHERE k RLIKE '(a|b)*'", False),
        (r"SELECT k FROM t WHERE k RLIKE '\\s'", False),
        ("SELECT k FROM t WHERE k RLIKE '(?i)a'", False),
        ("SELECT REGEXP_EXTRACT(k, '(a+)b', 1) AS e, SPLIT_PART(k, '/', 2) AS p FROM t", True),
        ("SELECT SPLIT_PART(k, '/', -1) AS p FROM t", False),
        ("SELECT DATE_FORMAT(d, 'yyyy-MM-dd HH:mm:ss') AS day FROM t", True),
        ("SELECT DATE_FORMAT(d, 'MMMM') AS day FROM t", False),
        ("SELECT DATE_FORMAT(d, 'mmMM') AS day FROM t", True),
        ("SELECT DATE_FORMAT(d, 'yyyyMMmm') AS day FROM t", False),
        ("SELECT DATE_FORMAT(d + INTERVAL 1 DAY, 'yyyy') AS day FROM t", False),
        ("SELECT k, COLLECT_SET(n) AS s FROM t GROUP BY k", True),
        ("SELECT k, word FROM t LATERAL VIEW OUTER POSEXPLODE(SPLIT(k, ' +')) s AS place, word", True),
        ("SELECT k, word FROM t LATERAL VIEW EXPLODE(SPLIT(k, ' *')) s AS word", False),
        ("SELECT k, word FROM t LATERAL VIEW EXPLODE(FROM_JSON(k, 'ARRAY<STRING>')) s AS word", True),
        ("SELECT k, word FROM t LATERAL VIEW EXPLODE(FROM_JSON(k, 'ARRAY<INT>')) s AS word", False),
        ("SELECT k, word, n FROM t LATERAL VIEW EXPLODE(FROM_JSON(k, 'MAP<STRING, INT>')) s AS word, m", False),
        ("SELECT f FROM t", False),
        ("SELECT a.ts - b.ts AS delay FROM t a JOIN t b ON a.n <=> b.n", True),
        ("SELECT k, CASE WHEN d < NOW() THEN 'late' ELSE 'open' END AS state FROM t", True),
        ("SELECT k FROM t WHERE ts >= DATE_TRUNC('MONTH', NOW()) - INTERVAL 1 QUARTER", True),
        (r"SELECT k FROM t WHERE k IN ('a', 'b\\c') AND n NOT IN (1, -2)", True),
        ("SELECT k FROM t WHERE (CASE WHEN n > 0 THEN LENGTH(k) ELSE 1 END) * 1500000000 < 0", False),  # BIGINT or INT
    ],
)
def test_branches_of_duckdb(text: str, same: bool) -> None:
    plan = standing_plan(text, {"t": TABLE})
    assert all(branch_same_in_duckdb(for_one(each, plan.values, {}, whole=True)) for each in plan.branches) == same
