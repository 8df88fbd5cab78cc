"""``weft run``: ticks by timeliness until it is told to stop, holding the lease for one tick at a time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from weft.catalog import Catalog
from weft.catalog.records import QueryRecord
from weft.delivery.outbox import Delivered, deliver
from weft.errors import ClockError, ExecutionError, LeaseBusy, LeaseLost, Refused, WeftError
from weft.schedule.ticking import Ticked, all_quiet, tick
from weft.schedule.timeliness import due, next_wake

PACE_US: Final = 10 * 1_000_000
"""How often queries without a timeliness of their own are run, in microseconds."""

_SLICE_SECONDS: Final = 0.2
_LEASE_WAIT_US: Final = 30 * 1_000_000
_REST_US: Final = 200_000
"""Between two ticks, so that other commands come by the lease."""
_FIRST_PAUSE_US: Final = 5 * 1_000_000
_LONGEST_PAUSE_US: Final = 300 * 1_000_000
_GIVE_UP: Final = 3
"""Spark failing so often before it ever worked is a matter of the installation: the runner says so and ends."""


@dataclass
class Stop:
    """The wish to stop; a plain flag, since it is raised from a signal's handler."""

    wished: bool = False

    def wait(self, length_us: int) -> None:
        """Sleeps, but not much longer than until the wish is there."""
        until = time.monotonic() + length_us / 1_000_000
        while not self.wished and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """SIGTERM and SIGINT ask to stop after the tick that is under way; a second SIGINT stops at once."""
    stop = Stop()

    def ask(number: int, _frame: FrameType | None) -> None:
        if stop.wished and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.wished = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Runner:
    """Runs one home; ``ticked``, ``delivered`` and ``troubled`` hear what happens.  ``clock`` is the wall's."""

    catalog: Catalog
    home: Path
    session: Callable[[], Any]
    clock: Callable[[], int]
    ticked: Callable[[Ticked], None]
    delivered: Callable[[list[Delivered]], None]
    troubled: Callable[[WeftError], None]
    pace_us: int = PACE_US
    _worked: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)

    def run(self, stop: Stop) -> None:
        """Ticks until ``stop``; raises what no later tick can mend (StorageError, a Spark that never starts)."""
        if self.catalog.home().clock != "wall":
            raise Refused(
                "this home's clock is replay: it moves by `weft tick --now T` only",
                hint="Tick it, or make a wall home with `weft init`.",
            )
        while not stop.wished:
            stop.wait(self._step())

    def _step(self) -> int:
        """Does what is due now; how long to wait then, in microseconds."""
        at = self.clock()
        queries = self.catalog.queries.all()
        wake = next_wake(queries, at, self.pace_us)
        if wake is None or wake > at:
            self._deliver_late(at)
            return self.pace_us if wake is None else min(wake - at, self.pace_us)
        if all_quiet(self.catalog, due(queries, at), at):
            self._deliver_late(at)
            return self.pace_us
        return self._tick()

    def _tick(self) -> int:
        def choose(queries: Sequence[QueryRecord]) -> tuple[QueryRecord, ...]:
            return due(queries, self.clock())

        try:
            done = tick(self.catalog, self.home, self.session, choose, t=None, clock=self.clock, wait_us=_LEASE_WAIT_US)
        except (LeaseBusy, LeaseLost, ClockError) as error:
            self.troubled(error)
            return _FIRST_PAUSE_US
        except ExecutionError as error:
            self._failures += 1
            if not self._worked and self._failures >= _GIVE_UP:
                raise
            self.troubled(error)
            return min(_FIRST_PAUSE_US << min(self._failures - 1, 10), _LONGEST_PAUSE_US)
        self._worked, self._failures = True, 0
        self.ticked(done)
        return _REST_US

    def _deliver_late(self, at: int) -> None:
        """Gives a channel that failed its next attempt, between ticks."""
        rows = {query.query_id: query.rows for query in self.catalog.queries.all()}
        waiting = [
            one
            for one in self.catalog.subscriptions.all()
            if one.state == "active"
            and one.channel != "cursor"
            and one.delivered < rows.get(one.query_id, 0)
            and (one.next_attempt_at is None or one.next_attempt_at <= at)
        ]
        if not waiting:
            return
        try:
            self.delivered(deliver(self.catalog, self.home, at, clock=self.clock))
        except (LeaseBusy, LeaseLost) as error:
            self.troubled(error)
