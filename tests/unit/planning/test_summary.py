"""What ``explain`` shows first: true of the branches, in the names of the text, and short."""

from __future__ import annotations

import pytest

from netnews import TABLES
from weft.algebra.schema import STRING
from weft.catalog.records import results_schema
from weft.planning.explain import explain
from weft.planning.how_many import TableExtent, how_many
from weft.planning.plan import plan
from weft.planning.summary import WIDTH, CauseSummary, summary

DAY = 86_400_000_000
BLOCKED = "NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)"


def summarized(text: str, *, from_now: bool = False) -> CauseSummary:
    return summary(plan(text, TABLES, from_now=from_now))


def test_rows_that_arrive_are_one_clause_and_conditions_are_shown_as_written() -> None:
    found = summarized(
        "SELECT m.msgid FROM msgs m JOIN users u ON u.name = m.sender WHERE u.age > 1.5 AND EXISTS "
        "(SELECT 1 FROM reminders m WHERE m.text = 'TIMESTAMP `x`')"
    )
    assert found.when == ("a row of msgs (as m) or users (as u) or reminders (as m) arrives",)
    assert found.holding == (
        "u.name = m.sender and u.age > 1.5",
        "there is a row of reminders (as m) with m.text = 'TIMESTAMP `x`'",
    )
    assert found.time == () and found.arriving and not found.ending and found.bounded_by is None
    assert found.lines[-1] == "Time alone makes no answer appear: rows must arrive."


def test_what_drives_is_not_repeated_as_a_condition() -> None:
    found = summarized(f"SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 2 DAYS AND {BLOCKED}")
    assert found.lines == (
        "An answer appears when more than 2 days have passed since m.ts",
        "if at that instant there is no row of msgs (as r) with r.inreplyto = m.msgid",
        "Time alone makes answers appear: nothing has to arrive at that instant.",
    )
    assert found.bounded_by == ("msgs",)


def test_time_beside_arriving_rows_is_shown_with_its_condition() -> None:
    found = summarized("SELECT id FROM reminders WHERE whenToRemind <= NOW() AND NOW() < whenToRemind + INTERVAL 1 DAY")
    assert found.lines == (
        "An answer appears when",
        "  a row of reminders arrives, or",
        "  NOW reaches reminders.whenToRemind",
        "if at that instant NOW() >= reminders.whenToRemind, and",
        "  NOW() < reminders.whenToRemind + 1 day",
        "Time alone makes answers appear, too: NOW reaches reminders.whenToRemind",
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT o.msgid FROM msgs e JOIN msgs o ON o.sender = e.sender WHERE NOW() > e.ts + INTERVAL 90 DAYS "
        "AND o.ts > e.ts + INTERVAL 90 DAYS",
        "SELECT msgid FROM msgs WHERE ts <= NOW()",
    ],
)
def test_time_alone_does_nothing_where_a_row_has_to_arrive_at_that_instant(text: str) -> None:
    found = summarized(text)
    assert found.time == () and found.lines[-1] == "Time alone makes no answer appear: rows must arrive."
    assert summarized(text.replace("NOW() > e", "NOW() > INTERVAL 1 DAY + e").replace("ts <= NOW", "date <= NOW")).time


def test_time_may_make_rows_of_other_answers_appear() -> None:
    columns = (("msgid", STRING),)
    low = results_schema(7, "low", columns)
    found = summary(plan("SELECT msgid FROM results.low", {**TABLES, low.name: low}))
    assert found.lines[-1] == (
        "Time alone makes no answer appear, unless it makes rows of results.low appear: rows must arrive."
    )


def test_ends_and_nested_parts_are_distinguished() -> None:
    found = summarized(
        "SELECT u.name FROM users u WHERE NOT EXISTS (SELECT 1 FROM staff s WHERE s.name = u.name AND NOT EXISTS "
        "(SELECT 1 FROM msgs r WHERE r.sender = s.name))"
    )
    assert found.when == (
        "a row of users (as u) arrives",
        "a row of staff (as s) ends, and no matching row is left",
        "a row of msgs (as r) arrives, and no matching row is left",
    )
    assert found.holding == (
        "there is no row of staff (as s) with s.name = u.name for which there is no row of msgs (as r) with "
        "r.sender = s.name",
    )
    assert found.lines[-1] == "Time alone makes no answer appear: rows must arrive or end."


def test_of_two_selects_the_conditions_of_both_are_shown_and_of_more_none() -> None:
    two = "SELECT name FROM users WHERE active UNION SELECT sender FROM msgs WHERE subject = 'x'"
    assert summarized(two).holding == ("users.active, or msgs.subject = 'x'",)
    more = f"{two} UNION SELECT msgid FROM msgs WHERE sender = 'a'"
    assert summarized(more).holding == ("one of 3 alternatives holds",)
    partner = "r.inreplyto = m.msgid"
    join = summarized(f"SELECT m.msgid, r.sender FROM msgs m LEFT JOIN msgs r ON {partner}")
    assert join.holding == (f"{partner}, or there is no row of msgs (as r) with {partner}",)
    assert summarized(two).bounded_by == ("users", "msgs")
    assert summarized("SELECT name FROM users UNION SELECT sender FROM msgs").holding == ()


def test_constant_rows_and_queries_that_never_answer() -> None:
    assert summarized("SELECT * FROM (VALUES (1)) AS v(k)").lines == (
        "An answer appears when time begins, with the first tick: constant rows hold from then on",
        "Time alone makes no answer appear later.",
    )
    never = explain(plan("SELECT msgid FROM msgs WHERE NOW() < ts", TABLES))
    old = "NOW() > ts + INTERVAL 1 DAY"
    window = explain(plan(f"SELECT msgid FROM msgs WHERE {old} AND NOW() < ts + INTERVAL 1 HOUR", TABLES))
    for each in (never, window):
        assert each.brief[0] == "No answer can ever appear."
        [note] = each.notes
        assert "contradict each other" in note.text
    assert how_many(never.summary, {"msgs": TableExtent(5)}) is None


def test_from_now_on_earlier_answers_are_omitted() -> None:
    found = summarized("SELECT sender FROM msgs WHERE newsgroup = 'a'", from_now=True)
    assert found.holding == ("msgs.newsgroup = 'a'", "it was no answer just before")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SELECT msgid FROM msgs",
            "Answers so far: at most 800, one for each row of msgs (20 a day over 40 days); `weft try` counts the "
            "current answers.",
        ),
        ("SELECT name FROM users", "Answers so far: none; no rows in users."),
        (
            "SELECT m.msgid FROM msgs m, users u",
            "Answers so far: `weft try` counts them, `weft backtest` lists them (msgs: 800 rows, 20 "
            "a day; users: 0 rows).",
        ),
        (
            "SELECT name FROM staff",
            "Answers so far: at most 1, one for each recorded change of staff; `weft try` counts the current answers.",
        ),
        (
            "SELECT msgid FROM msgs UNION SELECT sender FROM msgs",
            "Answers so far: at most 1,600, two for each row of msgs (20 a day over 40 days); `weft try` counts the "
            "current answers.",
        ),
        (
            "SELECT msgid FROM msgs UNION SELECT name FROM staff",
            "Answers so far: at most 801, one for each row of msgs and one for each recorded change of staff; "
            "`weft try` counts the current answers.",
        ),
        ("SELECT id FROM reminders", None),
    ],
)
def test_how_many_there_may_be(text: str, said: str | None) -> None:
    sizes = {"msgs": TableExtent(800, 0, 40 * DAY), "users": TableExtent(0), "staff": TableExtent(1, 7, 7)}
    assert how_many(summarized(text), sizes) == said


def test_from_now_on_the_past_is_not_counted() -> None:
    found = summarized("SELECT sender FROM msgs", from_now=True)
    assert how_many(found, {"msgs": TableExtent(2, 0, 1)}, from_now=True) == (
        "Answers: at most one for each row of msgs; rows now: 2."
    )


def test_from_now_on_each_select_counts_and_a_view_bounds_nothing() -> None:
    found = summarized("SELECT sender FROM msgs UNION SELECT msgid FROM msgs", from_now=True)
    assert how_many(found, {"msgs": TableExtent(2, 0, 1)}, from_now=True) == (
        "Answers: at most two for each row of msgs; rows now: 2."
    )
    assert how_many(summarized("SELECT name FROM staff"), {"staff": TableExtent(3, 0, 1, view=True)}) == (
        "Answers so far: `weft try` counts them, `weft backtest` lists them (staff: 3 recorded changes)."
    )


def test_long_texts_are_cut_and_many_clauses_counted() -> None:
    many = " OR ".join(f"NOW() > ts + INTERVAL {n} DAYS AND LENGTH(subject) = {n}" for n in range(1, 9))
    lines = summarized(f"SELECT msgid FROM msgs WHERE {many}").lines
    assert "  one of 6 other things happens" in lines and lines[4].endswith(" …")
    assert max(map(len, lines)) <= WIDTH


def test_a_row_that_later_rows_cannot_block_is_no_cause_to_warn() -> None:
    first = "SELECT l.sender FROM msgs l WHERE NOT EXISTS (SELECT 1 FROM msgs e WHERE e.sender = l.sender AND {})"
    earlier, later = ("e.ts < l.ts", "e.ts <= l.ts"), ("e.ts > l.ts", "l.ts < e.ts", "e.ts <> l.ts")
    for test in (*earlier, *later):
        found = explain(plan(first.format(test), TABLES))
        assert any("To wait for such a row, add" in (note.line or "") for note in found.notes) is (test in later), test


def test_what_the_order_of_time_excludes_drives_nothing() -> None:
    asked = "SELECT o.msgid FROM msgs e JOIN msgs o ON o.sender = e.sender WHERE o.ts > e.ts + INTERVAL 90 DAYS"
    assert summarized(asked).when == ("a row of msgs (as o) arrives",)
    assert len(summarized(asked.replace("+", "-")).when[0].split(" or ")) == 2


def test_a_day_is_shown_as_its_column() -> None:
    found = summarized("SELECT name FROM users WHERE NOW() >= born + INTERVAL 1 DAY")
    assert found.when[1] == "1 day after users.born has passed" and found.holding == ("NOW() >= users.born + 1 day",)
