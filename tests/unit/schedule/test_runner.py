"""The runner, without Spark: when it ticks, what it survives, how it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from answered import answered
from delta_tables import write_ledger
from weft.algebra.schema import BIGINT, STRING
from weft.api.weft import Weft
from weft.catalog.records import Choice, Count
from weft.delivery.file import FileChannel
from weft.delivery.outbox import Delivered
from weft.errors import ExecutionError, Refused, WeftError
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.sources import attached
from weft.extraction.sources.source_lease import Polled
from weft.instants import parse_instant
from weft.schedule import runner
from weft.schedule.runner import Runner, Stop
from weft.schedule.ticking import Ticked

SECOND = 1_000_000
QUERY = "SELECT msgid FROM msgs"


class Clock:
    """A wall that moves when someone waits."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def weft(tmp_path: Path, clock: Clock) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", wall=clock, create=True) as opened:
        opened.catalog.tables.create("msgs", MAIL_COLUMNS, MAIL_KEY)
        yield opened


class Waiting(Stop):
    """Time goes by at once; the cancel_token to stop comes after some waits."""

    def __init__(self, clock: Clock, waits: int) -> None:
        super().__init__()
        self.clock, self.waits, self.waited = clock, waits, []  # type: ignore[var-annotated]

    def wait(self, length_us: int) -> None:
        self.waited.append(length_us)
        self.clock.now += length_us
        if len(self.waited) >= self.waits:
            self.cancel_token.cancel()


def _run(weft: Weft, stop: Stop) -> tuple[list[Ticked], list[WeftError]]:
    ticks: list[Ticked] = []
    troubles: list[WeftError] = []
    Runner(weft.opened, ticks.append, lambda _: None, troubles.append, lambda _: None).run(stop)
    return ticks, troubles


def test_nothing_to_do_is_not_ticked(weft: Weft, clock: Clock) -> None:
    weft.install("q", QUERY)
    ticks, troubles = _run(weft, Waiting(clock, 4))
    assert ticks == troubles == []
    assert weft.catalog.ticks.latest() == ()


def test_sources_are_polled_as_often_as_each_says(weft: Weft, clock: Clock, tmp_path: Path) -> None:
    file, gone = tmp_path / "staff.csv", tmp_path / "gone.csv"
    for each in (file, gone):
        each.write_text("id\n1\n")
    weft.add_source("staff", "csv", str(file), ["id"], every="25s")
    weft.add_source("gone", "csv", str(gone), ["id"], every="1m")
    gone.unlink()
    polled: list[Polled] = []
    troubles: list[WeftError] = []
    begun = clock.now

    class Writing(Waiting):
        def wait(self, length_us: int) -> None:
            super().wait(length_us)
            file.write_text(f"id\n{self.clock.now}\n")

    stop = Writing(clock, 10)
    Runner(weft.opened, lambda _: None, lambda _: None, troubles.append, lambda _: None, polled.append).run(stop)
    assert sum(stop.waited) == 85 * SECOND
    # With a pace of ten seconds a poll is at its own instant all the same.
    assert [each.at for each in polled] == [begun, begun + 25 * SECOND, begun + 50 * SECOND, begun + 75 * SECOND]
    assert [each.message.partition(":")[0] for each in troubles] == ["gone was not polled"] * 2
    assert weft.catalog.sources.named("staff").trouble is None


def test_a_tick_that_died_is_finished_even_where_nothing_arrived(weft: Weft, clock: Clock) -> None:
    query = weft.install("q", QUERY)
    with weft.writing("tick") as writer:
        writer.ticks.plan(clock(), Choice((query.query_id,)), clock())
    ticks, _ = _run(weft, Waiting(clock, 2))
    assert [len(each.reports) for each in ticks] == [2]
    assert (
        weft.catalog.queries.named("q").tau == clock.now - 2 * runner._REST_US
        or weft.catalog.queries.named("q").tau is not None
    )


def test_a_tick_looks_once_whether_an_attached_table_has_a_new_version(
    weft: Weft, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    real = attached._may_have_news
    monkeypatch.setattr(attached, "_may_have_news", lambda *given: (looked.append(clock.now), real(*given))[1])
    place = tmp_path / "other"
    write_deltalake(place, pa.table({"id": [1]}))
    weft.attach_table("orders", place)
    weft.install("ids", "SELECT id FROM orders", keep="synopsis")
    ticks, troubles = _run(weft, Waiting(clock, 3))
    write_deltalake(place, pa.table({"id": [2]}), mode="append")
    more, again = _run(weft, Waiting(clock, 6))
    assert [sum(each.reports[-1].outcomes[0].rows for each in some) for some in (ticks, more)] == [1, 1]
    assert troubles == again == []
    assert len(looked) == len(set(looked)) >= 2


def test_a_busy_home_is_waited_for(weft: Weft, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_LEASE_WAIT_US", 0)
    monkeypatch.setattr(runner, "all_quiet", lambda *_: False)
    weft.install("q", QUERY)
    weft.catalog.writer("load", "elsewhere:1:1", clock())
    ticks, troubles = _run(weft, Waiting(clock, 2))
    assert ticks == []
    assert "another process is writing to this home" in troubles[0].message


def test_a_spark_that_dies_is_replaced_and_one_that_never_starts_ends_it(
    weft: Weft, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft.install("q", QUERY)
    monkeypatch.setattr(runner, "all_quiet", lambda *_: False)
    outcomes = iter([True, False, False, False, False, True])
    real = runner.tick

    def sometimes(*given: Any, **named: Any) -> Ticked:
        if not next(outcomes):
            raise ExecutionError("Spark's JVM ended")
        return real(*given, **named)

    monkeypatch.setattr(runner, "tick", sometimes)
    stop = Waiting(clock, 8)
    ticks, troubles = _run(weft, stop)
    assert (len(ticks), len(troubles)) == (2, 4)
    pauses = [length for length in stop.waited if length >= 5 * SECOND and length != runner.PACE_US]
    assert sorted(pauses)[-1] == 40 * SECOND  # longer each time

    outcomes = iter([False] * 3)
    with pytest.raises(ExecutionError):
        _run(weft, Waiting(clock, 9))


def test_a_channel_that_stalls_stops_deliveries_only(weft: Weft, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stalled, go_on = threading.Event(), threading.Event()

    def stall(_channel: FileChannel, _message: object, _position: str | None) -> None:
        stalled.set()
        go_on.wait(30)

    monkeypatch.setattr(FileChannel, "send", stall)
    monkeypatch.setattr(runner, "_CARRIER_SECONDS", 0.0)
    monkeypatch.setattr(runner, "all_quiet", lambda *_: not stalled.wait(10))
    query = weft.install("q", QUERY, to=["file:q.jsonl"])
    with weft.writing("tick") as writer:
        tick = writer.ticks.plan(clock(), Choice(), clock())
        write_ledger(weft.home / "ledger", tick.tick_id, [(query.query_id, 1, tick.t, ["a"])])
        writer.ticks.commit(tick.tick_id, {query.query_id: Count(1, None, None, tick.t)}, [("ledger", 0, 1)], 0)
    clock.now += 100 * SECOND
    try:
        ticks, troubles = _run(weft, Waiting(clock, 3))
        assert len(ticks) >= 2
        assert troubles == []
        assert weft.catalog.lease("deliver") is not None
        weft.install("another", QUERY)
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name == "weft-deliver":
                thread.join(30)
    assert weft.catalog.subscriptions.all(query.query_id)[0].delivered == 1


def test_it_wakes_for_a_digest(tmp_path: Path) -> None:
    eight = parse_instant("2026-03-28T08:00Z")
    begun: list[float] = []

    def wall() -> int:
        return eight - SECOND + (int((time.monotonic() - begun[0]) * SECOND) if begun else 0)

    with Weft.open(tmp_path / "home", wall=wall, create=True) as weft:
        weft.catalog.tables.create("t", [("n", BIGINT), ("s", STRING)])
        weft.install("q", "SELECT n, s FROM t", to=["file:a.jsonl"], digest="daily@08:00", zone="UTC")
        answered(weft, "q", 2)
        assert weft.deliver() == []
        stop, found = Stop(), list[tuple[int, int]]()

        def delivered(done: list[Delivered]) -> None:
            found.extend((each.rows, wall()) for each in done)
            stop.cancel_token.cancel()

        begun.append(time.monotonic())
        giving_up = threading.Timer(30, stop.cancel_token.cancel)
        giving_up.start()
        Runner(weft.opened, lambda _: None, delivered, raising, lambda _: None, pace_us=3_600 * SECOND).run(stop)
        giving_up.cancel()
    ((rows, at),) = found
    assert rows == 2
    assert eight <= at < eight + 20 * SECOND


def raising(error: WeftError) -> None:
    raise error


def test_a_replay_home_is_refused(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "replay", clock="replay", create=True) as weft, pytest.raises(Refused):
        _run(weft, Stop())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    Weft.open(tmp_path / "home", create=True).close()
    command = [sys.executable, "-u", "-m", "weft", "run", "--home", str(tmp_path / "home")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    assert process.stdout is not None
    try:
        assert "Ctrl-C stops it" in process.stdout.readline()
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Stopped without loss" in out
