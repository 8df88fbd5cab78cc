"""Spark reads a home by spark.read.format("weft"), in processes that import Weft, and sees what Python sees."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

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
