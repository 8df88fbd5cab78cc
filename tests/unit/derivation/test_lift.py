"""Which constants of a query become parameters, in the order of the text, and what a parameter keeps of its own."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.planning.plan import plan


@pytest.mark.parametrize(
    ("condition", "lifted"),
    [
        ("NOT (sender = 'a')", ["a"]),
        ("CASE WHEN sender = 'a' THEN subject = 'b' ELSE FALSE END", ["a", "b"]),
        ("(sender = 'a') = (subject = 'b')", ["a", "b"]),
        ("COALESCE(sender = 'a', FALSE)", ["a"]),
        ("sender IS NULL", []),
    ],
)
def test_constants_of_comparisons_are_lifted_wherever_they_stand(condition: str, lifted: list[str]) -> None:
    assert [value.value for value in plan(f"SELECT msgid FROM msgs WHERE {condition}", TABLES).values] == lifted


@pytest.mark.parametrize(("interval", "sign"), [("1 DAY", 1), ("0 SECONDS", 0), ("-1 DAY", -1), ("1 MICROSECOND", 1)])
def test_an_interval_keeps_its_sign_and_nothing_else_has_one(interval: str, sign: int) -> None:
    found = plan(f"SELECT msgid FROM msgs WHERE NOW() >= date + INTERVAL {interval} AND newsgroup > 'a'", TABLES)
    assert {str(param.type): param.sign for param in found.parameters} == {"INTERVAL": sign, "STRING": None}


def test_a_number_has_no_sign() -> None:
    assert [param.sign for param in plan("SELECT name FROM users WHERE age > 3", TABLES).parameters] == [None]
