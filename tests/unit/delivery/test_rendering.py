from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.algebra.schema import DataType
from weft.delivery.rendering import csv_header, csv_line, field_names, json_line
from weft.storage.ledger import ResultRow

UTC = dt.timezone.utc


def row(*values: object) -> ResultRow:
    return ResultRow(7, 1_500_000, 3, values)


def of_types(columns: Mapping[str, str]) -> list[tuple[str, DataType]]:
    return [(name, DataType.of_column(kind)) for name, kind in columns.items()]


def test_a_json_line_has_wefts_fields_and_the_columns() -> None:
    columns = of_types({"n": "INT", "s": "STRING", "when": "TIMESTAMP"})
    line = json_line(field_names(["n", "s", "when"]), row(1, None, dt.datetime(1993, 4, 5, tzinfo=UTC)), columns)
    assert line == (
        '{"_ordinal":7,"_first_at":"1970-01-01T00:00:01.500000Z","_tick":3,"n":1,"s":null,"when":"1993-04-05T00:00:00Z"}\n'
    )


def test_no_name_hides_another() -> None:
    assert field_names(["_tick", "a", "a", "a_2"]) == ["_ordinal", "_first_at", "_tick", "_tick_2", "a", "a_2", "a_2_2"]


def test_json_loses_nothing() -> None:
    wide = Decimal("12345678901234567890.10")
    kinds = ("DECIMAL(22,2)", "BINARY", "DOUBLE", "FLOAT", "BIGINT", "BOOLEAN", "STRING")
    values = row(wide, b"\x00\xff", math.nan, -math.inf, 2**63 - 1, True, "x\n\u2028'")
    line = json_line(field_names("abcdefg"), values, of_types(dict(zip("abcdefg", kinds, strict=True))))
    found = json.loads(line)
    assert line.count("\n") == 1
    assert found["a"] == str(wide)
    assert (found["b"], found["c"], found["d"]) == ("AP8=", "NaN", "-Infinity")
    assert (found["e"], found["f"], found["g"]) == (2**63 - 1, True, "x\n\u2028'")


def test_nested_columns_are_nested_in_json_and_text_in_csv() -> None:
    kind = "STRUCT<d: DECIMAL(20,1), at: TIMESTAMP, f: ARRAY<DOUBLE>, m: MAP<STRING, STRING>, n: INT>"
    text = '{\n"d": 1234567890123456789.5, "at": "2026-01-02 03:04:05.5+01:00", "f": [1.50, "NaN", null],"m":{"":true}}'
    given = row(text, text, None)
    line = json_line(field_names("abc"), given, of_types({"a": kind, "b": "STRING", "c": kind}))
    assert line.count("\n") == 1
    assert list(json.loads(line).values())[3:] == [
        {
            "d": "1234567890123456789.5", "at": "2026-01-02T02:04:05.500000Z", "f": [1.5, "NaN", None],
            "m": {"": "true"}, "n": None,
        },
        text,
        None,
    ]  # fmt: skip
    assert next(csv.reader(io.StringIO(csv_line(given), newline="")))[3:] == [text, text, ""]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_cell_that_begins_a_formula_gets_a_mark(start: str) -> None:
    attack = start + 'cmd|"/c calc"!A1'
    line = csv_header(["a"]) + csv_line(row(attack))
    cells = list(csv.reader(io.StringIO(line, newline="")))[1]
    assert cells[3] == "'" + attack
    assert csv_header([attack]).lstrip('"').startswith("'")


def test_numbers_are_no_formulas() -> None:
    assert csv_line(row(-5, Decimal("-1.50"), -0.5)) == "7,1970-01-01T00:00:01.500000Z,3,-5,-1.50,-0.5\n"


def test_null_and_an_empty_text_differ() -> None:
    assert csv_line(row(None, "", " a", True, dt.date(1993, 4, 5))).split(",", 3)[3] == ',""," a",true,1993-04-05\n'


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=1, max_size=4))
def test_csv_is_read_back(values: list[str]) -> None:
    cells = next(csv.reader(io.StringIO(csv_line(row(*values)), newline="")))[3:]
    assert [cell.removeprefix("'") if cell[:2] in MARKED else cell for cell in cells] == values


MARKED = {"'" + start for start in "=+-@\t\r\n"}


def test_instants_beyond_pythons_years() -> None:
    assert json.loads(json_line(field_names("a"), ResultRow(1, 2**60, 1, (5,)), of_types({"a": "INT"})))[
        "_first_at"
    ] == str(2**60)
