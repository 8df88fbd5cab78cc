"""Columns that are declared as STRUCT, ARRAY or MAP: their parts have types, and as a whole they are JSON text."""

from __future__ import annotations

import pytest

from netnews import table
from weft.algebra.schema import INT, STRING, DataType
from weft.errors import SqlError
from weft.planning.form import restored_plan, signature, stored_form
from weft.planning.plan import Plan, plan
from weft.planning.words import condition_words
from weft.sql.lower.query import bind
from weft.sql.rendering import render

WHO = DataType.of_column("STRUCT<name: STRING, at: STRUCT<zip: INT>, o: STRUCT<x: INT>>")
ITEMS = DataType.of_column("ARRAY<STRUCT<sku: STRING, n: INT>>")
TABLES = {
    "orders": table(
        1,
        "orders",
        {"id": INT, "who": WHO, "items": ITEMS, "m": DataType.of_column("MAP<STRING, DOUBLE>"), "doc": STRING},
    ),
    "others": table(2, "others", {"id": INT, "who": DataType.of_column("STRUCT<name: INT>"), "items": ITEMS}),
}
READ_WHO = f"FROM_JSON(o.who, '{WHO.declared}')"
READ_ITEMS = f"FROM_JSON(o.items, '{ITEMS.declared}')"
MICROSECONDS = "MAP('timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX')"

# An expression over orders AS o, its type, and what Spark is given.
READ = (
    ("who.name", "STRING", f"{READ_WHO}.name"),
    ("o.who.name", "STRING", f"{READ_WHO}.name"),
    ("O.Who.At.Zip", "INT", f"{READ_WHO}.at.zip"),
    ("who.at.zip + 1", "INT", None),
    ("who['name']", "STRING", f"{READ_WHO}.name"),
    ("items[0].sku", "STRING", f"{READ_ITEMS}[0].sku"),
    ("o.items.n[1]", "INT", f"{READ_ITEMS}.n[1]"),
    ("SIZE(items)", "INT", f"SIZE({READ_ITEMS})"),
    ("EXISTS(items, i -> i.n > id)", "BOOLEAN", f"EXISTS({READ_ITEMS}, _each_1 -> _each_1.n > o.id)"),
    ("m['a']", "DOUBLE", "FROM_JSON(o.m, 'MAP<STRING, DOUBLE>')['a']"),
    ("MAP_CONTAINS_KEY(m, 'a')", "BOOLEAN", None),
    ("TO_JSON(m)", "STRING", None),
    ("who", "STRING", "o.who"),
    ("who.at", "STRING", f"TO_JSON({READ_WHO}.at, {MICROSECONDS})"),
    ("items.sku", "STRING", f"TO_JSON({READ_ITEMS}.sku, {MICROSECONDS})"),
    ("SPLIT(o.doc, ',')", "STRING", f"TO_JSON(SPLIT(o.doc, ','), {MICROSECONDS})"),
    ("GET_JSON_OBJECT(who, '$.name')", "STRING", "GET_JSON_OBJECT(o.who, '$.name')"),
    ("LENGTH(who)", "INT", "LENGTH(o.who)"),
    ("who = o.doc", "BOOLEAN", "o.who = o.doc"),
)

# A query, what is said, and what to do.
REFUSED = (
    ("SELECT who.nme FROM orders", "no field 'nme'", "name"),
    ("SELECT doc.name FROM orders", "no column 'doc.name'", "GET_JSON_OBJECT(doc, '$.name')"),
    ("SELECT o.doc.name FROM orders o", "more than two parts", "GET_JSON_OBJECT(o.doc, '$.name')"),
    ("SELECT items['sku'] FROM orders", "a whole number", "whole number"),
    ("SELECT CAST(who.at AS STRING) FROM orders", "cannot be converted to STRING", "TO_JSON(…)"),
    ("SELECT id FROM orders WHERE who.at = who.o", "STRUCT cannot be compared", "TO_JSON"),
    ("SELECT a.who.name FROM orders a, others b WHERE who.name = 'x'", "it is in", "alias.column"),
    ("SELECT d.who.name FROM (SELECT who FROM orders UNION ALL SELECT who FROM others) d", "two parts", "GET_JSON"),
    ("SELECT d.who.name FROM (SELECT COALESCE(who, doc) AS who FROM orders) d", "two parts", "GET_JSON_OBJECT"),
)


def _plan(text: str) -> Plan:
    return plan(text, TABLES)


@pytest.mark.parametrize(("text", "kind", "shown"), READ)
def test_parts_have_types_and_the_whole_is_text(text: str, kind: str, shown: str | None) -> None:
    (output,) = _plan(f"SELECT {text} AS c FROM orders AS o").query.outputs
    assert str(output.value.type) == kind
    if shown is not None:
        assert render.scalar(output.value).replace("`", "") == shown


@pytest.mark.parametrize(("text", "what", "instead"), REFUSED)
def test_refusals_say_what_to_do(text: str, what: str, instead: str) -> None:
    with pytest.raises(SqlError) as caught:
        _plan(text)
    assert what in str(caught.value) and instead in str(caught.value)


def test_an_alias_comes_before_a_column_of_its_name() -> None:
    (output,) = _plan("SELECT who.id FROM orders AS who").query.outputs
    assert render.scalar(output.value) == "who.id"


@pytest.mark.parametrize(
    "rows",
    [
        "(SELECT who, id FROM orders)",
        "(SELECT who, id FROM orders UNION SELECT who, id FROM orders)",
        "(SELECT COALESCE(who, who) AS who, id FROM orders)",
        "(SELECT DISTINCT * FROM orders)",
        "(SELECT FROM_JSON(doc, 'at STRUCT<zip: INT>') AS who, id FROM orders)",
    ],
)
def test_derived_tables_hand_on_the_types(rows: str) -> None:
    (output,) = _plan(f"WITH w AS (SELECT d.who AS v FROM {rows} AS d) SELECT w.v.at.zip FROM w").query.outputs
    assert (output.name, str(output.value.type)) == ("zip", "INT")


def test_a_part_that_is_nested_is_a_nested_column() -> None:
    (output,) = _plan("SELECT who.at FROM orders").query.outputs
    assert (output.name, output.value.type.declared) == ("at", "STRUCT<zip: INT>")
    (output,) = _plan(
        "SELECT d.at.zip FROM (SELECT who.at FROM orders UNION SELECT who.at FROM orders) d"
    ).query.outputs
    assert (output.name, output.value.type.declared) == ("zip", "INT")


@pytest.mark.parametrize("text", [text for text, _, _ in READ])
def test_a_stored_plan_reads_back_as_it_was(text: str) -> None:
    found = _plan(f"SELECT id FROM orders AS o WHERE {text} IS NOT NULL AND ts < NOW()")
    known = signature(found)
    wider = table(1, "orders", {**{c.name: c.type for c in TABLES["orders"].columns}, "who": DataType.of_json(MORE)})
    for tables in (TABLES.values(), [wider]):  # a field that came later changes nothing
        assert signature(restored_plan(stored_form(found).body, known, tables)) == known


MORE = DataType.parse_nested("STRUCT<name: STRING, at: STRUCT<zip: INT>, o: STRUCT<x: INT>, new: INT>")


def test_conditions_are_shown_as_written() -> None:
    query = bind("SELECT id FROM orders o WHERE who.at.zip > 1 AND EXISTS(items, i -> i.n > 1)", TABLES)
    words = condition_words(query.input.predicate)  # type: ignore[union-attr]
    assert words == "o.who.at.zip > 1 and EXISTS(o.items, x1 -> x1.n > 1)"
    query = bind("SELECT id FROM orders o WHERE FROM_JSON(doc, 'a INT').a = 1", TABLES)
    assert condition_words(query.input.predicate) == "FROM_JSON(o.doc, 'STRUCT<a: INT>').a = 1"  # type: ignore[union-attr]
