"""Detect another process that ticks a home.

Two at once are safe, since each tick holds the lease. But one is enough, and whoever starts the second may not know.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.access import make_file
from weft.catalog import layout


@contextmanager
def ticking_alone(home: Path) -> Iterator[int | None]:
    """Register this process as the one that ticks the home, for the block; yield the id of another that does so, or
    None.

    The operating system forgets a process when it ends. On a file system without locks the result is always None.
    """
    make_file(layout.runner_file(home))
    with layout.runner_file(home).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            pid = file.read().strip()
            yield int(pid) if pid.isdigit() else None
            return
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield None
