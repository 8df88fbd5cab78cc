"""Tables of a real PostgreSQL server followed by logical decoding."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import forked
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.errors import ExtractionError, NotFound, Refused
from weft.storage.verify import verify

LATER = 4_000_000_000_000_000
Shop = Any


@pytest.fixture
def shop(postgresql: str) -> Iterator[Shop]:
    """A connection to the database, which has no table and no slot."""
    with psycopg.connect(postgresql, autocommit=True) as connection:
        yield connection
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
            connection.execute(f"DROP PUBLICATION {name}")
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


def rows(weft: Weft, name: str) -> set[tuple[str, ...]]:
    """The rows that are open."""
    return {row for row, _, end in history(weft, name) if end is None}


def follow(weft: Weft, uri: str, *tables: str, key: str = "id", **how: Any) -> None:
    for table in tables:
        weft.add_source(table, "changes", uri, key.split(","), table=table, **how)


def slots(shop: Shop) -> list[str]:
    return [name for (name,) in shop.execute("SELECT slot_name FROM pg_replication_slots").fetchall()]


def test_commits_are_recorded_with_their_times(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, name text); INSERT INTO staff VALUES (1, 'Ann'), (2, 'Ben')")
    shop.execute("CREATE TABLE dept (id int PRIMARY KEY, title text)")
    follow(weft, postgresql, "staff", "dept")
    first = weft.poll_source("staff", now=LATER)
    assert (first.began, first.open_rows) == (2, 2)
    assert weft.poll_source("staff", now=LATER).at is None
    with shop.transaction():
        shop.execute("UPDATE staff SET name = 'Anna' WHERE id = 1; INSERT INTO dept VALUES (7, 'Dev')")
        shop.execute("DELETE FROM staff WHERE id = 2; INSERT INTO staff VALUES (3, 'Coy')")
    shop.execute("UPDATE staff SET name = 'Anne' WHERE id = 1")
    shop.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)")
    done = weft.poll_feed("dept", now=LATER)
    assert [(each.name, each.began, each.ended, each.late) for each in done] == [("dept", 1, 0, 0), ("staff", 3, 3, 0)]
    ((_, at, _),) = history(weft, "dept")
    assert {row[1] for row, begin, _ in history(weft, "staff") if begin == at} == {"Anna", "Coy"}
    assert {row[1] for row, _, end in history(weft, "staff") if end == at} == {"Ann", "Ben"}
    assert rows(weft, "staff") == {("1", "Anne"), ("3", "Coy")}
    (committed,) = shop.execute("SELECT (extract(epoch FROM now()) * 1000000)::bigint").fetchone()
    assert committed - 60_000_000 < at < committed
    assert weft.poll_source("staff", now=LATER).at is None
    assert verify(weft.catalog) == []


def test_keys_that_change_and_tables_that_are_emptied(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, name text); INSERT INTO staff VALUES (1, 'Ann'), (2, 'Ben')")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    shop.execute("BEGIN; UPDATE staff SET id = 9 WHERE id = 1; UPDATE staff SET id = 1 WHERE id = 2; COMMIT")
    weft.poll_source("staff", now=LATER)
    assert rows(weft, "staff") == {("9", "Ann"), ("1", "Ben")}
    shop.execute(
        "BEGIN; INSERT INTO staff VALUES (4, 'Eve'); TRUNCATE staff; INSERT INTO staff VALUES (5, 'Fay'); COMMIT"
    )
    done = weft.poll_source("staff", now=LATER)
    assert (rows(weft, "staff"), done.ended, done.open_rows) == ({("5", "Fay")}, 2, 1)


def test_values_are_those_of_a_snapshot(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE DOMAIN flag AS bool")
    shop.execute(
        "CREATE TABLE item (id int PRIMARY KEY, price numeric(8, 2), n numeric, made timestamptz, local timestamp, "
        "day date, ok bool, f flag, raw bytea, x float8, j jsonb, u uuid, c char(4), a int[], i inet, k inet, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED)"
    )
    values = (
        "1.5, 2.250, '2026-01-01 01:00+01', '2026-01-01 02:00:00.5', '2026-01-02', true, false, '\\x00ff', 0.1, "
        "'{\"b\": [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ab', '{1,2}', '10.0.0.1', '::1/64'"
    )
    shop.execute(f"INSERT INTO item VALUES (1, {values})")
    follow(weft, postgresql, "item")
    weft.poll_source("item", now=LATER)
    shop.execute(f"INSERT INTO item VALUES (2, {values}); INSERT INTO item (id, x) VALUES (3, 'NaN')")
    weft.poll_source("item", now=LATER)
    result = {row[0]: row[1:] for row in rows(weft, "item")}
    assert result["1"] == result["2"]
    assert result["1"][:2] == ("1.50", "2.250") and result["3"][8] == "nan"


@pytest.mark.parametrize("full", [False, True])
def test_long_values_that_did_not_change_are_kept(weft: Weft, shop: Shop, postgresql: str, full: bool) -> None:
    shop.execute("CREATE TABLE page (id int PRIMARY KEY, n int, body text)")
    shop.execute("ALTER TABLE page ALTER body SET STORAGE EXTERNAL")
    if full:
        shop.execute("ALTER TABLE page REPLICA IDENTITY FULL")
    shop.execute("INSERT INTO page SELECT g, 0, repeat(g::text, 9000) FROM generate_series(1, 3) g")
    follow(weft, postgresql, "page")
    shop.execute("UPDATE page SET n = 1 WHERE id = 1")
    weft.poll_source("page", now=LATER)
    shop.execute(
        "UPDATE page SET n = 2; UPDATE page SET id = 7, n = 3 WHERE id = 2; UPDATE page SET n = 4 WHERE id = 7"
    )
    shop.execute("UPDATE page SET body = repeat('x', 9000) WHERE id = 3; UPDATE page SET n = 5 WHERE id = 3")
    shop.execute("INSERT INTO page VALUES (2, 0, 'short'); INSERT INTO page VALUES (8, 0, repeat('8', 9000))")
    shop.execute("UPDATE page SET n = 9 WHERE id = 8")
    weft.poll_source("page", now=LATER)
    bodies = {(int(row[0]), int(row[1]), row[2][:5], len(row[2])) for row in rows(weft, "page")}
    assert bodies == {(1, 2, "11111", 9000), (7, 4, "22222", 9000), (3, 5, "xxxxx", 9000), (2, 0, "short", 5)} | {
        (8, 9, "88888", 9000)
    }


def test_an_unknown_value_stops_the_feed_with_a_hint(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, born date); INSERT INTO staff VALUES (1, '2026-01-01')")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    shop.execute("INSERT INTO staff VALUES (2, 'infinity')")
    shop.execute("DELETE FROM staff WHERE id = 2")
    with pytest.raises(ExtractionError, match="not of the column's type: born") as refused:
        weft.poll_source("staff", now=LATER)
    assert "weft source remove staff" in (refused.value.hint or "")
    weft.remove_source("staff")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    assert rows(weft, "staff") == {("1", "2026-01-01")}


def test_a_table_may_begin_while_others_write(weft: Weft, shop: Shop, postgresql: str) -> None:
    """A transaction that is under way when the snapshot is taken comes after it, whole."""
    shop.execute(
        "CREATE TABLE staff (id int PRIMARY KEY, name text); CREATE TABLE dept (id int PRIMARY KEY, title text)"
    )
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    follow(weft, postgresql, "dept")
    with psycopg.connect(postgresql) as other:
        other.execute("INSERT INTO staff VALUES (1, 'Ann'); INSERT INTO dept VALUES (1, 'Dev')")
        shop.execute("INSERT INTO dept VALUES (2, 'Ops')")
        weft.poll_source("dept", now=LATER)
        assert (rows(weft, "dept"), rows(weft, "staff")) == ({("2", "Ops")}, set())
    weft.poll_source("dept", now=LATER)
    assert rows(weft, "dept") == {("1", "Dev"), ("2", "Ops")}
    ((_, at, _),) = history(weft, "staff")
    assert (("1", "Dev"), at, None) in history(weft, "dept")


def test_new_columns_come_with_what_rows_have_in_them(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, name text); INSERT INTO staff VALUES (1, 'Ann'), (2, 'Ben')")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    shop.execute("UPDATE staff SET name = 'Anna' WHERE id = 1; ALTER TABLE staff ADD COLUMN pay int DEFAULT 7")
    shop.execute("UPDATE staff SET pay = 8 WHERE id = 2")
    with pytest.raises(Refused, match="has new columns: pay"):
        weft.poll_source("staff", now=LATER)
    weft.poll_source("staff", now=LATER, evolve=True)
    assert rows(weft, "staff") == {("1", "Anna", "7"), ("2", "Ben", "8")}
    shop.execute("ALTER TABLE staff ALTER pay TYPE text")
    with pytest.raises(Refused, match="the type of pay has changed from integer to text"):
        weft.poll_source("staff", now=LATER)
    shop.execute("ALTER TABLE staff DROP COLUMN pay")
    with pytest.raises(Refused, match="no longer has the column pay"):
        weft.poll_source("staff", now=LATER)


def test_new_columns_come_with_what_rows_have_in_them_after_a_kill(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, name text); INSERT INTO staff VALUES (1, 'Ann')")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    shop.execute("ALTER TABLE staff ADD COLUMN pay int DEFAULT 7")
    command = [
        sys.executable,
        "-m",
        "weft",
        "source",
        "poll",
        "--home",
        str(weft.home),
        "--now",
        "2096-01-01",
        "--evolve",
    ]
    died = forked.run(command, "source.reserved")
    assert died.returncode == -signal.SIGKILL
    weft.poll_source("staff", now=LATER)
    assert rows(weft, "staff") == {("1", "Ann", "7")}


@pytest.mark.parametrize(
    "point", ["source.reserved", "source.staged", "source.written:2", "source.committed", "source.recorded"]
)
def test_a_poll_that_was_killed_loses_nothing(weft: Weft, shop: Shop, postgresql: str, point: str) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, n int); CREATE TABLE dept (id int PRIMARY KEY, n int)")
    follow(weft, postgresql, "staff", "dept")
    weft.poll_source("staff", now=LATER)
    for n in range(3):
        shop.execute(f"BEGIN; INSERT INTO staff VALUES ({n}, 0); INSERT INTO dept VALUES ({n}, 0); COMMIT")
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", str(weft.home), "--now", "2096-01-01"]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    shop.execute("UPDATE staff SET n = 1 WHERE id = 0")
    weft.poll_source("staff", now=LATER)
    weft.poll_source("staff", now=LATER)
    assert rows(weft, "staff") == {("0", "1"), ("1", "0"), ("2", "0")}
    began = {row[0]: begin for row, begin, _ in history(weft, "dept")}
    assert {row[0]: begin for row, begin, _ in history(weft, "staff") if row[1] == "0"} == began
    assert len(set(began.values())) == 3
    assert weft.catalog.tables.named("staff").rows == 5
    assert verify(weft.catalog) == []


def test_changes_that_the_server_cannot_report_are_refused(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE a (id int, name text); CREATE TABLE b (id int PRIMARY KEY, name text)")
    with pytest.raises(Refused, match="the replica identity of"):
        follow(weft, postgresql, "a")
    assert slots(shop) == []
    with pytest.raises(Refused, match="the replica identity of"):
        follow(weft, postgresql, "b", key="name")
    with pytest.raises(NotFound, match="does not exist"):
        follow(weft, postgresql, "c")
    with pytest.raises(NotFound, match="does not exist"):
        follow(weft, postgresql, "b", publication="mine")
    shop.execute("CREATE PUBLICATION mine FOR TABLE b WHERE (id > 5)")
    with pytest.raises(Refused, match="only some rows"):
        follow(weft, postgresql, "b", publication="mine")
    with pytest.raises(Refused, match="the replication slot 'mine' does not exist"):
        follow(weft, postgresql, "b", slot="mine")
    with pytest.raises(Refused, match="only a PostgreSQL change feed"):
        weft.add_source("b", "postgres", postgresql, ["id"], table="b", slot="mine")
    shop.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN REPLICATION")
    shop.execute("GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON b TO reader")
    with pytest.raises(Refused, match="cannot be published by this user") as refused:
        follow(weft, postgresql.replace("//postgres@", "//reader@"), "b")
    assert "--publication" in str(refused.value.hint)
    assert (weft.sources(), slots(shop)) == ((), [])


def test_a_slot_that_is_gone_is_said_to_be_and_the_source_may_begin_again(
    weft: Weft, shop: Shop, postgresql: str
) -> None:
    shop.execute("CREATE TABLE staff (id int PRIMARY KEY, name text); INSERT INTO staff VALUES (1, 'Ann'), (2, 'Ben')")
    follow(weft, postgresql, "staff")
    weft.poll_source("staff", now=LATER)
    (slot,) = slots(shop)
    shop.execute("UPDATE staff SET name = 'Anna' WHERE id = 1")
    shop.execute(
        "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
        "'publication_names', %s)",
        [slot, slot],
    )
    with pytest.raises(Refused, match="another reader has advanced"):
        weft.poll_source("staff", now=LATER)
    shop.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(Refused, match="does not exist"):
        weft.poll_source("staff", now=LATER)
    assert weft.remove_source("staff")[1] is None
    follow(weft, postgresql, "staff")
    done = weft.poll_source("staff", now=LATER)
    assert (done.began, done.ended, done.open_rows) == (1, 1, 2)
    assert rows(weft, "staff") == {("1", "Anna"), ("2", "Ben")}


def test_the_slot_goes_with_its_last_source(weft: Weft, shop: Shop, postgresql: str) -> None:
    shop.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    follow(weft, postgresql, "a", "b")
    assert len(slots(shop)) == 1
    assert weft.remove_source("a")[1] is None
    assert shop.execute("SELECT tablename FROM pg_publication_tables").fetchall() == [("b",)]
    assert weft.remove_source("b")[1] is None
    assert (slots(shop), shop.execute("SELECT 1 FROM pg_publication").fetchall()) == ([], [])
