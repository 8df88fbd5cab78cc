"""A range variable never has the name of a column that is read beside it."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.planning.plan import for_one, plan


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("SELECT sender.name FROM users AS sender, msgs WHERE msgs.sender = sender.name", "sender_"),
        ("SELECT a.name FROM users AS a, (VALUES ('x', 1)) AS v(A, b) WHERE v.A = a.name", "a_"),
        ("SELECT q.name FROM users AS q WHERE q.name IN (SELECT DISTINCT d.q FROM (VALUES ('x')) AS d(q))", "q_"),
        ("SELECT a.name FROM users AS a, users AS a_, (VALUES ('x')) AS v(a) WHERE v.a = a.name", "a__"),
    ],
)
def test_a_range_variable_named_like_a_column_is_renamed(text: str, renamed: str) -> None:
    found = plan(text, TABLES)
    for event in found.branches:
        branch = for_one(event, found.values, {}, True)
        assert f" AS {renamed}" in branch.sql
        assert f"{renamed}.`name`" in branch.sql
        driver = branch.event.driver
        assert (
            driver.scan is None
            or f" AS {driver.scan.alias}" in branch.sql
            or driver.scan.alias == driver.scan.table.name
        )


def test_others_keep_their_names() -> None:
    found = plan("SELECT m.msgid FROM msgs AS m, users AS u WHERE m.sender = u.name", TABLES)
    assert all("_" not in alias for event in found.branches for alias in for_one(event, (), {}, True).paths)
