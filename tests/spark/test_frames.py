"""DataFrames of Spark: append their rows to a table, and return answers as a DataFrame."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from weft.api import Weft
from weft.catalog import layout
from weft.errors import ExecutionError, Refused
from weft.execution.tabular import spark_rows
from weft.store import store_of

COLUMNS = (
    "id INT, s STRING, b BOOLEAN, l BIGINT, d DOUBLE, m DECIMAL(12,3), y DATE, at TIMESTAMP, wall TIMESTAMP, r BINARY"
)
SELECTED = """
    SELECT CAST(id AS INT) AS id, IF(id = 1, NULL, 'é') AS s, id = 1 AS b, id * 1000000000000 AS l, id / 4 AS d,
           CAST(id AS DECIMAL(6,3)) AS m, DATE '2026-02-28' AS y, TIMESTAMP '1500-02-28 01:00:00.000001+01:00' AS at,
           TIMESTAMP_NTZ '2026-02-28 01:00:00' AS wall, X'00ff' AS r
    FROM RANGE(0, 3, 1, 2)
"""


def test_a_frame_is_appended_without_being_collected(spark: SparkSession, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("t", COLUMNS)
        frame = home.session().sql(SELECTED)
        for bad, message in (
            (frame.withColumn("x", frame.id), "no column 'x'"),
            (frame.selectExpr("IF(id < 2, id, 3000000000) AS id"), "id is 3000000000, which is not of type .*row 3"),
            (frame.selectExpr("s AS id"), "which is not of type INT"),
        ):
            with pytest.raises(Refused, match=message):
                home.append("t", bad)
        with pytest.raises(ExecutionError, match="computing the rows"):
            home.append("t", frame.selectExpr("CAST(RAISE_ERROR('no') AS INT) AS id"))
        assert home.catalog.tables.named("t").rows == 0
        assert home.append("t", frame, user="ann").stored == 3
        assert (home.home / layout.GIVEN).exists() and not any((home.home / layout.GIVEN).iterdir())
        _assert_answers_are_frames(home)
        rows = DeltaTable(str(home.home / home.catalog.tables.named("t").path)).to_pyarrow_table().to_pylist()
    for number, row in enumerate(sorted(rows, key=lambda each: int(each["id"]))):
        del row["ts"]
        assert row == {
            "id": number,
            "s": None if number == 1 else "é",
            "b": number == 1,
            "l": number * 10**12,
            "d": number / 4,
            "m": Decimal(number),
            "y": dt.date(2026, 2, 28),
            "at": dt.datetime(1500, 2, 28, 0, 0, 0, 1, tzinfo=dt.timezone.utc),
            "wall": dt.datetime(2026, 2, 28, 1, tzinfo=dt.timezone.utc),
            "r": b"\x00\xff",
            "_by": "ann",
        }


def test_names_that_sql_quotes_and_no_rows_at_all(spark: SparkSession, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("t", "a.b INT, c STRING")
        frame = home.session().sql("SELECT CAST(id AS INT) AS `a.b`, 'x' AS c FROM RANGE(0, 5, 1, 3)")
        assert home.append("t", frame).stored == 5
        assert home.append("t", frame.where("`a.b` < 0")).stored == 0
        with pytest.raises(Refused, match="not of type INT"):
            home.append("t", home.session().sql("SELECT INTERVAL 3 DAY AS `a.b`"))
        with pytest.raises(ExecutionError, match="computing the rows"):
            home.append("t", home.session().sql("SELECT INTERVAL 3 MONTH AS `a.b`"))
        assert home.catalog.tables.named("t").rows == 5


def test_a_folder_that_goes_away_meanwhile_is_no_failure(spark: SparkSession, tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "old").mkdir(parents=True)
    os.utime(given / "old", (0, 0))
    (given / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there when it is looked at
    with spark_rows(spark.range(1), store_of(tmp_path), 10**15) as pieces:
        assert [row for piece in pieces for row in piece.to_pylist()] == [{"id": 0}]
    assert [each.name for each in given.iterdir()] == ["gone"]


def _assert_answers_are_frames(home: Weft) -> None:
    """The answers equal the appended rows in every form of the result."""
    home.install("kept", "SELECT id, s, b, l, d, m, y, at, wall, r FROM t")
    home.tick()
    found = home.results("kept")
    assert [row["at"] for row in found.to_dicts()] == [dt.datetime(1500, 2, 28, 0, 0, 0, 1, tzinfo=dt.timezone.utc)] * 3
    by_spark = found.spark().orderBy("_ordinal").toArrow()
    assert by_spark.to_pylist() == found.to_arrow().to_pylist() == found.to_dicts()
    assert by_spark.schema.types == found.to_arrow().schema.types
    some = home.results("kept", after=1, limit=1)
    assert [row["_ordinal"] for row in some.spark().collect()] == [2]
    assert home.results("kept", after=9).spark().count() == 0
    ordered = home.try_query("SELECT id, s FROM t ORDER BY id DESC", limit=2)
    assert [row["id"] for row in ordered.to_dicts()] == [2, 1]
    asked = home.try_query("SELECT id, at FROM t", limit=2)
    assert (len(asked.rows), asked.count, repr(asked)[:33]) == (2, 3, "<3 rows, 2 of them here, as of 20")
    assert asked.spark().toArrow().to_pylist() == asked.to_dicts()
    tested = home.backtest("SELECT id FROM t")
    assert sorted(row["id"] for row in tested.to_dicts()) == [0, 1, 2] and "and" not in tested._repr_html_()
