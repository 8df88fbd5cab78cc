"""Parameters of texts: which text they give, and that no value changes anything but one constant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from weft.algebra.form_parameter import FormParameter, ParameterType
from weft.errors import Refused, SqlError
from weft.sql.lower.parse import parse
from weft.sql.lower.placeholders import declared, filled, parameter_names

HOSTILE = (
    "'; DROP TABLE t --",
    "\\' OR 1 = 1 --",
    "a\\",
    "\\",
    "*/ x /*",
    "{{x}}",
    "}}",
    "\n-- c",
    "' OR ''='",
    "\x00",
    "${x}",
    "`t`",
    '"',
    "\U0001f600'",
    "') UNION SELECT secret FROM s WHERE ('' = '",
    "\u2019 OR 1=1",
)
TEXTS = (
    "SELECT a FROM t WHERE b = {{x}}",
    "SELECT a FROM t WHERE b={{ x }}AND c='q' -- {{x}}",
    "SELECT a FROM t WHERE b IN ('\U0001f600', {{x}},'q') /* {{y}} */ AND c = {{x}}",
)


def strings(text: str) -> list[str]:
    """The texts of a query's string constants, which a parser of another module reads."""
    return [each.this for each in parse(text).find_all(exp.Literal) if each.is_string]


def shape(text: str) -> str:
    """A query without the contents of its constants."""
    tree = parse(text)
    for each in list(tree.find_all(exp.Literal)):
        each.set("this", "constant")
    return tree.sql(dialect="spark", comments=False)


def string(text: str, value: str) -> str:
    return filled(text, (FormParameter("x", "string"),), {"x": value})


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_text_is_one_constant(text: str, value: str) -> None:
    made = string(text, value)
    assert shape(made) == shape(string(text, "harmless"))
    assert strings(made).count(value) == len([each for each in strings(string(text, "harmless")) if each == "harmless"])


@given(st.sampled_from(TEXTS), st.text(max_size=30) | st.text(alphabet="'\\-;{}\"`/*\n x", max_size=12))
@settings(max_examples=300, deadline=None)
def test_no_text_changes_the_query(text: str, value: str) -> None:
    made = string(text, value)
    assert shape(made) == shape(string(text, "harmless"))
    assert value in strings(made)


@pytest.mark.parametrize(
    ("type_", "value", "sql"),
    [
        ("int", " 7 ", "7"),
        ("int", "-7", "(-7)"),
        ("int", "-9223372036854775807", "(-9223372036854775807)"),
        ("decimal", "-1.50", "CAST('-1.50' AS DECIMAL(3,2))"),
        ("double", "1e3", "CAST('1000.0' AS DOUBLE)"),
        ("boolean", "No", "FALSE"),
        ("boolean", "true", "TRUE"),
        ("date", "2026-01-31", "DATE '2026-01-31'"),
        ("timestamp", "2026-03-01T12:00+02:00", "TIMESTAMP '2026-03-01 10:00:00.000000+00:00'"),
        ("interval", "1h30m", "INTERVAL '90' MINUTE"),
        ("string", " it's ", "' it\\'s '"),
    ],
)
def test_a_value_becomes_a_constant_of_its_type(type_: ParameterType, value: str, sql: str) -> None:
    made = filled("SELECT a FROM t WHERE b = {{x}}", (FormParameter("x", type_),), {"x": value})
    assert made == f"SELECT a FROM t WHERE b = {sql}".replace("= ", "= ", 1)
    parse(made)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *(("int", each) for each in ("", "1e5", "1.0", "0x10", "9223372036854775808", "\uff11", "1 OR 1=1", "--1")),
        *(("decimal", each) for each in ("", "1e5", "nan", "1,5", "." * 3, "1" * 39, "0." + "1" * 39)),
        *(("double", each) for each in ("", "nan", "inf", "1e999", "1_0", "0x1p3")),
        *(("boolean", each) for each in ("", "1", "maybe", "true OR true")),
        *(("date", each) for each in ("", "2026-02-30", "2026-1-1", "today", "2026-01-01' --")),
        *(("timestamp", each) for each in ("", "now", "2026-13-01", "2026-01-01 25:00", "2026-01-01' OR '")),
        *(("interval", each) for each in ("", "7", "7 fortnights", "-7d", "0d", "9999999999d", "7d' DAY --")),
        ("string", "\udcff"),
    ],
)
def test_a_value_of_another_type_is_refused(type_: ParameterType, value: str) -> None:
    with pytest.raises(Refused) as refused:
        filled("SELECT a FROM t WHERE b = {{x}}", (FormParameter("x", type_),), {"x": value})
    assert refused.value.hint


def test_all_refusals_come_at_once() -> None:
    parameters = (FormParameter("x", "int"), FormParameter("y", "date", "2026-01-01"), FormParameter("z", "int"))
    with pytest.raises(Refused) as refused:
        filled("SELECT {{x}}, {{y}}, {{z}} FROM t", parameters, {"x": "one", "other": "1"})
    assert {each.message for each in refused.value.reasons} == {
        "there is no parameter 'other'",
        "x: 'one' is not an int",
        "z has no value",
    }


def test_a_missing_value_has_its_default() -> None:
    assert filled("SELECT {{x}} FROM t", (FormParameter("x", "int", "3"),), {}) == "SELECT 3 FROM t"


def test_neighbours_stay_apart() -> None:
    made = filled(
        "SELECT 'a'{{x}}'b', -{{n}}, a{{n}} FROM t",
        (FormParameter("x", "string"), FormParameter("n", "int")),
        {"x": "m", "n": "-5"},
    )
    assert made == "SELECT 'a' 'm' 'b', - (-5), a (-5) FROM t"


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("SELECT a FROM t WHERE b = '{{x}}'", "the placeholder {{x}} stands in quotes", "line 1, column 28"),
        ("SELECT a\nFROM `{{x}}`", "the placeholder {{x}} stands in quotes", "line 2, column 7"),
        ("SELECT {{x FROM t", "this is not a placeholder", "line 1, column 8"),
        ("SELECT {{1}} FROM t", "this is not a placeholder", "line 1, column 8"),
        ("SELECT {{a b}} FROM t", "this is not a placeholder", "line 1, column 8"),
        ("SELECT { {x}} FROM t", "this is not a placeholder", "line 1, column 8"),
    ],
)
def test_an_invalid_placeholder_is_refused_at_its_place(text: str, message: str, where: str) -> None:
    with pytest.raises(SqlError) as refused:
        parameter_names(text)
    assert (refused.value.message, refused.value.where) == (message, where)


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(SqlError, match="not closed"):
        parameter_names("SELECT '{{x}}")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((), "the parameter x has no type"),
        ((FormParameter("x", "int"), FormParameter("y", "int")), "the text has no {{y}}"),
        ((FormParameter("x", "int"), FormParameter("x", "date")), "a parameter is declared twice"),
        ((FormParameter("x", "int", "one"),), "x: 'one' is not an int"),
        ((FormParameter("x", "text"),), "'text' is not a type of a parameter"),  # type: ignore[arg-type]
    ],
)
def test_declarations_fit_the_text(parameters: tuple[FormParameter, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        declared("SELECT a FROM t WHERE b = {{x}}", parameters)


def test_declarations_come_in_the_order_of_the_text() -> None:
    given_ = (FormParameter("b", "int", "1"), FormParameter("a", "int"))
    assert [each.name for each in declared("SELECT {{a}}, {{b}}, {{a}} FROM t", given_)] == ["a", "b"]
    with pytest.raises(Refused, match="has no parameters"):
        declared("SELECT a FROM t", ())
