"""Each rule of ``starts`` and ``ends`` fires where it should, and only there."""

from __future__ import annotations

import pytest

from netnews import MSGS, STAFF, TABLES
from weft.algebra import relation
from weft.algebra.event import Event
from weft.algebra.relation import (
    Exists,
    Join,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Scan,
    Select,
    condition,
    conjunction,
    sources,
)
from weft.algebra.scalar import call, plus
from weft.algebra.schema import TIMESTAMP
from weft.algebra.traverse import scans
from weft.derivation.replay import OPERATORS, at, ends, starts
from weft.derivation.replay.not_exists import witness
from weft.planning.plan import plan
from weft.sql.rendering import render

M, R = Scan(MSGS, "m"), Scan(MSGS, "r")
S = Scan(STAFF, "s")
TIED = Plain(call("=", R.ref("inreplyto"), M.ref("msgid")))


def drivers(events: tuple[Event, ...]) -> list[str]:
    return [f"{e.driver.kind} {render.scalar(e.instant)}" for e in events]


def test_a_row_of_an_append_only_table_arrives_and_never_departs() -> None:
    assert drivers(starts(M)) == ["arrival m.ts"]
    assert ends(M) == ()


def test_a_row_that_can_end_departs_at_its_end() -> None:
    assert drivers(ends(S)) == ["departure s.`until`"]
    assert render.predicate(condition(ends(S)[0].relation), {}) == "s.`until` IS NOT NULL"


def test_a_product_has_an_event_an_input_and_the_others_are_judged_at_its_instant() -> None:
    events = starts(Join((M, R)))
    assert drivers(events) == ["arrival m.ts", "arrival r.ts"]
    assert render.predicate(condition(events[0].relation), {}) == "r.ts <= m.ts"


def test_an_end_is_judged_just_before() -> None:
    other = Scan(STAFF, "o")
    first, second = ends(Join((S, other)))
    assert drivers((first, second)) == ["departure s.`until`", "departure o.`until`"]
    text = render.predicate(condition(first.relation), {})
    assert "o.ts < s.`until`" in text
    assert "s.`until` <= o.`until`" in text


def test_a_plain_condition_drives_nothing() -> None:
    assert starts(TIED) == ends(TIED) == ()


@pytest.mark.parametrize(
    ("predicate", "start", "end"),
    [
        (NowFrom(M.ref("date")), ["now_from m.`date`"], []),
        (NowBefore(M.ref("date")), [], ["now_before m.`date`"]),
    ],
)
def test_thresholds_begin_or_end(predicate: NowFrom | NowBefore, start: list[str], end: list[str]) -> None:
    assert drivers(starts(predicate)) == start
    assert drivers(ends(predicate)) == end


def test_exists_begins_with_its_rows() -> None:
    events = starts(Select(M, Exists(Select(R, TIED))))
    assert drivers(events) == ["arrival m.ts", "arrival r.ts"]
    assert events[1].driver.inside == ("EXISTS",)


def test_not_exists_on_an_append_only_table_never_begins_by_itself() -> None:
    assert drivers(starts(Select(M, NotExists(Select(R, TIED))))) == ["arrival m.ts"]
    assert drivers(ends(Select(M, NotExists(Select(R, TIED))))) == ["arrival r_was.ts"]


def test_not_exists_begins_where_its_last_row_ends() -> None:
    body = Select(S, Plain(call("=", S.ref("name"), M.ref("sender"))))
    events = starts(Select(M, NotExists(body)))
    assert drivers(events) == ["arrival m.ts", "departure s_was.`until`"]
    assert events[1].driver.inside == ("NOT EXISTS",)
    assert "NOT EXISTS" in render.predicate(condition(events[1].relation), {})


def test_not_exists_begins_where_a_threshold_of_its_body_ends() -> None:
    until = NowBefore(R.ref("date"))
    events = starts(Select(M, NotExists(Select(R, conjunction(TIED, until)))))
    assert drivers(events) == ["arrival m.ts", "now_before r_was.`date`"]


def test_starts_and_ends_change_places_at_every_not_exists() -> None:
    inner = Scan(MSGS, "i")
    body = Select(
        R, conjunction(TIED, NotExists(Select(inner, Plain(call("=", inner.ref("inreplyto"), R.ref("msgid"))))))
    )
    assert drivers(starts(Select(M, NotExists(body)))) == ["arrival m.ts", "arrival i_was_was.ts"]


def test_or_has_the_events_of_both_sides_and_asks_nothing_of_the_other() -> None:
    events = starts(Or((NowFrom(M.ref("date")), Exists(Select(R, TIED)))))
    assert drivers(events) == ["now_from m.`date`", "arrival r.ts"]
    assert render.predicate(condition(events[0].relation), {}) == "TRUE"


def test_and_judges_the_others_at_the_event() -> None:
    later = plus(M.ref("date"), call("x", type=TIMESTAMP))
    events = starts(conjunction(NowFrom(M.ref("date")), NowBefore(later)))
    assert drivers(events) == ["now_from m.`date`"]
    assert render.predicate(condition(events[0].relation), {}) == "m.`date` < (m.`date` + X())"


def test_a_witness_has_names_of_its_own_and_keeps_outer_names() -> None:
    copy = witness(Select(R, TIED))
    assert copy == Select(Scan(MSGS, "r_was"), Plain(call("=", Scan(MSGS, "r_was").ref("inreplyto"), M.ref("msgid"))))


@pytest.mark.parametrize("alias", ["r_was", "R_WAS", "r_before", "r_outer", "r_2"])
def test_no_alias_of_a_users_is_captured(alias: str) -> None:
    """Found by reading: the witness of r took the name of the row outside, and the condition compared it with
    itself."""
    text = f"SELECT {alias}.name FROM staff AS {alias} WHERE NOT EXISTS (SELECT 1 FROM staff AS r WHERE r.room = {alias}.room)"  # noqa: E501
    for from_now in (False, True):
        for event in plan(text, TABLES, from_now=from_now).branches:
            assert "r_was.room = r_was.room" not in render.predicate(condition(event.block), {}).lower()
            names = [source.alias for source in sources(event.block)]
            assert len(names) == len(set(names))


def test_copies_of_a_not_in_body_do_not_share_names() -> None:
    """NOT IN inside NOT IN: each part has range variables of its own, since access paths are kept by name."""
    text = (
        "SELECT name FROM users WHERE name NOT IN (SELECT sender FROM msgs WHERE msgid NOT IN (SELECT room FROM staff))"
    )
    names = [scan.alias for scan in scans(plan(text, TABLES).query)]
    assert len(names) == len(set(names)) == 7


def _members(alias: str) -> list[type]:
    return [getattr(relation, name) for name in alias.split(" | ")]


def test_every_operator_has_its_three_cases_and_a_file() -> None:
    kinds = [*_members(relation.Relation), *_members(relation.Predicate)]
    stateful = relation.Grouped, relation.Windowed, relation.Materialized, relation.Recurrence, relation.Recursive
    for each in stateful:  # read as scans of their states
        kinds.remove(each)
    assert len(kinds) >= 14
    for function in (at, starts, ends):
        lacking = [kind.__name__ for kind in kinds if function.dispatch(kind) is function.dispatch(object)]
        assert not lacking, f"{function.__name__} has no case for {lacking}"
    for module in OPERATORS:
        assert module.__doc__, module.__name__
