"""Queries over a table that delta-rs, or Spark with Delta Lake, writes and a home reads in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from delta_spark import DeltaSpark
from weft.api import Weft
from weft.errors import Refused
from weft.execution import driver_reader
from weft.instants import to_datetime

pytestmark = pytest.mark.spark

DEFINITION = "id BIGINT, part STRING, at TIMESTAMP"
QUERIES = {
    "each": "SELECT id, part, ts FROM {0}",
    "alone": "SELECT a.id FROM {0} a WHERE NOT EXISTS (SELECT 1 FROM {0} b WHERE b.id = a.id AND b.part <> a.part)",
    "pairs": "SELECT a.id, b.part FROM {0} a, {0} b WHERE a.id = b.id AND b.ts >= a.ts AND a.part IS NULL",
    "waiting": "SELECT id FROM {0} WHERE ts < NOW() - INTERVAL 1 MILLISECOND",
}


def commit_time(other: Path) -> int:
    """Return the time of the last commit (µs)."""
    version = DeltaTable(other).version()
    entry = (other / f"_delta_log/{version:020d}.json").read_text().splitlines()
    return next(json.loads(line)["commitInfo"]["timestamp"] for line in entry if "commitInfo" in line) * 1_000


def inserted(spark: DeltaSpark, other: Path, rows: Sequence[tuple[int, str | None, int]]) -> None:
    """Insert rows in one commit. The last value of a row is its time in seconds."""
    values = ", ".join(f"({i}, {'NULL' if p is None else repr(p)}, timestamp_seconds({at}))" for i, p, at in rows)
    spark.sql(f"INSERT INTO delta.`{other}` VALUES {values}")


def written(other: Path, rows: Sequence[tuple[int, str | None, int]], partition_by: list[str] | None = None) -> None:
    """Append rows in one commit of delta-rs. The last value of a row is its time in seconds."""
    ids, parts, times = zip(*rows, strict=True)
    instants = pa.array([each * 1_000_000 for each in times], pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array(parts, pa.string()), "at": instants})
    write_deltalake(other, table, mode="append", partition_by=partition_by)


@pytest.mark.parametrize(
    ("by_spark", "own", "partitioned"),
    [pytest.param(True, False, True, marks=pytest.mark.slow), (True, True, False), (False, False, True)],
)
def test_answers_are_those_over_an_ordinary_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by_spark: bool,
    own: bool,
    partitioned: bool,
) -> None:
    if by_spark:
        monkeypatch.setattr(driver_reader, "BOUNDS", driver_reader.NOTHING)
    other, ts_from = tmp_path / "the other", "at" if own else None
    first = [(1, "a b+c", 100), (2, None, 101), (2, "x", 105)]
    written(other, first, partition_by=["part"] if partitioned else None)
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.attach_table("orders", other, ts_from=ts_from)
        weft.make_table("plain", DEFINITION)
        for name in ("orders", "plain"):
            for query, text in QUERIES.items():
                weft.install(f"{query}_{name}", text.format(name))

        def load(rows: Sequence[tuple[int, str | None, int]]) -> None:
            at = commit_time(other)
            dated = [(i, p, s * 1_000_000) for i, p, s in rows]
            given = [
                {"id": i, "part": p, "at": to_datetime(s), "ts": to_datetime(s if own else at)} for i, p, s in dated
            ]
            weft.append("plain", given, ts_from="ts")

        def tick() -> None:
            weft.tick(now=to_datetime(weft.catalog.home().last_ts + 500_000))

        load(first)
        tick()
        for rows in ([(1, "x", 90), (3, "a b+c", 107)], [(2, "x", 106), (4, None, 110)]):
            written(other, rows)
            load(rows)
        tick()
        DeltaTable(other).optimize.compact()
        last = [(4, "y", 120), (5, None, 95)]
        written(other, last)
        load(last)
        tick()
        assert weft.sources()[0].trouble is None
        for query in QUERIES:
            orders, plain = (
                {(row.values, row.first_at) for row in weft.results(f"{query}_{name}")} for name in ("orders", "plain")
            )
            assert orders == plain
            assert query != "each" or len(orders) >= 7


def test_spark_finds_the_column_of_the_instants_in_capitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", driver_reader.NOTHING)
    times = pa.array([100, 200], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path / "other", pa.table({"id": pa.array([1, 2], pa.int64()), "TS": times}))
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.attach_table("orders", tmp_path / "other", ts_from="TS")
        weft.install("early", "SELECT id FROM orders WHERE ts < TIMESTAMP '1970-01-01 00:00:00.00015'")
        weft.tick(now=to_datetime(1_000))
        assert [(row.values, row.first_at) for row in weft.results("early")] == [((1,), 100)]


@pytest.mark.slow
def test_row_tracking_gives_the_instants_of_rewritten_rows_after_vacuum(
    other_spark: DeltaSpark, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    tracked = "TBLPROPERTIES (delta.enableRowTracking = true, delta.enableDeletionVectors = true)"
    other_spark.sql(f"CREATE TABLE delta.`{other}` ({DEFINITION}) USING delta {tracked}")
    times = []
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        inserted(other_spark, other, [(1, "a", 100)])
        inserted(other_spark, other, [(1, "a", 100)])
        weft.attach_table("orders", other)
        times += [commit_time(other)] * 2
        for _ in range(2):
            inserted(other_spark, other, [(1, "a", 100)])
            times.append(commit_time(other))
        for _ in range(2):
            other_spark.sql(f"OPTIMIZE delta.`{other}`")
            other_spark.sql(f"VACUUM delta.`{other}` RETAIN 0 HOURS")
            weft.poll_source("orders")
            inserted(other_spark, other, [(1, "a", 100)])
            times.append(commit_time(other))
        weft.poll_source("orders")
        samples = weft.describe("orders", 9).samples
        assert sorted(row[3] for row in samples) == [to_datetime(each) for each in times]  # type: ignore[index, union-attr]
        for _ in range(2):
            inserted(other_spark, other, [(1, "a", 100)])
            times.append(commit_time(other))
            other_spark.sql(f"OPTIMIZE delta.`{other}`")
        other_spark.sql(f"VACUUM delta.`{other}` RETAIN 0 HOURS")
        weft.poll_source("orders")
        samples = weft.describe("orders", 9).samples
        assert sorted(row[3] for row in samples) == [to_datetime(each) for each in times]  # type: ignore[index, union-attr]


def test_an_unreadable_table_is_refused_with_all_reasons(other_spark: DeltaSpark, tmp_path: Path) -> None:
    other = tmp_path / "other"
    mapped = "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableDeletionVectors = true)"
    other_spark.sql(f"CREATE TABLE delta.`{other}` (id BIGINT, inner STRUCT<a: INT>) USING delta {mapped}")
    other_spark.sql(f"INSERT INTO delta.`{other}` SELECT id, struct(1) FROM range(0, 1000, 1, 1)")
    other_spark.sql(f"DELETE FROM delta.`{other}` WHERE id = 7")
    with Weft.open(tmp_path / "home", create=True) as weft:
        with pytest.raises(Refused) as refused:
            weft.attach_table("orders", other)
        messages = " ".join(each.message for each in refused.value.reasons)
        assert len(refused.value.reasons) == 3
        assert "column mapping by name" in messages and "1 of its files" in messages and "struct<" in messages
        assert weft.tables() == ()


def test_a_deletion_by_a_deletion_vector_stops_the_table(other_spark: DeltaSpark, tmp_path: Path) -> None:
    other = tmp_path / "other"
    vectors = "TBLPROPERTIES (delta.enableDeletionVectors = true)"
    other_spark.sql(f"CREATE TABLE delta.`{other}` ({DEFINITION}) USING delta {vectors}")
    inserted(other_spark, other, [(n, "a", 100) for n in range(20)])
    with Weft.open(tmp_path / "home", create=True) as weft:
        weft.attach_table("orders", other)
        other_spark.sql(f"DELETE FROM delta.`{other}` WHERE id = 7")
        with pytest.raises(Refused, match="version 2 deletes or changes rows"):
            weft.poll_source("orders")
        assert weft.tables()[0].rows == 20


def test_types_are_read_as_spark_wrote_them(other_spark: DeltaSpark, tmp_path: Path) -> None:
    other = tmp_path / "other"
    columns = (
        "a TINYINT, b SMALLINT, c INT, d FLOAT, e DOUBLE, f DECIMAL(10,2), g DATE, h BINARY, i BOOLEAN, j DECIMAL(5,1)"
    )
    other_spark.sql(f"CREATE TABLE delta.`{other}` ({columns}) USING delta PARTITIONED BY (g, j, i, c)")
    row = "1Y, 2S, 3, CAST(0.5 AS FLOAT), 0.25D, 12.50, DATE'2024-02-29', X'00FF', true, 1.5"
    other_spark.sql(f"INSERT INTO delta.`{other}` SELECT {row}")
    with Weft.open(tmp_path / "home", create=True) as weft:
        weft.attach_table("orders", other)
        names = [each.partition(" ")[0] for each in columns.split(", ")]
        answer = weft.try_query(f"SELECT {', '.join(names)} FROM orders")
        expected = other_spark.read(str(other), *names)
        assert [tuple(each) for each in answer.rows] == [tuple(row.values()) for row in expected.to_pylist()]
        assert isinstance(expected, pa.Table)
