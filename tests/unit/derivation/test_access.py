"""How branches reach their tables: news, look-ups, or whole."""

from __future__ import annotations

import pytest

from netnews import TABLES, table
from weft.algebra.access import DeltaScan, FullScan, Key, Lookup
from weft.algebra.schema import BIGINT, DATE, STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.catalog.naming import table_name
from weft.derivation.access_paths import keyless
from weft.derivation.stateful import states
from weft.errors import Refused
from weft.planning.plan import Branch, columns_read, for_many, for_one, parameter_table, plan
from weft.planning.state_plan import Keys, is_due, state_rows
from weft.planning.view_text import view_texts

HOUR = 3_600_000_000


def branches(text: str, *, whole: bool = False, from_now: bool = False) -> list[Branch]:
    found = plan(text, TABLES, from_now=from_now)
    return [for_one(event, found.values, {}, whole) for event in found.branches]


def views(branch: Branch) -> dict[str, str]:
    return {alias: path.view for alias, path in branch.paths.items()}


def test_the_drivers_rows_are_the_news_and_the_others_are_looked_up() -> None:
    chain = branches("SELECT a.msgid FROM msgs a, msgs b, msgs c WHERE b.inreplyto = a.msgid AND c.inreplyto = b.msgid")
    assert views(chain[0]) == {"a": "msgs__news", "b": "msgs__by_inreplyto", "c": "msgs__by2_inreplyto"}
    assert views(chain[2]) == {"c": "msgs__news", "b": "msgs__by_msgid", "a": "msgs__by2_msgid"}


def test_a_null_safe_equality_is_looked_up_after_the_others() -> None:
    text = "SELECT a.msgid FROM msgs a, msgs b WHERE b.sender <=> a.sender"
    (path,) = (each for each in branches(text)[0].paths.values() if isinstance(each, Lookup))
    assert (path.view, path.null_safe) == ("msgs__by_sender", True)
    (path,) = (
        each for each in branches(f"{text} AND b.inreplyto = a.msgid")[0].paths.values() if isinstance(each, Lookup)
    )
    assert (path.view, path.null_safe) == ("msgs__by_inreplyto", False)


def test_groups_are_looked_up_even_if_null_is_among_the_touched_keys() -> None:
    (state,) = states(plan("SELECT sender, MEDIAN(LENGTH(body)) AS n FROM msgs GROUP BY sender", TABLES).standing)
    for null in (False, True):
        paths = state_rows(state, Keys((0,), (STRING,), (null,))).paths.values()
        assert [path.null_safe for path in paths if isinstance(path, Lookup)] == [null]
        assert not [path for path in paths if isinstance(path, FullScan)]


def test_a_threshold_on_a_column_has_its_own_window() -> None:
    (branch,) = branches("SELECT msgid FROM msgs WHERE NOW() > ts + INTERVAL 4 WEEKS")
    (path,) = branch.paths.values()
    assert isinstance(path, DeltaScan)
    assert (path.column, path.shift.micros) == ("ts", 4 * 7 * 86_400_000_000 + 1)


def test_a_threshold_that_is_rounded_has_a_window_that_is_wider() -> None:
    found = branches("SELECT msgid FROM msgs WHERE CURRENT_DATE > ts + INTERVAL 1 HOUR")
    (path,) = next(branch for branch in found if branch.event.driver.kind == "now_from").paths.values()
    assert isinstance(path, DeltaScan)
    assert (path.column, path.shift.micros, path.slack) == ("ts", 25 * HOUR, 24 * HOUR)


@pytest.mark.parametrize(
    ("condition", "micros"),
    [
        ("born < NOW() - INTERVAL 10 DAYS", 10 * 24 * HOUR + 1),
        ("CURRENT_DATE > born", 24 * HOUR),
        ("CURRENT_DATE >= DATE_ADD(born, 7)", 7 * 24 * HOUR),
        ("DATE_SUB(born, 2) <= NOW()", -2 * 24 * HOUR),
    ],
)
def test_a_threshold_on_a_date_has_a_window_of_instants(condition: str, micros: int) -> None:
    found = branches(f"SELECT name FROM users WHERE {condition}")
    (path,) = next(branch for branch in found if branch.event.driver.kind == "now_from").paths.values()
    assert isinstance(path, DeltaScan)
    assert (path.column, path.shift.micros, path.slack, path.shift.base.type) == ("born", micros, 0, DATE)


def test_a_threshold_on_a_column_of_a_group_has_its_window() -> None:
    found = branches(
        "SELECT sender, MAX(date) AS d FROM msgs GROUP BY sender HAVING MAX(date) < NOW() - INTERVAL 1 HOUR"
    )
    paths = {branch.event.driver.kind: path for branch in found for path in branch.paths.values()}
    due, news = paths["now_from"], paths["arrival"]
    assert isinstance(due, DeltaScan) and isinstance(news, DeltaScan)
    assert (due.column, due.shift.micros) == ("d", HOUR + 1)
    assert is_due(due) and not is_due(news) and due.view == news.view


def test_an_interval_of_a_row_has_no_window() -> None:
    """ts + days * 1 day: no one window of ts holds the rows whose hour has come."""
    found = branches("SELECT a.id FROM announcements a, users u WHERE NOW() >= a.ts + INTERVAL 1 DAY * u.age")
    timed = next(branch for branch in found if branch.event.driver.kind == "now_from")
    assert all(isinstance(path, FullScan) for path in timed.paths.values())


def test_a_table_without_an_equality_is_read_whole_with_a_warning() -> None:
    found = branches("SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.name > m.sender)")
    assert keyless(found[0].paths) == ("u",)


def test_an_equality_between_types_or_under_or_is_no_key() -> None:
    found = branches("SELECT m.msgid FROM msgs m, users u WHERE u.name = m.sender OR u.name = m.msgid")
    assert all(len(keyless(branch.paths)) == 1 for branch in found)


def test_a_subquery_under_or_is_looked_up_by_its_own_condition() -> None:
    found = branches(
        "SELECT m.msgid FROM msgs m WHERE m.sender = 'a' OR EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)"
    )
    assert views(found[0])["r"] == "msgs__by_inreplyto"


def test_through_a_domain_the_key_of_the_row_outside_is_used() -> None:
    found = branches(
        "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid "
        "AND EXISTS (SELECT 1 FROM users u WHERE u.name = m.sender))"
    )
    path = found[0].paths["u"]
    assert isinstance(path, Lookup)
    assert (path.key, path.via_key) == (Key("name"), Key("sender"))


def test_the_first_delivery_reads_whole_tables() -> None:
    found = branches("SELECT a.msgid FROM msgs a, msgs b WHERE b.inreplyto = a.msgid", whole=True)
    assert all(isinstance(path, FullScan) for branch in found for path in branch.paths.values())


def test_the_parameter_table_is_read_whole_and_gives_no_window() -> None:
    found = plan("SELECT msgid FROM msgs WHERE newsgroup = 'a'", TABLES)
    table = parameter_table(3, found)
    branch = for_many(found.branches[0], table, {}, whole=False)
    assert views(branch) == {"msgs": "msgs__news", "_p": "parameters__3"}


def test_no_two_parts_have_a_view_of_one_name_and_none_has_a_table_s() -> None:
    """``x`` looked up in a second step, ``x_2`` in a first one, and the news of ``t`` beside a table ``t_news``."""
    tables = {name: table(n, name, {"x": STRING, "x_2": STRING}) for n, name in enumerate(("t", "t_news", "t_by_x"), 1)}
    text = "SELECT a.x FROM t a, t b, t c, t d, t_news e, t_by_x f WHERE a.x_2 = b.x_2 AND b.x = c.x AND a.x = d.x"
    found = plan(text, tables)
    read: dict[str, set[tuple[str, str | None, int]]] = {}
    for event in found.branches:
        for path in for_one(event, found.values, {}, False).paths.values():
            what = (path.table, getattr(path, "column", None), getattr(path, "step", 0))
            read.setdefault(path.view, set()).add(what)
    assert {view: len(parts) for view, parts in read.items()} == dict.fromkeys(read, 1)
    assert "t__by_x_2" in read and "t__by2_x" in read
    with pytest.raises(Refused):
        table_name("t__news")


INFO = DataType.of_column(
    "STRUCT<id: BIGINT, `a.b`: STRUCT<city: STRING>, score: DOUBLE, tags: ARRAY<STRUCT<id: BIGINT>>>"
)
NESTED = {
    "users": TableSchema(1, "users", (Column(1, "info", INFO), Column(2, "n", BIGINT), Column(3, "ts", TIMESTAMP))),
    "events": TableSchema(2, "events", (Column(1, "info", INFO), Column(2, "n", BIGINT), Column(3, "ts", TIMESTAMP))),
}


def looked_up(text: str) -> dict[str, tuple[str, str]]:
    """Map each view of the first branch to the keys of its look-up, or to nothing."""
    found = plan(text, NESTED)
    paths = for_one(found.branches[0], found.values, {}, False).paths.values()
    return {each.view: (each.key.name, each.via_key.name) if isinstance(each, Lookup) else ("", "") for each in paths}


@pytest.mark.parametrize(
    ("text", "view", "keys"),
    [
        ("SELECT e.n FROM events e, users u WHERE u.info.ID = e.n", "users__in_info.id", ("info.id", "n")),
        ("SELECT e.n FROM events e, users u WHERE u.n = e.info['id']", "users__by_n", ("n", "info.id")),
        (
            "SELECT e.n FROM events e WHERE NOT EXISTS "
            "(SELECT * FROM users u WHERE u.info.`a.b`.city = e.info.`a.b`.city)",
            "users__in_info.`a.b`.city",
            ("info.`a.b`.city", "info.`a.b`.city"),
        ),
        (
            "SELECT e.n FROM events e WHERE e.info.id IN (SELECT info.id FROM users)",
            "users__in_info.id",
            ("info.id",) * 2,
        ),
        ("SELECT e.n FROM events e LEFT JOIN users u ON u.info.id = e.info.id", "users__in_info.id", ("info.id",) * 2),
    ],
)
def test_a_field_of_a_struct_is_a_key(text: str, view: str, keys: tuple[str, str]) -> None:
    assert looked_up(text) == {"events__news": ("", ""), view: keys}


@pytest.mark.parametrize(
    "condition",
    [
        "u.info.id = e.n AND u.n = e.n",
        "u.n = e.n AND u.info.id = e.n",
        "u.info.id = e.n AND u.n <=> e.n",
        "u.n = e.info.id AND u.n = e.n",
    ],
)
def test_a_column_is_a_key_before_a_field(condition: str) -> None:
    found = looked_up(f"SELECT e.n FROM events e, users u WHERE {condition}")
    assert found == {"events__news": ("", ""), "users__by_n": ("n", "n")}


@pytest.mark.parametrize(
    "condition",
    ["u.info.score = e.info.score", "u.info.tags[0].id = e.n", "u.info.id + 1 = e.n", "ABS(u.info.id) = e.n"],
)
def test_other_parts_are_not_keys(condition: str) -> None:
    assert "users" in looked_up(f"SELECT e.n FROM events e, users u WHERE {condition}")


def test_groups_by_a_field_are_looked_up_by_it() -> None:
    text = "SELECT info.id AS id, MEDIAN(n) AS m FROM users GROUP BY info.id"
    (state,) = states(plan(text, NESTED).standing)
    (path,) = (
        each for each in state_rows(state, Keys((0,), (BIGINT,), (False,))).paths.values() if isinstance(each, Lookup)
    )
    assert (path.view, path.key, path.via_key) == ("users__in_info.id", Key("info", ("id",)), Key("k1"))


def test_the_sql_of_a_look_up_by_a_field_reads_it_as_the_branches_do() -> None:
    found = plan("SELECT e.n FROM events e, users u WHERE u.info.id = e.n", NESTED)
    branch = for_one(found.branches[0], found.values, {}, False)
    texts = {each.name: each.sql for each in view_texts(branch.paths.values(), columns_read([branch]))}
    field = f"FROM_JSON(info, '{INFO.json}').id"
    assert texts["users__in_info.id"].endswith(f"WHERE {field} IN (SELECT n FROM events__news)")
    assert field.replace("(info", "(u.info") in branch.sql
