"""DuckDB and Spark give the same values for the SQL of a standing query, which is the same text for both."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_values import COLUMNS, rows, shown
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.errors import ExecutionError
from weft.planning.plan import for_one, standing_plan
from weft.planning.state_engine import branch_same_in_duckdb
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql
from weft.storage.temporal_sql import temporal_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTS = (*map(json.dumps, ([], ["a"], ["", None, "b"], ["b", "b"], [None], ['"', "\\", "\n", "/"])), '["ä","x"]', None)
KINDS = {**COLUMNS, "j": "STRING"}
TABLE = TableSchema(
    1,
    "nasty",
    (
        *(Column(number, name, DataType.parse(kind)) for number, (name, kind) in enumerate(KINDS.items(), 1)),
        Column(20, "ts", TIMESTAMP),
    ),
)
VALUES = tuple(
    r"""
i / 2
i / t
b / i
f / f
i / f
1 / f
f / -3
b / 3
f / i > 0.5
x || y
CONCAT(x, '-', y)
CONCAT(x)
x || 'ä' || y LIKE '%a%'
LENGTH(x) - LENGTH(REPLACE(x, 'a', ''))
YEAR(m) * 10000 + MONTH(m) * 100 + DAY(m)
HOUR(m) * 3600 + MINUTE(m) * 60 + SECOND(m) - QUARTER(a) - DAYOFYEAR(a)
x RLIKE '[ab]+'
CASE WHEN x RLIKE '^(a|\\.)' THEN REGEXP_EXTRACT(x, '([^b]*)b?', 1) ELSE SPLIT_PART(x, ' ', 2) END
DATE_FORMAT(m, 'yyyy-MM-dd HH:mm:ss') || DATE_FORMAT(a, 'yyyy')
""".strip().splitlines()
)
ARRAYS = (
    "SPLIT(x, 'a')",
    "SPLIT(x, '[a ]+')",
    r"SPLIT(x, '\\.')",
    "SPLIT(y, 'ab')",
    "FROM_JSON(j, 'ARRAY<STRING>')",
)


def given() -> pa.Table:
    """Return rows that contain each value of each column."""
    found = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows()])
    lists = pa.array([LISTS[number % len(LISTS)] for number in range(len(found))], pa.string())
    return found.append_column("j", lists).append_column("ts", pa.array([0] * len(found), pa.timestamp("us")))


def both(spark: SparkSession, folder: Path, text: str) -> tuple[Counter[Any], Counter[Any]]:
    """Return the rows of a query in DuckDB and in Spark."""
    plan = standing_plan(text, {"nasty": TABLE})
    assert all(branch_same_in_duckdb(for_one(each, plan.values, {}, whole=True)) for each in plan.branches)
    sql = query_sql(bind(text, {"nasty": TABLE}))
    file = folder / "nasty.parquet"
    if not file.exists():
        pq.write_table(given(), file)
    spark.read.parquet(str(file)).createOrReplaceTempView("nasty")
    with temporal_sql() as local:
        local.given("nasty", pq.read_table(file))
        here = local.rows(sql).to_pylist()
    there = [row.asDict() for row in spark.sql(sql).collect()]
    return _counted(here), _counted(there)


def _counted(found: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(shown(value) for value in row.values()) for row in found)


def test_values_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    heads = ", ".join(f"{text} AS e{number}" for number, text in enumerate(VALUES))
    here, there = both(spark, tmp_path, f"SELECT id, {heads} FROM nasty")
    assert len(here) == 110
    assert here == there, sorted(map(str, (here - there) + (there - here)))


@pytest.mark.parametrize("array", ARRAYS)
def test_elements_are_the_same(array: str, spark: SparkSession, tmp_path: Path) -> None:
    for function, names in (
        ("EXPLODE", "e"),
        ("EXPLODE_OUTER", "e"),
        ("POSEXPLODE", "p, e"),
        ("POSEXPLODE_OUTER", "p, e"),
    ):
        text = f"SELECT id, {names} FROM nasty LATERAL VIEW {function}({array}) s AS {names}"
        here, there = both(spark, tmp_path, text)
        assert here == there and len(here) > 50, function


@pytest.mark.parametrize("text", ['["a", 1]', '{"a": "b"}', '["\\u00e9"]', "[", '["a"] x', "null", '["a\nb"]'])
def test_other_json_raises_an_error_in_duckdb(text: str) -> None:
    """Spark then computes the tick."""
    with temporal_sql() as local, pytest.raises(ExecutionError, match="JSON"):
        local.given("texts", pa.table({"j": [text]}))
        local.rows("SELECT v.e FROM texts, LATERAL EXPLODE(FROM_JSON(texts.j, 'ARRAY<STRING>')) AS v(e)")
