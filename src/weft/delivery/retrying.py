"""When a channel that failed is tried again: after pauses that grow, each drawn out a little by chance.

So what many subscriptions hand to one server does not come back to it all at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000_000
JITTER: Final = 0.25
"""By how much a pause is longer at most, as a share of it."""


@dataclass(frozen=True)
class Schedule:
    """The pauses after the first failure, the second, and so on, in microseconds; after one more it is parked."""

    pauses: tuple[int, ...]

    @property
    def attempts(self) -> int:
        """After so many failures in a row a subscription is parked."""
        return len(self.pauses) + 1

    def next_attempt(
        self, failures: int, at: int, *, asked: int = 0, drawn: Callable[[], float] = random.random
    ) -> int | None:
        """The instant of the next attempt, ``at`` being that of a failure after ``failures`` others in a row.

        ``asked`` is how long the place wants to be left alone at least (microseconds).  None: it is parked.

        >>> Schedule((10, 20)).next_attempt(1, 100, drawn=lambda: 1.0), Schedule((10, 20)).next_attempt(2, 100)
        (125, None)
        """
        if failures >= len(self.pauses):
            return None
        pause = max(self.pauses[failures], asked)
        return at + round(pause * (1 + JITTER * drawn()))


DOUBLING: Final = Schedule(tuple(min(10 << failures, 3_600) * _SECOND for failures in range(7)))
"""Ten seconds, and twice as long each time."""
