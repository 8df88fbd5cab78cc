"""Two machines work on one home with its catalog on PostgreSQL.  If one dies, stops or is cut off, the other goes on.

A machine is here a set of processes with a host name of their own.  The machines share the home's folder, or each has a
folder of its own and the data is on S3.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from overtaken import end_leases, overtaken
from postgresql_server import Server
from s3_server import environment, new_bucket
from weft.api import Weft
from weft.storage.verify import verify
from weft.store import S3Access

LARGE = "SELECT o.id, o.amount FROM orders o WHERE o.amount > 500"
HOUR = 3_600_000_000
PATIENCE_SECONDS = 240.0


def on_machine(name: str, *command: str, **variables: str) -> subprocess.Popen[str]:
    """Start `weft` on the machine with this name."""
    script = f'hostname {name} && exec "$@"'
    return subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", script, "sh", sys.executable, "-m", "weft", *command],
        env={**os.environ, "WEFT_SPARK_MEMORY": "512m", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def typed(name: str, *command: str, **variables: str) -> str:
    """Return what a command prints on a machine.  A server runs it only if the variables are those of the server."""
    out, _ = on_machine(name, *command, **variables).communicate(timeout=PATIENCE_SECONDS)
    return out


@contextmanager
def serving(name: str, home: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server of the home on a machine, from its first line on."""
    server = on_machine(name, "serve", "--poll", "1s", "--no-rehearsal", "--home", str(home), **variables)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("Serving ")
        yield server
    finally:
        server.kill()
        server.communicate()


def until(reached: Callable[[], bool]) -> float:
    """Wait, and return the seconds."""
    begun = time.monotonic()
    while not reached():
        assert time.monotonic() - begun < PATIENCE_SECONDS
        time.sleep(0.2)
    return time.monotonic() - begun


def load(home: Path, *ids: int) -> None:
    """Append an order over 500 for each ID."""
    with Weft.open(home) as weft:
        weft.append("orders", [{"id": each, "amount": 600 + each} for each in ids])


def delivered(home: Path) -> list[tuple[int, int]]:
    """Return the ordinals and IDs in the file of the channel."""
    file = home / "files" / "large.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [(json.loads(each)["_ordinal"], json.loads(each)["id"]) for each in lines if each.endswith("\n")]


@pytest.fixture
def home(database_server: Server, tmp_path: Path) -> Path:
    tried = subprocess.run(["unshare", "--uts", "hostname", "first"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("NOT TRIED WITH TWO MACHINES: this user may not give processes another host name")
    home = tmp_path / "home"
    url = database_server.uri(database_server.new_database())
    with Weft.open(home, create=True, catalog=url) as weft:
        weft.make_table("orders", "id BIGINT, amount BIGINT")
        weft.install("large", LARGE, keep="synopsis", to="file:large.jsonl")
    return home


@pytest.mark.timeout(900)
def test_when_one_machine_dies_in_a_tick_the_other_goes_on(home: Path) -> None:
    expected: list[tuple[int, int]] = []
    dies = {"WEFT_FAILPOINT": "tick.written:2"}

    def more(count: int) -> None:
        ids = range(len(expected) + 1, len(expected) + count + 1)
        load(home, *ids)
        expected.extend((each, each) for each in ids)

    with serving("second", home) as second:
        with serving("first", home, **dies) as first:
            for name, server in (("first", first), ("second", second)):
                assert f"process {server.pid}" in typed(name, "doctor", "--home", str(home)), name
            while first.poll() is None:  # which of the two ticks first is open
                more(3)
                until(lambda: first.poll() is not None or delivered(home) == expected)
                if first.poll() is None:
                    for name, own in (("first", dies), ("second", {})):
                        answers = typed(name, "results", "large", "--json", "--home", str(home), **own)
                        assert answers.count("\n") == len(expected), answers  # no note: the server answers
            assert first.returncode == -signal.SIGKILL
        seconds = until(lambda: delivered(home) == expected)
        assert seconds < 60  # the lease of the dead process does not have to end by time
        more(2)
        until(lambda: delivered(home) == expected)
        with serving("first", home) as again:
            os.kill(second.pid, signal.SIGKILL)
            more(2)
            until(lambda: delivered(home) == expected)
            assert f"process {again.pid}" in typed("first", "doctor", "--home", str(home))
    with Weft.open(home) as weft:
        assert verify(weft.catalog) == []
        assert [(row.ordinal, row.values[0]) for row in weft.results("large")] == expected


@pytest.mark.timeout(300)
def test_a_machine_without_the_shared_folder_delivers_nothing(home: Path, tmp_path: Path) -> None:
    """The second machine has another folder: Weft refuses it, and the first machine delivers the answers."""
    other = {"WEFT_FILES_ROOT": str(tmp_path / "not-mounted")}
    load(home, 1)
    ticked = on_machine("second", "tick", "--home", str(home), **other)
    result, _ = ticked.communicate(timeout=PATIENCE_SECONDS)
    assert "is not the folder in which the machines of this home deliver file: channels" in result
    for command in (("doctor",), ("install", "more", LARGE, "--keep", "synopsis", "--to", "file:more.jsonl")):
        refused = on_machine("second", *command, "--home", str(home), **other)
        result, _ = refused.communicate(timeout=PATIENCE_SECONDS)
        assert refused.returncode != 0 and "Mount that folder here" in result, result
    assert delivered(home) == [] and not (tmp_path / "not-mounted").exists()
    with Weft.open(home) as weft:  # the second machine's attempts cause no pause
        weft.deliver()
    assert delivered(home) == [(1, 1)]


@dataclass(frozen=True)
class Pair:
    """A home on S3 in the folders of two machines.  Its channel writes into a folder that both machines share."""

    first: Path
    second: Weft
    url: str
    folder: Path
    """The folder with the files of the channel, in ``files``."""

    def more(self, *ids: int) -> None:
        """Append an order over 500 for each ID."""
        self.second.append("orders", [{"id": each, "amount": 600 + each} for each in ids])

    def cut_off(self) -> None:
        """End all connections to the database, so that the first machine no longer holds a lock there.

        Weft opens those of the second machine again.
        """
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def end_by_time(self) -> None:
        """Let the leases of the first machine end, although it still holds its lock."""
        held = [self.second.catalog.lease(name) for name in ("write", "deliver")]
        assert any(held) and not self.second.catalog._database.is_gone(next(filter(None, held)).holder, 0)
        end_leases(self.second.catalog)


@pytest.fixture
def pair(
    database_server: Server, s3_access: S3Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WEFT_FILES_ROOT", str(tmp_path / "files"))
    url, store = database_server.uri(database_server.new_database()), new_bucket(s3_access).uri
    with Weft.open(tmp_path / "first", create=True, catalog=url, store=f"{store}/home") as weft:
        weft.make_table("orders", "id BIGINT, amount BIGINT")
        weft.install("large", LARGE, keep="synopsis", to="file:large.jsonl")
    with Weft.open(tmp_path / "second", create=True, catalog=url, store=f"{store}/home") as second:
        yield Pair(tmp_path / "first", second, url, tmp_path)


LOAD = 'weft.append("orders", [{"id": 9, "amount": 609}])'
STOPPED = {
    "load": (("weft.storage.table", "Table._commit"), LOAD),
    "tick": (("weft.storage.table", "Table._commit"), "weft.tick()"),
    "message": (("weft.delivery.outbox", "failpoint"), "weft.tick()"),
    "torn message": (("weft.delivery.file", "failpoint"), "weft.tick()"),
    "recovery": (("weft.delivery.outbox", "open_channel"), "weft.deliver()"),
}
"""Where the first machine stops: before the commit of a load or a tick, before and in the writing of a message, and
before it undoes a message that was interrupted.
"""
QUICK = (("end_by_time", "message"), ("cut_off", "tick"))
CASES = [
    pytest.param(how, stopped, marks=() if (how, stopped) in QUICK else pytest.mark.slow)
    for how in ("end_by_time", "cut_off")
    for stopped in STOPPED
]


@pytest.mark.parametrize(("how", "stopped"), CASES)
def test_a_machine_that_was_taken_for_dead_changes_nothing(how: str, stopped: str, pair: Pair) -> None:
    """The second machine takes over while the first is stopped.  The first is refused when it goes on."""
    pair.more(1, 2)
    if stopped == "recovery":
        dies = on_machine("first", "tick", "--home", str(pair.first), WEFT_FAILPOINT="delivery.torn")
        assert dies.wait(PATIENCE_SECONDS) == -signal.SIGKILL

    def taken_over() -> None:
        getattr(pair, how)()
        begun = time.monotonic()
        pair.more(3)
        pair.second.tick()
        assert time.monotonic() - begun < 120  # a lease lasts for ten minutes
        assert delivered(pair.folder) == [(1, 1), (2, 2), (3, 3)]

    result = overtaken(pair.first, *STOPPED[stopped], taken_over)
    assert result.startswith("LeaseLost another writer took this home over"), result
    pair.more(4)
    pair.second.tick()
    assert delivered(pair.folder) == [(each, each) for each in (1, 2, 3, 4)]
    assert verify(pair.second.catalog) == []
    with Weft.open(pair.first) as first:
        assert [(row.ordinal, row.values[0]) for row in first.results("large")] == delivered(pair.folder)
