"""The wall clock. This is the only place that reads the time; everything else receives it as an argument."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the wall clock's time in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000
