"""Spark computes sums of many digits, and the parts that DuckDB continues, as exact arithmetic does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from running_sums import END, STORED, Row, Sums, periods, rows_at
from weft.algebra.schema import DataType
from weft.arrangement.state_store import computed
from weft.execution.totals import deltas_schema
from weft.period_sql.notation import DUCKDB, SPARK
from weft.planning.state_plan import continued_deltas, state_rows, suffix
from weft.planning.state_sql import added_sql, continued_sql, totals_of
from weft.storage.columns import arrow_type, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_SCALE = 6
"""The most digits after the point that Spark keeps in numbers of 38 digits."""


def drawn(sums: Sums, chance: random.Random) -> list[Row]:
    """Rows whose sums have at most 35 digits where Spark drops the last digit of others."""
    rows = sums.drawn(chance, 30)
    if (sums.type.scale or 0) <= KEPT_SCALE:
        return rows
    return [(g, None if x is None or abs(x.scaleb(sums.type.scale)) > 10**33 else x, ts) for g, x, ts in rows]


@pytest.mark.parametrize("type", STORED, ids=str)
def test_spark_adds_up_as_exact_arithmetic_does(type: DataType, spark: SparkSession) -> None:
    chance, sums = random.Random(str(type)), Sums(type, True, True)
    rows = drawn(sums, chance)
    cut = chance.randint(10, END - 10)
    earlier, state = state_rows(sums.state(None, cut), None), sums.state(cut, END)
    (view,) = {path.view for path in earlier.paths.values()}
    spark.createDataFrame(sums.given(rows)).createOrReplaceTempView(view + suffix(earlier.state))
    found = periods(spark.sql(earlier.sql(SPARK)).toArrow().cast(stored_schema(earlier.state)))
    for instant in range(cut):
        assert rows_at(found, instant) == sums.at(rows, instant), f"at {instant}: {rows}"

    kept = pa.schema([pa.field("c1", pa.string()), *(pa.field(n, arrow_type(kind)) for n, kind in totals_of(state))])
    lives = f"(SELECT *, 1 AS sign FROM ({earlier.lives(SPARK)}) AS given)"
    stored = spark.sql(added_sql(earlier.state, lives)).toArrow().cast(kept)
    deltas = continued_deltas(state, "news")
    assert deltas is not None
    views = {path.view + suffix(state): sums.given(rows) for path in deltas.paths}
    new = computed(deltas.sql, deltas_schema(state), **views)
    own = pa.schema([*stored_schema(state), *(pa.field(f"_{n}", arrow_type(kind)) for n, kind in totals_of(state))])
    text = continued_sql(state, "d_", "b_", DUCKDB)
    found = periods(computed(text, own, d_=new, b_=stored).select(stored_schema(state).names))
    for instant in range(cut, END):
        assert rows_at(found, instant) == sums.at(rows, instant), f"at {instant}: {rows}"
