"""Who gets answers, through the real command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answered import answered
from weft.algebra.schema import BIGINT, STRING
from weft.api import Weft as Home

Weft = Callable[..., Any]


@pytest.fixture
def made(weft: Weft, home: Path) -> Path:
    """A home with the query q, which has two answers in a file."""
    assert weft("init", "--clock", "replay").code == 0
    with Home.open(home) as opened:
        opened.catalog.tables.create("t", [("n", BIGINT), ("s", STRING)])
    assert weft("install", "q", "SELECT n, s FROM t", "--to", "file:a.jsonl").code == 0
    with Home.open(home) as opened:
        answered(opened, "q", 2)
        opened.deliver()
    return home


def test_parked_channels_are_shown_everywhere(weft: Weft, made: Path) -> None:
    assert weft("status", "--json").json["healthy"] is True
    assert weft("status").out.endswith("No problems.\n")
    with Home.open(made) as opened, opened.catalog.delivering(opened.clock) as sender:
        sender.subscriptions.note_failure(1, "no room", None)
    output = weft("status")
    assert (output.code, "PROBLEM: file:a.jsonl of q is parked: no room" in output.out) == (1, True)
    found = weft("status", "--json").json
    assert (found["healthy"], found["deliveries"]["parked"], found["lag_seconds"]) == (False, 1, None)
    assert "active, 1 of 1 channels parked" in weft("queries").out
    assert weft("queries", "--json").json[0]["parked"] == 1
    assert "channel    file:a.jsonl: 2 of 2 delivered; parked: no room" in weft("show", "q").out
    assert "file:a.jsonl of q is parked: no room" in weft("doctor").out
    assert weft("resume", "q").code == 0
    assert weft("status").code == 0


def test_answers_are_printed_as_they_come_until_ctrl_c(made: Path) -> None:
    command = [sys.executable, "-m", "weft", "results", "q", "--follow", "--csv", "--home", str(made)]

    def heed() -> None:  # a shell's job in the background begins deaf to Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        assert process.stdout is not None
        try:
            found = []
            for n in (3, 4):
                with Home.open(made) as opened:
                    if n == 3:
                        assert process.stdout.readline() == "_ordinal,_first_at,_tick,n,s\n"
                    answered(opened, "q", 1)
                found.append(process.stdout.readline().split(",")[0])
            assert found == ["3", "4"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
