"""Run ``weft run``: poll and tick when due, until stopped.

The runner holds the lease for one tick at a time. If another process also ticks the home, the runner reports that
process. Two such processes are safe, because each tick holds the lease. While no query is due, the runner maintains the
home step by step. At most one round of maintenance starts every ten minutes.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from weft.access import make_file
from weft.catalog import layout
from weft.catalog.records import Choice
from weft.delivery.outbox import Delivered, deliver
from weft.errors import (
    CatalogUnreachable,
    ClockError,
    ExecutionError,
    ExtractionError,
    LeaseBusy,
    LeaseLost,
    Refused,
    StoreUnreachable,
    WeftError,
)
from weft.execution.home import OpenHome
from weft.execution.maintenance import Step, maintain
from weft.execution.temporal.refresh_views import Refreshed, refresh_eager, refresh_queried
from weft.extraction.sources.attached import take_new_versions
from weft.extraction.sources.polling import poll_feed
from weft.extraction.sources.source_lease import Accepting, Polled
from weft.faults import isolated_error
from weft.instants import LAST_INSTANT
from weft.interruption import CancelToken, Stopped, cancellable_by
from weft.schedule.ticking import Ticked, all_quiet, recheck, tick

PACE_US: Final = 10 * 1_000_000
"""Time between two ticks of a query without a chosen timeliness, in microseconds."""

_SLICE_SECONDS: Final = 0.2
_LEASE_WAIT_US: Final = 30 * 1_000_000
_REST_US: Final = 200_000
"""Length of the pause between two ticks, in microseconds. Other commands can take the lease in this pause."""
_FIRST_PAUSE_US: Final = 5 * 1_000_000
_LONGEST_PAUSE_US: Final = 300 * 1_000_000
_CARRIER_SECONDS: Final = 5.0
"""At the end, the runner waits at most this many seconds for a message that is being sent."""
_GIVE_UP: Final = 3
"""If Spark has never succeeded, the runner raises Spark's error after this many failures."""


@dataclass
class Stop:
    """A request to stop the runner. A signal handler makes the request."""

    cancel_token: CancelToken = field(default_factory=CancelToken)

    @property
    def wished(self) -> bool:
        """Whether the runner was asked to stop."""
        return self.cancel_token.cancelled

    def ask(self) -> None:
        """Ask the runner to stop after the current tick."""
        self.cancel_token.cancel()

    def wait(self, length_us: int) -> None:
        """Sleep for ``length_us`` microseconds. Return early if the runner is asked to stop."""
        until = time.monotonic() + length_us / 1_000_000
        while not self.wished and (remaining := until - time.monotonic()) > 0:
            time.sleep(min(remaining, _SLICE_SECONDS))


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Let SIGTERM and SIGINT stop the runner after the current tick. A second SIGINT stops the runner at once.

    Only the main thread receives signals. In any other thread, this function has no effect.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, _frame: FrameType | None) -> None:
        if stop.wished and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.ask()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Runner:
    """The runner of one home.

    ``ticked``, ``delivered``, ``troubled``, ``maintained`` and ``polled`` are called for each event. A separate thread
    delivers answers to channels. A stalled channel therefore delays only deliveries.
    """

    home: OpenHome
    ticked: Callable[[Ticked], None]
    delivered: Callable[[list[Delivered]], None]
    troubled: Callable[[WeftError], None]
    maintained: Callable[[Step], None]
    polled: Callable[[Polled], None] = lambda _: None
    pace_us: int = PACE_US
    _worked: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)
    _news: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self, stop: Stop) -> None:
        """Poll, tick and deliver until ``stop`` asks the runner to stop.

        Raise errors that no later tick can repair: StorageError, or ExecutionError if Spark never starts.
        """
        if self.home.catalog.home().clock != "wall":
            raise Refused(
                "this home has a replay clock, which only `weft tick --now T` moves",
                hint="Tick the home with `weft tick --now T`, or create a home with a wall clock: `weft init`.",
            )
        over = threading.Event()
        carrier = threading.Thread(target=self._carry, args=(over,), name="weft-deliver", daemon=True)
        carrier.start()
        idle = Idle(self.home, self.maintained, self.troubled)
        try:
            while not stop.wished:
                length = self._step()
                if length > _REST_US and idle.step(stop.cancel_token):
                    length = _REST_US
                stop.wait(length)
        finally:
            over.set()
            self._news.set()
            # The next delivery undoes or resends messages that a stalled channel has not accepted.
            carrier.join(_CARRIER_SECONDS)

    def _step(self) -> int:
        """Return the microseconds until the next source or query is due."""
        try:
            return min(self._poll_due(), self._tick_due())
        except (CatalogUnreachable, StoreUnreachable) as error:  # a server is being restarted, for example
            self.troubled(error)
            return _FIRST_PAUSE_US

    def _poll_due(self) -> int:
        """Poll the sources that are due. Return the microseconds until the next source is due.

        If a source fails, report the error and poll the other sources. The eager views are refreshed once, after all
        polls.
        """
        changed = False
        polled: set[str] = set()
        for source in self.home.catalog.sources.all():
            if source.due_at <= self.home.clock() and source.name not in polled:
                try:
                    done = poll_feed(self.home, source.name, Accepting())
                except WeftError as error:
                    message = f"{source.name} was not polled: {error.message}"
                    self.troubled(ExtractionError(message, hint=error.hint, where=error.where))
                else:
                    polled |= {each.name for each in done}
                    changed = changed or any(each.at is not None for each in done)
                    for each in done:
                        self.polled(each)
        if changed:
            self._refresh_views(refresh_eager)
        dues = [source.due_at for source in self.home.catalog.sources.all()]
        return max(min(dues, default=LAST_INSTANT) - self.home.clock(), _REST_US)

    def _refresh_views(self, refresh: Callable[[OpenHome], tuple[Refreshed, ...]]) -> None:
        try:
            done = refresh(self.home)
        except WeftError as error:
            self.troubled(error)
            return
        for each in done:
            if each.trouble is not None:
                message = f"the view {each.name} was not refreshed: {each.trouble.message}"
                self.troubled(ExecutionError(message, hint=each.trouble.hint))

    def _tick_due(self) -> int:
        at = self.home.clock()
        wake = self.home.catalog.queries.next_wake(self.pace_us)
        if wake is None or wake > at:
            return self.pace_us if wake is None else min(wake - at, self.pace_us)
        try:
            if self.home.catalog.rechecks.due():
                recheck(self.home, _LEASE_WAIT_US)
            stopped = take_new_versions(self.home)
        except (LeaseBusy, LeaseLost) as error:
            self.troubled(error)
            return _FIRST_PAUSE_US
        for each in stopped:
            self.troubled(each)
        self._refresh_views(refresh_queried)
        if all_quiet(self.home.catalog, at):
            return self.pace_us
        return self._tick(self.home.clock())

    def _tick(self, at: int) -> int:
        try:
            done = tick(self.home, Choice(due_at=at), t=None, wait_us=_LEASE_WAIT_US)
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
        self._news.set()
        return _REST_US

    def _carry(self, over: threading.Event) -> None:
        """Deliver answers after each tick, and retry failed channels, until ``over`` is set."""
        while not over.is_set():
            self._news.clear()
            try:
                at = self.home.clock()
                subscriptions = self.home.catalog.subscriptions
                if subscriptions.waiting(at, at) or subscriptions.digests_due(at):
                    done = deliver(self.home.catalog, self.home.folder, at, clock=self.home.clock)
                    if done:
                        self.delivered(done)
            except LeaseBusy:
                pass  # another process is delivering
            except Exception as error:  # noqa: BLE001 - the next round delivers, whatever stopped this one
                logs = layout.logs_folder(self.home.folder)
                self.troubled(isolated_error(error, logs, self.home.clock, "delivering"))
            self._news.wait(self._rest_us() / 1_000_000)

    def _rest_us(self) -> int:
        """Return the microseconds until a digest or a retry is due, at most ``pace_us``."""
        try:
            at = self.home.clock()
            due = self.home.catalog.subscriptions.next_due(at)
        except WeftError:  # the next delivery reports the error
            return self.pace_us
        return self.pace_us if due is None else min(max(due - at, _REST_US), self.pace_us)


@contextmanager
def ticking_alone(home: Path) -> Iterator[str | None]:
    """While the block runs, register this process as the process that ticks the home.

    Provide the process ID and the machine of another registered process, or None. The operating system removes the
    registration when the process ends. On a file system without locks, the result is always None.
    """
    make_file(layout.runner_file(home))
    with layout.runner_file(home).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            yield file.read().strip() or None
            return
        file.truncate(0)
        file.write(f"{os.getpid()} of {socket.gethostname()}\n")
        file.flush()
        yield None


EVERY_US: Final = 10 * 60 * 1_000_000
"""Time between two rounds of maintenance, in microseconds."""
FIRST_US: Final = 60 * 1_000_000
"""Time before the first round, which builds arrangements so that a tick does not have to, in microseconds."""


@dataclass
class Idle:
    """The maintenance of one home in small steps.

    ``maintained`` is called after each step, and ``troubled`` for each error. An error ends the current round only. The
    next round starts from the beginning.
    """

    home: OpenHome
    maintained: Callable[[Step], None]
    troubled: Callable[[WeftError], None]
    every_us: int = EVERY_US
    _round: Iterator[Step] | None = field(default=None, init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.home.clock() + min(FIRST_US, self.every_us)

    def step(self, cancel_token: CancelToken) -> bool:
        """Do one step if maintenance is due. Return whether another step may follow.

        ``cancel_token`` can stop the maintenance between steps.
        """
        if self._round is None:
            if self.home.clock() < self._next:
                return False
            self._round = maintain(self.home)
        done = None
        try:
            with cancellable_by(cancel_token), suppress(Stopped):
                done = next(self._round, None)
        except LeaseBusy:
            pass  # another process is working on this home, so it is not idle
        except WeftError as error:
            self.troubled(error)
        if done is None:
            self._round, self._next = None, self.home.clock() + self.every_us
            return False
        self.maintained(done)
        return True
