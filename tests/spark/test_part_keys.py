"""Look-ups by parts of nested columns: the keys are Spark's values, and the answers those of whole tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from replayed import DAY, START, first_instants, replay_home
from weft.algebra.parts import FIELD, ITEM, Key, key_of
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.algebra.schema import BIGINT, INT, STRING, DataType
from weft.arrangement.part_keys import UNSURE, VALUE, part_keys
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds
from weft.sql.rendering.render import scalar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHAPE = DataType.parse_nested(
    "STRUCT<a: STRING, b: STRUCT<c: BIGINT, i: INT>, l: ARRAY<STRING>, m: MAP<STRING, STRING>>"
)
TEXTS = (
    None,
    "",
    "nope",
    "null",
    "[1]",
    "7",
    "{}",
    '[{"a":"x"}]',
    '{"a":"x"} ',
    '{"a":"x"}y',
    "{'a':'x'}",
    '{"A":"x"}',
    '{"a":"x","b":{"c":5,"i":-5},"l":["m",null],"m":{"k":"v","":"e"}}',
    '{"a":"","l":[],"m":{}}',
    '{"a":null,"b":null}',
    '{"a":"x","a":"y"}',
    '{"b":{"c":1},"b":{"c":2}}',
    '{"b":{"c":1,"c":2}}',
    '{"m":{"k":"v","k":"w"}}',
    '{"a":7}',
    '{"a":1.50,"l":[1,2]}',
    '{"a":true}',
    '{"a":{"z": 1}}',
    '{"a":["x", 1]}',
    '{"a":"\\ud800"}',
    '{"a":"\\u00e9\\n\\"\\/"}',
    '{"a":"q\\u0000z"}',
    '{"a":"é😀","l":["é"]}',
    '{"b":{"c":-0}}',
    '{"b":{"c":007}}',
    '{"b":{"c":1e2}}',
    '{"b":{"c":1.0}}',
    '{"b":{"c":"7"}}',
    '{"b":{"c":9223372036854775808,"i":3000000000}}',
    '{"b":[1],"l":{"0":"x"},"m":["v"]}',
    '{"l":"m"}',
    '{"a":NaN}',
    '{"a":"x","zz":NaN}',
    '{"a":"tab\there"}',
    '\ufeff{"a":"x"}',
    ' \n{"a" : "x"}',
    '{"a":"x",}',
    '{a:"x"}',
)


def _field(of: Scalar, name: str) -> Scalar:
    found = of.type.field_type(name)
    assert found is not None
    return Call(FIELD, (of, Literal(name, STRING, fixed=True)), found[1])


def _item(of: Scalar, place: str | int) -> Scalar:
    kind = STRING if isinstance(place, str) else INT
    return Call(ITEM, (of, Literal(place, kind, fixed=True)), STRING)


def _keys() -> list[Key]:
    column = ColumnRef("orders", "doc", DataType.of_json(SHAPE))
    opened = Call("from_json", (column, Literal(str(SHAPE), STRING, fixed=True)), SHAPE)
    parts = [_field(opened, "a"), _field(_field(opened, "b"), "c"), _field(_field(opened, "b"), "i")]
    parts += [_item(_field(opened, "l"), 0), _item(_field(opened, "m"), "k")]
    found = [key_of(part) for part in parts]
    return [each[1] for each in found if each is not None]


def test_a_key_is_the_value_that_spark_reads_or_unsure(spark: SparkSession) -> None:
    assert [str(key) for key in _keys()] == ["doc.a", "doc.b.c", "doc.b.i", "doc.l[0]", "doc.m.k"]
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(TEXTS)], "n INT, doc STRING").alias("t")
    expressions = [scalar(part) for key in _keys() if (part := key.of("t")) is not None]
    values = [tuple(row) for row in rows.orderBy("n").selectExpr(*expressions).collect()]
    for place, key in enumerate(_keys()):
        known = part_keys(pa.chunked_array([pa.array(TEXTS, pa.string())]), key).to_pylist()
        for text, of_spark, own in zip(TEXTS, (row[place] for row in values), known, strict=True):
            assert own[UNSURE] or of_spark in (None, own[VALUE]), (str(key), text, of_spark, own)
        assert any(own[VALUE] is not None for own in known)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "bounds", [ReadBounds(), ReadBounds(filtered=-1), driver_reader.NOTHING], ids=["whole", "arranged", "spark"]
)
def test_joins_by_parts_give_the_rows_of_whole_tables(
    tmp_path: Path, bounds: ReadBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [
        {
            "id": n,
            "at": f"1993-04-{5 + n:02}T00:00:00Z",
            "buyer": {"id": n % 3, "code": f"c{n % 4}"},
            "tags": [f"t{n % 2}"],
        }
        for n in range(8)
    ]
    orders[5]["buyer"] = {"id": None, "code": 7}  # a number, so every code is text
    people = [{"id": n, "code": f"c{n}", "tag": f"t{n}", "at": f"1993-04-{7 + n:02}T00:00:00Z"} for n in range(3)]
    for name, rows in (("orders", orders), ("people", people)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with replay_home(tmp_path / "home") as weft:
        weft.make_table("orders", "id BIGINT, buyer STRUCT<id: BIGINT, code: STRING>, tags ARRAY<STRING>, at TIMESTAMP")
        weft.ingest_file(tmp_path / "orders.jsonl", "orders", ts_from="at")
        weft.ingest_file(tmp_path / "people.jsonl", "people", ts_from="at")
        monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
        weft.install("number", "SELECT o.id, p.id AS who FROM orders o, people p WHERE o.buyer.id = p.id")
        weft.install("text", "SELECT o.id, p.id AS who FROM orders o, people p WHERE o.buyer.code = p.code")
        weft.install("both", "SELECT o.id, q.id AS other FROM orders o, orders q WHERE o.buyer.code = q.buyer.code")
        weft.install(
            "none",
            "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM people p WHERE p.tag = o.tags[0] AND p.id = 1)",
        )
        for day in (5, 20):
            weft.tick(now=START + day * DAY + 1)
        found = {name: set(first_instants(weft, name)) for name in ("number", "text", "both", "none")}
    codes = {order["id"]: str(order["buyer"]["code"]) for order in orders}  # type: ignore[index]
    assert found["number"] == {(o, o % 3) for o in range(8) if o != 5}
    assert found["text"] == {(o, p) for o in range(8) for p in range(3) if codes[o] == f"c{p}"}
    assert found["both"] == {(o, q) for o in range(8) for q in range(8) if codes[o] == codes[q]}
    assert found["none"] == {(o,) for o in range(8) if o % 2 == 0 or o < 3}  # the person arrives with order 3


def test_the_key_of_a_type_that_the_engines_write_differently_is_no_key() -> None:
    shape = DataType.parse_nested("STRUCT<d: DOUBLE>")
    column = ColumnRef("orders", "doc", DataType.of_json(shape))
    opened = Call("from_json", (column, Literal(str(shape), STRING, fixed=True)), shape)
    assert key_of(_field(opened, "d")) is None
    assert key_of(Literal(1, BIGINT)) is None
