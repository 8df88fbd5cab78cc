"""Python's collector of circular garbage, while very many objects are made that live on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 200_000
_lock: Final = threading.Lock()
_running: Final[list[None]] = []
"""One entry for each thread within the block."""
_before: Final[list[int]] = []


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Within the block the collector looks once in 200,000 new objects.

    A tick makes some objects for each of its queries.  With Python's own pace (700) they were gone through again and
    again, which took half of the time in which they are made.
    """
    with _lock:
        if not _running:
            _before[:] = gc.get_threshold()
            gc.set_threshold(max(_OBJECTS, _before[0]), *_before[1:])
        _running.append(None)
    try:
        yield
    finally:
        with _lock:
            _running.pop()
            if not _running:
                gc.set_threshold(*_before)
