"""Rows that programs append: every form in which they have them, every type, all rows or none."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.schema import DataType
from weft.api.weft import Weft
from weft.errors import Refused, WeftError
from weft.extraction import appending
from weft.extraction.given_rows import reader_of

UTC = dt.timezone.utc
COLUMNS = {
    "s": "STRING", "b": "BOOLEAN", "t": "TINYINT", "h": "SMALLINT", "i": "INT", "l": "BIGINT", "f": "FLOAT",
    "d": "DOUBLE", "m": "DECIMAL(12,3)", "y": "DATE", "at": "TIMESTAMP", "r": "BINARY",
}  # fmt: skip
KINDS = [(name, DataType.parse(kind)) for name, kind in COLUMNS.items()]
ARROW = pa.schema(
    {
        "s": pa.string(), "b": pa.bool_(), "t": pa.int8(), "h": pa.int16(), "i": pa.int32(), "l": pa.int64(),
        "f": pa.float32(), "d": pa.float64(), "m": pa.decimal128(12, 3), "y": pa.date32(),
        "at": pa.timestamp("us", "UTC"), "r": pa.binary(),
    }
)  # fmt: skip
ROW = st.fixed_dictionaries(
    {
        "s": st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
        "b": st.none() | st.booleans(),
        **{
            name: st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            for name, bits in (("t", 8), ("h", 16), ("i", 32), ("l", 64))
        },
        "f": st.none() | st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False),
        "m": st.none() | st.decimals(-999_999_999, 999_999_999, places=3),
        "y": st.none() | st.dates(),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "r": st.none() | st.binary(max_size=4),
    }
)


def as_json(row: dict[str, Any]) -> bytes:
    """A line by the standard library; infinities cannot be written in JSON and are left to the other doors."""

    def text(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, float) and math.isinf(value):
            return None
        return str(value) if isinstance(value, Decimal) else value.isoformat() if hasattr(value, "isoformat") else value

    return json.dumps({name: text(value) for name, value in row.items()}).encode()


def read(rows: Any, columns: Any = KINDS) -> list[dict[str, Any]]:
    """What a table with these columns would get."""
    reader, _ = reader_of(rows, None)  # type: ignore[arg-type]
    pieces = list(reader(columns))
    for piece in pieces:
        if columns is KINDS:
            assert piece.schema == ARROW
    return [row for piece in pieces for row in piece.to_pylist()]


@settings(max_examples=30)
@given(st.lists(ROW, min_size=1, max_size=4))
def test_each_interface_stores_the_given_rows(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=ARROW)
    finite = [{k: None if isinstance(v, float) and math.isinf(v) else v for k, v in row.items()} for row in rows]
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in COLUMNS})
    assert read(rows) == rows
    assert read(iter(rows)) == rows
    assert read(rows[0]) == rows[:1]
    assert read(map(as_json, rows)) == finite
    assert read([as_json(row).decode() for row in rows]) == finite
    assert read(table) == rows
    assert read(table.to_batches()[0]) == rows
    assert read(table.to_reader()) == rows
    assert read(frame) == rows
    assert read(table.to_pandas(types_mapper=pd.ArrowDtype)) == rows
    assert read(pl.from_arrow(table)) == rows


def test_pandas_as_people_have_it() -> None:
    frame = pd.DataFrame(
        {
            "i": [1, None],  # a float with NaN
            "d": [1.5, math.nan],
            "m": [9.5, None],
            "s": ["é", None],
            "y": pd.to_datetime(["2026-02-28", None]),
            "at": pd.to_datetime(["2026-02-28 01:00+01:00", None], utc=True),
            "b": pd.array([True, None], dtype="boolean"),
            "l": pd.array([2**62, None], dtype="Int64"),
        }
    )
    first, second = read(frame.set_index(pd.Index([7, 7])))
    assert first == {
        "s": "é", "b": True, "t": None, "h": None, "i": 1, "l": 2**62, "f": None, "d": 1.5, "m": Decimal("9.500"),
        "y": dt.date(2026, 2, 28), "at": dt.datetime(2026, 2, 28, tzinfo=UTC), "r": None,
    }  # fmt: skip
    assert set(second.values()) == {None}
    assert [row["i"] for row in read(frame.iloc[:1].set_index("i"))] == [1]
    assert [row["s"] for row in read(pd.DataFrame({"s": pd.Categorical(["a", "b", "a"])}))] == ["a", "b", "a"]
    odd = pd.DataFrame({"at": [pd.Timestamp("2026-02-28 00:00:00.000001999")]})
    naive = dt.datetime(2026, 2, 28, 0, 0, 0, 1, tzinfo=UTC)
    assert read(odd)[0]["at"] == read(odd.astype(object))[0]["at"] == naive
    assert read({"at": odd["at"][0], "i": np.int64(3), "l": pd.NA, "y": pd.NaT, "d": np.float64(2)})[0]["i"] == 3
    assert read({"at": np.datetime64("2026-02-28T00:00:00.000001999")})[0]["at"] == naive
    assert read(pd.DataFrame({"s": []})) == []


def test_arrow_of_other_widths_and_units() -> None:
    table = pa.table(
        {
            "l": pa.array([1, 2], pa.uint8()),
            "d": pa.array([1, 2], pa.int32()),
            "m": pa.array([1.25, 2], pa.float32()),
            "s": pa.array(["a", "a"]).dictionary_encode(),
            "r": pa.array([b"ab", None], pa.binary(2)),
            "at": pa.array([1, None], pa.timestamp("s", "Asia/Tokyo")),
            "y": pa.array([86_400_000, None], pa.date64()),
            "f": pa.nulls(2),
        }
    )
    first, second = read(table)
    assert (first["l"], first["d"], first["m"], first["s"]) == (1, 1.0, Decimal("1.250"), "a")
    assert (first["at"], first["y"]) == (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), dt.date(1970, 1, 2))
    assert (second["r"], second["at"], second["f"]) == (None, None, None)
    before = pa.table({"at": pa.array([-1], pa.timestamp("ns"))})
    assert read(before)[0]["at"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


WRONG: list[tuple[str, Any]] = [
    ("s", 5), ("s", b"x"), ("b", 1), ("b", "true"), ("t", 128), ("h", -32_769), ("i", 2**31), ("i", "5"), ("i", 1.5),
    ("i", True), ("l", 2**63), ("f", 1e300), ("f", "1"), ("d", Decimal(1)), ("d", True), ("d", 2**53 + 1),
    ("m", "1.5"), ("m", Decimal("1.2345")), ("m", 0.1 + 0.2), ("m", 10**9), ("m", math.nan), ("m", math.inf),
    ("y", "2026-02-28"), ("y", dt.datetime(2026, 2, 28, 1)), ("at", dt.date(2026, 2, 28)), ("at", "noon"), ("at", 0),
    ("r", "00ff"), ("at", dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=1)))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_of_another_type_is_refused_by_row_column_and_value(name: str, value: Any) -> None:
    rows = [{}, {name: None}, {name: value}]
    forms: list[tuple[Any, str]] = [(rows, "these rows, row 3")]
    if not (isinstance(value, float) and math.isnan(value)):  # which is pandas' NULL
        objects = pd.DataFrame({name: pd.Series([None, None, value], dtype=object)})
        forms.append((objects, "the DataFrame, row 3"))
    with contextlib.suppress(pa.ArrowException, OverflowError, ValueError):  # Arrow has no such value
        forms.append((pa.table({name: [None, None, value]}), "these rows, row 3"))
    for form, place in forms:
        with pytest.raises(Refused) as refusal:
            read(form)
        kind = COLUMNS[name]
        assert refusal.value.message.startswith(f"{name} is ") and refusal.value.message.endswith(
            f"which is not of type {kind}"
        )
        assert (refusal.value.where, (refusal.value.hint or "").startswith(f"{name} accepts ")) == (place, True)


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="which is not of type STRING"):
        read({"s": "\ud800"})
    with pytest.raises(Refused, match="not of type DATE"):
        read(pd.DataFrame({"y": pd.to_datetime(["2026-02-28 01:00"])}))
    with pytest.raises(Refused, match=r"i is 2\.5, which is not of type INT \(the DataFrame, row 2\)"):
        read(pd.DataFrame({"i": [1.0, 2.5]}))
    with pytest.raises(Refused, match="not of type INT"):  # only pandas has no whole numbers with NULL
        read(pl.DataFrame({"i": [1.0]}))
    with pytest.raises(Refused, match="not of type TIMESTAMP"):
        read(pa.table({"at": pa.array([2**61], pa.timestamp("us"))}))


def test_the_row_that_is_wrong_is_found_wherever_it_is() -> None:
    for place in (0, 1, 9_999, 10_000, 23_456):
        values = list(range(25_000))
        values[place] = 2**40
        for form in (pa.table({"i": values}), pd.DataFrame({"i": values}), ({"i": value} for value in values)):
            with pytest.raises(Refused) as refusal:
                read(form)
            assert str(refusal.value.where).endswith(f"row {place + 1}")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ('{"s": "a"}', "a single str is not a sequence of rows"), (b"{}", "a single bytes is not a sequence of rows"),
        (7, "an object of type int does not contain rows"),
        ([(1, 2)], "a tuple is not a row"), ([{"s": "a"}, b"{}"], "a bytes is not a row"),
        ([{"S": "a"}], "no column 'S'"), (pa.table({"x": [1]}), "no column 'x'"), ({1: 2}, "no column 1"),
        (pd.DataFrame({0: [1]}), "no column 0"), (pl.LazyFrame({"s": ["a"]}), "LazyFrame"),
        (pa.table([[1], [2]], names=["i", "i"]), "twice"), (pd.DataFrame([[1, 2]], columns=["i", "i"]), "twice"),
        (pd.DataFrame({"i": [1]}, index=pd.Index([1], name="k")), "no column 'k'"),
        (pd.Series([1], name="i"), "a Series is not a table"),
    ],
)  # fmt: skip
def test_what_holds_no_rows_of_the_table_is_refused(rows: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read(rows)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**14), 10**14))
def test_a_decimal_is_the_number_that_was_given(number: float | int) -> None:
    shown = Decimal(repr(number))
    fits = abs(shown) < 10**9 and shown == round(shown, 3)
    for form in ([{"m": number}], pa.table({"m": [number]})):
        try:
            found = read(form)[0]["m"]
        except Refused:
            assert not fits
        else:
            assert fits and found == shown


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", create=True) as opened:
        opened.make_table("orders", "id INT, item STRING")
        yield opened


def stored(home: Weft, name: str = "orders") -> list[tuple[object, ...]]:
    table = home.catalog.tables.named(name)
    rows = DeltaTable(str(home.home / table.path)).to_pyarrow_table().to_pylist() if table.rows else []
    return sorted((row["id"], row["item"], row.get("_by")) for row in rows)


def test_rows_are_stored_with_who_appended_them(home: Weft) -> None:
    frame = pd.DataFrame({"id": [3, 4], "item": ["c", "d"]})
    for rows in ({"id": 1, "item": "a"}, [{"id": 2, "item": "b"}], frame, pl.DataFrame({"id": [5], "item": ["e"]})):
        home.append("orders", rows, user="ann")
    assert stored(home) == [(number, "abcde"[number - 1], "ann") for number in range(1, 6)]
    assert [each.load.source for each in home.loads("orders")][::-1] == [
        "this row", "these rows", "the DataFrame", "these rows"
    ]  # fmt: skip


def test_many_rows_are_one_commit_and_leave_no_file(
    home: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(appending, "IN_MEMORY", 1_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    done = home.append("orders", ({"id": number, "item": "x"} for number in range(30_000)))
    assert (done.stored, len(stored(home))) == (30_000, 30_000)
    place = home.home / home.catalog.tables.named("orders").path
    assert DeltaTable(str(place)).version() == 1
    assert list((tmp_path / "spool").iterdir()) == []


def test_one_wrong_row_at_the_end_stores_nothing(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "IN_MEMORY", 1_000)
    with pytest.raises(Refused, match="row 30001"):
        home.append("orders", ({"id": number if number < 30_000 else "x"} for number in range(30_001)))
    assert (stored(home), home.loads("orders")) == ([], ())


def test_a_full_folder_for_temporary_files_is_reported(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(appending, "IN_MEMORY", 0)
    monkeypatch.setattr(appending, "_write", full)
    with pytest.raises(WeftError, match="No space left"):
        home.append("orders", {"id": 1})
    assert home.loads("orders") == ()


def test_a_table_that_was_loaded_takes_every_form(home: Weft, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,item\n1,a\n")
    home.ingest_file(tmp_path / "a.csv", "loaded", keys=["id"])
    done = home.append("loaded", pa.table({"id": [1, 2], "item": ["z", "b"]}))
    assert (done.stored, done.known, done.differ) == (1, 1, 1)
    assert stored(home, "loaded") == [(1, "a", None), (2, "b", None)]


def test_no_rows_are_no_rows(home: Weft) -> None:
    for rows in ([], iter(()), pd.DataFrame({"id": []}), pa.table({"id": pa.array([], pa.int32())})):
        assert home.append("orders", rows).stored == 0


LOADED = """
import sys
sys.argv = ["weft", "append", "t", "a=1", "--home", sys.argv[-1]]
from weft.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
print([name for name in ("polars", "pyspark") if name in sys.modules])  # pyarrow itself imports pandas
"""


def test_a_command_loads_no_library_of_tables(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("t", "a INT")
    reason = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "home")], capture_output=True, text=True, check=True
    )
    assert reason.stdout.splitlines()[-1] == "[]"
