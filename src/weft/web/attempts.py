"""Limit how often somebody may try a password."""

from __future__ import annotations

import ipaddress
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from weft.errors import Refused

_WINDOW_US: Final = 5 * 60 * 1_000_000
_OF_NAME: Final = 10
"""The most failures for one name from one address within five minutes."""
_OF_ADDRESS: Final = 30
"""The most failures from one address within five minutes."""
_KNOWN: Final = 10_000
"""The maximum number of keys that are remembered."""


_Limits: TypeAlias = dict[tuple[str | None, str], int]
"""The limits of a name from an address, and of all names (None) from this address, in this order."""


class TooManyAttempts(Refused):
    """Too many passwords were wrong within five minutes."""


class Attempts:
    """The attempts of the last minutes that have not succeeded.  ``clock`` is the wall clock in microseconds UTC.

    A name is refused only from the address that failed: otherwise anybody could lock somebody out.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._failures: dict[tuple[str | None, str], deque[int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def trying(self, name: str, address: str | None) -> Iterator[None]:
        """Count the attempt of the ``with`` block as a failure until the block ends without an error.

        Raise TooManyAttempts. Each attempt counts from its start, so that parallel attempts cannot
        exceed the limits.
        """
        place = _place(address)
        limits: _Limits = {(name.casefold()[:200], place): _OF_NAME, (None, place): _OF_ADDRESS}
        begun = self._begin(limits)
        yield
        self._end(limits, begun)

    def _begin(self, limits: _Limits) -> int:
        at = self._clock()
        with self._lock:
            self._forget(at)
            if any(len(self._failures.get(key, ())) >= most for key, most in limits.items()):
                raise TooManyAttempts("too many attempts", hint="Wait five minutes, then try again.")
            for key in limits:
                self._failures.setdefault(key, deque()).append(at)
        return at

    def _end(self, limits: _Limits, begun: int) -> None:
        """Forget the failures for the name from this address.  Those of the address for other names stay."""
        named, whole = limits
        with self._lock:
            self._failures.pop(named, None)
            if begun in (times := self._failures.get(whole, deque())):
                times.remove(begun)

    def _forget(self, at: int) -> None:
        """Forget the attempts before the window, and the oldest keys beyond the maximum."""
        for key, times in list(self._failures.items()):
            while times and times[0] <= at - _WINDOW_US:
                times.popleft()
            if not times:
                del self._failures[key]
        for key in list(self._failures)[: max(len(self._failures) - _KNOWN, 0)]:
            del self._failures[key]


def _place(address: str | None) -> str:
    """Return the machine or, for IPv6, the network of an address: one person has all addresses of her network.

    >>> _place("192.0.2.7"), _place("2001:db8::1"), _place(None)
    ('192.0.2.7', '2001:db8::/64', 'unknown')
    """
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "unknown"
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
