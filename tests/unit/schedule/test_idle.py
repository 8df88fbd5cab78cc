"""Maintenance while nothing is due: how often, step by step, and that nothing of it stops the ticking.  No Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.api.weft import Weft
from weft.errors import LeaseLost, StorageError, WeftError
from weft.execution import home as home_module
from weft.execution import maintenance
from weft.execution.maintenance import Step
from weft.interruption import CancelToken
from weft.schedule.clock import now_us
from weft.schedule.runner import EVERY_US, FIRST_US, PACE_US, Idle, Runner, Stop
from weft.storage import compaction

SECOND = 1_000_000


class Clock:
    """A wall that moves by hand, and by ``passing`` whenever someone looks."""

    def __init__(self) -> None:
        self.now, self.passing = now_us(), 0

    def __call__(self) -> int:
        self.now += self.passing
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def weft(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    """A home of two tables with four small files each."""
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=4))
    with Weft.open(tmp_path / "home", wall=clock, create=True) as opened:
        for number in range(4):
            for table in ("a", "b"):
                file = tmp_path / "rows.jsonl"
                file.write_text(json.dumps({"n": number, "of": table}) + "\n")
                opened.ingest_file(file, table)
        yield opened


class Heard:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.troubles: list[WeftError] = []

    def of(self, weft: Weft) -> Idle:
        return Idle(weft.opened, self.steps.append, self.troubles.append)


def test_it_is_done_in_steps_and_every_ten_minutes(weft: Weft, clock: Clock) -> None:
    heard = Heard()
    resting = heard.of(weft)
    assert not resting.step(CancelToken())
    clock.now += FIRST_US
    assert [resting.step(CancelToken()) for _ in range(4)] == [True, True, False, False]
    assert [(each.name, each.action) for each in heard.steps] == [("a", "compact"), ("b", "compact")]
    clock.now += EVERY_US
    assert not resting.step(CancelToken())
    assert heard.troubles == []


def test_a_wish_to_stop_ends_the_round_where_nothing_is_half_done(weft: Weft, clock: Clock) -> None:
    heard, cancel_token = Heard(), CancelToken()
    resting = heard.of(weft)
    clock.now += EVERY_US
    assert resting.step(cancel_token)
    cancel_token.cancel()
    assert not resting.step(cancel_token)
    assert [each.name for each in heard.steps] == ["a"]


def test_failures_are_reported_and_retried_later(weft: Weft, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    resting = heard.of(weft)
    real = maintenance.compact

    def fails(*_: object) -> Iterator[Step]:
        raise StorageError("no space left")

    monkeypatch.setattr(maintenance, "compact", fails)
    clock.now += EVERY_US
    assert not resting.step(CancelToken())
    assert [each.message for each in heard.troubles] == ["no space left"]
    monkeypatch.setattr(maintenance, "compact", real)
    assert not resting.step(CancelToken())
    clock.now += EVERY_US
    assert resting.step(CancelToken())


def test_a_home_that_somebody_writes_to_is_not_idle(weft: Weft, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    resting = heard.of(weft)
    clock.now += EVERY_US
    weft.catalog.writer("load", "elsewhere:1:1", clock())
    clock.passing = 30 * SECOND
    assert not resting.step(CancelToken())
    assert (heard.steps, heard.troubles) == ([], [])


class Waiting(Stop):
    """Time goes by at once; the cancel_token to stop comes after some of it."""

    def __init__(self, clock: Clock, length_us: int) -> None:
        super().__init__()
        self.clock, self.until = clock, clock() + length_us

    def wait(self, length_us: int) -> None:
        self.clock.now += length_us
        if self.clock.now >= self.until:
            self.cancel_token.cancel()


def test_the_runner_maintains_when_nothing_is_due(weft: Weft, clock: Clock) -> None:
    heard = Heard()
    runner = Runner(weft.opened, lambda _: None, lambda _: None, heard.troubles.append, heard.steps.append)
    runner.run(Waiting(clock, EVERY_US + 3 * PACE_US))
    assert [(each.name, each.action) for each in heard.steps] == [("a", "compact"), ("b", "compact")]
    assert heard.troubles == []


def test_a_lease_is_renewed_however_long_a_step_takes(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "_RENEW_SECONDS", 0.01)
    renewed = threading.Event()

    def renew(*_: object) -> None:
        renewed.set()
        raise LeaseLost("another one has it")  # which the next transaction notices

    with weft.opened.writing("maintain") as writer:
        monkeypatch.setattr(writer, "renew", renew)
        assert renewed.wait(10)
