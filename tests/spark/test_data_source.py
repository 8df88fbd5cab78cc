"""Spark reads a home by spark.read.format("weft"), in processes that import Weft, and sees what Python sees."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

import weft
from weft import Weft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = "id INT, name STRING, total DECIMAL(8,2), at TIMESTAMP, day DATE, raw BINARY, tags ARRAY<STRUCT<a: INT>>"


def test_spark_reads_what_python_reads(spark: SparkSession, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        home.make_table("t", VALUES)
        for day in (1, 2, 3):
            at = dt.datetime(2026, 3, day, tzinfo=dt.timezone.utc)
            row = {"id": day, "name": "ü", "total": day, "at": at, "day": at.date(), "raw": b"\0", "tags": [{"a": day}]}
            home.append("t", [{**row, "ts": at}], ts_from="ts")
        home.install("q", "SELECT t.id, t.total, t.tags, t.ts - t.at AS waited FROM t WHERE t.id > 1")
        home.tick(now="2026-03-04")
        expected = home.results("q").to_dicts()
    weft.register(spark)
    source = spark.read.format("weft").option("home", str(tmp_path / "home"))
    table = source.option("table", "t").option("at", "2026-03-02").load()
    assert table.where("id >= 2").select("id", "name", "day", "tags").collect() == [
        (2, "ü", dt.date(2026, 3, 2), [(2,)])
    ]
    source = spark.read.format("weft").option("home", str(tmp_path / "home"))
    answers = source.option("query", "q").load()
    found = sorted(answers.collect(), key=lambda row: row["_ordinal"])
    assert [(row["_ordinal"], row["id"], row["total"], row["waited"]) for row in found] == [
        (row["_ordinal"], row["id"], row["total"], row["waited"]) for row in expected
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "orders"}, ("there is no table 'orders'", "Did you mean")),
        ({"query": "none"}, ("there is no query 'none'",)),
        ({"table": "order", "at": "someday"}, ("someday",)),
        ({"tables": "order"}, ("'tables' is not an option of the format weft", 'Write spark.read.format("weft")')),
        ({}, ("name one of table, view, query",)),
        ({"home": "/nowhere", "table": "order"}, ("/nowhere is not a Weft home", "weft init")),
    ],
)
def test_a_refusal_is_a_message(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], words: tuple[str, ...]
) -> None:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        home.make_table("order", "id INT")
    weft.register(spark)
    source = spark.read.format("weft").options(**{"home": str(tmp_path / "home"), **options})
    with pytest.raises(AnalysisException) as refused:
        source.load()
    assert_message(refused.value, *words)


def test_a_damaged_file_is_a_message(spark: SparkSession, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        home.make_table("t", "id INT")
        home.append("t", [{"id": 1, "ts": dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)}], ts_from="ts")
    weft.register(spark)
    [file] = (tmp_path / "home" / "tables").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:40])
    table = spark.read.format("weft").option("home", str(tmp_path / "home")).option("table", "t").load()
    with pytest.raises(PySparkException) as failed:
        table.collect()
    assert_message(failed.value, file.name)


def test_an_error_of_others_keeps_its_traceback(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    with pytest.raises(PySparkException, match="ZeroDivisionError") as failed:
        spark.range(1).select(udf(lambda value: 1 // value)("id")).collect()
    assert "Traceback" in str(failed.value)


def assert_message(error: BaseException, *words: str) -> None:
    text = str(error).partition("JVM stacktrace")[0].partition("Driver stacktrace")[0]
    assert all(each in text for each in words), text
    assert "Traceback" not in text and 'File "' not in text, text
