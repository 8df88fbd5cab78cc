"""Programs that get answers, real ones: what they get, and what becomes of a message that one does not take."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from weft.delivery.registry import canonical, send_test
from weft.errors import Refused

LATER = 10**15


@pytest.fixture
def program(site: Any, tmp_path: Path) -> Any:
    """Writes a script that the settings allow; the channel that runs it."""

    def written(script: str, timeout: float = 20.0) -> str:
        file = tmp_path / "program"
        file.write_text(f"#!/bin/sh\nset -eu\ncd {tmp_path}\n{script}\n")
        file.chmod(0o755)
        allowed = f"[exec]\ncommands = ['{file} --room \"the ops\"']\ntimeout = {timeout}\n"
        (site.home / "weft.toml").write_text(
            allowed + "[webhook]\nsecret = 'whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cywgbG9uZyBlbm91Z2g='\n"
        )
        return canonical(f"exec: {file}  --room 'the ops'", site.home)

    return written


TAKES = 'cat >> rows; echo "$1=$2" "$WEFT_QUERY" "$WEFT_MESSAGE_ID" >> calls; echo taken >&2'


def test_a_program_gets_rows_and_what_they_are_of(
    site: Any, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_SMTP_PASSWORD", "open sesame")
    channel = program(TAKES + "; env > environment")
    assert channel == f"exec:{tmp_path}/program --room 'the ops'"
    site.tick(site.install("q", channel), 3)
    (done,) = site.deliver()
    assert (done.rows, done.error) == (3, None)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [(row["_ordinal"], row["s"]) for row in rows] == [(n, f"text {n}") for n in (1, 2, 3)]
    home_id = site.catalog.home().home_id
    assert (tmp_path / "calls").read_text() == f"--room=the ops q {home_id}.1-1-3\n"
    assert "sesame" not in (tmp_path / "environment").read_text()
    (entry,) = site.catalog.outbox.latest([1], 20)
    assert (entry.state, entry.reply) == ("sent", "taken")
    assert send_test(channel, site.home, "5f0c", "ann", 0)[1] == "the command accepted a test message: taken"


def test_another_exit_code_is_reported_and_retried(site: Any, program: Any, tmp_path: Path) -> None:
    channel = program("for n in 1 2 3 4 5 6 7; do printf 'line %s\\033[31m\\n' $n >&2; done; exit 3")
    site.tick(site.install("q", channel), 2)
    (failed,) = site.deliver()
    assert "failed with exit code 3: line 3 [31m\nline 4" in (failed.error or "")
    assert "line 2" not in (failed.error or "") and "\x1b" not in (failed.error or "")
    assert [entry.state for entry in site.catalog.outbox.unsent()] == ["failed"]
    program(TAKES)
    assert [done.rows for done in site.deliver(LATER)] == [2]
    assert (tmp_path / "calls").read_text().endswith(".1-1-2\n")


def test_one_that_reads_nothing_may_still_take_it(site: Any, program: Any) -> None:
    site.tick(site.install("q", program("exit 0")), 9_000)
    (done,) = site.deliver()
    assert (done.rows, done.error) == (9_000, None)
    (entry,) = site.catalog.outbox.latest([1], 20)
    assert entry.reply == "exit code 0"


def test_one_that_takes_too_long_is_ended_with_what_it_started(site: Any, program: Any, tmp_path: Path) -> None:
    channel = program("(sleep 3; echo alive >> alive) & sleep 30", timeout=0.5)
    site.tick(site.install("q", channel), 1)
    begun = time.monotonic()
    (failed,) = site.deliver()
    assert "the command took longer than 0.5 s" in (failed.error or "")
    assert time.monotonic() - begun < 15
    (entry,) = site.catalog.outbox.unsent()
    assert entry.state == "unknown"
    program(TAKES)
    assert [done.rows for done in site.deliver(LATER)] == [1]
    assert (tmp_path / "calls").read_text().endswith(f"{entry.idempotency_key}\n")
    time.sleep(max(3.5 - (time.monotonic() - begun), 0))
    assert not (tmp_path / "alive").exists()


def test_a_missing_or_no_longer_allowed_command_is_reported(site: Any, program: Any, tmp_path: Path) -> None:
    site.tick(site.install("q", program(TAKES)), 1)
    (tmp_path / "program").unlink()
    (failed,) = site.deliver()
    assert "did not start: No such file or directory" in (failed.error or "")
    (site.home / "weft.toml").unlink()
    (refused,) = site.deliver(LATER)
    assert "the settings do not allow the command" in (refused.error or "")


@pytest.mark.parametrize("point", ["exec.started", "exec.ended", "delivery.written"])
def test_a_kill_at_any_step_loses_nothing_and_keeps_the_id(site: Any, program: Any, tmp_path: Path, point: str) -> None:
    site.tick(site.install("q", program(TAKES)), 2)
    site.killed(point)
    site.deliver()
    site.deliver(LATER)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {call.rpartition(".")[2] for call in calls} == {"1-1-2"}
    ordinals = {json.loads(line)["_ordinal"] for line in (tmp_path / "rows").read_text().splitlines()}
    assert ordinals == {1, 2}
    assert site.catalog.subscriptions.all()[0].delivered == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "is not a command"),
        ("notify 'ops", "No closing quotation"),
        ("notify", "the settings do not allow"),
        ("notify --room ops; rm -r /", "the settings do not allow"),
        ("notify --room ops extra", "the settings do not allow"),
    ],
)
def test_only_a_command_that_is_allowed_word_for_word_runs(site: Any, command: str, message: str) -> None:
    (site.home / "weft.toml").write_text("[exec]\ncommands = ['notify --room ops']\n")
    assert canonical("exec:notify  --room 'ops'", site.home) == "exec:notify --room ops"
    with pytest.raises(Refused, match=message):
        canonical(f"exec:{command}", site.home)
