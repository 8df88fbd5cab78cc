"""Operators that Spark groups in another way than the parser does: parentheses are asked for, with the place."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.errors import SqlError
from weft.planning.plan import plan

ASKED = {
    "active = active IN (TRUE, FALSE)": ("IN next to =", "line 1, column 39"),
    "active <> name LIKE 'a%'": ("LIKE next to <>", "line 1, column 50"),
    "name LIKE 'a%' = active": ("LIKE next to =", "line 1, column 40"),
    "active = age BETWEEN 1 AND 2": ("BETWEEN next to =", "line 1, column 51"),
    "age BETWEEN 1 AND 2 = active": ("BETWEEN next to =", "line 1, column 42"),
    "name IS NOT NULL = active": ("IS next to =", None),
    "active = NOT active": ("NOT next to =", "line 1, column 43"),
    "active = age < 3": ("< next to =", "line 1, column 45"),
    "name || age + 1 = 'a'": ("+ next to ||", "line 1, column 44"),
    "age IN (1) IN (TRUE)": ("IN next to IN", None),
    "name LIKE 'a' IS TRUE": ("LIKE next to IS", None),
    "age IS DISTINCT FROM age = active": ("= next to IS DISTINCT FROM", None),
    "active <=> active = active": ("<=> next to =", None),
    "EXISTS (SELECT 1 FROM msgs WHERE active = sender LIKE 'a%')": ("LIKE next to =", None),
}
READ = [
    "active = (active IN (TRUE, FALSE))",
    "(active = active) IN (TRUE, FALSE)",
    "NOT age IN (1, 2) AND active",
    "NOT age = 1",
    "age + 1 IN (1, 2) OR active",
    "age BETWEEN 1 AND 2 AND active",
    "name LIKE 'a' || '%'",
    "age + 1 || name = 'a'",
    "- age * 2 = 3",
    "age < 3 = active",
    "active = active = active",
    "(name IS NULL) = active",
    "active = active IS NULL",
    "born - INTERVAL 1 DAY 2 HOURS > born",
    "NOT active IS TRUE",
]


@pytest.mark.parametrize("condition", ASKED)
def test_where_two_readings_differ_parentheses_are_asked_for(condition: str) -> None:
    text = f"SELECT name FROM users WHERE {condition}"
    signs, where = ASKED[condition]
    with pytest.raises(SqlError, match="is ambiguous") as caught:
        plan(text, TABLES)
    assert str(caught.value).startswith(signs) or signs in str(caught.value)
    assert "parentheses" in (caught.value.hint or "")
    if where is not None:
        assert caught.value.where == where


@pytest.mark.parametrize("condition", READ)
def test_what_both_read_alike_is_taken(condition: str) -> None:
    assert plan(f"SELECT name FROM users WHERE {condition}", TABLES).text
