"""Columns declared as STRUCT, ARRAY or MAP: what they take, from files and from programs, and what they refuse."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.algebra.schema import DataType
from weft.api.weft import Weft
from weft.errors import Conflict, ExtractionError, Refused
from weft.extraction.nested_values import holds, is_of, json_of
from weft.extraction.typed_rows import from_json

TYPE = "STRUCT<n: INT, price: DECIMAL(6,2), at: TIMESTAMP, day: DATE, tags: ARRAY<STRING>, m: MAP<STRING, BOOLEAN>>"


@pytest.mark.parametrize(
    ("text", "type", "taken"),
    [
        ('{"n": 2147483647}', TYPE, True),
        ('{"n": 2147483648}', TYPE, False),
        ('{"n": 1.0}', TYPE, False),
        ('{"n": "1"}', TYPE, False),
        ('{"N": 1}', TYPE, False),
        ('{"price": 9999.990}', TYPE, True),
        ('{"price": 9999.999}', TYPE, False),
        ('{"price": 10000}', TYPE, False),
        ('{"price": 1e3}', TYPE, True),
        ('{"at": "2020-01-01T10:00:00.123456Z"}', TYPE, True),
        ('{"at": "2020-01-01 10:00:00.1234567"}', TYPE, False),
        ('{"at": "2020-02-30 10:00:00"}', TYPE, False),
        ('{"at": 5}', TYPE, False),
        ('{"day": "2020-02-29", "tags": [null, 1, {"a": 2}], "m": {"x": true, "y": null}}', TYPE, True),
        ('{"day": "2020-2-9"}', TYPE, False),
        ('{"m": {"x": 1}}', TYPE, False),
        ('{"tags": "a"}', TYPE, False),
        ("{}", TYPE, True),
        ("null", TYPE, False),
        ("[]", TYPE, False),
        ("{", TYPE, False),
        ("[9007199254740992, 1.5, null, 1e300]", "ARRAY<DOUBLE>", True),
        ("[9007199254740993]", "ARRAY<DOUBLE>", False),
        ("[1e999]", "ARRAY<DOUBLE>", False),
        ('["NaN", NaN]', "ARRAY<DOUBLE>", True),
        ('["x"]', "ARRAY<DOUBLE>", False),
        ("[" * 2_000 + "]" * 2_000, "ARRAY<ARRAY<INT>>", False),
        ('{"n": 1, "n": 2}', TYPE, False),
        ('{"m": {"k": true, "k": false}}', TYPE, False),
        ('{"other": {"k": 1, "k": 2}}', TYPE, True),
        (f'{{"other": {"1" * 1_001}}}', TYPE, False),
        (f'{{"{"n" * 50_001}": 1}}', TYPE, False),
        ('{"at": "2020-01-01 10:00:60"}', TYPE, False),
        ('{"at": "2020-01-01 10:00:00+18:00"}', TYPE, True),
        ('{"at": "2020-01-01 10:00:00-18:30"}', TYPE, False),
        ('{"at": "2020-01-01 10:00:00+05:75"}', TYPE, False),
        ('{"at": "2020-01-01T10:00Z"}', TYPE, False),
        ('{"at": "2020-01-01 10:00:\u0663\u0663"}', TYPE, False),
        ('{"at": "9999-12-31 23:00:00-02:00"}', TYPE, False),
        ('{"at": "0001-01-01 01:00:00+02:00"}', TYPE, False),
        ('["\\ud800"]', "ARRAY<STRING>", False),
        ('[["\\ud800"]]', "ARRAY<STRING>", False),
        ('{"\\ud800": 1}', "MAP<STRING, INT>", False),
        ('["\\ud83d\\ude00"]', "ARRAY<STRING>", True),
        ("[1e-400]", "ARRAY<DOUBLE>", False),
        ("[0.30000000000000004]", "ARRAY<DOUBLE>", True),
        ("[1e39]", "ARRAY<FLOAT>", False),
        ("[1e-50]", "ARRAY<FLOAT>", False),
        ("[0.1]", "ARRAY<FLOAT>", True),
        ("[0.10000000149011612]", "ARRAY<FLOAT>", True),
        ("[0.123456789012]", "ARRAY<FLOAT>", False),
        ("[123456789012345678901234567890.123]", "ARRAY<DECIMAL(38,2)>", False),
        ("[123456789012345678901234567890.120]", "ARRAY<DECIMAL(38,2)>", True),
        (f"[0.{'9' * 39}]", "ARRAY<DECIMAL(38,38)>", False),
        ("[" * 200 + "]" * 200, "ARRAY<STRING>", True),
        ("[" * 201 + "]" * 201, "ARRAY<STRING>", False),
        ("[" * 700 + "]" * 700, "ARRAY<STRING>", False),
        ('{"other": ' + "[" * 200 + "]" * 200 + "}", TYPE, False),
    ],
)
def test_json_is_of_a_type_where_nothing_of_it_is_lost(text: str, type: str, taken: bool) -> None:
    assert is_of(text, DataType.parse_nested(type)) == taken


def test_values_of_python_become_json_with_all_their_digits() -> None:
    kind = DataType.parse_nested(TYPE)
    value: dict[str, Any] = {
        "n": np.int32(3), "price": Decimal("1.10"), "at": dt.datetime(2020, 1, 1, 10, tzinfo=dt.timezone.utc),
        "day": dt.date(2020, 1, 1), "tags": np.array(["é", None], dtype=object), "m": {"x": True},
    }  # fmt: skip
    assert json_of(value, kind) == (
        '{"n":3,"price":1.10,"at":"2020-01-01 10:00:00Z","day":"2020-01-01","tags":["é",null],"m":{"x":true}}'
    )
    for wrong in ({"other": 1}, {"m": {1: True}}, {"n": b"1"}, {"tags": ["\ud800"]}, '{"other": 1}', 3):
        with pytest.raises((ValueError, TypeError)):
            json_of(wrong, kind)


@pytest.mark.parametrize(
    ("shape", "found", "sure"),
    [
        ("STRUCT<a: BIGINT>", "STRUCT<a: BIGINT, b: STRING>", True),
        ("STRUCT<a: BIGINT, b: STRING>", "STRUCT<b: DOUBLE>", True),
        ("STRUCT<a: BIGINT, b: STRING>", "STRUCT<B: DOUBLE>", False),
        ("STRUCT<a: INT>", "STRUCT<a: BIGINT>", False),
        ("MAP<STRING, BIGINT>", "STRUCT<a: BIGINT, b: BIGINT>", True),
        ("MAP<STRING, BIGINT>", "STRUCT<a: BIGINT, b: DOUBLE>", False),
        ("STRUCT<a: BIGINT>", "MAP<STRING, BIGINT>", False),
        ("ARRAY<DOUBLE>", "ARRAY<BIGINT>", False),
        ("ARRAY<TIMESTAMP>", "ARRAY<TIMESTAMP>", False),
    ],
)
def test_shapes_that_whole_files_determine(shape: str, found: str, sure: bool) -> None:
    assert holds(DataType.parse_nested(shape), DataType.parse_nested(found)) == sure


@pytest.fixture
def home(tmp_path: Path) -> Weft:
    return Weft.open(tmp_path / "home", create=True)


def _declared(home: Weft, table: str) -> dict[str, str]:
    return {column.name: column.type.declared for column in home.catalog.tables.named(table).schema.columns}


def _lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": [{"x": 1, "x": 2}]}',
        b'{"a": [{"x": 1e999999999999999999999}]}',
        b'{"a": [{"y": 1}]}',
        b'{"a": [{"X": 1}]}',
    ],
)
def test_lines_whose_nested_values_would_be_read_in_part_are_refused(line: bytes) -> None:
    columns = [("a", DataType.of_column("ARRAY<STRUCT<x: INT>>"))]
    with pytest.raises(Refused):
        list(from_json([line], columns, "rows"))
    assert list(from_json([b'{"a": [{"x": 10}]}'], columns, "rows")) == [{"a": '[{"x":10}]'}]


def test_values_that_cannot_be_written_are_refused(home: Weft) -> None:
    circle: list[Any] = []
    circle.append(circle)
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    category = pl.DataFrame({"tags": [["a"]]}, schema={"tags": pl.List(pl.Categorical)})
    far = pa.array([[2**40]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("s")))
    with home:
        home.make_table("t", "tags ARRAY<STRING>, m MAP<STRING, BIGINT>, at ARRAY<TIMESTAMP>")
        for rows in ([{"tags": circle}], pa.table({"m": twice}), pa.table({"at": far})):
            with pytest.raises(Refused, match="which is not of type"):
                home.append("t", rows)
        assert home.append("t", category).stored == 1
        with pytest.raises(Refused, match="at most 38 digits"):
            home.make_table("u", "a ARRAY<DECIMAL(39,2)>")


def test_times_that_no_timestamp_holds_go_to_quarantine(home: Weft, tmp_path: Path) -> None:
    times = pa.array([[2**40], [-(2**40)], [0]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("s")))
    pq.write_table(pa.table({"id": [1, 2, 3], "at": times}), tmp_path / "far.parquet")
    with home:
        load = home.ingest_file(tmp_path / "far.parquet", "t")
        assert (load.stored, load.quarantined) == (1, 2)


def test_files_give_types_keep_to_them_and_add_fields_with_evolve(home: Weft, tmp_path: Path) -> None:
    with home:
        first = _lines(tmp_path / "1.jsonl", {"id": 1, "who": {"name": "ann"}}, {"id": 2, "who": None})
        assert home.ingest_file(first, "t").stored == 2
        assert _declared(home, "t")["who"] == "STRUCT<name: STRING>"
        second = _lines(tmp_path / "2.jsonl", {"id": 3, "who": {"name": "bob", "age": 3}}, {"id": 4, "who": "x"})
        load = home.ingest_file(second, "t")
        assert (load.stored, load.quarantined) == (1, 1)
        (record,) = home.quarantined()
        assert record.reason == "not of the column's type: who"
        third = _lines(tmp_path / "3.jsonl", {"id": 5, "who": {"name": "cy", "age": 4}})
        load = home.ingest_file(third, "t")
        assert (
            any("lacks" in note and note.endswith("(to change this, use --evolve)") for note in load.notes)
            and load.stored == 1
        )
        fourth = _lines(tmp_path / "4.jsonl", {"id": 6, "who": {"name": "di", "age": 5}, "tags": []})
        load = home.ingest_file(fourth, "t", evolve=True)
        assert not any("--evolve" in note for note in load.notes)
        assert _declared(home, "t")["who"] == "STRUCT<name: STRING, age: BIGINT>"
        assert _declared(home, "t")["tags"] == "ARRAY<STRING>"
        pq.write_table(
            pa.table({"id": [7], "who": [{"name": "eve", "age": 2**40}], "tags": [["a"]]}), tmp_path / "5.pq"
        )
        assert home.ingest_file(tmp_path / "5.pq", "t").stored == 1
        (tmp_path / "6.csv").write_text('id,who,tags\n8,"{""name"": ""flo""}",[]\n9,,[1]\n10,"{""age"": true}",\n')
        load = home.ingest_file(tmp_path / "6.csv", "t")
        assert (load.stored, load.quarantined) == (2, 1)


def test_a_file_that_cannot_be_read_makes_no_table(home: Weft, tmp_path: Path) -> None:
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": twice}), tmp_path / "1.parquet")
    with home:
        with pytest.raises(ExtractionError, match="cannot be read"):
            home.ingest_file(tmp_path / "1.parquet", "t")
        assert not home.tables() and not home.loads()


def test_types_may_be_named_and_files_are_taken_together(home: Weft, tmp_path: Path) -> None:
    with home:
        one = _lines(tmp_path / "1.jsonl", {"who": {"a": 1}, "x": {"a": 1}}, {"who": {"a": 300}, "x": {"a": 1}})
        other = _lines(tmp_path / "2.jsonl", {"who": {"b": 2}, "x": "text"})
        load = home.ingest_file([one, other], "t", types="who MAP<STRING, TINYINT>")
        assert (load.stored, load.quarantined) == (2, 1)
        assert _declared(home, "t")["who"] == "MAP<STRING, TINYINT>" and _declared(home, "t")["x"] == "STRING"
        with pytest.raises(Refused, match=r"who is STRUCT<a: INT> in --types, but MAP<STRING, TINYINT> in the table"):
            home.ingest_file(_lines(tmp_path / "3.jsonl", {"who": {}, "x": 1}), "t", types="who STRUCT<a: INT>")
        for wrong in ("who MAP<INT, INT>", "who ARRAY<BINARY>", "who STRUCT<a: INT, A: INT>", "who ARRAY<"):
            with pytest.raises(Refused, match="--types"):
                home.ingest_file(one, "u", types=wrong)


def test_programs_append_nested_values_in_every_form(home: Weft) -> None:
    with home:
        home.make_table("t", "id INT, who STRUCT<name: STRING, n: BIGINT>, tags ARRAY<DOUBLE>")
        who = {"name": "ann", "n": 2**60}
        forms: list[Any] = [
            {"id": 1, "who": who, "tags": [1.5, None]},
            ['{"id": 2, "who": {"name": "ann", "n": 1152921504606846976}, "tags": [1.50]}'],
            pa.table({"id": [3], "who": [who], "tags": [[1.5]]}),
            pd.DataFrame({"id": [4], "who": [who], "tags": [np.array([1.5])]}),
            pl.DataFrame({"id": [5], "who": [who], "tags": [[1.5]]}),
            {"id": 6, "who": '{"name": "ann"}', "tags": None},
        ]
        for rows in forms:
            assert home.append("t", rows).stored == 1
        wrong: list[tuple[Any, str]] = [
            ({"who": {"nme": "x"}}, r"who is \{'nme': 'x'\}, which is not of type STRUCT<name: STRING, n: BIGINT>"),
            ({"tags": [9007199254740993]}, "tags is"),
            (['{"id": 1, "tags": {"a": 1}}'], "line 1"),
            (pa.table({"tags": [[1.0], ["x"][:0]], "who": [{"n": "1"}, None]}), "row 1"),
            ({"who": "ann"}, "JSON"),
        ]
        for rows, result in wrong:
            with pytest.raises(Refused) as refused:
                home.append("t", rows)
            assert re.search(result, f"{refused.value} {refused.value.where} {refused.value.hint}")
        assert home.catalog.tables.named("t").rows == len(forms)


def test_a_text_that_replaces_another_gives_nested_columns_of_its_types(home: Weft) -> None:
    with home:
        home.make_table("t", "id INT, tags ARRAY<STRING>, m MAP<STRING, INT>, who STRUCT<name: STRING>")
        home.install("q", "SELECT tags AS c, who FROM t")
        home.install("q", "SELECT tags AS c, who FROM t WHERE id > 1", replace=True)
        for text in ("SELECT m AS c, who FROM t", "SELECT TO_JSON(tags) AS c, who FROM t"):
            with pytest.raises(Conflict, match="ARRAY<STRING>") as caught:
                home.install("q", text, replace=True)
            assert "for nested columns with TO_JSON and FROM_JSON" in str(caught.value.hint)
