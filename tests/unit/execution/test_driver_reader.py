"""What the driver reads of a table: the same rows as a plain reading of them, or none where they are not few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.access import Key
from weft.algebra.schema import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, TableSchema
from weft.catalog.records import TableRecord
from weft.execution.driver_reader import DriverReader, ReadBounds, Reading
from weft.execution.look_ups import LookUps
from weft.storage import table as delta
from weft.storage.columns import stored_schema
from weft.storage.slices import Slice
from weft.store import store_of

SCHEMA = TableSchema(
    7,
    "t",
    (Column(1, "K", BIGINT), Column(2, "x", STRING), Column(3, "d", DOUBLE), Column(4, "ts", TIMESTAMP)),
)
Row = tuple[Any, ...]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 4)),
        st.one_of(st.none(), st.sampled_from("ab")),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("inf")])),
        st.integers(-3_000, 9_000),
    ),
    min_size=1,
    max_size=8,
)


class Table:
    """A Delta table with the rows in several files, and how the driver reads it."""

    def __init__(self, folder: Path, parts: list[list[Row]], bounds: ReadBounds) -> None:
        schema = stored_schema(SCHEMA)
        stored = delta.Table(store_of(folder / "t"))
        stored.ensure(schema, {})
        for number, rows in enumerate(parts, 1):
            columns = [pa.array(list(values)) for values in zip(*rows, strict=True)]
            given = [c.cast(field.type) for c, field in zip(columns, schema, strict=True)]
            stored.append(pa.table(given, schema.names), delta.Fence("test", number))
        self.rows = [row for part in parts for row in part]
        record = TableRecord(**_record(len(self.rows)))
        files = stored.files()
        look_ups = LookUps(folder / "arrangements")
        self.reader = DriverReader({"t": record}, lambda _: files, bounds, look_ups)


def _record(rows: int) -> dict[str, Any]:
    known: dict[str, Any] = {"schema": SCHEMA, "table_id": 7, "path": "t", "rows": rows, "version": 1}
    return {name: known.get(name) for name in TableRecord.__dataclass_fields__}


def read(found: Reading) -> list[Row]:
    assert found.rows is not None
    columns = [found.rows.column(name) for name in ("k", "X", "d", "ts")]
    columns[3] = columns[3].cast(pa.int64())
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


@settings(max_examples=40, deadline=None)
@given(st.lists(ROWS, max_size=3), st.integers(-4_000, 9_000), st.integers(0, 3_000), st.booleans())
def test_news_are_the_rows_in_any_slice(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[Row]], low: int, length: int, open_: bool
) -> None:
    table = Table(tmp_path_factory.mktemp("t"), parts, ReadBounds())
    slices = [Slice("ts", None if open_ else low, low + length), Slice("ts", 8_000, 8_500)]
    inside = [row for row in table.rows if (open_ or low <= row[3]) and row[3] < low + length]
    inside += [row for row in table.rows if 8_000 <= row[3] < 8_500 and row not in inside]
    assert {repr(row) for row in read(table.reader.news("t", slices, ["k", "x", "d"]))} == set(map(repr, inside))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(ROWS, max_size=3),
    st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=3),
    st.lists(st.sampled_from([0.0, -0.0, 1.5, 2.5, None]), max_size=2),
    st.booleans(),
)
def test_look_ups_find_each_row_with_one_of_the_keys(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[Row]],
    keys: list[int | None],
    numbers: list[float | None],
    arranged: bool,
) -> None:
    table = Table(tmp_path_factory.mktemp("t"), parts, ReadBounds(filtered=-1 if arranged else 100))
    wanted = {
        Key("k"): [pa.chunked_array([pa.array(keys, pa.int64())]), pa.chunked_array([], pa.int64())],
        Key("d"): [pa.chunked_array([pa.array(numbers, pa.float64())])],
    }
    found = read(table.reader.lookup("t", wanted, ["x"]))
    expected = [row for row in table.rows if row[0] in keys or row[2] in numbers]  # NULL is a key
    assert {repr(row) for row in expected} <= set(map(repr, found)) <= set(map(repr, table.rows))
    if not numbers:
        assert {repr(row) for row in found if row[2] is None} == {repr(row) for row in expected if row[2] is None}


def test_large_relations_are_left_to_spark(tmp_path: Path) -> None:
    ms = 1_000  # as fine as the log's statistics are
    rows = [(n % 5, "a", 1.0, n * ms) for n in range(60)]
    table = Table(tmp_path, [rows[:30], rows[30:]], ReadBounds(whole=59, news=20, scanned=40, keys=2))
    reader = table.reader
    whole = reader.whole("t", ["k"])
    assert (whole.rows, whole.how) == (
        None,
        "the whole table, 60 rows, but the driver reads at most 59",
    )
    assert reader.news("t", [Slice("ts", 0, 20 * ms)], ["k"]).how == "20 rows from 1 file with 30 rows"
    for low, high, why in (
        (0, 21, "the result exceeds 20 rows"),
        (25, 35, "2 files with 60 rows, but the driver reads at most 40"),
    ):
        news = reader.news("t", [Slice("ts", low * ms, high * ms)], ["k"])
        assert (news.rows, news.by) == (None, "Spark")
        assert news.how.startswith(why)
    three = reader.lookup("t", {Key("k"): [pa.chunked_array([pa.array([1, 2, 3])])]}, [])
    assert (three.rows, three.how) == (None, "3 keys, but the driver reads at most 2")
    assert len(read_keys(reader.lookup("t", {Key("k"): [pa.chunked_array([pa.array([1, 2])])]}, []))) == 24


def read_keys(found: Reading) -> list[int]:
    assert found.rows is not None
    return list(found.rows.column("k").to_pylist())


def test_few_rows_that_are_large_are_left_to_spark(tmp_path: Path) -> None:
    """100,000 letters are few by number, and more than the JVM's memory."""
    rows = [(n % 5, "a" * 1_000, 1.0, n) for n in range(60)]
    news, keys = [Slice("ts", 0, 100)], {Key("k"): [pa.chunked_array([pa.array([1])])]}
    for filtered in (100, -1):
        reader = Table(tmp_path / str(filtered), [rows], ReadBounds(filtered=filtered, size=10_000)).reader
        assert reader.whole("t", ["x"]).rows is None
        assert reader.whole("t", ["k"]).rows is not None
        assert reader.news("t", news, ["x"]).rows is None
        assert reader.news("t", [Slice("ts", 0, 5)], ["x"]).rows is not None
        assert reader.lookup("t", keys, ["x"]).rows is None
    read_table = Table(tmp_path / "t", [rows], ReadBounds(filtered=100, size=30_000))
    found = read_keys(read_table.reader.lookup("t", keys, ["x"]))
    assert len(found) == 12  # the table is too large, what a key finds of it is not


def test_a_key_that_many_rows_have_is_left_to_spark(tmp_path: Path) -> None:
    rows = [(n % 2, "a", 1.0, n) for n in range(60)]
    reader = Table(tmp_path, [rows], ReadBounds(filtered=-1)).reader
    keys = {Key("k"): [pa.chunked_array([pa.array([1])])]}
    assert reader.lookup("t", keys, []).rows is not None
    reader.look_ups = LookUps(tmp_path / "arrangements", most_found=29)
    assert reader.lookup("t", keys, []).rows is None
    reader.look_ups, reader.bounds = LookUps(tmp_path / "arrangements"), ReadBounds(filtered=-1, news=29)
    assert reader.lookup("t", keys, []).rows is None
