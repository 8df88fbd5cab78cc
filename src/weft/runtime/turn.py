"""Give Spark to one thread at a time. The thread that may use Spark has the *turn*.

The threads of a process share a Spark session, its settings and the JVM. A thread needs the turn to compute a query, to
change a setting temporarily, or to kill the JVM. If the JVM ends or a time limit expires, the query with the turn is
therefore the cause. A changed setting is restored before another thread reads it.
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
    """Hold the turn (reentrant) during the ``with`` block. Raise Stopped if the command is cancelled while the thread
    waits.
    """
    while not _TURN.acquire(timeout=_POLL_SECONDS):
        stop_here()
    try:
        yield
    finally:
        _TURN.release()
