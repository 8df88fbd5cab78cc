"""Read the wall clock. All other modules receive the time as an argument."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the wall clock time in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000
