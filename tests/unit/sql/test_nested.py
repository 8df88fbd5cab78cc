"""JSON text, and values that are made of others: what is read, of which type, and what is refused."""

from __future__ import annotations

import pytest

from netnews import table
from weft.algebra.schema import INT, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.planning.form import restored_plan, signature, stored_form
from weft.planning.plan import Plan, plan
from weft.sql.dialects.duckdb_dialect import unlike
from weft.sql.rendering import render

TABLES = {
    "docs": table(1, "docs", {"id": INT, "doc": STRING, "at": TIMESTAMP}),
    "keys": table(2, "keys", {"k": STRING, "n": INT}),
}
ITEMS = "FROM_JSON(doc, 'items ARRAY<STRUCT<sku: STRING, n: INT, at: TIMESTAMP, tags: ARRAY<STRING>>>').items"

# An expression over docs, its type, and what Spark is given.
READ = (
    ("GET_JSON_OBJECT(doc, '$.a[0]')", "STRING", "GET_JSON_OBJECT(docs.doc, '$.a[0]')"),
    ("FROM_JSON(doc, 'a INT').A", "INT", "FROM_JSON(docs.doc, 'STRUCT<a: INT>').a"),
    ("FROM_JSON(doc, 'a INT')['a']", "INT", "FROM_JSON(docs.doc, 'STRUCT<a: INT>').a"),
    ("FROM_JSON(doc, '`a b` int').`a b`", "INT", "FROM_JSON(docs.doc, 'STRUCT<`a b`: INT>').`a b`"),
    ("FROM_JSON(doc, 'map<string, bigint>')['x']", "BIGINT", "FROM_JSON(docs.doc, 'MAP<STRING, BIGINT>')['x']"),
    (f"{ITEMS}[id].at", "TIMESTAMP", None),
    (f"{ITEMS}.n[0]", "INT", None),
    (f"SIZE({ITEMS}[0].tags)", "INT", None),
    (f"ARRAY_MAX({ITEMS}.at)", "TIMESTAMP", None),
    ("SPLIT(doc, ',')[id]", "STRING", "SPLIT(docs.doc, ',')[docs.id]"),
    ("(SPLIT(doc, ','))[id]", "STRING", "SPLIT(docs.doc, ',')[docs.id]"),
    ("EXISTS(SPLIT(doc, ','), W -> w = 'x')", "BOOLEAN", "EXISTS(SPLIT(docs.doc, ','), _each_1 -> _each_1 = 'x')"),
    (
        f"EXISTS({ITEMS}, doc -> EXISTS(doc.tags, t -> t = doc.sku AND id > 0))",
        "BOOLEAN",
        "EXISTS(FROM_JSON(docs.doc, 'STRUCT<items: ARRAY<STRUCT<sku: STRING, n: INT, at: TIMESTAMP, tags: "
        "ARRAY<STRING>>>>').`items`, _each_1 -> EXISTS(_each_1.tags, _each_2 -> (_each_2 = _each_1.sku) AND "
        "(docs.id > 0)))",
    ),
    (
        "EXISTS(SPLIT(doc, 'a'), x -> EXISTS(SPLIT(x, 'b'), x -> EXISTS(SPLIT(x, 'c'), y -> x <> y)))",
        "BOOLEAN",
        "EXISTS(SPLIT(docs.doc, 'a'), _each_1 -> EXISTS(SPLIT(_each_1, 'b'), _each_2 -> "
        "EXISTS(SPLIT(_each_2, 'c'), _each_3 -> _each_2 <> _each_3)))",
    ),
    ("ELEMENT_AT(SPLIT(doc, ','), 2147483647)", "STRING", "ELEMENT_AT(SPLIT(docs.doc, ','), 2147483647)"),
)

# A text, what is said, and what to do.
REFUSED = (
    ("GET_JSON_OBJECT(doc, 'a')", "not a path", "$.customer"),
    ("GET_JSON_OBJECT(doc, '$.a[')", "not a path", "$.customer"),
    ("GET_JSON_OBJECT(doc, '$..a')", "not a path", "$.customer"),
    ("GET_JSON_OBJECT(doc, '$.*a')", "not a path", "$.customer"),
    ("GET_JSON_OBJECT(doc, doc)", "a constant", "could make the query fail"),
    ("FROM_JSON(doc, 'a INT', 'b')", "2 arguments", "2 arguments"),
    ("FROM_JSON(doc, doc)", "a constant", "could make the query fail"),
    ("FROM_JSON(doc, 'a NUMBER').a", "'NUMBER'", "ARRAY<STRING>"),
    ("FROM_JSON(doc, 'a INT, A INT').a", "two fields", "ARRAY<STRING>"),
    ("FROM_JSON(doc, 'a BINARY').a", "BINARY", "JSON has no such"),
    ("FROM_JSON(doc, 'MAP<INT, INT>')[1]", "MAP<INT, INT>", "strings"),
    ("FROM_JSON(doc, 'total INT').totl", "'totl'", "Did you mean total?"),
    ("FROM_JSON(doc, 'MAP<STRING, INT>').x", "no fields", "['x']"),
    ("FROM_JSON(doc, 'MAP<STRING, INT>')[1]", "a key", "CAST"),
    ("FROM_JSON(doc, 'ARRAY<INT>')['x']", "whole number", "whole number"),
    ("FROM_JSON(doc, 'ARRAY<INT>')[0:1]", "[0:1]", "one index"),
    ("doc.a", "doc.a", "GET_JSON_OBJECT(doc, '$.a')"),
    ("doc[0]", "[…]", "FROM_JSON"),
    ("doc -> '$.a'", "->", "GET_JSON_OBJECT"),
    ("JSON_VALUE(doc, '$.a')", "JSON_VALUE()", "GET_JSON_OBJECT"),
    ("CAST(doc AS ARRAY<INT>)", "ARRAY<INT>", "FROM_JSON"),
    ("CAST(SPLIT(doc, ',') AS STRING)", "cannot be converted", "cannot be converted"),
    ("SPLIT(doc, ',') = SPLIT(doc, ';')", "type ARRAY", "ARRAY_CONTAINS"),
    ("SPLIT(doc, ',') IN (SPLIT(doc, ';'))", "type ARRAY", "ARRAY_CONTAINS"),
    ("SPLIT(doc, '(')[0]", "(", "not closed"),
    ("SIZE(SPLIT(doc, '('))", "(", "not closed"),
    ("COALESCE(SPLIT(doc, ','), SPLIT(doc, ';'))", "a plain value", "a plain value"),
    ("ELEMENT_AT(SPLIT(doc, ','), 3000000000)", "up to 2147483647, not 3000000000", "no ARRAY is longer"),
    ("ELEMENT_AT(SPLIT(doc, ','), -2147483648)", "up to 2147483647", "no ARRAY is longer"),
    ("SIZE(doc)", "an ARRAY or a MAP, not STRING", "FROM_JSON"),
    ("ARRAY_CONTAINS(SPLIT(doc, ','), 1)", "not for INT", "CAST"),
    ("ARRAY_CONTAINS(SPLIT(doc, ','), NULL)", "not NULL", "a type"),
    ("ELEMENT_AT(SPLIT(doc, ','), 0)", "other than 0", "counts from 0"),
    ("ELEMENT_AT(SPLIT(doc, ','), id)", "other than 0", "counts from 0"),
    ("EXISTS(SPLIT(doc, ','), 'x')", "a condition on its element", "x -> condition"),
    ("EXISTS(SPLIT(doc, ','), (x, i) -> x = i)", "a condition on its element", "x -> condition"),
    ("EXISTS(doc, x -> x = 'a')", "an ARRAY", "x -> condition"),
    ("EXISTS(SPLIT(doc, ','), x -> x)", "takes a condition", "x -> condition"),
    ("EXISTS(SPLIT(doc, ','), x -> y = 'a')", "'y'", "columns"),
    ("TRANSFORM(SPLIT(doc, ','), x -> x)", "TRANSFORM", "do not support"),
    ("ARRAY_MAX(FROM_JSON(doc, 'ARRAY<MAP<STRING, INT>>'))['a']", "MAPs", "does not compare"),
)


def _plan(expression: str) -> Plan:
    return plan(f"SELECT {expression} AS c FROM docs", TABLES)


@pytest.mark.parametrize(("text", "kind", "shown"), READ)
def test_the_type_of_each_path(text: str, kind: str, shown: str | None) -> None:
    (output,) = _plan(text).query.outputs
    assert str(output.value.type) == kind
    if shown is not None:
        assert render.scalar(output.value) == shown


@pytest.mark.parametrize(("text", "what", "instead"), REFUSED)
def test_refusals_say_what_to_do(text: str, what: str, instead: str) -> None:
    with pytest.raises(SqlError) as caught:
        _plan(text)
    assert what in str(caught.value) and instead in str(caught.value)


@pytest.mark.parametrize("text", [text for text, _, _ in READ])
def test_a_stored_plan_reads_back_as_it_was(text: str) -> None:
    found = plan(f"SELECT id FROM docs WHERE {text} IS NOT NULL AND at < NOW()", TABLES)
    known = signature(found)
    assert signature(restored_plan(stored_form(found).body, known, TABLES.values())) == known


@pytest.mark.parametrize("text", [text for text, _, _ in READ])
def test_no_view_and_no_synopsis_computes_them_without_spark(text: str) -> None:
    (output,) = _plan(text).query.outputs
    assert unlike(output.value) is not None


def test_constants_within_a_condition_on_elements_are_parameters() -> None:
    one, other = (
        plan(f"SELECT id FROM docs WHERE EXISTS(SPLIT(doc, ','), w -> w = '{word}')", TABLES) for word in "ab"
    )
    assert signature(one) == signature(other)
    assert [value.value for value in one.values] == ["a"]


def test_paths_and_types_tell_plans_apart() -> None:
    texts = [
        "GET_JSON_OBJECT(doc, '$.a') = 'x'",
        "GET_JSON_OBJECT(doc, '$.b') = 'x'",
        "FROM_JSON(doc, 'a STRING').a = 'x'",
        "FROM_JSON(doc, 'a STRING, b INT').a = 'x'",
        "FROM_JSON(doc, 'b STRING').b = 'x'",
    ]
    assert len({signature(plan(f"SELECT id FROM docs WHERE {text}", TABLES)) for text in texts}) == len(texts)


def test_an_answer_is_called_as_its_field() -> None:
    found = plan("SELECT FROM_JSON(doc, 'a STRUCT<b: INT>').a.b, SPLIT(doc, ',')[0] FROM docs", TABLES)
    assert [output.name for output in found.query.outputs] == ["b", "col2"]


def test_now_stands_in_no_condition_on_elements() -> None:
    with pytest.raises(SqlError, match=r"NOW\(\)"):
        plan(f"SELECT id FROM docs WHERE EXISTS({ITEMS}, i -> i.at < NOW())", TABLES)


@pytest.mark.parametrize("text", ["(SELECT SPLIT(doc, ',') AS w FROM docs) AS d", "(VALUES (SPLIT('a', ','))) AS d(w)"])
def test_a_derived_table_may_have_a_nested_column(text: str) -> None:
    found = plan(f"SELECT k, d.w FROM keys, {text} WHERE SIZE(d.w) = 1 AND d.w[0] = 'a'", TABLES)
    assert found.query.outputs[1].value.type.declared == "ARRAY<STRING>"
    assert plan(f"SELECT k FROM keys WHERE EXISTS (SELECT 1 FROM {text} WHERE SIZE(d.w) = 1)", TABLES).query.outputs


def test_types_are_written_as_they_are_read() -> None:
    for text in ("ARRAY<ARRAY<DECIMAL(10,2)>>", "MAP<STRING, STRUCT<`a``b,<`: INT, c: ARRAY<DATE>>>", "STRUCT<é: INT>"):
        once = DataType.parse_nested(text)
        assert DataType.of_expression(str(once)) == once
    for text in (
        "ARRAY<INT",
        "ARRAY<>",
        "STRUCT<>",
        "STRUCT<a>",
        "MAP<INT>",
        "ARRAY<INT> x",
        "ARRAY<" * 21 + "INT" + ">" * 21,
    ):
        with pytest.raises(ValueError, match="type"):
            DataType.parse_nested(text)
