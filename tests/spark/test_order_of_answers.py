"""Spark and the driver number answers in the same order: by instant, then by the values of the columns."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from answers_in_order import TYPES, drawn, expected, general
from weft.execution import arrow_answers
from weft.execution.new_answers import _numbered
from weft.storage.ledger import ledger_schema

pytestmark = pytest.mark.spark


def test_spark_and_the_driver_number_alike(spark: SparkSession) -> None:
    found = drawn(11, 1_500)
    rows, before = general(found), {query: 10 * query for query in TYPES}
    here = arrow_answers.numbered(rows, before, TYPES, 3)
    there = _numbered(spark.createDataFrame(rows), before, TYPES, 3).toArrow().cast(ledger_schema())
    keys = [("query_id", "ascending"), ("ordinal", "ascending")]
    assert there.sort_by(keys).equals(here.sort_by(keys))
    assert here.column("row_hash").to_pylist() == [each[2] for each in expected(found)]
