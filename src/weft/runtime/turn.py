"""Let one thread at a time use Spark: its turn.

The threads of a process share a session of Spark, its settings and the JVM.  A thread that computes a query, changes a
setting temporarily or kills the JVM holds the turn.  So the end of the JVM and the elapsed time are due to the query
that runs, and a setting is restored before another thread reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from weft.interruption import stop_here

_TURN: Final = threading.RLock()
_POLL_SECONDS: Final = 0.2


@contextmanager
def turn() -> Iterator[None]:
    """Hold the turn within the block (reentrant).  Raises Stopped while waiting for it."""
    while not _TURN.acquire(timeout=_POLL_SECONDS):
        stop_here()
    try:
        yield
    finally:
        _TURN.release()
