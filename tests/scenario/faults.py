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

_OF_THE_STORE = ("reply", "request", "500", "503", "412", "slow")
"""The reply is lost, the request is lost, the server answers an error, the server is slow."""
_OF_THE_OTHERS = ("worker", "postgresql")
"""A worker is killed and another starts; the database server is restarted."""
_SLOW_SECONDS = 3.0
_MOST_A_PROCESS = 4
_LAST_REQUEST = 300


@dataclass(frozen=True)
class Faults:
    """The faults of one process: their kinds by the number of a request, and the failpoint that kills the driver."""

    at_request: dict[int, str]
    failpoint: str | None


NONE = Faults({}, None)


def drawn(chance: random.Random, failpoints: Sequence[str]) -> Faults:
    """Draw the faults of a process. In half of the processes the driver is killed."""
    numbers = chance.sample(range(1, _LAST_REQUEST), chance.randint(1, _MOST_A_PROCESS))
    kinds = (_OF_THE_STORE, _OF_THE_STORE, _OF_THE_OTHERS)
    point = f"{chance.choice(failpoints)}:{chance.choice((1, 1, 2, 3))}" if chance.random() < 0.5 else None
    return Faults({number: chance.choice(chance.choice(kinds)) for number in sorted(numbers)}, point)


@dataclass
class Disturbance:
    """The proxy's function (``s3_server.lossy``). ``happened`` counts the faults by kind."""

    cluster: Cluster
    database: Server
    happened: Counter[str] = field(default_factory=Counter)
    _due: dict[int, str] = field(default_factory=dict)
    _requests: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, faults: Faults) -> None:
        """Count requests from here on, and cause these faults."""
        with self._lock:
            self._due, self._requests = dict(faults.at_request), 0

    def __call__(self, method: str, path: str) -> str | None:
        """Return what happens to this request."""
        with self._lock:
            self._requests += 1
            number = min(self._due, default=self._requests + 1)
            if number > self._requests:
                return None
            kind = self._due[number]
            if kind == "412" and not (method == "PUT" and "_delta_log" in path):
                return None  # only a conditional write can have this answer: wait for the next
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
