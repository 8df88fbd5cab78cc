"""Homes whose catalog is on a PostgreSQL server: commands, messages, secrets, and failures of the server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import update

from postgresql_server import GUARDED, PASSWORD, Server
from weft.api import Weft
from weft.catalog import ddl
from weft.catalog.address import CatalogAddress
from weft.catalog.channel_folders import unshared
from weft.catalog.liveness import this_process
from weft.errors import CatalogError, CatalogUnreachable, Conflict, LeaseBusy, LeaseLost, Refused, WeftError
from weft.schedule.clock import now_us
from weft.schedule.runner import Stop

SECOND = 1_000_000
HOUR = 3_600 * SECOND
Output = Any


@pytest.fixture
def stopped(database_server: Server) -> Iterator[Callable[[], None]]:
    """Stop the server when the returned function is called, and start it again at the end."""
    down = []

    def stop() -> None:
        database_server.stop()
        down.append(1)

    yield stop
    if down:
        database_server.start()


def other_process(home: Path, body: str, *, ahead_us: int = 0) -> subprocess.Popen[str]:
    """Run a program over the home in a process whose machine has a clock that is ``ahead_us`` too fast."""
    program = f"""
import time
right = time.time_ns
time.time_ns = lambda: right() + {ahead_us * 1_000}
time.time = lambda: time.time_ns() / 1e9
from weft.api import Weft
from weft.errors import LeaseBusy
from weft.catalog.liveness import this_process
weft = Weft.open({str(home)!r})
{textwrap.dedent(body)}
"""
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_every_command_finds_the_catalog_and_none_shows_a_secret(
    weft: Callable[..., Output], home: Path, database_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    url = database_server.uri(database_server.new_database(), GUARDED)
    output = [weft("init", "--catalog", url, "--clock", "replay")]
    assert f"Its catalog is the schema weft of {url}." in output[0].out
    assert (home / "weft.toml").read_text() == f'catalog.url = "{url}"\n'
    Path("o.csv").write_text("id,amount,at\n1,20,2026-03-01\n2,900,2026-03-02\n")
    output.append(weft("ingest", "file", "o.csv", "--table", "orders", "--ts-from", "at", "--key", "id"))
    output.append(weft("explain", "SELECT o.id FROM orders o WHERE o.amount > 5"))
    output.append(weft("install", "large", "SELECT o.id FROM orders o WHERE o.amount > 500", "--keep", "synopsis"))
    output.append(weft("tick", "--now", "2026-03-03"))
    for command in ("queries", "show large", "results large", "tables", "loads list", "config", "doctor"):
        output.append(weft(*command.split()))
    output.append(weft("status"))
    assert [each.code for each in output] == [0] * len(output), [each.err + each.out for each in output if each.code]
    status = weft("status", "--json")
    assert status.json["catalog"] == url
    settings = {each["setting"]: each for each in weft("config", "--json").json}
    assert settings["catalog.url"]["value"] == url
    assert f"catalog: {url}, format {ddl.FORMAT}" in output[-2].out
    shown = "".join(each.out + each.err for each in output)
    assert PASSWORD not in shown and "catalog.sqlite" not in shown
    assert not (home / "catalog.sqlite").exists() and not (home / "holders").exists()
    written = [path for path in home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert written == []
    with psycopg.connect(url, password=PASSWORD) as connection:
        assert connection.execute("SELECT clock FROM weft.home").fetchall() == [("replay",)]


def test_refusals_of_the_server_are_messages(
    weft: Callable[..., Output],
    home: Path,
    database_server: Server,
    stopped: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = database_server.new_database()
    guarded = database_server.uri(database, GUARDED)
    for given, password, reason in (
        (guarded, "", "no password supplied"),
        (guarded, "a guess", "password authentication failed"),
        (database_server.uri("nowhere"), "", '"nowhere" does not exist'),
    ):
        monkeypatch.setenv("PGPASSWORD", password)
        output = weft("init", "--catalog", given)
        assert "a guess" not in output.err
        assert output.code == 1 and "the catalog could not be reached" in output.err and reason in output.err
        assert "~/.pgpass or the environment variable PGPASSWORD" in output.err
        assert not home.exists()
    assert weft("init", "--catalog", database_server.uri(database)).code == 0
    stopped()
    for command in ("queries", "status", "tick", "explain SELECT"):
        output = weft(*command.split())
        assert output.code == 1, command
        assert "the catalog could not be reached" in output.err and "catalog.sqlite" not in output.err + output.out
    output = weft("doctor")
    assert output.code == 1 and "BAD catalog: postgresql://" in output.out


def test_the_missing_right_to_create_a_schema_is_named(
    weft: Callable[..., Output], home: Path, database_server: Server
) -> None:
    database = database_server.new_database()
    with psycopg.connect(database_server.uri(database), autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        output = weft("init", "--catalog", database_server.uri(database, "poor"))
        assert output.code == 1 and "permission denied" in output.err and "Grant the user" in output.err
        connection.execute("CREATE SCHEMA weft AUTHORIZATION poor")
        assert weft("init", "--catalog", database_server.uri(database, "poor")).code == 0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://ann:hush-hush@db.example/weft", "it contains a password"),
        ("postgresql://ann@db.example/weft?password=hush-hush", "it contains a password"),
        ("postgresql://ann@db.example/weft?schema=A-b", "its schema is 'A-b'"),
        ("postgresql://ann@db.example/weft?schema=pg_own", "its schema is 'pg_own'"),
        ("mysql://ann@db.example/weft", "it should be a URL such as postgresql://"),
        ("catalog.sqlite", "it should be a URL such as postgresql://"),
    ],
)
def test_a_url_that_cannot_be_a_catalog_is_refused(
    weft: Callable[..., Output], home: Path, url: str, reason: str
) -> None:
    output = weft("init", "--catalog", url)
    assert output.code == 2 and reason in output.err and "hush-hush" not in output.err
    assert not home.exists()
    home.mkdir()
    (home / "weft.toml").write_text(f'[catalog]\nurl = "{url}"\n')
    output = weft("init")
    assert output.code == 2 and reason in output.err and "line 2" in output.err and "hush-hush" not in output.err


def test_a_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CatalogError, match="requires psycopg, which is not installed") as refused:
        Weft.open(tmp_path / "home", create=True, catalog="postgresql://ann@db.example/weft")
    assert "weft[postgres]" in (refused.value.hint or "")


def test_each_home_has_a_schema_of_its_own_and_may_be_moved_but_not_doubled(url: str, tmp_path: Path) -> None:
    one, two, moved = (tmp_path / name for name in ("one", "two", "moved"))
    Weft.open(one, create=True, catalog=url).close()
    Weft.open(one, create=True, catalog=url).close()
    with pytest.raises(Conflict, match=f"is already the catalog of the home {one}"):
        Weft.open(two, create=True, catalog=url)
    assert not two.exists()
    with pytest.raises(Conflict, match="the settings of the home name the catalog"):
        Weft.open(one, create=True, catalog=f"{url}&schema=other")
    with Weft.open(two, create=True, catalog=f"{url}&schema=other") as second:
        second.make_table("t", "a BIGINT")
        with Weft.open(one) as first:
            assert first.tables() == ()
            # The writers of one home do not wait for those of another.
            with first.catalog._database.changing(), second.catalog._database.changing():
                pass
    one.rename(moved)
    with Weft.open(moved) as weft:
        assert weft.catalog.home().place == str(moved)
    shutil.copytree(moved, one)
    with pytest.raises(Conflict, match=f"is already the catalog of the home {moved}"):
        Weft.open(one)
    shutil.rmtree(moved)
    Weft.open(one).close()
    one.rename(moved)
    with pytest.raises(Conflict, match="is already the catalog"):  # it may be a home of another machine
        Weft.open(tmp_path / "three", create=True, catalog=url)


def test_a_home_has_one_catalog(url: str, tmp_path: Path) -> None:
    Weft.open(tmp_path / "home", create=True).close()
    with pytest.raises(Conflict, match=r"already has a catalog, the file catalog\.sqlite"):
        Weft.open(tmp_path / "home", create=True, catalog=url)
    (tmp_path / "home" / "weft.toml").write_text(f'catalog.url = "{url}"\n')
    with pytest.raises(Conflict, match=r"already has a catalog, the file catalog\.sqlite"):
        Weft.open(tmp_path / "home")


def test_the_url_joins_the_settings_that_there_are(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "weft.toml").write_text("[limits]\nrows = 7\n")
    with Weft.open(home, create=True, catalog=url) as weft:
        found = {each.key: each.value for each in weft.settings()}
    assert (found["catalog.url"], found["limits.rows"]) == (url, 7)
    with pytest.raises(CatalogError, match="is not a Weft home: its catalog is empty"):
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "weft.toml").write_text(f'catalog.url = "{url}&schema=nothing"\n')
        Weft.open(tmp_path / "empty")


def test_a_catalog_that_is_missing_beside_data_is_no_new_home(url: str, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        weft.make_table("t", "a BIGINT")
        weft.append("t", [{"a": 1}])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA weft CASCADE")
    for create in (False, True):
        with pytest.raises(CatalogError, match="is missing, but the data exists"):
            Weft.open(tmp_path / "home", create=create)


def test_a_connection_that_the_server_closed_is_opened_again(url: str, tmp_path: Path, database_server: Server) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        with weft.catalog.writing("tests", weft.clock) as writer:
            database_server.restart()
            with pytest.raises(LeaseBusy):  # the restart ended the session that shows that this process lives
                weft.catalog.writer("tests", "someone", weft.clock())
            assert weft.tables() == ()
            writer.renew(weft.clock())
            writer.check()
        database_server.restart()
        weft.make_table("t", "a BIGINT")
        assert [table.name for table in weft.tables()] == ["t"]


def test_a_change_that_the_server_interrupted_is_not_recorded_and_reported(
    url: str, tmp_path: Path, database_server: Server
) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        with (
            pytest.raises(CatalogUnreachable, match="the connection to the catalog broke") as broken,
            weft.catalog._database.changing() as connection,
        ):
            connection.execute(update(ddl.home).values(watermark=7))
            database_server.restart()
        assert "after the last change that the catalog recorded" in (broken.value.hint or "")
        assert weft.catalog.home().watermark != 7


def test_a_change_whose_reply_was_lost_is_reported_and_not_repeated(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft, Weft.open(tmp_path / "home") as other:
        dialect = weft.catalog._database._engine.dialect
        commit, before = dialect.do_commit, weft.catalog.home().last_ts

        def losing(connection: Any) -> None:
            commit(connection)
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        with monkeypatch.context() as patch, pytest.raises(CatalogUnreachable, match="closed the connection"):
            patch.setattr(dialect, "do_commit", losing)
            with weft.catalog._database.changing() as connection:
                connection.execute(update(ddl.home).values(last_ts=ddl.home.c.last_ts + 1))
        assert weft.catalog.home().last_ts == before + 1
        with monkeypatch.context() as patch, pytest.raises(CatalogUnreachable):
            patch.setattr(dialect, "do_commit", losing)
            weft.catalog.writer("tests", this_process(), weft.clock())
        lost = weft.catalog.lease()
        assert lost is not None
        with other.catalog.writing("tests", other.clock) as writer:  # this process knows that no thread has it
            assert writer.lease.token == lost.token + 1
            with pytest.raises(LeaseBusy):
                weft.catalog.writer("tests", this_process(), weft.clock())


def test_a_text_that_postgresql_cannot_store_is_reported(url: str, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        weft.make_table("t", "a BIGINT")
        with pytest.raises(CatalogError, match="NUL") as refused:
            weft.catalog.loads.begin(1, "a\0b", "file", None, 0)
        assert "U+0000" in (refused.value.hint or "")


def test_a_process_with_a_fast_clock_neither_takes_a_lease_nor_dates_rows_ahead(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    body = """
        print(weft.clock(), flush=True)
        input()
        try:
            weft.catalog.writer("steal", this_process(), weft.clock())
        except LeaseBusy:
            print("busy", flush=True)
        input()
        with weft.catalog.writing("tests", weft.clock) as writer:
            print(writer.lease.token, flush=True)
        weft.make_table("t", "a BIGINT")
        weft.append("t", [{"a": 1}])
        (query,) = (weft.install("q", "SELECT a FROM t", keep="synopsis"),)
        print(weft.tick().reports[-1].t, flush=True)
    """
    with Weft.open(home, create=True, catalog=url) as weft, other_process(home, body, ahead_us=HOUR) as fast:
        assert fast.stdin is not None and fast.stdout is not None

        def next_line(say: str | None = None) -> str:
            assert fast.stdin is not None and fast.stdout is not None
            if say is not None:
                print(say, file=fast.stdin, flush=True)
            return fast.stdout.readline().strip()

        before = weft.clock()
        assert abs(now_us() - before) < HOUR // 4  # the server's machine is this one
        assert abs(int(next_line()) - before) < HOUR // 4
        with weft.catalog.writing("tests", weft.clock) as writer:
            assert writer.lease.expires_at < before + HOUR  # by the fast clock it has expired
            assert next_line("go") == "busy"
            writer.check()
            token = writer.lease.token
        assert int(next_line("go")) == token + 1
        t = int(next_line())
        last = weft.catalog.tables.named("t").last_ts
        assert last is not None
        assert before <= last < t <= weft.clock() < before + HOUR // 4


def test_two_processes_race_for_the_lease_and_one_has_it_at_a_time(url: str, tmp_path: Path) -> None:
    """One of the processes has a clock that is an hour fast. Each adds one to a number, which it reads before."""
    home = tmp_path / "home"
    body = """
        def add():
            with weft.catalog.writing("race", weft.clock, wait_us=60_000_000) as writer:
                with writer._database.changing() as connection:
                    (number,) = connection.exec_driver_sql("SELECT t0 FROM home").one()
                writer.check()
                with writer._database.changing() as connection:
                    connection.exec_driver_sql(f"UPDATE home SET t0 = {number + 1}")
        for _ in range(8):
            add()
        print("done", flush=True)
    """
    with Weft.open(home, create=True, catalog=url) as weft:
        start = weft.catalog.home().t0
        assert start is not None
        with other_process(home, body) as right, other_process(home, body, ahead_us=HOUR) as fast:
            assert [each.communicate(timeout=120)[0] for each in (right, fast)] == ["done\n", "done\n"]
        assert weft.catalog.home().t0 == start + 16
        assert weft.catalog.lease() is None


def test_a_writer_that_was_overtaken_writes_nothing(url: str, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        first = weft.catalog.writer("tests", "someone", weft.clock(), SECOND)
        weft.catalog.writer("tests", "another", weft.clock() + 2 * SECOND)
        with pytest.raises(LeaseLost):
            first.tables.create("t", [])


def test_a_runner_waits_for_the_server_and_goes_on(
    url: str, tmp_path: Path, database_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.schedule.runner._FIRST_PAUSE_US", SECOND // 5)
    troubles: list[WeftError] = []
    found, stop, noticed, ticked = [], Stop(), threading.Event(), threading.Event()

    def troubled(error: WeftError) -> None:
        troubles.append(error)
        noticed.set()

    def after_tick(done: Any) -> None:
        found.extend(each.rows for report in done.reports for each in report.outcomes)
        ticked.set()

    with Weft.open(tmp_path / "home", create=True, catalog=url) as weft:
        weft.make_table("t", "a BIGINT")
        weft.append("t", [{"a": 1}])
        weft.install("q", "SELECT a FROM t", keep="synopsis", every=SECOND)
        options: dict[str, Any] = {"ticked": after_tick, "troubled": troubled, "pace_us": SECOND // 5}
        thread = threading.Thread(target=weft.run, args=(stop,), kwargs=options)
        thread.start()
        try:
            assert ticked.wait(60)
            database_server.stop()
            try:
                assert noticed.wait(60)
            finally:
                database_server.start()
            ticked.clear()
            with Weft.open(tmp_path / "home") as other:
                other.append("t", [{"a": 2}])
            assert ticked.wait(60)
        finally:
            stop.ask()
            thread.join(60)
        assert not thread.is_alive()
        assert sum(found) == 2 and weft.catalog.lease() is None
        assert {type(error) for error in troubles} <= {CatalogUnreachable, LeaseLost, LeaseBusy}


def test_home_settings_are_checked_when_a_home_is_opened(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text("limits.rows = 'many'\n")
    with pytest.raises(Refused, match=r"limits\.rows"):
        Weft.open(tmp_path, create=True)


def test_the_command_says_where_the_catalog_is(weft: Callable[..., Output], home: Path, url: str) -> None:
    output = weft("init", "--catalog", f"{url}&schema=orders", "--json")
    assert json.loads(output.out)["catalog"] == f"{url}&schema=orders"
    assert "schema orders of" in weft("init").out


def test_a_creation_that_dies_late_leaves_the_marks_of_the_folders_of_channels(
    home: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(address: CatalogAddress) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CatalogAddress, "note", dies)
        Weft.open(home, create=True, catalog=url)
    with Weft.open(home, create=True, catalog=url) as weft:
        assert unshared(home, weft.catalog.home().home_id) == {}
