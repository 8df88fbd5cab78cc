"""Reading a slice of instants: its rows and no others, from the row groups that may have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.storage import data_files
from weft.storage.attached_dating import at_instant, by_column, row_by_row
from weft.storage.attached_log import OtherFile
from weft.storage.columns import INSTANT, stored_schema
from weft.storage.data_files import FileForm, file_batches
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice
from weft.storage.temporal_sql import temporal_sql
from weft.store import store_of

DAY = 86_400_000_000
TABLE = TableSchema(
    1, "t", (Column(1, "id", BIGINT), Column(2, "part", STRING), Column(3, "at", TIMESTAMP), Column(4, "ts", TIMESTAMP))
)
NARROW = TableSchema(1, "t", (Column(1, "id", BIGINT), Column(4, "ts", TIMESTAMP)))
GROUP = 3
Rows = list[tuple[int, int]]
"""The id and the instant of each row."""

instants = st.integers(-5, 30)
slices = st.builds(
    lambda low, length: Slice("ts", low, (low or 0) + length), st.one_of(st.none(), instants), st.integers(0, 20)
)


def other_file(folder: Path, times: Sequence[int | None], unit: str) -> OtherFile:
    """A file of another program with the instants in ``at``, in row groups of three rows."""
    folder.mkdir(exist_ok=True)
    at = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    if unit == "ns":
        at = at.cast(pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"id": range(len(times)), "at": at}), folder / "x.parquet", row_group_size=GROUP)
    return OtherFile(store_of(folder), "x.parquet", (folder / "x.parquet").stat().st_size, len(times), {"part": "p"}, 0)


def stored(kind: str, folder: Path, times: Sequence[int], unit: str) -> DataFile:
    own = store_of(folder / "own")
    own.make()
    if kind == "own":
        rows = pa.table({"id": range(len(times)), "ts": pa.array(times, pa.int64()).cast(INSTANT)})
        new = FileForm(own, stored_schema(TABLE), ()).write([rows.slice(n, GROUP) for n in range(0, len(times), GROUP)])
        return DataFile(new.location, new.size, new.rows, {}, {})
    file = other_file(folder / "other", times, unit)
    if kind == "at":
        return at_instant(own, file, 1, times[0]).stored
    if kind == "column":
        return by_column(own, file, 1, "at", (min(times), max(times))).stored
    return row_by_row(own, file, 1, pa.array([None if n % 4 == 3 else at for n, at in enumerate(times)])).stored


def expected(kind: str, times: Sequence[int], part: Slice) -> Rows:
    dated = [(n, times[0] if kind == "at" else at) for n, at in enumerate(times) if kind != "rows" or n % 4 != 3]
    return [(n, at) for n, at in dated if at < part.high and (part.low is None or at >= part.low)]


def by_duckdb(file: DataFile, table: TableSchema, part: Slice) -> Rows:
    with temporal_sql() as sql:
        sql.stored("x", [file], table, part)
        found = sql.rows("SELECT id, EPOCH_US(ts) AS ts FROM x ORDER BY id").to_pylist()
    return [(row["id"], row["ts"]) for row in found]


@pytest.mark.parametrize("kind", ["own", "at", "column", "rows"])
@given(times=st.lists(instants, min_size=1, max_size=14), part=slices, unit=st.sampled_from(["us", "ns"]))
@settings(max_examples=40, deadline=None)
def test_duckdb_and_the_driver_get_the_rows_of_the_slice(kind: str, times: list[int], part: Slice, unit: str) -> None:
    with TemporaryDirectory() as folder:
        file = stored(kind, Path(folder), times, unit)
        wanted = expected(kind, times, part)
        assert by_duckdb(file, TABLE, part) == by_duckdb(file, NARROW, part) == wanted
        batches = list(file_batches(file, stored_schema(TABLE), part.condition, part=part))
        found = [row for batch in batches for row in batch.to_pylist()]
        assert [(row["id"], int(row["ts"].timestamp() * 1e6 + 0.5)) for row in found if row["ts"].year > 1969] == [
            row for row in wanted if row[1] >= 0
        ]
        assert len(found) == len(wanted)
        assert {row["part"] for row in found} <= {None if kind == "own" else "p"}


@pytest.mark.parametrize("kind", ["at", "column", "rows"])
def test_the_rest_of_the_file_is_not_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, list[str]]] = []
    real = data_files.with_instants

    def counted(attached: Any, batches: Iterator[pa.RecordBatch], *rest: Any) -> Iterator[pa.Table]:
        def each() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                read.append((batch.num_rows, batch.schema.names))
                yield batch

        return real(attached, each(), *rest)

    monkeypatch.setattr(data_files, "with_instants", counted)
    times = list(range(300))
    file = stored(kind, tmp_path, times, "us")
    part = Slice("ts", 100, 104)
    assert by_duckdb(file, NARROW, part) == expected(kind, times, part)
    assert sum(rows for rows, _ in read) <= 2 * GROUP
    assert all(names in (["id"], ["id", "at"]) for _, names in read)


def test_a_slice_of_another_column(tmp_path: Path) -> None:
    times, part = list(range(30)), Slice("at", 10, 14)
    for kind in ("at", "column", "rows"):
        (tmp_path / kind).mkdir()
        file = stored(kind, tmp_path / kind, times, "us")
        batches = file_batches(file, stored_schema(TABLE), part.condition, part=part)
        found = [row["id"] for batch in batches for row in batch.to_pylist()]
        assert found == [n for n in range(10, 14) if kind != "rows" or n % 4 != 3]


def test_a_bound_that_the_unit_cannot_represent_is_left_out(tmp_path: Path) -> None:
    """Nanoseconds end in the year 2262."""
    file = stored("column", tmp_path, [1, 2, 3], "ns")
    far = Slice("ts", 2, 250_000_000_000_000_000)
    assert by_duckdb(file, NARROW, far) == [(1, 2), (2, 3)]


def test_a_bound_that_the_type_of_a_column_would_round_is_left_out() -> None:
    part = Slice("ts", 1_500_001, 86_400_000_000 + 1)
    for kind, bounds in (
        (pa.date32(), None),
        (pa.string(), None),
        (pa.timestamp("s"), None),
        (pa.timestamp("ns", "UTC"), 2),
    ):
        condition = part.condition_on("d", pa.schema([("d", kind)]))
        assert (None if condition is None else str(condition).count("1970")) == bounds, kind
    assert part.condition_on("other", pa.schema([("d", INSTANT)])) is None


@given(st.integers(-(2**62), 2**62), st.one_of(st.none(), st.integers(-(2**62), 2**62)), st.data())
@settings(max_examples=50)
def test_a_slice_of_dates_has_the_days_that_begin_in_it(high: int, low: int | None, data: st.DataObject) -> None:
    near = [bound // DAY + more for bound in (high, low or 0) for more in (-1, 0, 1)]
    days = [day for day in near if abs(day) < 2**31] or [data.draw(st.integers(-(2**31), 2**31 - 1))]
    column = pa.array(days, pa.int32()).cast(pa.date32())
    part = Slice("day", low, high, days=True)
    assert part.mask(column).to_pylist() == [part.holds(day * DAY) for day in days]
    kept = pa.table({"day": column}).filter(part.condition).column("day").cast(pa.int32())
    assert kept.to_pylist() == [day for day in days if part.holds(day * DAY)]
