"""``weft serve`` in a separate process, which ticks and runs commands from other terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

QUERY = "SELECT id FROM orders WHERE price > 2"
ENDLESS = (
    "SELECT a.id FROM orders a, orders b, orders c, orders d, orders e, orders f "
    "WHERE CONCAT(a.id, b.id, c.id, d.id, e.id, f.id) = 'nothing'"
)
ROWS = 300
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from weft.cli import main; main()"


def _typed(*arguments: str) -> subprocess.Popen[str]:
    """Start a command in a separate process that Ctrl-C reaches."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _done(*arguments: str, code: int = 0) -> tuple[str, str]:
    with _typed(*arguments) as command:
        out, err = command.communicate(timeout=120)
    assert command.returncode == code, out + err
    assert "Traceback" not in err
    return out, err


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_HOME", raising=False)
    lines = [json.dumps({"id": n, "price": n}) for n in range(ROWS)]
    Path("orders.jsonl").write_text("\n".join(lines) + "\n")
    _done("init")
    return tmp_path / "weft-home"


@pytest.fixture
def server(home: Path) -> Iterator[subprocess.Popen[str]]:
    with _typed("serve", "--poll", "1s", "--no-rehearsal") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving ")
        yield process
        process.kill()


def _under_way(home: Path) -> Any:
    from weft.cli.server.address import pointer_file
    from weft.cli.server.client import greeting

    return greeting(pointer_file(home))[1]["commands"]


def test_a_server_ticks_answers_and_may_be_killed(home: Path, server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    assert f"process {server.pid}" in _done("serve", code=2)[1]

    assert "300 stored" in _done("ingest", "file", "orders.jsonl", "--table", "orders")[0]
    assert "Installed" in _done("install", "q", QUERY, "--to", "file:q.jsonl")[0]
    assert "tick 1: q +297" in server.stdout.readline(), "it ticks by itself"
    assert "tick 2" in _done("tick", "q")[0], "the output shows the tick"
    assert '"id":299' in _done("results", "q", "--json")[0]

    began = time.monotonic()
    before = os.times()
    tried = json.loads(_done("try", "SELECT id FROM orders WHERE price > 290", "--json")[0])
    after = os.times()
    assert tried["count"] == 9
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 1.0, "the command itself does next to nothing"
    print(f"a warm try took {time.monotonic() - began:.2f} s, {spent:.2f} s of them of the processor")

    with _typed("try", ENDLESS) as command:
        while not _under_way(home):
            assert command.poll() is None
        time.sleep(1.0)
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130
    assert not _under_way(home)
    assert server.poll() is None

    with _typed("try", ENDLESS) as command:
        while not _under_way(home):
            assert command.poll() is None
        server.kill()
        err = command.communicate(timeout=30)[1]
    assert command.returncode == 1
    assert "ended during this command" in err
    assert '"id":299' in _done("results", "q", "--json")[0]
    assert "a killed server left its socket" in _done("doctor")[0]
