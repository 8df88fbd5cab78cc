"""Files that executors write are those that the driver would write."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.test_commit import PROPERTIES, ROWS, SCHEMA, texts
from weft.execution.executor_files import row_groups, write_files
from weft.runtime.session import disk_is_full
from weft.storage.data_files import ROW_GROUP, FileForm, NewFile
from weft.storage.table import Fence, Table
from weft.store import store_of


def test_every_type_and_its_statistics_are_those_of_the_driver_s_file(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store_of(tmp_path / "t"))
    table.ensure(SCHEMA, PROPERTIES)
    own = table.write(ROWS)
    (new,) = write_files(spark.createDataFrame(ROWS).coalesce(1), table.form())
    assert (new.rows, json.loads(new.statistics)) == (own.rows, json.loads(own.statistics))
    table.append([new], Fence("a", 1))
    assert texts(pa.Table.from_batches(table.scan(SCHEMA), SCHEMA)) == texts(ROWS)
    assert pq.read_schema(new.location.path) == pq.read_schema(own.location.path)


def test_each_partition_with_rows_is_one_file_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store_of(tmp_path / "t"))
    table.ensure(pa.schema([("id", pa.int64()), ("absent", pa.string())]), {})
    rows = spark.range(0, 200_000, numPartitions=4).where("id < 50000 OR id >= 100000").selectExpr("200000 - id AS id")
    new = write_files(rows, table.form())
    assert [each.location.name[:10] for each in new] == ["part-00000", "part-00002", "part-00003"]
    assert [each.size for each in new] == [Path(each.location.path).stat().st_size for each in new]
    ids = [pq.read_table(each.location.path, columns=["id"]).column("id").to_pylist() for each in new]
    assert ids == [list(range(200_000 - at, 150_000 - at, -1)) for at in (0, 100_000, 150_000)]
    layout = pq.read_metadata(new[0].location.path)
    assert [layout.row_group(n).num_rows for n in range(layout.num_row_groups)] == [ROW_GROUP, 50_000 - ROW_GROUP]
    with pytest.raises(PySparkException):
        write_files(spark.range(5).selectExpr("id", "id AS more"), table.form())


class Full(FileForm):
    """A form for a disk that is full."""

    def write(self, pieces: Iterable[pa.Table], name: str | None = None) -> NewFile:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_for_an_executor_is_full(spark: SparkSession, tmp_path: Path) -> None:
    own = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(own)
    try:
        for kind, full in ((Full, True), (FileForm, False)):
            form = kind(store_of(tmp_path / "absent"), pa.schema([("id", pa.int64())]), ())
            with pytest.raises(PySparkException) as failed:
                write_files(spark.range(5), form)
            assert disk_is_full(failed.value) == full
    finally:
        cloudpickle.unregister_pickle_by_value(own)


@given(st.lists(st.lists(st.integers(), max_size=9), max_size=9), st.integers(1, 5))
def test_row_groups_keep_all_rows_in_their_order(batches: list[list[int]], size: int) -> None:
    given_batches = [pa.record_batch({"id": pa.array([n % 100 for n in each], pa.int64())}) for each in batches]
    groups = list(row_groups(given_batches, size))
    assert [n for group in groups for n in group.column("id").to_pylist()] == [n % 100 for b in batches for n in b]
    assert all(group.num_rows == size for group in groups[:-1])
    assert all(0 < group.num_rows <= size for group in groups)
