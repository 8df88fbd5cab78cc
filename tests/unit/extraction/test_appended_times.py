"""Rows that are appended with times of their own: exactly that ts, late and future rows as in other loads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from weft.api.weft import Weft
from weft.errors import ClockError, Refused
from weft.instants import DAY_US, from_datetime

UTC = dt.timezone.utc
ROWS = [{"id": 1, "ts": dt.datetime(2020, 1, 2, tzinfo=UTC)}, {"id": 2, "ts": dt.datetime(2020, 1, 1, 0, 0, 0, 5)}]
COLUMNS = "id INT, at TIMESTAMP, day DATE, raw BINARY, price DECIMAL(5,2), tags ARRAY<STRING>"


@pytest.fixture
def weft(tmp_path: Path) -> Any:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("t", COLUMNS)
        yield home


def _stored(home: Weft) -> dict[int, str]:
    table = home.catalog.tables.named("t")
    rows = DeltaTable(str(home.home / table.path)).to_pyarrow_table().to_pylist() if table.rows else []
    return {row["id"]: row["ts"].isoformat() for row in rows}


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        pd.DataFrame,
        lambda rows: pl.DataFrame([{**row, "ts": row["ts"].replace(tzinfo=None)} for row in rows]),
        lambda rows: pa.Table.from_pylist([{**row, "ts": row["ts"].replace(tzinfo=None)} for row in rows]),
        lambda rows: [f'{{"id": {row["id"]}, "ts": "{row["ts"].isoformat()}"}}' for row in rows],
    ],
    ids=["dicts", "pandas", "polars", "arrow", "json"],
)
def test_rows_get_the_times_that_they_have(weft: Weft, form: Callable[[Any], Any]) -> None:
    aware = [{**row, "ts": row["ts"].replace(tzinfo=UTC)} for row in ROWS]
    done = weft.append("t", form(aware), ts_from="ts")
    assert (done.stored, done.late, done.quarantined) == (2, 0, 0)
    assert _stored(weft) == {1: "2020-01-02T00:00:00+00:00", 2: "2020-01-01T00:00:00.000005+00:00"}


@pytest.mark.parametrize(
    ("rows", "ts_from", "message"),
    [
        ({"id": 1, "ts": dt.datetime(2020, 1, 1)}, None, "To take that instant from the rows"),
        (pd.DataFrame({"id": [1], "ts": [pd.Timestamp("2020-01-01")]}), None, "ts_from='ts' or --ts-from ts"),
        ([{"id": 1, "ts": dt.datetime(2020, 1, 1)}, {"id": 2}], "ts", "these rows, row 2"),
        ({"id": 1, "ts": "2020-01-01"}, "ts", "not of type TIMESTAMP"),
        ({"id": 1}, "id", "'id' is of type INT"),
        ({"id": 1}, "when", "the table has no column 'when'"),
        ({"id": 1}, "_by", "the table has no column '_by'"),
    ],
)
def test_rows_without_a_time_are_refused_and_nothing_is_stored(
    weft: Weft, rows: Any, ts_from: str, message: str
) -> None:
    with pytest.raises(Refused) as refused:
        weft.append("t", rows, ts_from=ts_from)
    assert message in str(refused.value)
    assert _stored(weft) == {} and weft.loads() == ()


def _ticked(weft: Weft, clock: str) -> None:
    weft.make_table("t", COLUMNS)
    weft.append("t", {"id": 0, "at": dt.datetime(2020, 1, 1, tzinfo=UTC)}, ts_from="at")
    weft.install("q", "SELECT id FROM t WHERE id < 0", keep="synopsis")  # ticks without Spark
    weft.tick(now="2020-06-01") if clock == "replay" else weft.tick()


def test_late_rows_are_treated_as_in_other_loads(tmp_path: Path) -> None:
    rows = [{"id": 1, "ts": dt.datetime(2020, 3, 1, tzinfo=UTC)}, {"id": 2, "ts": dt.datetime(2020, 7, 1, tzinfo=UTC)}]
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        with pytest.raises(ClockError):
            weft.make_table("u", "id INT")
            weft.append("u", {"id": 1})
        _ticked(weft, "replay")
        with pytest.raises(Refused, match="1 row for t would be late"):
            weft.append("t", rows, ts_from="ts", late="refuse")
        assert set(_stored(weft)) == {0}
        assert weft.append("t", rows, ts_from="ts", late="stamp").late == 1
        assert _stored(weft)[1] == "2020-06-01T00:00:00+00:00" and _stored(weft)[2] == "2020-07-01T00:00:00+00:00"
        for number in (1, 2):  # the same rows again are other rows
            done = weft.append("t", [{**row, "id": 10 + number} for row in rows], ts_from="ts", late="quarantine")
            assert (done.stored, done.quarantined) == (1, 1)
        assert {each.position for each in weft.quarantined()} == {"row 1"}
        assert weft.retry_quarantine(late="stamp").stored == 2


def test_a_row_far_ahead_goes_to_quarantine_whole(weft: Weft) -> None:
    at = dt.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
    values = {"id": 3, "at": at, "day": dt.date(2020, 1, 1), "raw": b"\x00\xff", "price": 1.5, "tags": ["a", 'b"']}
    ahead = dt.datetime.fromtimestamp((weft.clock() + 3 * DAY_US) // 1_000_000, UTC)
    done = weft.append("t", [{**values, "ts": ahead}, {"id": 4, "ts": at}], ts_from="ts")
    assert (done.stored, done.quarantined) == (1, 1)
    assert weft.quarantined()[0].reason == "ts is more than 1d ahead of the clock"
    assert weft.append("t", {"id": 5, "ts": ahead}, ts_from="ts", future="4d").stored == 1
    assert weft.retry_quarantine(future="4d").stored == 1
    rows = DeltaTable(str(weft.home / weft.catalog.tables.named("t").path)).to_pyarrow_table().to_pylist()
    [kept] = [row for row in rows if row["id"] == 3]
    assert from_datetime(kept["ts"]) == from_datetime(ahead)
    assert {name: kept[name] for name in ("at", "day", "raw", "tags")} == {
        **{k: values[k] for k in ("at", "day", "raw")},
        "tags": '["a","b\\""]',
    }
    assert str(kept["price"]) == "1.50" and kept["_by"]


@pytest.mark.parametrize("late", ["stamp", "quarantine"])
def test_a_parquet_row_with_bytes_comes_back_from_quarantine(tmp_path: Path, late: Any) -> None:
    import pyarrow.parquet as pq

    with Weft.open(tmp_path / "home", create=True) as weft:
        far = dt.datetime(2100, 1, 1, tzinfo=UTC)
        pq.write_table(pa.table({"id": [1], "raw": [b"\x00\xff"], "at": [far]}), tmp_path / "x.parquet")
        assert weft.ingest_file(tmp_path / "x.parquet", "p", ts_from="at", late=late).quarantined == 1
        assert weft.retry_quarantine(future="90000d").stored == 1
