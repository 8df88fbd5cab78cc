"""What ``explain`` says of aggregates: their values, their input, what changes them, and the notes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from netnews import TABLES
from weft.algebra.relation import Grouped
from weft.algebra.traverse import range_variables
from weft.derivation.stateful import states, written
from weft.planning.explain import Explanation, asked_once, explain
from weft.planning.form import signature
from weft.planning.how_many import TableExtent, how_many
from weft.planning.plan import Plan, plan, planned
from weft.planning.state_causes import all_states
from weft.planning.summary import summary

COUNTS = "SELECT newsgroup, COUNT(*) AS n FROM msgs AS m WHERE sender = 'a' GROUP BY newsgroup"
DAY = "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY newsgroup"
EXTENTS = {"msgs": TableExtent(1_000, 0, 864_000_000_000)}


def explained(text: str) -> Explanation:
    return explain(plan(text, TABLES))


def notes(text: str, level: str = "note") -> list[str]:
    return [note.text for note in explained(text).notes if note.level == level]


def test_a_state_has_the_names_of_the_text_and_equal_states_have_one_name() -> None:
    one, other = (plan(text, TABLES) for text in (COUNTS, COUNTS.replace(" m ", " posts ")))
    (state,), (again,) = states(one.standing), states(other.standing)
    assert state == again and state.name == again.name and state.names != again.names
    assert range_variables(written(state))[1:] == ("m",) and range_variables(written(again))[1:] == ("posts",)
    assert isinstance(state.operator, Grouped) and signature(one) == signature(other)


def test_the_range_variables_of_a_state_differ_whatever_the_tables_are_called() -> None:
    tables = {name: replace(TABLES["msgs"], id=number, name=name) for number, name in enumerate(("m", "M2", "d1"), 1)}
    text = (
        "SELECT COUNT(*) AS n FROM m AS a JOIN m AS b ON b.inreplyto = a.msgid JOIN M2 AS c ON c.msgid = b.msgid "
        "JOIN d1 AS d ON d.msgid = c.msgid JOIN (SELECT DISTINCT sender FROM m) AS e ON e.sender = d.sender"
    )
    (state,) = states(plan(text, tables).standing)
    names = [name.lower() for name in range_variables(state.operator)]
    assert len(set(names)) == len(names) == len(state.names) >= 5


def test_an_input_is_described_with_its_conditions_though_queries_share_the_state() -> None:
    found = summary(plan(COUNTS, TABLES))
    assert found.when == ("COUNT(*) of a group of msgs (as m, GROUP BY m.newsgroup) takes a new value",)
    assert found.inside == (
        "COUNT(*) is over rows with m.sender = 'a'",
        "COUNT(*) changes when a row of msgs (as m) arrives",
    )


@pytest.mark.parametrize("join", ["LEFT", "FULL"])
def test_columns_of_an_outer_join_have_the_names_of_its_sides(join: str) -> None:
    text = f"SELECT MAX(m.sender) AS s, COUNT(*) AS n FROM msgs m {join} JOIN users u ON u.name = m.sender"
    assert summary(plan(text, TABLES)).when == (
        "MAX(m.sender) or COUNT(*) over msgs (as m) and users (as u) takes a new value",
    )


def test_thresholds_inside_a_state_make_answers_appear_by_time_alone() -> None:
    found = summary(plan(DAY, TABLES))
    assert found.arriving and found.time == ("1 day after msgs.ts has passed",)
    assert found.inside[1] == "COUNT(*) changes when a row of msgs arrives, or 1 day after msgs.ts has passed"
    assert explain(plan(DAY, TABLES)).time_driven


def test_aggregates_that_change_with_now_have_the_names_of_the_text() -> None:
    text = (
        "SELECT m.newsgroup, COUNT_IF(m.ts > NOW() - INTERVAL 1 DAY) AS n, "
        "SUM(CASE WHEN m.ts < NOW() - INTERVAL 2 DAYS THEN 2 ELSE 1 END) AS s FROM msgs m GROUP BY m.newsgroup"
    )
    day, two = "CASE WHEN NOW() < m.ts + 1 day THEN 1 END", "NOW() > m.ts + 2 days THEN 2"
    (found,) = summary(plan(text, TABLES)).when
    assert found.startswith(f"COUNT({day}) or SUM(CASE WHEN {two} WHEN ")
    assert found.endswith("of a group of msgs (as m, GROUP BY m.newsgroup) takes a new value")
    own = "SELECT COUNT(cases.a) AS n FROM (SELECT sender AS a FROM msgs UNION ALL SELECT name FROM users) AS cases"
    assert summary(plan(own, TABLES)).when == ("COUNT(cases.a) over msgs and users takes a new value",)


def test_columns_of_derived_tables_keep_their_names() -> None:
    text = (
        "SELECT m.msgid FROM msgs m JOIN (SELECT inreplyto AS id, COUNT(*) AS n, MAX(ts) AS latest FROM msgs "
        "GROUP BY inreplyto) AS r ON r.id = m.msgid WHERE r.n > 5 AND NOW() > r.latest + INTERVAL 1 DAY"
    )
    found = summary(plan(text, TABLES))
    assert found.holding == ("r.id = m.msgid and r.n > 5", "NOW() > r.latest + 1 day")
    assert found.time == ("more than 1 day has passed since r.latest",)


RANK = "RANK() OVER (PARTITION BY newsgroup ORDER BY subject)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COUNTS, "at most 1,000, one for each row of msgs (100 a day over 10 days)"),
        (DAY, "at most 2,000, two for each row of msgs (100 a day over 10 days)"),
        ("SELECT COUNT(*) AS n FROM msgs", "at most 1,001, one for each row of msgs (100 a day over 10 days)"),
        ("SELECT MAX(n) AS n FROM (SELECT COUNT(*) AS n FROM msgs GROUP BY sender) AS g", "`weft try` counts them"),
        ("SELECT msgid FROM msgs ORDER BY LENGTH(subject) LIMIT 5", "at most 1,000, one for each row of msgs"),
        (f"SELECT msgid FROM msgs QUALIFY {RANK} <= 3", "at most 1,000, one for each row of msgs"),
        (
            f"SELECT msgid, {RANK} AS r FROM msgs",
            "`weft try` counts them, `weft backtest` lists them (msgs: 1,000 rows",
        ),
        (f"SELECT msgid FROM (SELECT msgid, {RANK} + 1 AS r, 2 AS c FROM msgs) t WHERE r > c", "at most 1,000, one"),
    ],
)
def test_the_number_of_answers_follows_the_rows_that_change_a_group(text: str, expected: str) -> None:
    counted = how_many(summary(plan(text, TABLES)), EXTENTS)
    assert counted is not None and counted.startswith(f"Answers so far: {expected}")


def test_a_query_with_values_shows_how_to_get_one_answer() -> None:
    (values,) = [text for text in notes(f"{COUNTS} HAVING COUNT(*) > 3") if "some instant" in text]
    assert values.endswith("leave the value out: SELECT m.newsgroup … HAVING COUNT(*) > 3")
    once = "SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 3"
    assert not any("some instant" in text for text in notes(once))
    hours = "SELECT DATE_TRUNC('hour', ts) AS h, COUNT(*) AS n FROM msgs GROUP BY DATE_TRUNC('hour', ts)"
    assert any(
        text.endswith("add HAVING NOW() >= DATE_TRUNC('HOUR', msgs.ts) + INTERVAL 1 HOUR") for text in notes(hours)
    )
    windows = "SELECT window.start AS s, COUNT(*) AS n FROM msgs GROUP BY WINDOW(ts, '10 minutes')"
    advice = "HAVING window.end <= NOW()"
    assert any(text.endswith(f"add {advice}") for text in notes(windows))
    sliding = windows.replace("'10 minutes'", "'10 minutes', '5 minutes'")
    for each in (windows, sliding):
        assert any(note.line.endswith(f"For final values: {advice}") for note in explained(each).notes)
        assert explained(f"{each} {advice}").time_driven
    final = explained(f"{windows} {advice}")  # the advice stands, and is not repeated
    assert final.time_driven and not any("final values" in note.text for note in final.notes)


def test_a_tick_that_reads_a_whole_table_for_an_aggregate_is_warned_of() -> None:
    assert not notes(COUNTS, "warning") and not notes("SELECT COUNT(*) AS n FROM msgs", "warning")
    (dear,) = notes("SELECT COUNT(DISTINCT sender) AS d FROM msgs", "warning")
    assert "the aggregates over msgs reads all of msgs" in dear
    (named,) = notes("SELECT COUNT(DISTINCT sender) AS d FROM msgs GROUP BY LOWER(sender)", "warning")
    assert "(GROUP BY LOWER(msgs.sender)) reads all of msgs" in named


def test_the_engine_of_a_state_follows_from_the_sizes_of_its_tables() -> None:
    found = explained("SELECT COUNT(DISTINCT sender) AS d FROM msgs GROUP BY sender RLIKE '^a$'")
    again = explained("SELECT COUNT(DISTINCT sender) AS d FROM msgs GROUP BY newsgroup")

    def engines(text: Explanation, rows: dict[str, int]) -> list[tuple[str | None, bool]]:
        sized = text.sized(rows)
        return [
            (state.steps[-1].engine, state.steps[-1].in_spark is not None)
            for state in (sized.states + sized.first_states)
        ]

    assert engines(again, {}) == [("DuckDB", True), ("DuckDB", True)]
    assert engines(again, {"msgs": 400_000}) == [("DuckDB", False), ("DuckDB", False)]
    # The first delivery reads all rows, and a tick looks up the groups that change.
    assert engines(again, {"msgs": 10_000_001}) == [("DuckDB", True), ("Spark", False)]
    in_spark = again.first_states[0].steps[-1].in_spark
    assert again.sized({"msgs": 10_000_001}).first_states[0].steps[-1].sql == in_spark
    assert in_spark != again.first_states[0].steps[-1].sql
    assert engines(found, {}) == engines(found, {"msgs": 7}) == [("Spark", False), ("Spark", False)]


def test_states_inside_states_come_first() -> None:
    text = "SELECT MAX(n) AS most FROM (SELECT newsgroup, COUNT(DISTINCT sender) AS n FROM msgs GROUP BY newsgroup) g"
    found = explained(text)
    assert [each.rows for each in found.states] == [
        "groups of msgs (GROUP BY msgs.newsgroup)",
        "groups of msgs (GROUP BY msgs.newsgroup)",
        "aggregates over msgs",
    ]
    assert [each.how for each in found.states][:2] == [
        "the groups that change in the window",
        "all groups, from the tables",
    ]
    assert len(all_states(plan(text, TABLES).evaluated)) == 2


@pytest.mark.parametrize("text", [COUNTS, DAY, "SELECT COUNT(DISTINCT sender) AS d FROM msgs GROUP BY newsgroup"])
def test_every_view_of_a_step_is_defined_before_it(text: str) -> None:
    defined = {*TABLES, "before_"}
    (state,) = explained(text).states
    for step in state.steps:
        read = set(re.findall(r"(?<!DISTINCT )(?:FROM|JOIN) (\w+)", step.sql))
        assert read <= defined | set(re.findall(r"(\w+) AS MATERIALIZED", step.sql)), step.sql
        defined.add(step.name)
    assert state.steps[-1].name == state.name and state.views == (f"{state.name}__news",)


def test_a_condition_on_months_inside_an_aggregate_is_explained() -> None:
    found = explained(DAY.replace("1 DAY", "1 MONTH"))
    assert found.time_driven and found.states
    assert found.summary.inside == (
        "COUNT(*) is over rows with msgs.ts > NOW() - INTERVAL 1 MONTH",
        "COUNT(*) changes when a row of msgs arrives, or msgs.ts > NOW() - INTERVAL 1 MONTH becomes true or false",
    )
    assert found.summary.time == ("msgs.ts > NOW() - INTERVAL 1 MONTH becomes true or false",)
    assert not any("reads all" in each.text for each in found.notes)


@pytest.mark.parametrize(
    ("condition", "holding"),
    [
        ("MAX(r.ts)", "MAX(r.ts) < NOW() - INTERVAL 1 MONTH"),
        ("COUNT(*)", "r.inreplyto = m.msgid and COUNT(*) < 2, or there is no row among the groups of"),
        ("MAX(r.ts)", "r.inreplyto = m.msgid and MAX(r.ts) IS NULL, or there is no row among the groups of"),
    ],
)
def test_a_correlated_subquery_has_the_names_of_the_text(condition: str, holding: str) -> None:
    compared = next(words for words in ("< NOW() - INTERVAL 1 MONTH", "< 2", "IS NULL") if words in holding)
    inner = f"(SELECT {condition} FROM msgs AS r WHERE r.inreplyto = m.msgid)"
    found = explained(f"SELECT m.msgid FROM msgs AS m WHERE {inner} {compared}")
    assert any(holding in clause for clause in found.summary.holding)
    said = [*found.summary.lines, *(branch.why for branch in (*found.first, *found.later))]
    assert not any("grouped" in line or "CAST(NULL" in line for line in said)


def test_a_condition_and_its_negation_turn_together() -> None:
    found = explained("SELECT COUNT(*) FILTER (WHERE ts <= NOW() - INTERVAL 1 YEAR) AS n FROM msgs")
    assert found.summary.time == ("msgs.ts > NOW() - INTERVAL 1 YEAR becomes true or false",)


def test_a_query_that_is_tried_has_the_states_at_the_instant() -> None:
    found = asked_once(plan(COUNTS, TABLES))
    (state,) = found.states
    assert state.how == "all groups, from the tables" and state.views == (state.name,)
    assert f"FROM {state.name} AS" in found.selects[0] and "grouped._from <= :t\n" in found.selects[0]
    assert "MICROSECOND" not in found.selects[0] and "msgs.ts < (:t + INTERVAL '1' MICROSECOND)" in state.steps[-1].sql
    assert asked_once(plan("SELECT msgid FROM msgs WHERE date > NOW()", TABLES)).selects == (
        "SELECT msgs.msgid AS c1, :t AS _first_at\n  FROM msgs\n  WHERE msgs.ts <= :t\n    AND :t < msgs.`date`",
    )


def test_a_plan_from_the_catalog_has_the_names_of_its_query() -> None:
    compiled: Plan = planned(plan(COUNTS, TABLES).query)
    assert summary(compiled).inside == summary(plan(COUNTS, TABLES)).inside


def test_a_row_with_nulls_of_a_chain_of_outer_joins_is_warned_of() -> None:
    joins = ("users u ON u.name = m.sender", "reminders r ON r.text = m.msgid", "users z ON z.name = m.subject")
    text = f"SELECT m.msgid, u.age, r.id, z.age AS other FROM msgs m LEFT JOIN {' LEFT JOIN '.join(joins)}"
    warned = notes(text, "warning")
    assert any("the join of msgs (as m) and users (as u)" in each and "from users" in each for each in warned)


@pytest.mark.parametrize(
    "text",
    (
        "SELECT subject FROM msgs EXCEPT ALL SELECT subject FROM msgs WHERE sender = 'a'",
        "SELECT subject, sender FROM msgs INTERSECT ALL SELECT subject, sender FROM msgs",
        "WITH n AS (SELECT sender, COUNT(*) AS c FROM msgs GROUP BY sender) SELECT sender FROM n "
        "WHERE c > (SELECT AVG(c) FROM n)",
        "SELECT MAX(n) AS most FROM (SELECT sender, COUNT(*) AS n FROM msgs GROUP BY sender)",
        "SELECT subject FROM msgs EXCEPT ALL SELECT 'a' FROM users",
    ),
)
def test_names_that_the_text_does_not_have_are_not_shown(text: str) -> None:
    said = repr(explained(text).brief)
    assert "answer." not in said and "answer_right." not in said and "sub." not in said
    assert "derived." not in said


@pytest.mark.parametrize(
    ("operand", "key"),
    [
        ("SELECT sender FROM msgs EXCEPT ALL SELECT msgid FROM msgs", "msgs_right.sender"),
        ("SELECT s FROM (SELECT sender AS s FROM msgs EXCEPT ALL SELECT msgid FROM msgs) AS lim", "lim.s"),
        ("SELECT s FROM (SELECT sender AS s FROM msgs EXCEPT ALL SELECT msgid FROM msgs) AS answer", "answer.s"),
    ],
)
def test_nested_operands_have_the_names_of_the_text(operand: str, key: str) -> None:
    found = explained(f"SELECT newsgroup FROM msgs EXCEPT ALL ({operand})")
    words = [*found.summary.when, *found.summary.holding, *found.summary.inside, *(each.rows for each in found.states)]
    assert any(f"PARTITION BY {key})" in each for each in words)
    assert not any(wrong in each for each in words for wrong in ("answer_right", "lim_right", "right_right_right"))


@pytest.mark.parametrize("name", ["derived", "answer", "sub", "answer_right", "d"])
def test_a_derived_table_has_the_name_of_the_text(name: str) -> None:
    text = f"SELECT {name}.g, COUNT(*) AS n FROM (SELECT newsgroup AS g FROM msgs) AS {name} GROUP BY {name}.g"
    assert any(f"GROUP BY {name}.g" in each for each in explained(text).summary.when)
    shared = f"WITH {name} AS (SELECT newsgroup AS g FROM msgs) SELECT g, COUNT(*) AS n FROM {name} GROUP BY g"
    assert any(f"GROUP BY {name}.g" in each for each in explained(shared).summary.when)
