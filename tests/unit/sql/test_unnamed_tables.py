"""Derived tables without an alias: their columns have no qualifier."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.errors import SqlError
from weft.planning.form import signature
from weft.planning.plan import plan


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT a FROM (SELECT msgid AS a FROM msgs)", "SELECT d.a FROM (SELECT msgid AS a FROM msgs) AS d"),
        (
            "SELECT * FROM (SELECT msgid AS a FROM msgs) JOIN (SELECT name FROM users) ON name = a",
            "SELECT d.a, e.name FROM (SELECT msgid AS a FROM msgs) d JOIN (SELECT name FROM users) e ON e.name = d.a",
        ),
        (
            "SELECT * FROM (SELECT msgid FROM msgs UNION SELECT name FROM users)",
            "SELECT * FROM (SELECT msgid FROM msgs UNION SELECT name FROM users) AS d",
        ),
        ("SELECT col1 FROM (VALUES (1), (2))", "SELECT d.col1 FROM (VALUES (1), (2)) AS d"),
        (
            "SELECT m.msgid FROM msgs m, (SELECT name FROM users) WHERE m.sender = name",
            "SELECT m.msgid FROM msgs m, (SELECT name FROM users) AS d WHERE m.sender = d.name",
        ),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM msgs)", "SELECT d.n FROM (SELECT COUNT(*) AS n FROM msgs) AS d"),
    ],
)
def test_it_is_the_query_with_an_alias(text: str, named: str) -> None:
    assert signature(plan(text, TABLES)) == signature(plan(named, TABLES))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a FROM (SELECT msgid AS a FROM msgs), (SELECT name AS a FROM users)", "'a' is ambiguous"),
        ("SELECT derived.a FROM (SELECT msgid AS a FROM msgs)", "there is no column 'derived.a'"),
        ("SELECT a FROM (SELECT b AS a FROM msgs)", "there is no column 'b'"),
    ],
)
def test_columns_that_cannot_be_named_are_refused(text: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        plan(text, TABLES)
