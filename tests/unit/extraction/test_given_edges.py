"""Rows that programs give, at the edges: where a digit would be lost, and what a library of tables fails at."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction import appending
from weft.extraction.given_rows import reader_of

UTC = dt.timezone.utc


def read(rows: Any, **columns: str) -> list[dict[str, Any]]:
    """What a table with these columns would get."""
    reader, _ = reader_of(rows, None)  # type: ignore[arg-type]
    kinds = [(name, DataType.parse(kind)) for name, kind in columns.items()]
    return [row for piece in reader(kinds) for row in piece.to_pylist()]


def refusal(rows: Any, **columns: str) -> Refused:
    """What is said of them."""
    with pytest.raises(Refused) as found:
        read(rows, **columns)
    return found.value


@pytest.mark.parametrize("form", [lambda x: {"x": x}, lambda x: pd.DataFrame({"x": pd.Series([x], dtype=object)})])
def test_a_float_takes_the_ints_that_it_holds(form: Any) -> None:
    assert read(form(2**24), x="FLOAT") == [{"x": 2.0**24}]
    assert read(form(2**24 + 2), x="FLOAT") == [{"x": 2.0**24 + 2}]
    assert read(form(2**24 + 1), x="DOUBLE") == [{"x": 2.0**24 + 1}]
    assert refusal(form(2**24 + 1), x="FLOAT").message == "x is 16777217, which is not of type FLOAT"


@pytest.mark.parametrize("hour", [0, 1])
def test_an_instant_in_the_hour_that_comes_twice_is_taken(hour: int) -> None:
    given = pd.Timestamp(f"2026-10-25 0{hour}:30:00.000001999", tz="UTC").tz_convert("Europe/Berlin")
    assert (given.hour, given.minute) == (2, 30)
    assert read({"x": given}, x="TIMESTAMP") == [{"x": dt.datetime(2026, 10, 25, hour, 30, 0, 1, tzinfo=UTC)}]


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, -(2**53) - 1])
def test_a_whole_number_that_pandas_made_a_float_is_refused_where_it_may_have_been_another(value: int) -> None:
    result = refusal(pd.DataFrame({"x": [value, None]}), x="BIGINT")
    assert (result.where, 'dtype="Int64"' in str(result.hint)) == ("the DataFrame, row 1", True)
    assert read(pd.DataFrame({"x": pd.array([value, None], dtype="Int64")}), x="BIGINT")[0] == {"x": value}
    assert read(pd.DataFrame({"x": [2**53 - 1, None]}), x="BIGINT")[0] == {"x": 2**53 - 1}
    assert "dtype" not in str(refusal(pd.DataFrame({"x": [0.5, None]}), x="BIGINT").hint)
    assert "dtype" not in str(refusal(pd.DataFrame({"x": [np.inf, None]}), x="BIGINT").hint)


def test_a_short_float_beside_a_large_one_is_the_number_that_it_shows() -> None:
    table = pa.table({"x": pa.array([0.1, None, 1e20], pa.float32())})
    found = [row["x"] for row in read(table, x="DECIMAL(38,2)")]
    assert found == [Decimal("0.10"), None, Decimal("100000000000000000000.00")]
    assert refusal(pa.table({"x": [0.5, 1e-300]}), x="DECIMAL(38,2)").where == "these rows, row 2"


@pytest.mark.parametrize("value", [np.timedelta64(5, "ns"), np.timedelta64("NaT"), np.array([1]), np.array(1)])
def test_of_numpy_only_plain_scalars_are_whole_numbers(value: Any) -> None:
    assert "which is not of type BIGINT" in refusal({"x": value}, x="BIGINT").message
    assert read({"x": np.int8(5)}, x="BIGINT") == [{"x": 5}]
    assert read({"x": np.datetime64("NaT")}, x="TIMESTAMP") == [{"x": None}]


def test_a_number_too_long_to_be_shown_is_refused_as_others_are() -> None:
    for form in ({"x": 10**5000}, pd.DataFrame({"x": [10**5000]})):
        assert refusal(form, x="BIGINT").message == "x is an int of 16610 bits, which is not of type BIGINT"


def test_a_level_of_the_index_that_a_column_equals_is_that_column() -> None:
    frame = pd.DataFrame({"i": [1, None], "s": ["a", "b"]})
    assert read(frame.set_index("i", drop=False), i="INT", s="STRING") == [{"i": 1, "s": "a"}, {"i": None, "s": "b"}]
    both = frame.set_index(["s", "i"]).assign(s=["a", "b"])
    assert read(both, i="INT", s="STRING") == [{"i": 1, "s": "a"}, {"i": None, "s": "b"}]
    other = frame.set_index(pd.Index([1, 2], name="i"))
    assert "i occurs twice" in refusal(other, i="INT", s="STRING").message
    index = pd.MultiIndex.from_arrays([[1], [2]], names=["i", "i"])
    assert "i occurs twice" in refusal(pd.DataFrame({"s": ["a"]}, index=index), i="INT", s="STRING").message


def test_rows_without_columns_are_refused() -> None:
    assert refusal(pd.DataFrame(index=[1, 2]), i="INT").message == "the DataFrame has 2 rows, but no columns"
    assert read(pd.DataFrame(), i="INT") == []


def test_lines_among_which_is_none_are_refused_by_their_number() -> None:
    result = refusal(['{"x": 1}', {"x": 2}], x="INT")
    assert (result.message, result.where) == ("a dict is not a line of JSON", "these lines, line 2")
    result = refusal(['{"x": "a"}', '{"x": "\ud800"}'], x="STRING")
    assert (result.where, "not valid text" in result.message) == ("these lines, line 2", True)


def test_a_column_that_arrow_does_not_have_is_refused() -> None:
    for values in (pd.Series([1j]), pd.Series(pd.arrays.SparseArray([1, 0]))):
        result = refusal(pd.DataFrame({"x": values}), x="INT")
        assert (result.where, result.message.startswith("x is a column of ")) == ("the DataFrame", True)


def test_a_stream_that_fails_midway_is_refused_with_how_far_it_came() -> None:
    def batches() -> Any:
        yield pa.record_batch({"x": [1, 2]})
        raise ValueError("the network\nwent away")

    stream = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    result = refusal(stream, x="INT")
    assert (result.where, "the network" in result.message) == ("these rows, after row 2", True)


def test_a_failure_of_the_source_of_rows_is_not_reported_as_a_full_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces() -> Iterator[pa.Table]:
        yield pa.table({"x": [1]})
        yield pa.table({"x": [2]})
        raise ConnectionResetError("their database went away")

    monkeypatch.setattr(appending, "IN_MEMORY", 0)
    kept = appending.spooled(pieces(), pa.schema({"x": pa.int64()}))
    with pytest.raises(ConnectionResetError, match="their database"), kept:
        raise AssertionError
