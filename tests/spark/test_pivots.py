"""PIVOT, UNPIVOT and intervals: Spark gives the same rows and columns for a text and for the query that Weft binds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from netnews import table
from weft.algebra.schema import INT, INTERVAL, STRING, TIMESTAMP
from weft.planning.plan import columns_of
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SALES = table(1, "sales", {"id": INT, "k": STRING, "x": INT, "y": INT, "a": TIMESTAMP, "b": TIMESTAMP})
ROWS = """
SELECT id, k, x, y, CAST(a AS TIMESTAMP) AS a, CAST(b AS TIMESTAMP) AS b, TIMESTAMP '2024-01-01' AS ts FROM VALUES
  (1, 'a', 1, 10, '2024-01-01', '2024-01-03 00:00:01'), (1, 'b', 2, NULL, '2024-01-01', NULL),
  (2, 'a', NULL, 5, '2024-01-02', '2024-01-01'), (3, 'c', 7, 7, '2024-01-01', '2024-01-01 00:00:00.000002'),
  (3, NULL, 8, 8, '2024-01-01', '2024-01-01 00:00:00.000003') AS sales(id, k, x, y, a, b)
"""
TEXTS = (
    "SELECT * FROM (SELECT id, k, x FROM sales) PIVOT (SUM(x) FOR k IN ('a', 'b' AS bee, NULL))",
    "SELECT * FROM (SELECT id, k, x FROM sales) PIVOT (SUM(x) AS s, COUNT(x) AS n FOR k IN ('a', 'b' AS bee, 'zz'))",
    "SELECT * FROM (SELECT id, k, x FROM sales) PIVOT (COUNT(*) FOR k IN ('a', 'b'))",
    "SELECT * FROM (SELECT id, k, x FROM sales) PIVOT (COUNT(*) AS n, MAX(k) AS m FOR k IN ('a', 'b'))",
    "SELECT * FROM (SELECT k, x FROM sales) PIVOT (COUNT(*) FOR (k, x) IN (('a', 1) AS q, ('b', 2) AS r))",
    "SELECT * FROM (SELECT id, x FROM sales) PIVOT (COUNT(*) FOR x IN (1, 2, -3))",
    "SELECT id, a_s FROM sales AS t PIVOT (MAX(t.x) AS s, MIN(y) AS m FOR k IN ('a')) WHERE a_m > 3",
    "SELECT * FROM (SELECT id, k, x FROM sales) PIVOT (SUM(x) FOR k IN ('a')) JOIN (SELECT 2 AS z, y FROM sales) ON z "
    "= id",
    "SELECT * FROM (SELECT id, x, y FROM sales) UNPIVOT (v FOR n IN (x, y AS why))",
    "SELECT * FROM (SELECT id, x, y FROM sales) UNPIVOT INCLUDE NULLS (v FOR n IN (x, y)) AS u",
    "SELECT id, b - a AS d, (b - a) / 2 AS half, (b - a) / 0.3 AS more, -(b - a) AS e FROM sales",
    "SELECT id, AVG(b - a) AS m, SUM(b - a) AS s, MIN(b - a) AS l, COUNT(b - a) AS n FROM sales GROUP BY id",
    "SELECT d.id, d.wait * 3 AS w FROM (SELECT id, b - a AS wait FROM sales) AS d WHERE d.wait > INTERVAL 1 DAY",
    "SELECT id, b - LAG(b) OVER (ORDER BY id, x) AS gap, AVG(b - a) OVER (PARTITION BY id) AS m FROM sales",
    "SELECT BOOL_OR(TRUE) FILTER (WHERE x > 7) AS f, COUNT(*) FILTER (WHERE x > 7) AS n FROM sales",
)


@pytest.fixture
def sales(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql(ROWS).createOrReplaceTempView("sales")
    yield spark
    spark.catalog.dropTempView("sales")


@pytest.mark.parametrize("text", TEXTS)
def test_spark_gives_the_rows_of_the_text(text: str, sales: SparkSession) -> None:
    query = bind(text, {"sales": SALES})
    expected, found = sales.sql(text), sales.sql(query_sql(query))
    assert found.columns == expected.columns
    assert [kind.shape == INTERVAL for _, kind in columns_of(query)] == [
        kind.startswith("interval") for _, kind in expected.dtypes
    ]
    assert _rows(found) == _rows(expected)


def _rows(frame: DataFrame) -> list[str]:
    return sorted({str(tuple(map(_micros, row))) for row in frame.collect()})


def _micros(value: Any) -> Any:
    return value // dt.timedelta(microseconds=1) if isinstance(value, dt.timedelta) else value
