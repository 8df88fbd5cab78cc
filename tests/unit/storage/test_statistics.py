"""Bounds of a file's values, written and read: wider than the values at most, never narrower."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.columns import INSTANT, instants
from weft.storage.statistics import COLUMNS_PROPERTY, Statistics, columns_with_statistics, named_columns
from weft.storage.table import Fence, Table
from weft.store import store_of

ANY = st.integers(-(2**63), 2**63 - 1)
AN_INSTANT = st.one_of(
    st.integers(FIRST_INSTANT, LAST_INSTANT), st.integers(-2_000, 2_000), ANY, st.sampled_from([-1, FIRST_INSTANT - 1])
)
SCHEMA = pa.schema([("ts", INSTANT), ("n", pa.int64()), ("text", pa.string())])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.none() | AN_INSTANT, st.none() | ANY), max_size=6))
def test_bounds_hold_every_value_and_are_close(values: list[tuple[int | None, int | None]]) -> None:
    with TemporaryDirectory() as folder:
        table = store_of(folder) / "t"
        Table(table).ensure(SCHEMA, {COLUMNS_PROPERTY: named_columns(["ts", "n"])})
        given_rows = {
            "ts": pa.array([v for v, _ in values], INSTANT),
            "n": pa.array([v for _, v in values], pa.int64()),
        }
        Table(table).append(pa.table(given_rows), Fence("a", 1))
        (file,) = Table(table).snapshot().files
    assert file.rows == len(values)
    for name, number in (("ts", 0), ("n", 1)):
        held = [row[number] for row in values if row[number] is not None]
        if not held:
            assert name not in file.least and name not in file.greatest
            continue
        if name in file.least:
            assert file.least[name] <= min(held) < file.least[name] + 1_000
        if name in file.greatest:
            assert file.greatest[name] >= max(held) > file.greatest[name] - 1_000
        for bound, wanted in ((file.least, min(held)), (file.greatest, max(held))):
            assert (name in bound) == (name == "n" or FIRST_INSTANT <= wanted <= LAST_INSTANT)


@pytest.mark.parametrize("far", [-62_135_596_800_000_001, LAST_INSTANT + 1, 8_210_266_876_799_999_999, 2**63 - 1])
def test_instants_outside_pythons_years_can_be_read(tmp_path: Path, far: int) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"ts": pa.array([far, 5], INSTANT)}), mode="append")
    (file,) = Table(store_of(tmp_path / "t")).snapshot().files
    assert file.least.get("ts", far) <= min(far, 5)
    assert file.greatest.get("ts", far) >= max(far, 5)


@given(st.lists(st.text(min_size=1).filter(str.strip), unique=True))
def test_names_of_columns_come_back_from_the_property(names: list[str]) -> None:
    schema = pa.schema([(name, INSTANT) for name in names])
    assert columns_with_statistics({COLUMNS_PROPERTY: named_columns(names)}, schema) == names


def test_which_columns_have_statistics() -> None:
    schema = pa.schema([("n", pa.int32()), ("s", pa.string()), ("seen", INSTANT), ("ts", INSTANT), ("d", pa.float64())])
    assert columns_with_statistics({}, schema) == ["n", "seen", "ts"]
    assert columns_with_statistics({COLUMNS_PROPERTY: " ts , s,none"}, schema) == ["ts"]
    assert instants(["ts"], schema) == ["ts", "seen"]


def test_statistics_have_the_form_of_delta() -> None:
    rows = pa.table({"ts": pa.array([-1, None, 1_999], INSTANT), "n": [3, None, -7]})
    statistics = Statistics(["ts", "n"])
    for piece in (rows.slice(0, 1), rows.slice(1, 0), rows.slice(1)):
        statistics.add(piece)
    assert json.loads(statistics.text()) == {
        "numRecords": 3,
        "minValues": {"ts": "1969-12-31T23:59:59.999Z", "n": -7},
        "maxValues": {"ts": "1970-01-01T00:00:00.001Z", "n": 3},
        "nullCount": {"ts": 1, "n": 1},
    }
