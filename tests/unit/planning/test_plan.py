"""A plan's branches for one query and for many, the answer at an instant, and the stored form of a value."""

from __future__ import annotations

import pytest

from netnews import TABLES, USERS
from weft.algebra.access import DeltaScan
from weft.algebra.calendar import DAY
from weft.algebra.relation import Scan
from weft.algebra.scalar import ColumnRef, Literal
from weft.algebra.schema import TIMESTAMP, DataType
from weft.algebra.traverse import thresholds
from weft.errors import SqlError
from weft.planning.plan import at_instant, columns_read, encoded, for_many, for_one, parameter_table, plan
from weft.planning.state_causes import all_states
from weft.planning.state_plan import state_deltas, state_rows

YOUNG = "SELECT name FROM users WHERE age < 30 AND name <> 'anna'"
S = Literal(1_000_000, TIMESTAMP)


def test_the_parameter_table_has_a_row_a_query_that_begins_with_its_tau() -> None:
    table = parameter_table(7, plan(YOUNG, TABLES).shape)
    assert (table.id, table.name, table.start) == (0, "parameters__7", "tau")
    assert [(c.id, c.name, str(c.type)) for c in table.columns] == [
        (1, "query_id", "BIGINT"),
        (2, "tau", "TIMESTAMP"),
        (3, "p1", "INT"),
        (4, "p2", "STRING"),
    ]


def test_one_branch_serves_all_queries_of_a_plan() -> None:
    shape = plan(YOUNG, TABLES).shape
    branch = for_many(shape.branches[0], parameter_table(7, shape), {"t": S}, whole=False)
    assert branch.sql.splitlines() == [
        "SELECT _p.query_id AS _query_id, t1.`name` AS c1, t1.ts AS _first_at",
        "  FROM users__news AS t1, parameters__7 AS _p",
        "  WHERE _p.tau <= t1.ts",
        "    AND t1.ts < TIMESTAMP '1970-01-01 00:00:01.000000+00:00'",
        "    AND t1.age < _p.p1",
        "    AND t1.`name` <> _p.p2",
    ]
    assert [output.name for output in branch.outputs] == ["_query_id", "c1"]
    assert columns_read([branch]) == {"users": {"name", "age", "ts"}, "parameters__7": {"query_id", "tau", "p1", "p2"}}
    whole = for_many(shape.first[0], parameter_table(7, shape), {"t": S}, whole=True)
    assert "FROM users AS t1, parameters__7 AS _p" in whole.sql


def test_two_queries_of_one_plan_keep_their_constants_and_windows() -> None:
    zero, negative = (plan(f"SELECT name FROM users WHERE age > {text}", TABLES) for text in ("0e0", "-0e0"))
    (event,) = zero.branches
    for found, text in ((zero, "'0.0'"), (negative, "'-0.0'"), (zero, "'0.0'")):
        assert text in for_one(event, found.values, {}, whole=False).sql
    later = Literal(2_000_000, TIMESTAMP)
    for at, second in ((S, "01"), (later, "02"), (S, "01")):
        assert f"users.ts < TIMESTAMP '1970-01-01 00:00:{second}" in for_one(event, zero.values, {"t": at}, False).sql


def test_the_answer_at_an_instant_is_asked_of_whole_tables() -> None:
    found = at_instant(plan("SELECT name FROM users UNION SELECT name FROM staff", TABLES).query, S)
    assert [branch.sql.splitlines()[1:] for branch in found] == [
        ["  FROM users", "  WHERE users.ts <= TIMESTAMP '1970-01-01 00:00:01.000000+00:00'"],
        [
            "  FROM staff",
            "  WHERE staff.ts <= TIMESTAMP '1970-01-01 00:00:01.000000+00:00'",
            "    AND (staff.`until` IS NULL OR TIMESTAMP '1970-01-01 00:00:01.000000+00:00' < staff.`until`)",
        ],
    ]
    assert all(path.view == path.table for branch in found for path in branch.paths.values())


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ("name", "users.`name`"),
        ("ts", "CAST(UNIX_MICROS(users.ts) AS STRING)"),
        ("born", "CAST(UNIX_DATE(users.born) AS STRING)"),
        ("age", "CAST(CAST(users.age AS BIGINT) AS STRING)"),
        ("active", "CAST(CAST(users.active AS BOOLEAN) AS STRING)"),
    ],
)
def test_a_value_is_stored_as_a_string_without_loss(column: str, stored: str) -> None:
    assert encoded(Scan(USERS, "users").ref(column)) == stored


def test_bytes_are_stored_in_base_64_and_decimals_at_their_own_width() -> None:
    assert encoded(ColumnRef("t", "b", DataType("BINARY"))) == "BASE64(t.b)"
    assert encoded(ColumnRef("t", "d", DataType("DECIMAL", 5, 2))) == "CAST(CAST(t.d AS DECIMAL(5,2)) AS STRING)"


def test_what_comes_to_too_much_is_refused_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT u.name FROM users u, staff s WHERE u.name = s.name"
    monkeypatch.setattr("weft.planning.plan.MOST_SOURCES", 4)
    assert len(plan(text, TABLES).branches) == 2
    monkeypatch.setattr("weft.planning.plan.MOST_SOURCES", 3)
    with pytest.raises(SqlError) as refused:
        plan(text, TABLES)
    assert refused.value.message == (
        "the SQL that Weft derives from the query names 4 tables, but at most 3 are allowed: each table and each "
        "comparison with NOW() adds a branch that reads all other tables, and NOT EXISTS adds more with each level of "
        "nesting"
    )
    assert refused.value.hint == (
        "Split the query into several queries; a query can read the answers of another query FROM results.NAME."
    )


def test_the_news_of_many_queries_are_found_by_their_parameters() -> None:
    shape = plan("SELECT msgid FROM msgs WHERE NOW() >= ts + INTERVAL 4 WEEKS", TABLES).shape
    branch = for_many(shape.branches[0], parameter_table(7, shape), {"t": S}, whole=False)
    assert branch.paths["t1"].view == "msgs__news"
    assert [str(path.view) for alias, path in branch.paths.items() if alias == "_p"] == ["parameters__7"]


def test_too_many_alternatives_below_an_aggregate_are_refused_before_a_tick() -> None:
    ors = " AND ".join(f"(ts > NOW() - INTERVAL {n} DAYS OR date > NOW() - INTERVAL {n} DAYS)" for n in range(1, 8))
    with pytest.raises(SqlError) as refused:
        plan(f"SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE {ors} GROUP BY newsgroup", TABLES)
    assert "the ORs below an aggregate multiply out to 128 alternatives" in str(refused.value)
    assert refused.value.hint is not None and "Split the query" in refused.value.hint


@pytest.mark.parametrize("unit", ["MONTH", "QUARTER", "YEAR"])
@pytest.mark.parametrize("now", ["NOW()", "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin')"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE {} < ts GROUP BY newsgroup",
        "SELECT newsgroup, COUNT(*) FILTER (WHERE ts > {}) AS n FROM msgs GROUP BY newsgroup",
        "SELECT newsgroup, COUNT_IF(ts >= {}) AS a, COUNT_IF(ts >= NOW() - INTERVAL 1 YEAR) AS b FROM msgs "
        "GROUP BY newsgroup",
        "SELECT newsgroup, SUM(CASE WHEN ts > {} THEN 1 ELSE 2 END) AS n FROM msgs GROUP BY newsgroup",
        "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > {} OR date <= {} GROUP BY newsgroup",
        "SELECT MAX(n) AS most FROM (SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE {} < ts GROUP BY newsgroup) AS c",
    ],
)
def test_a_condition_on_months_has_few_lives_below_an_aggregate(text: str, now: str, unit: str) -> None:
    found = plan(text.replace("{}", f"{now} - INTERVAL 1 {unit}"), TABLES)
    (state, *_) = (each for each in all_states(found.evaluated) if any(thresholds(each.operator)))
    rows = state_rows(state, None).input
    assert len(rows) <= 10
    deltas = state_deltas(state)
    assert (
        deltas is not None and all(isinstance(path, DeltaScan) for path in deltas.paths) and len(deltas.sql) < 400_000
    )
    if "date" not in text:
        assert all(path.shift.micros + path.slack < 400 * DAY for path in deltas.paths if isinstance(path, DeltaScan))
