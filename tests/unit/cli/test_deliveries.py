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
from weft.runtime.session import session_started

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


def test_who_gets_answers_is_typed_and_shown(weft: Weft, made: Path) -> None:
    assert weft("subscribe", "q", "--to", "file:b.csv").out == (
        "file:b.csv: answers of q after the first 2 will be sent there.\n"
    )
    assert weft("subscribe", "q", "--to", "file:b.csv").code == 2
    assert "until `weft unmute`" in weft("mute", "q", "--to", "file:b.csv").out
    with Home.open(made) as opened:
        answered(opened, "q", 1)
        opened.deliver()
    told = weft("deliveries", "q")
    assert [line.split()[2:6] for line in told.out.splitlines() if line.startswith(" q ")] == [
        ["1-3-3", "1", "sent", "1"],
        ["1-1-2", "2", "sent", "1"],
        ["(next)", "1", "muted", "-"],
    ]
    assert "1-3-3 has the answers 3 to 3 of `weft results q`" in told.out
    assert "To send these and all later answers again: weft redeliver q --from 3 --to CHANNEL" in told.out
    assert "without those that waited" not in weft("unmute", "q", "--to", "file:b.csv").out
    assert "3 answers of q, from 1 on, will be sent again" in weft("redeliver", "q", "--to", "file:a.jsonl").out
    first, second = weft("deliveries", "--json").json
    assert (first["channel"], first["waiting"], first["messages"][0]["id"]) == ("file:a.jsonl", 3, "1-3-3")
    assert (second["channel"], second["waiting"], second["muted"], second["messages"]) == ("file:b.csv", 1, False, [])
    assert weft("unsubscribe", "q", "--to", "file:b.csv").out == "file:b.csv: answers of q are no longer sent there.\n"
    assert weft("unsubscribe", "q", "--to", "file:b.csv").err.startswith("refused: the answers of q do not go to")
    assert "no test row was added" in weft("channel", "test", "file:a.jsonl").out
    assert not session_started()


def test_a_channel_whose_messages_are_older_than_those_shown_is_not_told_as_new(weft: Weft, made: Path) -> None:
    assert weft("subscribe", "q", "--to", "file:b.csv").code == 0
    assert weft("mute", "q", "--to", "file:a.jsonl").code == 0
    for _ in range(3):
        with Home.open(made) as opened:
            answered(opened, "q", 1)
            opened.deliver()
    assert weft("unmute", "q", "--to", "file:a.jsonl", "--skip").code == 0
    assert weft("subscribe", "q", "--to", "file:c.csv").code == 0
    told = " ".join(weft("deliveries", "q", "--limit", "3").out.split())
    assert "file:a.jsonl of q: no answers wait, and none of the latest 3 messages is its own (see --limit)." in told
    assert "file:c.csv of q: no answers were sent, and none wait." in told
    assert (told.count("no answers were sent"), told.count("file:b.csv")) == (1, 3)
    assert "none of the latest" not in weft("deliveries", "q").out


def test_what_is_parked_is_told_everywhere(weft: Weft, made: Path) -> None:
    assert weft("status", "--json").json["healthy"] is True
    assert weft("status").out.endswith("No problems.\n")
    with Home.open(made) as opened, opened.catalog.delivering(opened.clock) as sender:
        sender.subscriptions.note_failure(1, "no room", None)
    told = weft("status")
    assert (told.code, "PROBLEM: file:a.jsonl of q is parked: no room" in told.out) == (1, True)
    found = weft("status", "--json").json
    assert (found["healthy"], found["deliveries"]["parked"], found["lag_seconds"]) == (False, 1, None)
    assert "active, 1 of 1 channels parked" in weft("queries").out
    assert weft("queries", "--json").json[0]["parked"] == 1
    assert "channel    file:a.jsonl: 2 of 2 delivered; parked: no room" in weft("show", "q").out
    assert "file:a.jsonl of q is parked: no room" in weft("doctor").out
    assert weft("resume", "q").code == 0
    assert weft("status").code == 0


def test_answers_come_as_csv_as_a_file_has_them(weft: Weft, made: Path) -> None:
    assert weft("subscribe", "q", "--to", "file:b.csv", "--from-start").code == 0
    with Home.open(made) as opened:
        opened.deliver()
    assert weft("results", "q", "--csv").out == (made / "files" / "b.csv").read_text()
    assert len(weft("results", "q", "--csv", "--after", "1").out.splitlines()) == 2
    assert weft("results", "q", "--csv", "--json").code == 2


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
            assert process.wait(20) == 130
        finally:
            process.kill()
