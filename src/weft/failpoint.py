"""Named points at which a test may kill the process, as a power cut would.

Every durable step of a load, a tick and a delivery passes a named point. ``WEFT_FAILPOINT`` names the point at which
the process is killed. The value ``tick.written`` kills the process when it first reaches this point. The value
``tick.written:3`` kills the process when it reaches the point for the third time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_passes: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process by SIGKILL if ``WEFT_FAILPOINT`` names the point ``name`` (design law 6)."""
    wanted = os.environ.get("WEFT_FAILPOINT")
    if not wanted:
        return
    target, _, count = wanted.partition(":")
    if target != name:
        return
    _passes[name] += 1
    if _passes[name] >= int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
