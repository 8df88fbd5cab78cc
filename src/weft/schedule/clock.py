"""The wall's clock: the only place that reads the time, everything else is given it."""

from __future__ import annotations

import time


def now_us() -> int:
    """The wall's time, in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000
