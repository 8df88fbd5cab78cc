"""A range variable never has the name of a column that is read beside it."""

from __future__ import annotations

import pytest

from netnews import MSGS, TABLES, USERS
from weft.algebra.event import Driver, Event
from weft.algebra.relation import Distinct, Join, Output, Project, Scan
from weft.algebra.traverse import range_variables
from weft.planning.names import numbered_columns, without_clashes
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


def test_a_name_stays_apart_from_the_columns_of_everything_beside_it_and_from_the_other_names() -> None:
    """A derived relation's columns count, whatever their case, as do the names that others have got by then."""
    users, text, room = Scan(USERS, "K"), Scan(MSGS, "Subject"), Scan(USERS, "subject_")
    derived = Distinct(Project(Scan(USERS, "u"), "d", (Output("k", Scan(USERS, "u").ref("age")),)))
    event = Event(Driver("arrival", users.start, users), Join((derived, users, text, room)))
    assert range_variables(without_clashes(event, keep=()).relation) == (
        "d",
        "u",
        "K_",
        "Subject__",
        "subject_",
    )
    kept = without_clashes(event, keep=("K",))
    assert "K" in range_variables(kept.relation) and kept.driver.scan == users


def test_two_names_that_become_one_stay_apart() -> None:
    query = plan("SELECT name FROM users", TABLES).query
    first, second = Scan(MSGS, "sender"), Scan(MSGS, "SENDER")
    found = without_clashes(Event(Driver("arrival", first.start, first), Join((first, second))), keep=())
    assert range_variables(found.relation) == ("sender_", "SENDER__")
    assert [output.name for output in numbered_columns(query).outputs] == ["c1"]
