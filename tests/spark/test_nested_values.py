"""Spark can read every value that Weft accepts for a nested column. The types are random, and so are the values."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pyarrow as pa

from weft.algebra.access import Key
from weft.algebra.schema import STRING, Column, DataType, TableSchema
from weft.execution.reader import key_column
from weft.extraction.nested_values import is_of
from weft.sql.lower.query import bind
from weft.sql.rendering import render
from weft.storage.json_fields import field_values
from weft.storage.nested import nested_array, nested_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = 40
VALUES = 60
SCALARS = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(5,2)", "STRING", "DATE", "TIMESTAMP")
NUMBERS = (
    "0", "-1", "1.5", "127", "128", "-32769", "2147483648", "9007199254740992", "9007199254740993", "1e2", "1E-3",
    "0.1", "999.99", "1000.00", "9.999", "-0.0", "1e-400",
    "0.30000000000000004", "123456789012345678901234567890.123", "1e999", "123456789012345678901234567890", "5.10",
)  # fmt: skip
WORDS = (
    "x", "", "é", "1", "true", "NaN", "2020-02-29", "2021-02-29", "2020-01-01 10:00:00", "2020-01-01T10:00:00.500Z",
    "2020-01-01 10:00:00.123456+02:00", "2020-01-01 25:00:00", "2020-01-01 10:00", "null",
    "2020-01-01 10:00:60", "2020-01-01T10:00Z", "2020-01-01 10:00:00+18:30", "2020-01-01 10:00:0\u0663",
)  # fmt: skip

PAIRS = (("STRING", "INT"), ("TINYINT", "STRING"), ("BIGINT", "BIGINT"), ("STRING", "SMALLINT"))
ODD = (
    "", "x", "null", '"a"', "[]", '[{"a": 1}]', "{} x", "{'a': 1}", '{"a": 1}{"a": 2}', '{"a": 1, "a": 2}', '{"A": 1}',
    '{"\\u0061": "x"}', '{"a": "\\ud83d\\ude00\\u0000"}', '{"a": "\\ud800"}', '{"a": "1"}', '{"a": -0}', '{"a": 01}',
    '{"a": {"a": 1}, "c d": [{"a": 1}]}', '{"c d": {"a": 1, "a": 2}}', '{"c d": {"a": 1}, "c d": {"B": 1}}',
    '{"c d": {"a": true, "B": 1.0}}', '{"c d": "{}"}', '{"c d": "{\\"a\\": 1}"}', ' {"a" : 7 } ', '{"a": NaN}',
    '{"a": 1, "c d": {"B": "x", "a": 7}, "a": 3}', '{"x": "y", "c d": {"a": 7, "B": [1]}}',
    '{"a": 18446744073709551615}', '{"a": 128, "c d": {"B": 5}}', '{"a": 7,}', '{"a": 7, "x": [1, 2,\n]}',
    '{"x": nan, "a": 7}', '{"x": [INF], "a": 7}', '{"a": 7, "x": -infinity}',
    '{"a": 7, "x": ' + "[" * 1100 + "]" * 1100 + "}",
    '{"x": ' + "9" * 1200 + ', "a": 7}', '{"' + "n" * 60000 + '": 1, "a": 7}',
)  # fmt: skip
"""JSON texts, and others, of which few are accepted."""


def drawn_type(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(3 if depth else 1)
    if depth == 2:
        kind = chance.choice((1, 2, 3))
    if kind == 0:
        return chance.choice(SCALARS)
    if kind == 1:
        return f"ARRAY<{drawn_type(chance, depth - 1)}>"
    if kind == 3:
        return f"MAP<STRING, {drawn_type(chance, depth - 1)}>"
    fields = chance.sample(("a", "B", "c d"), chance.randint(1, 3))
    return f"STRUCT<{', '.join(f'`{name}`: {drawn_type(chance, depth - 1)}' for name in fields)}>"


def drawn_json(chance: random.Random, kind: DataType) -> str:
    """Return random JSON, which usually has the type."""
    if chance.random() < 0.1:
        return "null"
    if chance.random() < 0.04:
        return chance.choice(("[]", "{}", "true", *NUMBERS, *map(json.dumps, WORDS)))
    match kind.name:
        case "ARRAY":
            return f"[{','.join(drawn_json(chance, kind.element or kind) for _ in range(chance.randrange(3)))}]"
        case "MAP":
            keys = chance.sample(("k", "", "K"), chance.randrange(3))
            return "{" + ",".join(f"{json.dumps(key)}:{drawn_json(chance, kind.element or kind)}" for key in keys) + "}"
        case "STRUCT":
            given = [each for each in kind.fields if chance.random() < 0.8]
            fields = [f"{json.dumps(name)}:{drawn_json(chance, each)}" for name, each in given]
            fields += ['"other": [1, {"a": 2}]'] if chance.random() < 0.2 else []
            fields += [f'"{kind.fields[0][0].swapcase()}": 1'] if chance.random() < 0.1 else []
            fields += chance.sample(fields, 1) if fields and chance.random() < 0.1 else []
            return "{" + ",".join(fields) + "}"
        case "BOOLEAN":
            return chance.choice(("true", "false"))
        case "STRING" | "DATE" | "TIMESTAMP":
            return json.dumps(chance.choice(WORDS), ensure_ascii=False)
        case _:
            return chance.choice(NUMBERS)


def expected(value: Any, kind: DataType) -> Any:
    """Convert a JSON value to the type, independently of Weft."""
    if value is None:
        return None
    match kind.name:
        case "ARRAY":
            return [expected(each, kind.element or kind) for each in value]
        case "MAP":
            return {key: expected(each, kind.element or kind) for key, each in value.items()}
        case "STRUCT":
            return tuple(expected(value.get(name), each) for name, each in kind.fields)
        case "STRING":
            return value if isinstance(value, str) else ANY
        case "DOUBLE":
            return repr(float(value))
        case "DECIMAL":
            return Decimal(value).quantize(Decimal("0.01"))
        case "DATE":
            return dt.date.fromisoformat(value)
        case "TIMESTAMP":
            found = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
            return found if found.tzinfo is not None else found.replace(tzinfo=dt.timezone.utc)
        case "BOOLEAN":
            return value
        case _:
            return int(value)


def read(value: Any, kind: DataType) -> Any:
    """Convert a value of Spark or Weft to the format of ``expected``."""
    if value is None:
        return None
    match kind.name:
        case "ARRAY":
            return [read(each, kind.element or kind) for each in value]
        case "MAP":
            return {key: read(each, kind.element or kind) for key, each in value.items()}
        case "STRUCT":
            return tuple(read(value[name], own) for name, own in kind.fields)
        case "TIMESTAMP":
            return value.astimezone(dt.timezone.utc)  # in the time zone of the process
        case "DOUBLE":
            return repr(value)
        case _:
            return value


def test_accepted_values_are_read_completely(spark: SparkSession) -> None:
    chance, counts = random.Random(5), Counter[str]()
    kinds = [DataType.parse_nested(drawn_type(chance, 2)) for _ in range(TYPES)]
    texts = [[drawn_json(chance, kind) for kind in kinds] for _ in range(VALUES)]
    taken = [[text if is_of(text, kind) else None for text, kind in zip(row, kinds, strict=True)] for row in texts]
    frame = spark.createDataFrame(taken, ", ".join(f"t{n} STRING" for n in range(TYPES)))
    found = frame.selectExpr(*(f"FROM_JSON(t{n}, '{kind}') AS c{n}" for n, kind in enumerate(kinds))).collect()
    for row, given in zip(found, taken, strict=True):
        for got, text, kind in zip(row, given, kinds, strict=True):
            counts["refused" if text is None else "taken"] += 1
            if text is not None:
                assert expected(json.loads(text, parse_float=Decimal), kind) == read(got, kind), (text, str(kind))
    assert min(counts.values()) > TYPES * VALUES / 10, counts


def test_what_spark_has_is_written_and_leaves_as_it_is(spark: SparkSession) -> None:
    chance, compared = random.Random(7), Counter[str]()
    kinds = [DataType.parse_nested(drawn_type(chance, 2)) for _ in range(TYPES)]
    texts = [[drawn_json(chance, kind) for kind in kinds] for _ in range(VALUES)]
    taken = [[text if is_of(text, kind) else None for text, kind in zip(row, kinds, strict=True)] for row in texts]
    table = TableSchema(1, "t", tuple(Column(n, f"t{n}", STRING) for n in range(TYPES)))
    columns = [f"FROM_JSON(t{n}, '{kind}') AS c{n}" for n, kind in enumerate(kinds)]
    outputs = bind(f"SELECT {', '.join(columns)} FROM t", {"t": table}).outputs
    assert [output.value.type.shape for output in outputs] == kinds
    frame = spark.createDataFrame(taken, ", ".join(f"t{n} STRING" for n in range(TYPES))).alias("t")
    both = frame.selectExpr(*columns, *(f"{render.scalar(each.value)} AS w{n}" for n, each in enumerate(outputs)))
    for row, given in zip(both.collect(), taken, strict=True):
        for n, kind in enumerate(kinds):
            value, written = read(row[n], kind), row[TYPES + n]
            assert (value is None) == (written is None)
            if written is not None:
                assert read(nested_value(written, kind), kind) == value, (given[n], str(kind))
                assert reads_same(read(nested_value(given[n], kind), kind), value), (given[n], str(kind))
                assert nested_array([given[n]], kind).null_count == 0
                compared[kind.name] += 1
    assert min(compared[name] for name in ("ARRAY", "MAP", "STRUCT")) > TYPES, compared


def test_the_fields_of_look_ups_are_what_spark_reads(spark: SparkSession) -> None:
    chance, counts = random.Random(11), Counter[str]()
    shapes = [DataType.parse_nested(f"STRUCT<a: {one}, `c d`: STRUCT<a: {one}, B: {other}>>") for one, other in PAIRS]
    texts = [[drawn_json(chance, kind) for kind in shapes] for _ in range(VALUES)]
    texts += [[text] * len(shapes) for text in ODD]
    frame = spark.createDataFrame(texts, ", ".join(f"t{n} STRING" for n in range(len(shapes))))
    for n, shape in enumerate(shapes):
        for path in (("a",), ("c d", "a"), ("c d", "B")):
            key = Key(f"t{n}", path, shape)
            read = [row[0] for row in frame.select(key_column(frame, key)).collect()]
            assert read == [row[0] for row in frame.selectExpr(render.key(key)).collect()]
            for row, value in zip(texts, read, strict=True):
                found = field_values(pa.chunked_array([[row[n]]], pa.string()), path, key.type)
                assert found is None or found.to_pylist() == [value], (row[n], str(shape), path)
                accepted = "accepted" if is_of(row[n], shape) else "other"
                counts[f"{accepted}, {'unsure' if found is None else 'sure'}"] += 1
    assert counts["accepted, sure"] > 4 * counts["accepted, unsure"] > 0, counts


def reads_same(ours: Any, sparks: Any) -> bool:
    """Return whether both values are equal. Ignore the format of numbers and JSON in texts, because Spark has its own
    format.
    """
    if isinstance(ours, list | tuple):
        return len(ours) == len(sparks) and all(map(reads_same, ours, sparks))
    if isinstance(ours, dict):
        return ours.keys() == sparks.keys() and all(reads_same(ours[key], sparks[key]) for key in ours)
    if isinstance(ours, str) and ours != sparks:
        return bool(json.loads(ours) == json.loads(sparks))
    return bool(ours == sparks)
