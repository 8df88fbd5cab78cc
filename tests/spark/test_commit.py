"""Spark reads and appends to tables that delta-rs committed, and the reverse. One fence protects both kinds of
commits.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from delta_spark import DeltaSpark
from weft.algebra.schema import DataType
from weft.catalog import layout, open_catalog
from weft.errors import LeaseLost
from weft.execution.executor_files import write_files
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.columns import INSTANT, arrow_type
from weft.storage.compaction import commit_rewritten, rewrite
from weft.storage.data_files import FileForm, NewFile
from weft.storage.ledger import added_by_query, require_ledger
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns
from weft.storage.table import Fence, Table
from weft.store import Store, store_of
from weft.writing.outputs import Outputs, TickOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: dict[str, list[Any]] = {
    "STRING": ["", "é😀\n\\", "x" * 100_000],
    "BOOLEAN": [True, False, True],
    "TINYINT": [-128, 127, 0],
    "SMALLINT": [-32_768, 32_767, 0],
    "INT": [-(2**31), 2**31 - 1, 0],
    "BIGINT": [-(2**63), 2**63 - 1, 0],
    "FLOAT": [math.nan, -math.inf, -0.0],
    "DOUBLE": [math.nan, 5e-324, -0.0],
    "DECIMAL(10,2)": [Decimal("-99999999.99"), Decimal("0.01"), Decimal("0.00")],
    "DECIMAL(38,10)": [Decimal("9999999999999999999999999999.9999999999"), Decimal("-1e-10"), Decimal(0)],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "TIMESTAMP": [FIRST_INSTANT, LAST_INSTANT, -1],
    "BINARY": [b"", b"\x00\xff", b"\n"],
}
SCHEMA = pa.schema([(f"c{n}", arrow_type(DataType.parse(kind))) for n, kind in enumerate(VALUES)])
ROWS = pa.table([pa.array([*held, None], SCHEMA.types[n]) for n, held in enumerate(VALUES.values())], schema=SCHEMA)
PROPERTIES = {COLUMNS_PROPERTY: named_columns(["c11"]), "delta.appendOnly": "true"}


def version_of(table: Store, number: int) -> int | None:
    found = Table(table).find("a", number)
    return None if found is None else found.version


def texts(rows: pa.Table) -> list[str]:
    """Return the rows as texts, because NaN does not equal itself."""
    return list(map(str, rows.cast(SCHEMA).to_pylist()))


def read_by_weft(spark: SparkSession, file: Store) -> list[str]:
    """Return the rows of a file as Weft's Spark reads them."""
    schema = ", ".join(f"c{n} {kind}" for n, kind in enumerate(VALUES))
    return texts(spark.read.schema(schema).parquet(file.spark).toArrow())


def test_every_type_is_read_as_it_was_written_by_either(
    spark: SparkSession, other_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = store_of(tmp_path / "t")
    Table(table).ensure(SCHEMA, PROPERTIES)
    Table(table).append(ROWS, Fence("a", 1))
    assert other_spark.types(table.spark) == list(VALUES)
    rows = other_spark.read(table.spark)
    assert texts(rows) == texts(ROWS) == read_by_weft(spark, Table(table).snapshot().files[0].location)
    # The row of Spark, then the row of delta-rs, then the statistics of both.
    other_spark.append(table.spark, rows.slice(0, 1), {"txnAppId": "a", "txnVersion": "2"})
    assert Table(table).number("a") == 2
    Table(table).append(ROWS.slice(3), Fence("a", 3))
    assert len(other_spark.read(table.spark)) == 6
    for file in Table(table).snapshot().files:
        assert set(file.least) <= {"c11"}
    wanted = f"c11 = timestamp_micros({LAST_INSTANT})"
    assert len(other_spark.read(table.spark, where=wanted)) >= 1  # Delta skips files by statistics


def test_a_column_that_came_later_has_statistics_from_either(other_spark: DeltaSpark, tmp_path: Path) -> None:
    table = store_of(tmp_path / "t")
    narrow, wide = pa.schema([("ts", INSTANT)]), pa.schema([("ts", INSTANT), ("a.b", INSTANT)])
    Table(table).ensure(narrow, {COLUMNS_PROPERTY: named_columns(["ts"])})
    Table(table).append(pa.table({"ts": [1]}, schema=narrow), Fence("a", 1))
    Table(table).ensure(wide, {COLUMNS_PROPERTY: named_columns(["ts", "a.b"])})
    Table(table).append(pa.table({"ts": [2], "a.b": [-7]}, schema=wide), Fence("a", 2))
    found = other_spark.read(table.spark, "unix_micros(ts) AS ts", "unix_micros(`a.b`) AS ab")
    assert sorted(map(tuple, map(dict.values, found.to_pylist())), key=str) == [(1, None), (2, -7)]
    other_spark.append(table.spark, pa.table({"ts": [3], "a.b": [9]}, schema=wide))
    bounds = [(file.least["ts"], file.greatest.get("a.b")) for file in Table(table).snapshot().files]
    assert sorted(bounds, key=str) == [(0, -1), (0, 999), (0, None)]


def test_a_checkpoint_of_either_is_read_by_the_other(other_spark: DeltaSpark, tmp_path: Path) -> None:
    table = store_of(tmp_path / "t")
    Table(table).ensure(SCHEMA, {**PROPERTIES, "delta.checkpointInterval": "3"})
    for number in range(1, 9, 2):
        Table(table).append(ROWS, Fence("a", number))
        other_spark.append(table.spark, ROWS, {"txnAppId": "a", "txnVersion": str(number + 1)})
        assert version_of(table, number + 1) == number + 1
    written = [name for name in (table / "_delta_log").names() if "checkpoint.parquet" in name]
    assert len(written) >= 3
    assert len(other_spark.read(table.spark)) == Table(table).snapshot().rows == 32


def test_files_of_either_that_became_one_are_read_and_added_to_by_both(
    spark: SparkSession, other_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = store_of(tmp_path / "t")
    Table(table).ensure(SCHEMA, PROPERTIES)
    for number in range(1, 5, 2):
        Table(table).append(ROWS, Fence("a", number))
        other_spark.append(table.spark, ROWS, {"txnAppId": "a", "txnVersion": str(number + 1)})
    before = sorted(texts(other_spark.read(table.spark)))
    assert before == sorted(texts(ROWS) * 4)
    for turn in (1, 2):
        new = rewrite(Table(table), Table(table).snapshot().files, ["c11"])
        assert new is not None
        committed = commit_rewritten(Table(table), new, turn, 0)
        assert committed is not None
        version = committed.version
        assert version == 2 * turn + 3
        (one,) = Table(table).snapshot().files
        assert sorted(texts(other_spark.read(table.spark))) == before
        assert sorted(read_by_weft(spark, one.location)) == before
        changes = [a for a in Table(table).entry(version).actions if "add" in a or "remove" in a]
        assert not any(each.get("add", each.get("remove"))["dataChange"] for each in changes)
        other_spark.append(table.spark, ROWS.slice(0, 1), {"txnAppId": "a", "txnVersion": str(turn + 4)})
        before = sorted([*before, *texts(ROWS.slice(0, 1))])
        assert version_of(table, turn + 4) == version + 1
        assert version_of(table, 4) == 4


def answers(*ordinals: int) -> pa.Table:
    return pa.table(
        {
            "query_id": pa.array([1] * len(ordinals), pa.int64()),
            "ordinal": pa.array(ordinals, pa.int64()),
            "first_at": pa.array(ordinals, INSTANT),
            "tick": pa.array([1] * len(ordinals), pa.int64()),
            "row_hash": pa.array([b"h"] * len(ordinals), pa.binary()),
            "row": pa.array([["x", None]] * len(ordinals), pa.list_(pa.string())),
        }
    )


def by_executors(spark: SparkSession, rows: pa.Table) -> Callable[[FileForm], list[NewFile]]:
    return partial(write_files, spark.createDataFrame(rows))


@pytest.mark.parametrize("executors_first", [False, True])
def test_a_tick_s_output_is_fenced_after_each_kind_of_writer(
    spark: SparkSession, other_spark: DeltaSpark, tmp_path: Path, executors_first: bool
) -> None:
    catalog = open_catalog(tmp_path / "home", create=True, clock="replay", at=1)
    writer = catalog.writer("tick", "one", 1)
    ledger = require_ledger(writer.data)
    ways: list[Any] = [lambda rows: rows, lambda rows: by_executors(spark, rows)]
    first, second = reversed(ways) if executors_first else ways

    def commit(tick: int, rows: Any) -> int:
        return Outputs(writer, tick, again=False)._commit(TickOutput("ledger", layout.LEDGER, rows)).version

    assert commit(5, first(answers(1, 2))) == 1
    assert commit(6, second(answers(3))) == 2
    assert commit(7, first(answers(4))) == 3
    for stale in (6, 7):
        for way in ways:
            with pytest.raises(LeaseLost):
                commit(stale, way(answers(9)))
    assert {n: added_by_query(writer.data, n)[1].rows for n in (1, 2, 3)} == {1: 2, 2: 1, 3: 1}
    found = other_spark.read(ledger.place.spark).sort_by("ordinal")
    assert found.column("row").to_pylist() == [["x", None]] * 4
    assert found.column("ordinal").to_pylist() == [1, 2, 3, 4]
    catalog.close()
