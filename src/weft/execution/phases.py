"""Measure the duration of each named phase of a tick.

Without a listener, a phase costs almost nothing. With a listener, a phase costs two reads of a monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

PLANNING: Final = "settling, planning"
READING: Final = "reading news and look-ups"
ANALYSIS: Final = "Spark's analysis"
COMPUTING: Final = "computing"
TAKING_IN: Final = "processing states"
SETTLING: Final = "known answers, ordinals"
COMMITTING: Final = "commit"
COUNTING: Final = "counting"

_seconds: ContextVar[dict[str, float] | None] = ContextVar("seconds", default=None)


@contextmanager
def measure_phases() -> Iterator[dict[str, float]]:
    """Provide a dictionary with the duration of each completed phase in seconds."""
    seconds: dict[str, float] = {}
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Add the duration of the block to the phase with this name. Phases must not be nested."""
    seconds = _seconds.get()
    if seconds is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
