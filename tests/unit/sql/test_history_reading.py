"""FOR SYSTEM_TIME in FROM: what it means on DuckDB, against SQL:2011's words, and where it is refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from netnews import TABLES
from weft.algebra.scalar import Literal
from weft.algebra.schema import INT, STRING, TIMESTAMP, Column, TableSchema
from weft.errors import SqlError
from weft.planning.plan import at_instant, plan, standing_plan
from weft.sql.dialects.duckdb_dialect import MACROS, local_text
from weft.sql.lower.query import bind_view

STAFF = TableSchema(
    1,
    "staff",
    tuple(
        Column(number, name, kind)
        for number, (name, kind) in enumerate(
            [("id", INT), ("dept", STRING), ("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP)], 1
        )
    ),
    "valid_from",
    "valid_to",
)
ROOMS = TableSchema(
    2,
    "rooms",
    tuple(
        Column(number, name, kind)
        for number, (name, kind) in enumerate(
            [("id", INT), ("room", STRING), ("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP)], 1
        )
    ),
    "valid_from",
    "valid_to",
)
TRACKED = {"staff": STAFF, "rooms": ROOMS}
DAY = 86_400_000_000
ROWS = [(1, "R", 1, 5), (1, "D", 5, None), (2, "R", 2, 4), (2, "R", 6, 7), (3, "S", 3, None)]


def at(day: int) -> str:
    return f"TIMESTAMP '1970-01-{day + 1:02d}'"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        for head, meaning in MACROS.items():
            found.execute(f"CREATE MACRO {head} AS {meaning}")
        found.execute("CREATE TABLE staff (id INT, dept TEXT, valid_from TIMESTAMP, valid_to TIMESTAMP)")
        found.execute("CREATE TABLE rooms (id INT, room TEXT, valid_from TIMESTAMP, valid_to TIMESTAMP)")
        for id_, dept, begin, end in ROWS:
            end_text = "NULL" if end is None else at(end)
            found.execute(f"INSERT INTO staff VALUES ({id_}, '{dept}', {at(begin)}, {end_text})")
            found.execute(f"INSERT INTO rooms VALUES ({id_}, 'r{begin}', {at(begin)}, {end_text})")
        yield found


def asked(connection: duckdb.DuckDBPyConnection, text: str, now: int = 20) -> set[tuple[object, ...]]:
    query = plan(text, TRACKED).query
    rows: set[tuple[object, ...]] = set()
    for branch in at_instant(query, Literal(now * DAY, TIMESTAMP, fixed=True)):
        rows |= {row[:-1] for row in connection.execute(local_text(branch.sql)).fetchall()}
    return rows


def test_the_present_is_read_by_default(connection: duckdb.DuckDBPyConnection) -> None:
    assert asked(connection, "SELECT * FROM staff") == {(1, "D"), (3, "S")}


@pytest.mark.parametrize("day", range(9))
def test_as_of_is_what_held_at_that_instant(connection: duckdb.DuckDBPyConnection, day: int) -> None:
    held = {(id_, dept) for id_, dept, begin, end in ROWS if begin <= day and (end is None or day < end)}
    assert asked(connection, f"SELECT * FROM staff FOR SYSTEM_TIME AS OF {at(day)}") == held
    assert asked(connection, f"SELECT * FROM staff FOR SYSTEM_TIME AS OF '1970-01-{day + 1:02d}' AS s") == held
    back = f"SELECT s.* FROM staff FOR SYSTEM_TIME AS OF NOW() - INTERVAL {20 - day} DAYS s"
    assert asked(connection, back) == held


@pytest.mark.parametrize("first", range(8))
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_stretch_of_time_has_what_held_at_some_instant_of_it(
    connection: duckdb.DuckDBPyConnection, first: int, length: int
) -> None:
    last = first + length
    held = {
        (i, d, b, e) for i, d, b, e in ROWS if any(b <= day and (e is None or day < e) for day in range(first, last))
    }
    met = {
        (i, d, b, e)
        for i, d, b, e in ROWS
        if any(b <= day and (e is None or day < e) for day in range(first, last + 1))
    }

    def days(rows: set[tuple[object, ...]]) -> set[tuple[object, ...]]:
        return {(i, d, *(None if t is None else t.day - 1 for t in times)) for i, d, *times in rows}  # type: ignore[attr-defined]

    text = f"SELECT * FROM staff FOR SYSTEM_TIME FROM {at(first)} TO {at(last)}"
    assert days(asked(connection, text)) == held
    closed = f"SELECT * FROM staff FOR SYSTEM_TIME BETWEEN {at(first)} AND {at(last)} AS s"
    assert days(asked(connection, closed)) == met
    ago = [f"NOW() - INTERVAL {20 - day} DAYS" for day in (first, last)]
    back = f"SELECT * FROM staff FOR SYSTEM_TIME FROM ({ago[0]}) TO {ago[1]}"
    assert days(asked(connection, back)) == held


def test_all_is_the_whole_history(connection: duckdb.DuckDBPyConnection) -> None:
    assert len(asked(connection, "SELECT * FROM staff FOR SYSTEM_TIME ALL")) == len(ROWS)


def test_each_table_may_have_an_instant_of_its_own(connection: duckdb.DuckDBPyConnection) -> None:
    text = f"""SELECT s.id, s.dept, r.room, r.valid_from FROM staff FOR SYSTEM_TIME AS OF {at(3)} AS s
        JOIN rooms FOR SYSTEM_TIME AS OF {at(6)} AS r ON r.id = s.id WHERE s.valid_to IS NOT NULL"""
    found = asked(connection, text)
    assert {row[:3] for row in found} == {(1, "R", "r5"), (2, "R", "r6")}
    gone = f"SELECT id FROM staff FOR SYSTEM_TIME AS OF {at(3)} EXCEPT SELECT id FROM staff"
    assert asked(connection, gone) == {(2,)}
    never = f"""SELECT id FROM staff s WHERE NOT EXISTS
        (SELECT 1 FROM staff FOR SYSTEM_TIME FROM {at(0)} TO {at(3)} b WHERE b.id = s.id)"""
    assert asked(connection, never) == {(3,)}
    semi = f"SELECT id FROM staff s LEFT SEMI JOIN staff FOR SYSTEM_TIME AS OF {at(2)} b ON b.id = s.id"
    assert asked(connection, semi) == {(1,)}
    named = f"SELECT b FROM staff FOR SYSTEM_TIME AS OF {at(2)} AS s(a, b) WHERE a = 2"
    assert asked(connection, named) == {("R",)}
    stretch = f"SELECT c FROM staff FOR SYSTEM_TIME FROM {at(2)} TO {at(3)} AS s(a, b, c, d) WHERE a = 2"
    assert [row[0].day for row in asked(connection, stretch)] == [3]  # type: ignore[attr-defined]


def test_a_stretch_that_is_empty_at_this_now_has_no_row(connection: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT id FROM staff FOR SYSTEM_TIME FROM {at(8)} TO NOW()"
    assert asked(connection, text, now=9) == {(1,), (3,)}
    assert asked(connection, text, now=7) == set()


def test_append_only_tables_can_be_read_as_of_an_instant() -> None:
    text = plan("SELECT msgid FROM msgs FOR SYSTEM_TIME AS OF '2020-01-01'", TABLES).text
    assert "FOR SYSTEM_TIME ALL" in text and "ts <=" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id FROM staff FOR VERSION AS OF 3", "name the version"),
        ("SELECT id FROM staff FOR SYSTEM_TIME AS OF valid_from", "the same for all rows"),
        ("SELECT id FROM staff FOR SYSTEM_TIME AS OF (SELECT 1)", "the same for all rows"),
        ("SELECT id FROM staff FOR SYSTEM_TIME AS OF 5", "takes instants"),
        ("SELECT id FROM staff FOR SYSTEM_TIME AS OF 'soon'", "soon"),
        (f"SELECT id FROM staff FOR SYSTEM_TIME FROM {at(3)} TO {at(3)}", "from an instant to itself"),
        ("SELECT id FROM staff FOR SYSTEM_TIME FROM NOW() TO NOW() - INTERVAL 1 DAY", "no instant between the two"),
        (f"SELECT id FROM staff FOR SYSTEM_TIME CONTAINED IN ({at(3)}, {at(4)})", "not part of the language"),
        ("SELECT id FROM staff FOR SYSTEM_TIME AS OF", "names no instant"),
        ("SELECT id FROM staff FOR SYSTEM_TIME FROM NOW() TO", "names no instant"),
        ("WITH w AS (SELECT id FROM staff) SELECT id FROM w FOR SYSTEM_TIME AS OF '2020-01-01'", "name of WITH"),
    ],
)
def test_unsupported_constructs_have_a_reason(text: str, said: str) -> None:
    with pytest.raises(SqlError) as refused:
        plan(text, TRACKED)
    assert said in str(refused.value)


def test_an_interval_before_to_is_asked_for_in_parentheses() -> None:
    with pytest.raises(SqlError) as refused:
        plan("SELECT id FROM staff FOR SYSTEM_TIME FROM NOW() - INTERVAL 2 DAYS TO NOW()", TRACKED)
    assert "in parentheses" in str(refused.value.hint)


def test_an_alias_before_it_is_asked_for_behind_it() -> None:
    with pytest.raises(SqlError) as refused:
        plan("SELECT s.id FROM staff AS s FOR SYSTEM_TIME ALL", TRACKED)
    assert "before its alias" in str(refused.value.hint)


def test_nothing_that_stands_reads_another_instant() -> None:
    text = "SELECT id FROM staff FOR SYSTEM_TIME AS OF '2020-01-01'"
    with pytest.raises(SqlError) as refused:
        standing_plan(text, TRACKED)
    assert "evaluates the query at every instant" in str(refused.value) and "weft try" in str(refused.value.hint)
    with pytest.raises(SqlError) as refused:
        bind_view(text, TRACKED)
    assert "in a view" in str(refused.value) and "PERIOD_START(staff)" in str(refused.value.hint)
