"""One thread at a time uses Spark: its turn.

A session of Spark is shared by the threads of a process, and so are its settings and the JVM.  Whoever computes a
query, changes a setting for a while or ends the JVM does so in its turn.  Then the end of the JVM, and the time that
passes, are the doing of the query that runs, and a setting is put back before another thread reads it.
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
    """Holds the turn within the block; a thread may take it again.  Raises Stopped while it waits for it."""
    while not _TURN.acquire(timeout=_POLL_SECONDS):
        stop_here()
    try:
        yield
    finally:
        _TURN.release()
