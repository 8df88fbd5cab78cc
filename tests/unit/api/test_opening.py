"""A home as a program opens it, runs it and closes it."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft import Stop, Weft
from weft.catalog import layout
from weft.errors import ExecutionError, HomeClosed, NotFound, WeftError
from weft.rights.principal import OWNER
from weft.schedule import runner

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "acting_as": (OWNER,),
    "add_source": ("s", "file", "x.csv", "id"),
    "add_view": ("v", "SELECT 1"),
    "append": ("t", [{"a": 1}]),
    "correct_source": ("s", {"id": 1}, "1993-04-01", "1993-04-02", None),
    "current_views": ("SELECT a FROM t", None),
    "install_all": ([],),
    "ingest_file": ("x.csv", "t"),
    "ingest_log": ("log", "sig"),
    "ingest_mail": ("x.mbox",),
    "install": ("q", "SELECT a FROM t"),
    "load_past": ("s", "x.csv", "at"),
    "make_table": ("t", "a INT"),
    "rename_table": ("t", "u"),
    "attach_table": ("t", "x"),
    "replacement": ("q", "SELECT a FROM t"),
    "subscribe": ("q", "file:x.csv"),
    "test_channel": ("file:x.csv",),
    "time_driven": ([],),
    "undo_load": (1,),
    "unsubscribe": ("q", "file:x.csv"),
}
METHODS = sorted(
    name
    for name, each in inspect.getmembers(Weft)
    if not name.startswith("_")
    and name not in ("open", "opened", "close", "closed", "home", "catalog", "clock", "accounts", "home_id")
)


def test_a_path_that_is_mistyped_makes_no_home(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refusal:
        Weft.open(tmp_path / "hoem")
    assert "create=True" in str(refusal.value) and "weft init" in str(refusal.value)
    with pytest.raises(NotFound):
        Weft.open(tmp_path / "hoem", clock="replay")
    assert not (tmp_path / "hoem").exists()


def test_a_home_whose_catalog_says_nothing_leaves_no_file_open(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    Weft.open(folder, create=True).close()
    with closing(sqlite3.connect(layout.catalog_file(folder))) as damaged:
        damaged.execute("ALTER TABLE home RENAME COLUMN watermark TO backward")
        damaged.commit()
    with pytest.raises(WeftError) as result:  # held, so that nothing is collected as garbage
        Weft.open(folder)
    opened = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert isinstance(result.value, WeftError)
    assert [each for each in opened if each.startswith(str(folder))] == []


def test_the_home_of_the_variable_is_the_one_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_HOME", str(tmp_path / "chosen"))
    Weft.open(create=True).close()
    with Weft.open() as home:
        assert home.home == tmp_path / "chosen"
    monkeypatch.delenv("WEFT_HOME")
    Weft.open(create=True).close()
    assert (tmp_path / "weft-home").exists()


@pytest.mark.parametrize("name", METHODS)
def test_a_closed_home_refuses_every_method(tmp_path: Path, name: str) -> None:
    home = Weft.open(tmp_path / "home", create=True)
    home.close()
    home.close()
    method = getattr(home, name)
    needed = [each for each in inspect.signature(method).parameters.values() if each.default is each.empty]
    given = ARGUMENTS.get(name, ("x",) if needed and needed[0].kind is not inspect.Parameter.VAR_POSITIONAL else ())
    with pytest.raises(HomeClosed, match="was closed"):
        done = method(*given)
        if hasattr(done, "__enter__"):
            done.__enter__()
        elif inspect.isgenerator(done):
            next(done)


def test_objects_of_a_home_are_closed_with_it(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        catalog, steps = home.catalog, home.maintain()
        with catalog.writing("test", home.clock) as writer:
            held = writer
    for asked in (catalog.home, catalog.tables.all, held.queries.all, lambda: next(steps), lambda: home.catalog):
        with pytest.raises(HomeClosed):
            asked()
    assert home.home == tmp_path / "home"
    with pytest.raises(HomeClosed), home:
        pass


def test_a_home_that_is_closed_in_another_thread_ends_what_runs(tmp_path: Path) -> None:
    home = Weft.open(tmp_path / "home", create=True)
    ended: list[BaseException] = []

    def go() -> None:
        try:
            home.run(pace_us=10_000)
        except HomeClosed as error:
            ended.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    home.close()
    thread.join(60)
    assert not thread.is_alive() and len(ended) == 1


RUNNING = """
import signal, sys, threading, time
from weft import Weft

def tell():
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(0.05)
    print("ready", flush=True)

threading.Thread(target=tell, daemon=True).start()
with Weft.open(sys.argv[1], create=True) as home:
    home.run()
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_without_anything_is_stopped_by_signals(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNING, str(tmp_path / "home")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == (b"stopped\n", b"", 0)


def test_run_in_a_thread_is_stopped_by_asking(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        stop = Stop()
        thread = threading.Thread(target=home.run, args=(stop,))
        thread.start()
        stop.ask()
        thread.join(60)
        assert not thread.is_alive()


def test_failures_in_a_run_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = Stop()

    def failing(*_: Any) -> Any:
        stop.ask()
        raise ExecutionError("no Java here", hint="run `weft doctor`")

    monkeypatch.setattr(runner, "refresh_queried", failing)
    with Weft.open(tmp_path / "home", create=True) as home, caplog.at_level(logging.WARNING, "weft"):
        home.make_table("t", "a INT")
        home.install("q", "SELECT a FROM t")
        home.run(stop)
    assert [each.getMessage() for each in caplog.records if each.name == "weft"] == [
        "no Java here\n  run `weft doctor`; trying again"
    ]


def test_one_channel_is_named_as_a_text(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("t", "a INT")
        home.install("q", "SELECT a FROM t", to="file:x.csv")
        (one,) = home.show("q").subscriptions
        assert one.channel.endswith("x.csv")
        assert home.subscribe("q", "file:y.csv").channel.endswith("y.csv")
        assert len(home.subscribe("q", ["file:z.csv", "file:w.csv"])) == 2
        with pytest.raises(WeftError):
            home.subscribe("q", ["file:v.csv", "file:x.csv"])
        assert len(home.show("q").subscriptions) == 4
        assert len(home.mute("q", ["file:x.csv", "file:y.csv"])) == len(home.unmute("q", "file:x.csv")) + 1
        assert len(home.unsubscribe("q", ["file:z.csv", "file:w.csv"])) == 2
        assert home.unsubscribe("q", "file:y.csv").state == "ended"
