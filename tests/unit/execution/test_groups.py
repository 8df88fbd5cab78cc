"""What a group of a tick runs."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netnews import TABLES
from weft.algebra.relation import Plain, condition, conjuncts
from weft.algebra.schema import BIGINT
from weft.algebra.traverse import mentioned
from weft.catalog.records import PlanRecord, QueryRecord, results_schema
from weft.execution.groups import Group, Member, instant, shape_of
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import BEGINNING, bound, for_one, plan
from weft.sql.rendering.render import scalar

T0 = 946_684_800_000_000


def test_a_first_delivery_begins_where_time_does() -> None:
    """A threshold before t0 gave constant rows an instant before t0; they begin at t0."""
    found = plan(
        "SELECT v.a FROM (VALUES (1), (2)) AS v(a) WHERE NOW() >= TIMESTAMP '1999-01-01' AND NOT EXISTS "
        "(SELECT 1 FROM staff s WHERE NOW() < s.ts)",
        TABLES,
    )
    form = stored_form(found)
    record = QueryRecord(
        1, "q", "", "", 1, form.parameters, (), None, "start", None, None, 1, "active", None, 0, None, form.names
    )
    shape = restored_plan(form.body, form.signature, TABLES.values())
    group = Group(1, shape, (Member(record, None, T0 + 5),), T0 + 5, T0)
    assert driven(group) == ["beginning", "departure"]


def test_a_plan_over_results_is_that_of_its_home() -> None:
    """A process may have several homes, whose queries have the same ids and other names."""
    for name in ("low", "high", "low"):
        results = results_schema(1, name, [("a", BIGINT)])
        form = stored_form(plan(f"SELECT a FROM results.{name}", {results.name: results}))
        shape = shape_of(PlanRecord(1, form.signature, form.body), {results.name: results})
        assert [table.name for table in shape.tables] == [f"results.{name}"]


def group_of(text: str, *windows: tuple[int | None, int], t: int, t0: int | None = None) -> Group:
    """Queries of one plan: by query its tau, and the days by which its constant instants are later."""
    found = plan(text, TABLES)
    form = stored_form(found)
    shape = restored_plan(form.body, form.signature, TABLES.values())
    members = []
    for number, (tau, later) in enumerate(windows, 1):
        values = tuple(
            (kind, raw + later * DAY if kind == "TIMESTAMP" and isinstance(raw, int) else raw)
            for kind, raw in form.parameters
        )
        record = QueryRecord(
            number, "q", "", "", 1, values, (), None, "start", None, None, 1, "active", None, 0, None, form.names
        )
        members.append(Member(record, tau, t))
    return Group(1, shape, tuple(members), t, t0)


DAY = 86_400_000_000
REACHED = "SELECT m.msgid FROM msgs m WHERE NOW() >= TIMESTAMP '2000-01-10'"
AT = T0 + 9 * DAY
CONSTANT = (
    REACHED,
    "SELECT m.msgid FROM msgs m WHERE NOW() < TIMESTAMP '2000-01-10'",
    "SELECT m.msgid FROM msgs m WHERE NOW() >= TIMESTAMP '2000-01-03' OR NOT EXISTS "
    "(SELECT 1 FROM reminders r WHERE r.text = m.msgid AND NOW() < TIMESTAMP '2000-01-08' + INTERVAL '1' DAY)",
    "SELECT m.msgid FROM msgs m WHERE NOW() BETWEEN TIMESTAMP '2000-01-03' AND TIMESTAMP '2000-01-05'",
    "SELECT v.a FROM (VALUES (1), (2)) AS v(a) WHERE NOW() >= TIMESTAMP '1999-12-30' AND NOT EXISTS "
    "(SELECT 1 FROM staff s WHERE NOW() < s.ts)",
)


def driven(group: Group) -> list[str]:
    return sorted(branch.event.driver.kind for branch in group.branches())


@pytest.mark.parametrize(
    ("tau", "t", "runs"),
    [(T0, AT, False), (T0, AT + 1, True), (AT, AT + 1, True), (AT + 1, AT + DAY, False), (AT - 5, AT + 5, True)],
)
def test_a_constant_threshold_is_a_branch_in_its_window_only(tau: int, t: int, runs: bool) -> None:
    assert driven(group_of(REACHED, (tau, 0), t=t, t0=T0)) == ["arrival", *["now_from"] * runs]


def test_one_query_whose_window_has_its_threshold_is_enough() -> None:
    window = {"t": AT + 1, "t0": T0}
    assert driven(group_of(REACHED, (T0, 1), (T0, 2), **window)) == ["arrival"]
    assert driven(group_of(REACHED, (T0, 1), (T0, 0), **window)) == ["arrival", "now_from"]
    assert driven(group_of(REACHED, (T0, 1), (AT + 1, 0), **window)) == ["arrival"]


def test_an_interval_is_added_to_a_constant_threshold() -> None:
    later = "SELECT m.msgid FROM msgs m WHERE NOW() >= TIMESTAMP '2000-01-10' + INTERVAL '1' DAY"
    assert driven(group_of(later, (T0, 0), t=AT + DAY, t0=T0)) == ["arrival"]
    assert driven(group_of(later, (T0, 0), t=AT + DAY + 1, t0=T0)) == ["arrival", "now_from"]


def test_constants_begin_in_the_window_with_the_beginning_of_time() -> None:
    text = "SELECT v.a FROM (VALUES (1), (2)) AS v(a) WHERE NOT EXISTS (SELECT 1 FROM staff s WHERE NOW() < s.ts)"
    assert "beginning" in driven(group_of(text, (None, 0), t=T0 + 5, t0=T0))
    assert "beginning" in driven(group_of(text, (T0, 0), t=T0 + 5, t0=T0))
    assert "beginning" not in driven(group_of(text, (T0 + 1, 0), t=T0 + 5, t0=T0))
    assert "beginning" not in driven(group_of(text, (None, 0), t=T0, t0=None))  # time has not begun


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(CONSTANT),
    st.one_of(st.none(), st.integers(-3, 12)),
    st.integers(0, 9),
    st.booleans(),
)
def test_every_excluded_branch_has_an_impossible_condition(text: str, tau: int | None, length: int, many: bool) -> None:
    """The law by its other side: with its window and constants written in, DuckDB finds the condition never true."""
    low = None if tau is None else T0 + tau * DAY
    t = T0 + ((tau or 0) + length) * DAY
    group = group_of(text, *[(low, 0)] * (2 if many else 1), t=t, t0=T0)
    kept = {branch.event.driver.instant for branch in replace(group, members=group.members[:1]).branches()}
    events = group.shape.first if group.first else group.shape.branches
    member = group.members[0]
    window = {"t": instant(t), "t0": instant(T0)}
    window["tau"] = instant(low) if low is not None else instant(T0) if group.shape.has_constants else BEGINNING
    for event in events:
        branch = for_one(event, member.values, window, group.first, member.query.names)
        if branch.event.driver.instant in kept:
            continue
        demanded = [
            item.condition
            for item in conjuncts(condition(bound(branch.event, window).block))
            if isinstance(item, Plain)
        ]
        constant = [each for each in demanded if not mentioned(each)]
        texts = [scalar(each) for each in constant]
        assert texts, branch.sql
        (row,) = duckdb.sql(f"SELECT {' AND '.join(f'({each})' for each in texts)}").fetchall()
        assert row[0] is not True, branch.sql
