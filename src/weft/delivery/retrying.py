"""Schedule the retries of a failed channel, with growing pauses and random jitter.

The jitter prevents many subscriptions from returning to one server at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000_000
JITTER: Final = 0.25
"""The most by which a pause is lengthened, as a fraction of it."""


@dataclass(frozen=True)
class Schedule:
    """The pauses after consecutive failures, in microseconds; one more failure parks the subscription."""

    pauses: tuple[int, ...]

    @property
    def attempts(self) -> int:
        """The number of consecutive failures after which a subscription is parked."""
        return len(self.pauses) + 1

    def next_attempt(
        self, failures: int, at: int, *, asked: int = 0, drawn: Callable[[], float] = random.random
    ) -> int | None:
        """Return the instant of the next attempt after a failure at ``at`` that ``failures`` others preceded.

        ``asked`` is how long the receiver asks senders to wait (microseconds).  None means that the subscription is
        parked.

        >>> Schedule((10, 20)).next_attempt(1, 100, drawn=lambda: 1.0), Schedule((10, 20)).next_attempt(2, 100)
        (125, None)
        """
        if failures >= len(self.pauses):
            return None
        pause = max(self.pauses[failures], asked)
        return at + round(pause * (1 + JITTER * drawn()))


DOUBLING: Final = Schedule(tuple(min(10 << failures, 3_600) * _SECOND for failures in range(7)))
"""Ten seconds, then twice the previous pause."""
