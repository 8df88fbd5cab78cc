"""Faults of the parts that a home on a cluster needs: the driver, the workers, the object store and the database.

Most faults happen at a request to the object store. Requests are a clock that all parts share: a process makes
hundreds of them, in each of its phases. A driver is killed at a failpoint.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from postgresql_server import Server
from standalone_cluster import Cluster

KINDS = ("reply", "request", "500", "503", "412", "slow", "worker", "postgresql")
"""The reply is lost, the request is lost, the server answers an error, the server is slow. A worker is killed and
another starts. The database server is restarted.
"""
OF_EACH_KIND = 5
_FIRST = {"delivery.recovered": "delivery.torn"}
"""Points that a process passes only after a kill at another point."""
_SLOW_SECONDS = 3.0
_MOST_A_PROCESS = 5
_LAST_REQUEST = 250


@dataclass(frozen=True)
class Faults:
    """The faults of one process: their kinds by the number of a request, and the failpoint that kills the driver."""

    at_request: dict[int, str]
    failpoint: str | None


class Deck:
    """Each failpoint once, and each other fault several times, in a random order. What does not happen comes again."""

    def __init__(self, chance: random.Random, failpoints: Sequence[str]) -> None:
        self._chance = chance
        self._kinds = list(KINDS) * OF_EACH_KIND
        self._points = list(failpoints)
        self._killed_at: str | None = None
        chance.shuffle(self._kinds)
        chance.shuffle(self._points)

    def __bool__(self) -> bool:
        """Return whether a fault has not happened yet."""
        return bool(self._kinds or self._points)

    def draw(self) -> Faults:
        """Take the faults of a process."""
        drawn, self._kinds = self._kinds[:_MOST_A_PROCESS], self._kinds[_MOST_A_PROCESS:]
        numbers = self._chance.sample(range(1, _LAST_REQUEST), len(drawn))
        return Faults(dict(zip(sorted(numbers), drawn, strict=True)), self._next_point())

    def _next_point(self) -> str | None:
        if not self._points:
            return None
        first = _FIRST.get(self._points[0])
        return first if first is not None and first != self._killed_at else self._points[0]

    def ended(self, faults: Faults, how: str, left: Sequence[str]) -> None:
        """Take back the faults that did not happen in a process: those in ``left``, and a kill that did not occur."""
        self._kinds += left
        if how == "killed":
            self._killed_at = faults.failpoint
            self._points = [point for point in self._points if point != faults.failpoint]
        elif how == "done":
            self._killed_at = None
            self._points = self._points[1:] + self._points[:1]


@dataclass
class Disturbance:
    """The proxy's function (``s3_server.lossy``). ``happened`` counts the faults by kind."""

    cluster: Cluster
    database: Server
    happened: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    _due: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, at_request: dict[int, str]) -> None:
        """Count requests from here on, and cause these faults."""
        with self._lock:
            self._due, self.requests = dict(at_request), 0

    def end(self) -> list[str]:
        """Cause no more faults, and return those that did not happen."""
        with self._lock:
            left, self._due = list(self._due.values()), {}
        return left

    def __call__(self, method: str, path: str) -> str | None:
        """Return what happens to this request."""
        with self._lock:
            self.requests += 1
            conditional = method == "PUT" and "_delta_log" in path  # only such a request can have the answer 412
            due = (each for each, kind in self._due.items() if kind != "412" or conditional)
            number = min(due, default=self.requests + 1)
            if number > self.requests:
                return None
            kind = self._due[number]
            del self._due[number]
            self.happened[kind] += 1
        return self._cause(kind)

    def _cause(self, kind: str) -> str | None:
        if kind == "slow":
            time.sleep(_SLOW_SECONDS)
        elif kind == "postgresql":
            self.database.restart()
        elif kind == "worker":
            self.cluster.kill_worker(min(self.cluster.workers))
            self.cluster.start_worker()
        else:
            return kind
        return None
