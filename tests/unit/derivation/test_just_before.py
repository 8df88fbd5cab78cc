"""What ends at an instant is judged just before it: each operator's ``ends``, and ``at`` just before an instant."""

from __future__ import annotations

import pytest

from netnews import MSGS, STAFF, TABLES
from shown import show, show_events
from weft.algebra.event import Instant
from weft.algebra.relation import Exists, NotExists, NowBefore, NowFrom, Or, Plain, Scan, Select, Values, conjunction
from weft.algebra.scalar import Literal, call
from weft.algebra.schema import INT, Column
from weft.derivation.replay import at, ends
from weft.planning.plan import for_one, plan

M, S = Scan(MSGS, "m"), Scan(STAFF, "s")
NAMED = Plain(call("=", S.ref("name"), M.ref("sender")))
SEVEN = Values("v", (Column(1, "k", INT),), ((Literal(7, INT),),))


def test_all_of_and_held_just_before(capsys: pytest.CaptureFixture[str]) -> None:
    show_events(ends(conjunction(NowBefore(M.ref("date")), NowBefore(M.ref("ts")))))
    assert capsys.readouterr().out.splitlines() == [
        "when NOW reaches m.`date`",
        "  WHERE m.`date` <= m.ts",
        "when NOW reaches m.ts",
        "  WHERE m.ts <= m.`date`",
    ]


def test_or_ends_where_any_part_does(capsys: pytest.CaptureFixture[str]) -> None:
    show_events(ends(Or((NowBefore(M.ref("date")), NowFrom(M.ref("ts")), NowBefore(S.ref("ts"))))))
    assert capsys.readouterr().out.splitlines() == ["when NOW reaches m.`date`", "when NOW reaches s.ts"]


def test_a_selection_held_just_before_its_row_ended(capsys: pytest.CaptureFixture[str]) -> None:
    show_events(ends(Select(S, NowFrom(M.ref("date")))))
    assert capsys.readouterr().out.splitlines() == [
        "when a row of staff AS s ends: s.`until`",
        "  FROM staff AS s",
        "  WHERE s.`until` IS NOT NULL",
        "    AND m.`date` < s.`until`",
    ]


def test_a_row_that_ends_inside_exists(capsys: pytest.CaptureFixture[str]) -> None:
    show_events(ends(Exists(Select(S, NAMED))))
    assert capsys.readouterr().out.splitlines() == [
        "when a row of staff AS s ends inside EXISTS: s.`until`",
        "  FROM staff AS s",
        "  WHERE s.`until` IS NOT NULL",
        "    AND s.`name` = m.sender",
    ]


def test_a_row_that_begins_inside_not_exists_finds_none_just_before(capsys: pytest.CaptureFixture[str]) -> None:
    show_events(ends(NotExists(Select(S, NAMED))))
    assert capsys.readouterr().out.splitlines() == [
        "when a row of staff AS s_was arrives inside NOT EXISTS: s_was.ts",
        "  FROM staff AS s_was",
        "  WHERE s_was.`name` = m.sender",
        "    AND NOT EXISTS (SELECT 1",
        "      FROM staff AS s",
        "      WHERE s.ts < s_was.ts",
        "        AND (s.`until` IS NULL OR s_was.ts <= s.`until`)",
        "        AND s.`name` = m.sender)",
    ]


def test_constant_rows_are_there_just_before_once_time_has_begun(capsys: pytest.CaptureFixture[str]) -> None:
    show(at(SEVEN, Instant(M.start, before=True)))
    assert capsys.readouterr().out.splitlines() == ["FROM (SELECT 7 AS k) AS v", "WHERE :t0 < m.ts"]
    assert at(SEVEN, Instant(M.start)) == SEVEN
    assert ends(SEVEN) == ()


def test_from_now_omits_rows_that_were_in_the_answer_just_before() -> None:
    (event,) = plan("SELECT name, room FROM staff", TABLES, from_now=True).branches
    assert for_one(event, (), {}, whole=True).sql.splitlines() == [
        "SELECT staff.`name`, staff.room, staff.ts AS _first_at",
        "  FROM staff",
        "  WHERE :tau <= staff.ts",
        "    AND staff.ts < :t",
        "    AND NOT EXISTS (SELECT 1",
        "      FROM staff AS staff_before",
        "      WHERE staff_before.ts < staff.ts",
        "        AND (staff_before.`until` IS NULL OR staff.ts <= staff_before.`until`)",
        "        AND staff_before.`name` <=> staff.`name`",
        "        AND staff_before.room <=> staff.room)",
    ]
