"""Values of nested columns: from JSON text to Python's and Arrow's, with nothing lost."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.schema import DataType
from weft.errors import StorageError
from weft.storage.nested import field_names, nested_array, nested_value
from weft.storage.typed_answers import typed_table

UTC = dt.timezone.utc
# A type, a text, and its value.
READ: tuple[tuple[str, str, Any], ...] = (
    ("STRUCT<a: INT, b: STRING>", '{"a": 1, "other": [1]}', {"a": 1, "b": None}),
    ("ARRAY<BIGINT>", "[9223372036854775807, null]", [2**63 - 1, None]),
    ("MAP<STRING, ARRAY<DOUBLE>>", '{"k": [0.1, "NaN"], "": []}', {"k": [0.1, math.nan], "": []}),
    ("ARRAY<DOUBLE>", '[NaN, "-Infinity", 1e2, 3]', [math.nan, -math.inf, 100.0, 3.0]),
    ("ARRAY<DECIMAL(38,2)>", "[123456789012345678901234567890123456.78, 1, 1e2]", [
        Decimal("123456789012345678901234567890123456.78"), Decimal("1.00"), Decimal("100.00")]),
    ("ARRAY<DATE>", '["0001-01-01", "9999-12-31"]', [dt.date.min, dt.date.max]),
    ("ARRAY<TIMESTAMP>", '["2026-01-02","2026-01-02 03:04"]', [
        dt.datetime(2026, 1, 2, tzinfo=UTC), dt.datetime(2026, 1, 2, 3, 4, tzinfo=UTC)]),
    ("ARRAY<TIMESTAMP>", '["2026-01-02T03:04:05.1234+01:30","9999-12-31 23:59:59.999999Z"]', [
        dt.datetime(2026, 1, 2, 1, 34, 5, 123_400, tzinfo=UTC), dt.datetime.max.replace(tzinfo=UTC)]),
    ("ARRAY<STRING>", '["1", 1.10, true, {"a": [1.50, 1]}, "é"]', ["1", "1.10", "true", '{"a":[1.50,1]}', "é"]),
    ("ARRAY<STRING>", '[{"a": 1, "a": 2}]', ['{"a":1,"a":2}']),
    # What had the name of a field before that was added is of any type: as FROM_JSON reads it, the others stay.
    ("STRUCT<a: INT, b: STRING>", '{"a": "old", "b": "x"}', {"a": None, "b": "x"}),
    ("STRUCT<a: ARRAY<INT>, m: MAP<STRING, INT>>", '{"a": [1, "x"], "m": {"k": true}}', {"a": None, "m": None}),
    ("STRUCT<a: STRUCT<x: INT>, m: MAP<STRING, INT>, l: ARRAY<INT>>", '{"a": [1], "m": "x", "l": {}}', {
        "a": None, "m": None, "l": None}),
    ("STRUCT<a: INT, b: BIGINT, c: TINYINT>", '{"a": 1.5, "b": 9223372036854775808, "c": -128}', {
        "a": None, "b": None, "c": -128}),
    ("STRUCT<a: INT, b: DOUBLE, c: BOOLEAN>", '{"a": "7", "b": "7", "c": 1}', {"a": None, "b": None, "c": None}),
    ("STRUCT<a: INT, b: DOUBLE>", '{"a": true, "b": true}', {"a": None, "b": None}),
    ("STRUCT<a: DECIMAL(3,2), b: DECIMAL(3,2)>", '{"a": 10, "b": 1.005}', {"a": None, "b": Decimal("1.01")}),
    ("STRUCT<a: DATE, b: TIMESTAMP>", '{"a": "soon", "b": 1}', {"a": None, "b": None}),
    ("STRUCT<a: STRING>", r'{"a": "\ud800"}', {"a": "?"}),
    ("ARRAY<STRUCT<m: MAP<STRING, BOOLEAN>>>", '[{"m": {"x": true}}, {"m": null}, null]', [
        {"m": {"x": True}}, {"m": None}, None]),
)  # fmt: skip


@pytest.mark.parametrize(("shape", "text", "value"), READ)
def test_json_of_a_type_is_that_value(shape: str, text: str, value: Any) -> None:
    kind = DataType.parse_nested(shape)
    assert repr(nested_value(text, kind)) == repr(value)
    found = nested_array([text, None], kind)
    result = repr(found.to_pylist(maps_as_pydicts="strict")).replace("zoneinfo.ZoneInfo(key='UTC')", repr(UTC))
    assert result == repr([value, None]).replace("datetime.timezone.utc", repr(UTC))


def test_times_beyond_pythons_years_are_numbers() -> None:
    kind = DataType.parse_nested("STRUCT<d: DATE, t: ARRAY<TIMESTAMP>, m: MAP<STRING, DATE>>")
    text = (
        '{"d": "+10000-01-01", "t": ["0000-12-31T23:59:59.999999Z", "2026-01-01", "+99999999-01-01T00:00:00.000000Z"],'
        ' "m": {"x": "-0001-02-28", "y": "2026-01-01"}}'
    )
    found = nested_value(text.replace(', "+99999999-01-01T00:00:00.000000Z"', ""), kind)
    assert found["d"] == (dt.date.max - dt.date(1970, 1, 1)).days + 1
    assert found["t"] == [-62_135_596_800_000_001, dt.datetime(2026, 1, 1, tzinfo=UTC)]
    assert found["m"] == {"x": -719_835, "y": dt.date(2026, 1, 1)}
    assert nested_value(text, kind)["t"] is None
    days = nested_array([text], kind).flatten()[0].cast(pa.int32())
    assert days.to_pylist() == [found["d"]]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("STRUCT<a: INT>", "[1]"), ("ARRAY<INT>", '{"a": 1}'), ("ARRAY<INT>", '"12"'), ("MAP<STRING, INT>", "[]"),
        ("ARRAY<INT>", '["x"]'), ("ARRAY<BOOLEAN>", "[1]"), ("ARRAY<DATE>", '["2026-02-30"]'), ("ARRAY<DATE>", "[1]"),
        ("ARRAY<TIMESTAMP>", '["soon"]'), ("ARRAY<DECIMAL(3,2)>", '["x"]'), ("ARRAY<INT>", "[1"), ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", "[" * 100_000),
    ],
)  # fmt: skip
def test_a_text_that_is_not_of_the_type_is_reported(shape: str, text: str) -> None:
    with pytest.raises(StorageError, match="is not a stored"):
        nested_value(text, DataType.parse_nested(shape))


def test_a_table_has_nested_columns_nested() -> None:
    columns = [("a", DataType.of_column("STRUCT<x: INT, y: ARRAY<DATE>>")), ("A", DataType.parse("STRING"))]
    found = typed_table(columns, [('{"x": 1}', '{"x": 1}'), (None, None)])
    assert str(found.schema.field("a").type) == "struct<x: int32, y: list<item: date32[day]>>"
    assert found.to_pydict() == {"a": [{"x": 1, "y": None}, None], "A_2": ['{"x": 1}', None]}
    assert typed_table(columns, []).schema == found.schema


def test_names_of_fields_at_any_depth() -> None:
    kind = DataType.parse_nested("ARRAY<STRUCT<a: INT, b: MAP<STRING, STRUCT<`c d`: INT>>>>")
    assert list(field_names(kind)) == ["a", "b", "c d"]
