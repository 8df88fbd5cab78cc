"""Maintenance while nothing is due: a step at a time, begun every ten minutes at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from weft.errors import LeaseBusy, WeftError
from weft.execution.home import Home
from weft.execution.maintenance import Step, maintain
from weft.interruption import CancelToken, Stopped, cancellable_by

EVERY_US: Final = 10 * 60 * 1_000_000
"""From the end of one round of maintenance to the beginning of the next, and before the first, in microseconds."""


@dataclass
class Idle:
    """Maintains one home in small steps; ``maintained`` and ``troubled`` hear what happens.

    What a step raises ends its round and nothing else: the next round begins anew.
    """

    home: Home
    maintained: Callable[[Step], None]
    troubled: Callable[[WeftError], None]
    every_us: int = EVERY_US
    _round: Iterator[Step] | None = field(default=None, init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.home.clock() + self.every_us

    def step(self, cancel_token: CancelToken) -> bool:
        """Take one step if it is time; return whether another may follow.  ``cancel_token`` can stop it between steps.

        What takes longest is to write one file, or to build one arrangement.
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
            pass  # somebody else is at work: this home is not idle
        except WeftError as error:
            self.troubled(error)
        if done is None:
            self._round, self._next = None, self.home.clock() + self.every_us
            return False
        self.maintained(done)
        return True
