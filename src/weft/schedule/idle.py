"""Maintain a home while nothing is due, one step at a time, at most one round every ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from weft.errors import LeaseBusy, WeftError
from weft.execution.home import OpenHome
from weft.execution.maintenance import Step, maintain
from weft.interruption import CancelToken, Stopped, cancellable_by

EVERY_US: Final = 10 * 60 * 1_000_000
"""Pause before the first round of maintenance and between rounds, in microseconds."""


@dataclass
class Idle:
    """Maintains one home in small steps, and calls ``maintained`` for each step and ``troubled`` for each error.

    An error ends the current round only; the next round starts from the beginning.
    """

    home: OpenHome
    maintained: Callable[[Step], None]
    troubled: Callable[[WeftError], None]
    every_us: int = EVERY_US
    _round: Iterator[Step] | None = field(default=None, init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.home.clock() + self.every_us

    def step(self, cancel_token: CancelToken) -> bool:
        """Take one step if it is time; return whether another may follow. ``cancel_token`` can stop it between steps.

        The longest steps write one file or build one arrangement.
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
