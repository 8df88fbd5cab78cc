"""The inferred type of JSON text reads every value of the text without loss."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.schema import NULL, DataType
from weft.extraction.files.csv_sniff import json_evidence
from weft.extraction.files.shapes import of_arrow, with_text, without_unknown
from weft.extraction.files.text_records import TextRecord
from weft.storage.local_sql import connect


def of_texts(texts: Iterable[str]) -> DataType:
    return without_unknown(reduce(with_text, texts, NULL))


@pytest.mark.parametrize(
    ("texts", "type"),
    [
        (['{"a": 1}', '{"b": "x"}'], "STRUCT<a: BIGINT, b: STRING>"),
        (['{"a": 1}', '{"A": 2}'], "STRING"),  # FROM_JSON finds fields in any case
        (['{"A": 1, "a": 2}'], "STRING"),
        (['{"a": 9223372036854775807}'], "STRUCT<a: BIGINT>"),
        (['{"a": 9223372036854775808}'], "STRUCT<a: STRING>"),
        (['{"a": 0.1234567890123456789}'], "STRUCT<a: STRING>"),
        (['{"a": 1e3}', '{"a": 2}'], "STRUCT<a: DOUBLE>"),
        (['{"a": true}', '{"a": 1}'], "STRUCT<a: STRING>"),
        (['{"a": {"b": null}}', '{"a": null}', '{"a": {"b": [{}]}}'], "STRUCT<a: STRUCT<b: ARRAY<STRING>>>"),
        (['{"a": {"b": 1}}', '{"a": [1]}'], "STRUCT<a: STRING>"),
        (["[[], [[1]], [null]]"], "ARRAY<ARRAY<ARRAY<BIGINT>>>"),
        (["[]", "[]"], "ARRAY<STRING>"),
        (["{}"], "STRING"),
        (['{"": 1}'], "STRING"),
        (['{"a b": 1, "`": 2}'], "STRUCT<`a b`: BIGINT, ````: BIGINT>"),
        ([json.dumps({f"f{n}": n for n in range(200)})], "STRING"),
        (["[" * 40 + "1" + "]" * 40], "ARRAY<" * 20 + "STRING" + ">" * 20),
    ],
)
def test_the_type_of_json_texts(texts: list[str], type: str) -> None:
    assert str(of_texts(texts)) == type


@pytest.mark.parametrize(
    ("kind", "type"),
    [
        (pa.list_(pa.struct([("x", pa.uint64()), ("y", pa.float32())])), "ARRAY<STRUCT<x: DECIMAL(20,0), y: DOUBLE>>"),
        (pa.map_(pa.string(), pa.timestamp("ns", "UTC")), "MAP<STRING, TIMESTAMP>"),
        (pa.map_(pa.int32(), pa.string()), "STRING"),
        (pa.large_list(pa.binary()), "ARRAY<STRING>"),
        (pa.struct([("a", pa.decimal256(50, 2)), ("A", pa.int8())]), "STRING"),
        (pa.list_(pa.decimal256(50, 2), 3), "ARRAY<STRING>"),
        (pa.struct([]), "STRING"),
    ],
)
def test_the_type_of_parquet_values(kind: pa.DataType, type: str) -> None:
    assert str(of_arrow(kind)) == type


def _drawn(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(9 if depth else 7)
    if kind < 7:
        return chance.choice([None, True, 3, -(2**70), 1.5, 1 / 3, "x", "1", ""])
    inner = [_drawn(chance, depth - 1) for _ in range(chance.randrange(3))]
    return inner if kind == 7 else dict(zip(chance.sample(["a", "b", "c d", "`"], len(inner)), inner, strict=True))


def _holds(type: DataType, value: Any) -> bool:
    """Whether a type keeps the value: another reading of what the types mean."""
    match type.name:
        case _ if value is None:
            return True
        case "STRUCT":
            named = dict(type.fields)
            return isinstance(value, dict) and all(
                name in named and _holds(named[name], v) for name, v in value.items()
            )
        case "ARRAY":
            return isinstance(value, list) and all(_holds(type.element or type, each) for each in value)
        case "BIGINT":
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case "DOUBLE":
            return isinstance(value, (int, float)) and not isinstance(value, bool) and value == float(value)
        case "BOOLEAN":
            return isinstance(value, bool)
        case _:
            return True


@pytest.mark.parametrize("seed", range(60))
def test_random_values_are_held_by_their_type(seed: int) -> None:
    chance = random.Random(seed)
    values = [_drawn(chance, 3) for _ in range(chance.randrange(1, 4))]
    type = of_texts(map(json.dumps, values))
    assert all(_holds(type, value) for value in values)
    assert DataType.parse_nested(str(type)) == type


@pytest.mark.parametrize(
    ("texts", "type"),
    [
        (['{"a": [9007199254740993, 1.5]}'], "STRUCT<a: ARRAY<STRING>>"),
        (["[1.5]", "[1]", "[-9007199254740993]"], "ARRAY<STRING>"),
        (["[9007199254740993]", "[1]", "[1.5]"], "ARRAY<STRING>"),
        (["[9007199254740993, 1]"], "ARRAY<BIGINT>"),
        (["[9007199254740992, 1.5]"], "ARRAY<DOUBLE>"),
        (["[1e999]"], "ARRAY<STRING>"),
        (["[1e-999]"], "ARRAY<STRING>"),
        (["[-0.0E5, 1e-300]"], "ARRAY<DOUBLE>"),
        (["[NaN, 1.5]"], "ARRAY<STRING>"),
    ],
)
def test_no_inferred_type_changes_a_number(texts: list[str], type: str) -> None:
    assert str(of_texts(texts)) == type


def test_every_value_has_a_say() -> None:
    def record(line: int, value: object) -> TextRecord:
        return TextRecord(line, b"", {"doc": json.dumps(value)}, kinds={"doc": "nested"})

    values = [*({"a": n} for n in range(3_000)), {"a": "x", "b": 1}]
    with connect() as connection:
        records = (record(line, value) for line, value in enumerate(values, 1))
        kind = json_evidence(records, connection, lambda _: None)["doc"].type
    assert kind is not None and kind.declared == "STRUCT<a: STRING, b: BIGINT>"
