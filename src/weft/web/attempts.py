"""Limit how often somebody may try to sign in."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

_WINDOW_US: Final = 5 * 60 * 1_000_000
_OF_NAME: Final = 10
"""The most failures for one name within five minutes."""
_OF_ADDRESS: Final = 30
"""The most failures from one address within five minutes."""
_KNOWN: Final = 10_000
"""The maximum number of names and addresses that are remembered."""


class Attempts:
    """The failed attempts of the last minutes.  ``clock`` is the wall clock in microseconds UTC."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._failures: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        self._lock = threading.Lock()

    def are_too_many(self, name: str, address: str) -> bool:
        """Return whether this name, or this address, has failed too often."""
        with self._lock:
            return any(len(self._recent(key)) >= most for key, most in self._keys(name, address))

    def failed(self, name: str, address: str) -> None:
        """Record a failure."""
        with self._lock:
            if len(self._failures) > _KNOWN:
                for key in [key for key in self._failures if not self._recent(key)]:
                    del self._failures[key]
            for key, _ in self._keys(name, address):
                self._failures[key].append(self._clock())

    def succeeded(self, name: str) -> None:
        """Forget the failures for a name."""
        with self._lock:
            self._failures.pop(("name", name.casefold()), None)

    def _keys(self, name: str, address: str) -> tuple[tuple[tuple[str, str], int], ...]:
        return (("name", name.casefold()[:200]), _OF_NAME), (("address", address), _OF_ADDRESS)

    def _recent(self, key: tuple[str, str]) -> deque[int]:
        times, since = self._failures[key], self._clock() - _WINDOW_US
        while times and times[0] < since:
            times.popleft()
        return times
