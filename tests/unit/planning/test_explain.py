"""What explain prints is what a tick runs."""

from __future__ import annotations

import pytest

from netnews import TABLES as EVERYTHING
from netnews import table
from weft.algebra.schema import INT, TableSchema
from weft.api.explaining import mail_schema
from weft.catalog.records import QueryRecord
from weft.execution.groups import Group, Member, instant
from weft.extraction.mail.message import MAIL_COLUMNS
from weft.planning.explain import explain
from weft.planning.form import signature, stored_form
from weft.planning.plan import columns_of, plan
from weft.sql.rendering import render

TABLES: dict[str, TableSchema] = {"msgs": mail_schema()}
TAU, T = 733_968_000_000_000, 734_572_800_000_001
QUERIES = {
    "Q1": "SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'",
    "Q2": "SELECT msgid FROM msgs WHERE newsgroup LIKE 'comp.sys.%'",
    "Q3": "SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'",
    "Q4": "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
    "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)",
    "Q5": "SELECT m.msgid, m.ts FROM msgs m, msgs m1, msgs m2 "
    "WHERE m.inreplyto IS NULL AND m1.inreplyto = m.msgid AND m2.inreplyto = m1.msgid",
    "future": "SELECT msgid FROM msgs WHERE date > NOW()",
    "unreplied": "SELECT msgid FROM msgs m WHERE NOT EXISTS (SELECT * FROM msgs r "
    "WHERE r.inreplyto = m.msgid AND r.ts > NOW() - INTERVAL 14 DAYS)",
    "pairs": "SELECT a.msgid FROM msgs a, msgs b WHERE a.ts < b.ts AND a.subject = 'x'",
}


def _record(text: str) -> QueryRecord:
    compiled = plan(text, TABLES)
    form = stored_form(compiled)
    columns = columns_of(compiled.query)
    return QueryRecord(
        7,
        "q",
        "u",
        text,
        1,
        form.parameters,
        columns,
        None,
        "start",
        None,
        None,
        1,
        "active",
        None,
        0,
        None,
        form.names,
    )


def _closed(sql: str) -> str:
    return sql.replace(":tau", render.timestamp(TAU)).replace(":t", render.timestamp(T))


@pytest.mark.parametrize("name", QUERIES)
def test_the_text_is_the_one_that_a_tick_runs_but_for_the_two_instants(name: str) -> None:
    compiled = plan(QUERIES[name], TABLES)
    found = explain(compiled)
    assert found.query == compiled.text
    record = _record(QUERIES[name])
    later = Group(1, compiled.shape, (Member(record, TAU, T),), T).branches()
    first = Group(1, compiled.shape, (Member(record, None, T),), T).branches()
    assert [branch.sql for branch in later] == [_closed(branch.sql) for branch in found.later]
    assert [branch.sql for branch in first] == [_closed(branch.sql) for branch in found.first]
    views = {path.view for branch in later for path in branch.paths.values()} - {"msgs"}
    assert views <= {view.name for view in found.views}
    assert instant(T).value == T


def test_drivers_in_words() -> None:
    def why(name: str) -> list[str]:
        return [branch.why for branch in explain(plan(QUERIES[name], TABLES)).later]

    assert why("Q1") == ["a new row of msgs arrives"]
    assert why("Q3") == ["a new row of msgs (as m) arrives", "a new row of msgs (as m1) arrives"]
    assert why("Q4") == ["more than 4 weeks have passed since m.ts (NOW passes m.ts + 28 days)"]
    assert why("unreplied")[1] == (
        "the last blocker under NOT EXISTS ends: 2 weeks after r.ts have passed (NOW reaches r.ts + 14 days)"
    )


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("NOW() > date - INTERVAL 1 DAY", "less than 1 day is left until msgs.date (NOW passes msgs.date - 1 day)"),
        ("NOW() >= date - INTERVAL 1 DAY", "it is 1 day before msgs.date (NOW reaches msgs.date - 1 day)"),
        ("NOW() > GREATEST(ts, date)", "NOW passes GREATEST(msgs.ts, msgs.date)"),
        ("NOW() >= GREATEST(ts, date)", "NOW reaches GREATEST(msgs.ts, msgs.date)"),
        ("NOW() > date", "NOW passes msgs.date"),
    ],
)
def test_thresholds_in_words(condition: str, words: str) -> None:
    assert explain(plan(f"SELECT msgid FROM msgs WHERE {condition}", TABLES)).later[1].why == words


def test_warnings() -> None:
    def warnings(name: str) -> list[str]:
        found = explain(plan(QUERIES[name], TABLES))
        return [note.text for note in found.notes if note.level == "warning"]

    assert warnings("Q1") == warnings("Q3") == warnings("Q4") == warnings("Q5") == []
    assert "reads all of msgs" in warnings("pairs")[0]
    assert "Require a minimum age" in warnings("unreplied")[0]


def test_the_cost_of_from_now_is_shown_in_the_names_of_the_text() -> None:
    pairs = "SELECT UPPER(b.sender) AS s FROM msgs AS b, msgs c WHERE b.subject = c.subject"
    for text in ("SELECT UPPER(sender) AS s FROM msgs WHERE newsgroup = 'a'", pairs):
        found = explain(plan(text, TABLES, from_now=True))
        (result,) = [note.text for note in found.notes if note.level == "warning"]
        assert "--from now" in result and "reads all of msgs" in result and "_before" not in result


def test_from_now_on_looks_answers_of_columns_up() -> None:
    found = explain(plan("SELECT sender FROM msgs WHERE newsgroup = 'a'", TABLES, from_now=True))
    assert not [note for note in found.notes if note.level == "warning"]


def test_the_assumed_table_is_the_one_of_mail() -> None:
    assert [(c.name, c.type) for c in mail_schema().columns[:-1]] == list(MAIL_COLUMNS)
    assert mail_schema().columns[-1].name == "ts"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "SELECT u.name FROM users u WHERE NOT EXISTS (SELECT 1 FROM msgs m WHERE m.sender = u.name AND NOT EXISTS "
            "(SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid AND NOT EXISTS (SELECT 1 FROM staff s WHERE s.name = "
            "r.sender)))",
            "a row of staff (as s) ends: the last blocker under NOT EXISTS is gone",
        ),
        (
            "SELECT u.name FROM users u WHERE NOT EXISTS (SELECT 1 FROM msgs m WHERE m.sender = u.name AND NOT EXISTS "
            "(SELECT 1 FROM reminders r WHERE r.text = m.msgid AND NOW() >= r.whenToRemind))",
            "NOW reaches r.whenToRemind, and ends the last blocker under NOT EXISTS",
        ),
    ],
)
def test_drivers_in_nested_subqueries_are_named_as_the_user_named_them(text: str, words: str) -> None:
    assert words in [branch.why for branch in explain(plan(text, EVERYTHING)).later]


def test_an_interval_from_a_column_is_taken_off() -> None:
    text = "SELECT title FROM announcements WHERE NOW() >= expires - days * INTERVAL 1 DAY"
    assert explain(plan(text, EVERYTHING)).later[-1].why == (
        "NOW reaches announcements.expires - TRY_MULTIPLY(INTERVAL '1' DAY, announcements.days)"
    )


def test_a_query_from_now_on_has_no_first_delivery() -> None:
    compiled = plan(QUERIES["Q3"], TABLES, from_now=True)
    found = explain(compiled)
    assert found.from_now and found.first == ()
    assert found.signature == signature(compiled) != explain(plan(QUERIES["Q3"], TABLES)).signature


def test_each_row_that_arrives_is_asked_for_its_blockers() -> None:
    text = (
        "SELECT u.name FROM users u, msgs m WHERE m.sender = u.name AND EXISTS (SELECT 1 FROM reminders r WHERE "
        "r.text = u.name AND NOW() >= r.whenToRemind) AND NOT EXISTS (SELECT 1 FROM msgs b WHERE b.inreplyto = m.msgid)"
    )
    asked = [note for note in explain(plan(text, EVERYTHING)).notes if "Weft evaluates NOT EXISTS" in note.text]
    assert [(note.level, "row of users" in note.text) for note in asked] == [("warning", False), ("note", True)]


def test_constant_rows_are_no_reason_to_warn_and_hide_none() -> None:
    text = "SELECT v.k FROM (VALUES (1), (2)) AS v(k), users u, msgs m WHERE u.age = v.k AND m.subject > u.name"
    dear = [note.text for note in explain(plan(text, EVERYTHING)).notes if note.level == "warning"]
    assert [text.split(" (as")[0].rsplit(" ", 1)[1] for text in dear] == ["msgs", "users"]


EARLIER = {
    "p.ts <= s.ts": False,
    "NOT p.ts > s.ts": False,
    "p.ts BETWEEN s.ts - INTERVAL 1 DAY AND s.ts": False,
    "p.ts <= s.ts + INTERVAL 1 DAY": True,
    "p.sender = s.sender": True,
}


@pytest.mark.parametrize("condition", EARLIER)
@pytest.mark.parametrize("joined", ["", " JOIN users u ON u.name = s.sender"])
def test_no_age_is_asked_for_where_the_condition_excludes_later_rows(condition: str, joined: str) -> None:
    blocked = f"NOT EXISTS (SELECT 1 FROM msgs p WHERE {condition})"
    found = explain(plan(f"SELECT s.msgid FROM msgs s{joined} WHERE {blocked}", EVERYTHING))
    assert any("To wait for such a row, add" in (note.line or "") for note in found.notes) == EARLIER[condition]


def test_the_note_names_only_the_tables_whose_later_rows_count() -> None:
    blocked = "NOT EXISTS (SELECT 1 FROM msgs p JOIN reminders r ON r.text = p.subject WHERE p.ts <= s.ts)"
    (line,) = (
        note.line
        for note in explain(plan(f"SELECT s.name FROM users s WHERE {blocked}", EVERYTHING)).notes
        if "To wait for such a row, add" in (note.line or "")
    )
    assert line is not None and line.startswith("a later row of reminders does not retract an answer")


@pytest.mark.parametrize("operator", ["EXCEPT", "INTERSECT"])
def test_both_sides_have_names_of_their_own(operator: str) -> None:
    text = f"SELECT msgid FROM msgs {operator} SELECT inreplyto FROM msgs WHERE sender = 'a'"
    lines = explain(plan(text, EVERYTHING)).brief
    assert any("row of msgs (as msgs_right) with msgs_right.sender = 'a'" in line for line in lines)
    aliased = f"SELECT m.msgid FROM msgs m {operator} SELECT m.inreplyto FROM msgs m"
    assert any("m_right.inreplyto <=> m.msgid" in line for line in explain(plan(aliased, EVERYTHING)).brief)
    shared = f"WITH w AS (SELECT msgid FROM msgs) SELECT msgid FROM w {operator} SELECT msgid FROM w WHERE msgid > 'a'"
    assert any(
        "row of msgs (as msgs_right) with msgs_right.msgid > 'a'" in line
        for line in explain(plan(shared, EVERYTHING)).brief
    )


@pytest.mark.parametrize("number", [4, 8])
def test_many_correlated_counts_look_their_groups_up(number: int) -> None:
    counts = (f"(SELECT COUNT(*) FROM staff s WHERE s.room = u.room AND s.name > '{n}')" for n in range(number))
    shown = explain(plan(f"SELECT u.name, {' + '.join(counts)} AS n FROM staff u", EVERYTHING))
    assert not [state for state in shown.states if state.reads_whole]
    assert not [note for note in shown.notes if "reads all" in note.text]


@pytest.mark.parametrize("more", ["", ", (SELECT COUNT(*) FROM msgs b WHERE b.inreplyto = a.msgid) AS n"])
def test_two_conditions_with_now_as_values_read_the_rows_that_are_due(more: str) -> None:
    shown = explain(
        plan(f"SELECT a.date < NOW() AS late, a.ts + INTERVAL 1 DAY < NOW() AS old{more} FROM msgs a", TABLES)
    )
    assert not [state for state in shown.states if state.reads_whole]
    assert not [note for note in shown.notes if "reads all" in note.text]


def test_a_null_safe_look_up_compares_the_column_of_the_table_with_the_keys() -> None:
    tables = {name: table(number, name, {"k": INT}) for number, name in enumerate(("s", "t"), 1)}
    views = {view.name: view.sql for view in explain(plan("SELECT a.k FROM s a, t b WHERE a.k <=> b.k", tables)).views}
    assert views["t__by_k"].endswith("FROM (SELECT k FROM s__news) AS _keys(k) WHERE t.k <=> _keys.k)")
