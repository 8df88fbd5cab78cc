"""Blocks that were one subquery stand beside one another: none has a range variable of another."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.algebra.traverse import range_variables
from weft.planning.plan import for_one, plan

ARMS = (
    "(SELECT name AS x FROM staff UNION ALL SELECT text FROM reminders UNION ALL SELECT title FROM announcements) AS d"
)


@pytest.mark.parametrize("quantifier", ["EXISTS", "NOT EXISTS"])
def test_a_product_with_a_union_in_a_subquery_has_names_of_its_own_in_each_block(quantifier: str) -> None:
    text = f"SELECT m.msgid FROM msgs m WHERE {quantifier} (SELECT 1 FROM users u, {ARMS} WHERE d.x = u.name)"
    found = plan(text, TABLES)
    event = next(each for each in found.branches if each.driver.scan is not None and each.driver.scan.alias == "m")
    names = [name for name in range_variables(event.block) if name.startswith("u")]
    assert names == ["u", "u_or1", "u_or2"]
    sql = for_one(event, found.values, {}, whole=True).sql
    for own, arm in zip(names, ("staff.`name`", "reminders.text", "announcements.title"), strict=True):
        assert f"{arm} = {own}.`name`" in sql


def test_a_name_that_the_user_gave_already_is_given_to_no_other() -> None:
    text = (
        "SELECT m.msgid FROM msgs m WHERE EXISTS "
        f"(SELECT 1 FROM users u_or1, users u, {ARMS} WHERE d.x = u.name AND u.name = u_or1.name)"
    )
    event = plan(text, TABLES).branches[0]
    names = range_variables(event.block)
    assert len(names) == len(set(names))
    assert len([name for name in names if name.startswith("u")]) == 6
