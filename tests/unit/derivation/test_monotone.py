"""When Q^M has the paper's closed form, and what it is."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.planning.plan import for_one, plan

CLOSED = [
    "SELECT msgid FROM msgs",
    "SELECT msgid FROM msgs WHERE NOW() > ts + INTERVAL 1 DAY AND NOW() < date",
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)",
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid AND NOW() > r.date)",
    "SELECT m.msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid AND NOW() < r.date)",
    "SELECT m.msgid FROM msgs m WHERE NOW() > m.date OR NOT EXISTS (SELECT 1 FROM users u WHERE u.name = m.sender)",
    "SELECT msgid FROM msgs WHERE "
    + " AND ".join(f"(NOW() > date + INTERVAL {n} DAYS OR NOW() > ts + INTERVAL {n} DAYS)" for n in range(4)),
    # Alternatives without time are one block, however many there are.
    "SELECT msgid FROM msgs WHERE " + " AND ".join(f"(sender = 's{n}' OR subject = 't{n}')" for n in range(5)),
]
NOT_CLOSED = {
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.ts > NOW() - INTERVAL 14 DAYS)": "NOT EXISTS",  # noqa: E501
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE NOT EXISTS (SELECT 1 FROM users))": "NOT EXISTS",  # noqa: E501
    "SELECT m.msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM users u WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.ts > NOW() - INTERVAL 14 DAYS))": "NOT EXISTS",  # noqa: E501
    "SELECT name FROM staff": "rows can end",
    "SELECT name FROM users WHERE EXISTS (SELECT 1 FROM staff)": "rows can end",
    "SELECT msgid FROM msgs WHERE "
    + " AND ".join(
        f"(NOW() > date + INTERVAL {n} DAYS OR NOW() > ts + INTERVAL {n} DAYS)" for n in range(5)
    ): "16 blocks",
}


@pytest.mark.parametrize("text", CLOSED)
def test_the_closed_form_applies(text: str) -> None:
    assert plan(text, TABLES).verdict.closed


@pytest.mark.parametrize("text", NOT_CLOSED)
def test_the_closed_form_does_not_apply_and_the_reason_is_given(text: str) -> None:
    found = plan(text, TABLES)
    assert found.verdict.closed is False
    assert NOT_CLOSED[text] in found.verdict.reason
    assert found.first == found.branches


def test_entering_never_uses_the_closed_form() -> None:
    found = plan(CLOSED[0], TABLES, from_now=True)
    assert found.first == found.branches


def closed_sql(text: str) -> list[str]:
    found = plan(text, TABLES)
    return [for_one(event, found.values, {}, whole=True).sql for event in found.first]


def test_a_start_that_another_can_never_be_before_is_left_out() -> None:
    (text,) = closed_sql("SELECT msgid FROM msgs WHERE NOW() > ts + INTERVAL 4 WEEKS")
    assert "GREATEST" not in text


def test_a_null_threshold_never_fires() -> None:
    (text,) = closed_sql("SELECT msgid FROM msgs WHERE NOW() > date")
    assert "GREATEST(msgs.ts, msgs.`date` + INTERVAL '1' MICROSECOND)" in text
    assert "msgs.`date` IS NOT NULL" in text


def test_a_null_interval_never_fires() -> None:
    """GREATEST passes over NULLs: with days NULL the announcement was delivered at its ts."""
    (text,) = closed_sql("SELECT id FROM announcements WHERE NOW() >= ts + INTERVAL 1 DAY * days")
    assert "TRY_ADD(announcements.ts, TRY_MULTIPLY(INTERVAL '1' DAY, announcements.`days`)) IS NOT NULL" in text


def test_a_disjunction_has_a_branch_a_block() -> None:
    assert len(closed_sql("SELECT msgid FROM msgs WHERE NOW() > date OR NOW() > ts + INTERVAL 1 DAY")) == 2
    assert len(closed_sql("SELECT msgid FROM msgs WHERE sender = 'a' OR sender = 'b'")) == 1


def test_a_condition_that_never_holds_has_no_branch() -> None:
    assert closed_sql("SELECT msgid FROM msgs WHERE FALSE") == []
    assert plan("SELECT msgid FROM msgs WHERE FALSE", TABLES).branches == ()
