"""Conditions with NOW in CASE, COALESCE and under OR: the thresholds give the truth value of the condition itself.

The expected truth is the value of the condition as one expression, in plain Python, at instants between the times of a
row.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from evaluated import judged, value
from netnews import table
from temporal_values import tracked
from weft.algebra.relation import Plain, Predicate, condition
from weft.algebra.scalar import Call, Scalar, mentions_now
from weft.algebra.schema import STRING, TIMESTAMP
from weft.errors import SqlError
from weft.sql.lower.now_conditions import not_true, now_condition
from weft.sql.lower.query import bind, bind_view

TABLES = {"t": table(1, "t", {"a": TIMESTAMP, "b": TIMESTAMP, "s": STRING})}
TRACKED = {"t": tracked(1, "t", a="TIMESTAMP", b="TIMESTAMP", s="STRING")}
START = dt.datetime(2020, 1, 1)
HOUR = dt.timedelta(hours=1)
KEPT = st.sampled_from(["a", "b", "TIMESTAMP '2020-01-01 02:00:00'", "a + INTERVAL 1 HOUR"])
TEXTS = st.sampled_from(["'late'", "'open'", "s", "NULL"])


@st.composite
def times(draw: st.DrawFn, depth: int = 2) -> str:
    """A time that may contain NOW."""
    kind = draw(st.integers(0, 6 if depth else 1))
    if kind <= 1:
        return draw(st.sampled_from(["NOW()", "NOW() - INTERVAL 1 HOUR"])) if kind else draw(KEPT)
    inner, kept = draw(times(depth - 1)), draw(KEPT)
    first, second = (inner, kept) if draw(st.booleans()) else (kept, inner)
    return {
        2: f"COALESCE({first}, {second})",
        3: f"CASE WHEN {draw(conditions(depth - 1))} THEN {first} ELSE {second} END",
        4: f"GREATEST({first}, {second})",
        5: f"LEAST({first}, {second}, b)",
        6: f"{first} + INTERVAL 1 HOUR",
    }[kind]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    """A condition that may contain NOW."""
    kind = draw(st.integers(0, 9 if depth else 2))
    if kind <= 2:
        operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
        sides = [draw(times(depth)), draw(KEPT)]
        return f" {operator} ".join(sides if draw(st.booleans()) else sides[::-1])
    one, other = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    test = draw(st.sampled_from(["TRUE", "FALSE", "NOT TRUE", "NOT FALSE"]))
    texts, equal = (draw(TEXTS), draw(TEXTS)), draw(st.sampled_from(["=", "<>"]))
    return {
        3: f"({one} AND {other})",
        4: f"({one} OR {other})",
        5: f"NOT ({one})",
        6: f"({one}) IS {test}",
        7: f"CASE WHEN {one} THEN {texts[0]} WHEN {other} THEN {texts[1]} ELSE s END {equal} 'late'",
        8: f"IF({one}, {texts[0]}, 'x') IN ('late', s)",
        9: f"{draw(times(depth))} IS {draw(st.sampled_from(['', 'NOT ']))}NULL",
    }[kind]


def scalar_of(text: str) -> Scalar:
    """The condition as one expression, as temporal views have it."""
    found = condition(bind_view(f"SELECT a FROM t WHERE ({text}) = TRUE", TRACKED).input)
    assert isinstance(found, Plain) and isinstance(found.condition, Call)
    return found.condition.args[0]


def where(text: str) -> Predicate:
    return condition(bind(f"SELECT a FROM t WHERE {text}", TABLES).input)


@settings(max_examples=60)
@given(conditions(), st.tuples(*[st.sampled_from([None, 0, 1, 2, 3])] * 2), st.sampled_from([None, "late", "x"]))
def test_the_cases_together_are_the_condition(text: str, given_times: tuple[Any, Any], s: str | None) -> None:
    a, b = (None if each is None else START + each * HOUR for each in given_times)
    try:
        whole = scalar_of(text)
        found = [now_condition(whole, positive, exp.Null()) for positive in (True, False)]
    except SqlError:  # NOW on both sides of a comparison, or the test for NULL of an AND
        assume(False)
    row = {"a": a, "b": b, "s": s}
    checks = [judged(predicate, row) for predicate in (*found, *map(not_true, found))]
    for step in range(-8, 28):
        now = START + step * HOUR / 4
        for instant in (now - dt.timedelta(microseconds=1), now, now + dt.timedelta(microseconds=1)):
            truth = value(whole, {**row, "NOW": instant})
            expected = [truth is True, truth is False, truth is not True, truth is not False]
            assert [check(instant) for check in checks] == expected, (text, instant)


def test_most_drawn_conditions_are_split() -> None:
    """A test of the test: the conditions contain NOW, and are not refused."""
    drawn = ["CASE WHEN NOW() > a THEN 'late' ELSE s END = 'late'", "COALESCE(a, NOW()) > b", "GREATEST(a, NOW()) < b"]
    for text in drawn:
        assert mentions_now(scalar_of(text)) and where(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("CASE WHEN NOW() > a THEN 'late' END = 'late'", "NOW() > a"),
        ("IF(NOW() > a, 1, 0) = 1", "NOW() > a"),
        ("CASE WHEN NOW() >= a THEN TRUE ELSE FALSE END", "NOW() >= a"),
        ("COALESCE(a, NOW()) > b", "(a IS NOT NULL AND a > b) OR (a IS NULL AND NOW() > b)"),
        ("(NOW() > a) IS TRUE", "NOW() > a"),
        ("NOW() IN (a, b)", "NOW() = a OR NOW() = b"),
    ],
)
def test_a_case_is_the_condition_that_it_stands_for(text: str, same: str) -> None:
    assert where(text) == where(same)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DATE_FORMAT(NOW(), 'yyyy') = s", "NOW() inside this expression"),
        ("CASE WHEN a > b THEN NOW() ELSE b END > NOW()", "NOW() on both sides"),
        ("(NOW() > a AND b > a) IS NULL", "AND, OR, NOT, CASE and COALESCE may combine"),
        (
            " || ".join(f"IF(NOW() > a + INTERVAL {n} HOURS, 'x', 'y')" for n in range(8)) + " = s",
            "has more than 64 cases",
        ),
    ],
)
def test_a_condition_that_cannot_be_split_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SqlError) as refused:
        where(text)
    assert reason in str(refused.value)
