"""Views in standing queries: a view that depends on NOW is its definition, as if that stood in the text."""

from __future__ import annotations

import pytest

from temporal_values import tracked
from weft.algebra.relation import Distinct, Grouped, Project, Scan, ViewSchema, sources
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, TableSchema
from weft.algebra.traverse import walk
from weft.errors import SqlError
from weft.planning.explain import explain
from weft.planning.form import signature
from weft.planning.plan import plan, standing_plan
from weft.planning.view_plan import bound_view
from weft.sql.lower.query import bind
from weft.sql.lower.view_definitions import with_definitions

TABLES: dict[str, TableSchema] = {
    "s": tracked(1, "s", id="INT", dept="STRING", at="TIMESTAMP", due="TIMESTAMP", day="DATE", x="INT"),
    "t": tracked(2, "t", id="INT", at="TIMESTAMP"),
}
CONDITIONS = (
    "due < NOW() AND NOW() < due + INTERVAL 1 DAY",
    "NOW() BETWEEN at AND due",
    "NOT (NOW() > due AND x = 1)",
    "NOT (NOW() BETWEEN at AND due OR x IS NULL)",
    "NOW() IN (at, due)",
    "NOW() NOT IN (at, due)",
    "at <=> NOW()",
    "at IS DISTINCT FROM NOW()",
    "NOW() <> due",
    "CURRENT_DATE > day",
    "DATEDIFF(NOW(), day) <= 30",
    "NOW() - at > INTERVAL 36 HOURS",
    "DATE_TRUNC('day', NOW()) > at",
    "x = 2 AND EXISTS (SELECT 1 FROM t WHERE t.id = s.id AND t.at < NOW())",
    "NOT EXISTS (SELECT 1 FROM t WHERE t.id = s.id AND NOW() < t.at + INTERVAL 1 HOUR)",
    "id NOT IN (SELECT t.id FROM t WHERE t.at > NOW())",
    "NOW() - INTERVAL 1 MONTH > at",
    "CASE WHEN NOW() > due THEN 'late' ELSE dept END = 'late'",
    "COALESCE(due, NOW()) > at + INTERVAL 3 DAYS",
    "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin') > at",
)
VIEWS = {
    "due": "SELECT id, dept FROM s WHERE due < NOW() AND NOW() < due + INTERVAL 1 DAY",
    "chained": "SELECT d.dept, s.at FROM due d JOIN s ON s.id = d.id",
    "plain": "SELECT id, dept FROM s",
    "counted": "SELECT dept, COUNT(*) AS n, MAX(at) AS last FROM s GROUP BY dept",
    "late": "SELECT dept FROM counted WHERE last < NOW() - INTERVAL 30 MINUTES",
    "ended": "SELECT id FROM s WHERE PERIOD_END(s) < NOW()",
    "long": "SELECT id FROM s WHERE PERIOD_LENGTH(s) > INTERVAL 9 DAYS AND MONTH(day) = MONTH(NOW())",
    "quiet": "SELECT dept FROM s GROUP BY dept HAVING MAX(at) < NOW() - INTERVAL 30 MINUTES",
    "over_quiet": "SELECT dept FROM quiet",
    "over_ended": "SELECT id FROM ended",
    "week": "SELECT dept, COUNT(*) AS n FROM s GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS)",
    "both": "SELECT id FROM s WHERE NOW() - at > NOW() - due",
}


def with_view(tables: dict[str, TableSchema], name: str, text: str) -> dict[str, TableSchema]:
    """The tables, and a view as a home has it."""
    bound = bound_view(text, tables)
    named = [*bound.columns, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP)]
    columns = tuple(Column(n, label, kind) for n, (label, kind) in enumerate(named, 1))
    depends = bound.depends_on_now
    definition = bound.query if depends else None
    made = ViewSchema(
        len(tables) + 1, name, columns, VALID_FROM, VALID_TO, depends_on_now=depends, definition=definition
    )
    return {**tables, name: made}


@pytest.fixture(scope="module")
def tables() -> dict[str, TableSchema]:
    found = TABLES
    for name, text in VIEWS.items():
        found = with_view(found, name, text)
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_it_is_the_plan_of_the_text_with_the_definition_in_it(condition: str) -> None:
    text = f"SELECT id, due FROM s WHERE {condition}"
    found = standing_plan("SELECT v.id FROM v WHERE v.due IS NULL", with_view(TABLES, "v", text))
    written = f"SELECT v.id FROM (SELECT DISTINCT id, due FROM s WHERE {condition}) AS v WHERE v.due IS NULL"
    assert signature(found) == signature(standing_plan(written, TABLES))


def test_months_on_the_side_of_the_row_are_thresholds_of_the_calendar() -> None:
    found = standing_plan(
        "SELECT id FROM v", with_view(TABLES, "v", "SELECT id FROM s WHERE at + INTERVAL 6 MONTHS < NOW()")
    )
    written = "SELECT id FROM (SELECT DISTINCT id FROM s WHERE DATEADD(MONTH, 6, at) < NOW()) AS v"
    assert signature(found) == signature(standing_plan(written, TABLES))


def test_chains_of_views_are_written_out(tables: dict[str, TableSchema]) -> None:
    found = standing_plan("SELECT dept FROM chained", tables)
    written = (
        "SELECT dept FROM (SELECT DISTINCT d.dept, s.at FROM (SELECT DISTINCT id, dept FROM s WHERE due < NOW() "
        "AND NOW() < due + INTERVAL 1 DAY) AS d JOIN s ON s.id = d.id) AS chained"
    )
    assert signature(found) == signature(standing_plan(written, tables))
    assert [view.name for view in found.definitions] == ["chained", "due"]
    assert {table.name for table in found.tables} == {"s"}


def test_a_view_that_is_named_twice_is_there_twice(tables: dict[str, TableSchema]) -> None:
    found = standing_plan("SELECT a.id FROM due a JOIN due b ON a.dept = b.dept WHERE a.id <> b.id", tables)
    derived = "(SELECT DISTINCT id, dept FROM s WHERE due < NOW() AND NOW() < due + INTERVAL 1 DAY)"
    written = f"SELECT a.id FROM {derived} AS a JOIN {derived} AS b ON a.dept = b.dept WHERE a.id <> b.id"
    assert signature(found) == signature(standing_plan(written, tables))


@pytest.mark.parametrize("name", ["plain", "counted"])
def test_views_without_now_are_read_from_their_kept_periods(tables: dict[str, TableSchema], name: str) -> None:
    found = standing_plan(f"SELECT dept FROM {name}", tables)
    assert [table.name for table in found.tables] == [name] and found.definitions == ()
    assert not found.time_driven
    assert any(f"the view {name} does not depend on NOW()" in note.text for note in explain(found).notes)


def test_now_over_the_kept_periods_of_groups(tables: dict[str, TableSchema]) -> None:
    found = standing_plan("SELECT dept FROM late", tables)
    assert [table.name for table in found.tables] == ["counted"]
    assert [view.name for view in found.definitions] == ["late"] and found.time_driven


def test_explain_says_what_time_does(tables: dict[str, TableSchema]) -> None:
    result = "\n".join(explain(standing_plan("SELECT id FROM due", tables)).brief)
    assert "Time alone makes answers appear, too: NOW passes s.due" in result
    assert "the view due is evaluated at every instant; `weft try` evaluates the view at one instant" in result


def test_a_query_that_is_tried_reads_the_stored_periods(tables: dict[str, TableSchema]) -> None:
    assert [table.name for table in plan("SELECT id FROM due", tables).tables] == ["due"]


REFUSED = {
    "ended": ("the view ended: standing queries do not support PERIOD_END()", "whose period has not ended"),
    "long": ("PERIOD_LENGTH(); in MONTH(s.`day`) = MONTH(NOW()): MONTH of NOW()", "valid_from"),
    "over_ended": ("the view ended, read by over_ended: standing queries do not support PERIOD_END()", "not ended"),
    "week": ("the view week: standing queries do not support MOVING_WINDOW", "`weft try` reads"),
    "both": ("NOW() on both sides of a comparison", "`weft try` reads"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_constructs_that_no_standing_query_has_are_refused(tables: dict[str, TableSchema], name: str) -> None:
    with pytest.raises(SqlError) as refused:
        standing_plan(f"SELECT * FROM {name}", tables)
    reason, hint = REFUSED[name]
    assert reason in refused.value.message and hint in (refused.value.hint or "")


def test_each_reason_is_reported_once_for_its_view() -> None:
    known = with_view(TABLES, "both", VIEWS["both"])
    known = with_view(known, "over", "SELECT id FROM both WHERE NOW() >= TIMESTAMP '2000-01-01 00:00:00'")
    with pytest.raises(SqlError) as refused:
        standing_plan("SELECT id FROM over", known)
    assert refused.value.message.count("on both sides") == 1 and "both, read by over: in " in refused.value.message


def test_all_reasons_are_reported_at_once(tables: dict[str, TableSchema]) -> None:
    with pytest.raises(SqlError) as refused:
        standing_plan("SELECT w.n FROM week w, over_ended e, plain p", tables)
    result = refused.value.message
    assert "the views week: " in result and "; ended, read by over_ended: " in result and "plain" not in result


def test_groups_are_evaluated_at_every_instant(tables: dict[str, TableSchema]) -> None:
    found = standing_plan("SELECT dept FROM over_quiet", tables)
    assert [view.name for view in found.definitions] == ["over_quiet", "quiet"] and found.time_driven


def test_the_groups_of_a_view_count_each_row_once(tables: dict[str, TableSchema]) -> None:
    text = (
        "SELECT d.dept, COUNT(*) AS n FROM (SELECT dept, x FROM s) AS d JOIN s ON s.dept = d.dept "
        "GROUP BY d.dept HAVING MAX(s.at) < NOW()"
    )
    query, _ = with_definitions(bind("SELECT n FROM twice", with_view(TABLES, "twice", text)))
    (grouped,) = (part for part in walk(query) if isinstance(part, Grouped))
    derived, scan = sources(grouped.input)
    assert isinstance(derived, Distinct) and isinstance(derived.input, Project) and isinstance(scan, Scan)


def test_the_periods_of_such_a_view_are_no_columns(tables: dict[str, TableSchema]) -> None:
    with pytest.raises(SqlError, match="cannot use valid_from of the view due"):
        standing_plan("SELECT id, valid_from FROM due", tables)
    assert standing_plan("SELECT id, valid_from FROM plain", tables)
