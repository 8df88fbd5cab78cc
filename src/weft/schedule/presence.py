"""Who else ticks a home.

Two at once are safe, since each tick holds the lease; one is enough, and whoever starts the second may not know.
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
    """Notes for the block that this process ticks the home; gives the process that does already, None where none does.

    The system forgets a process that ended, however it did.  Where the home's file system has no locks nobody is told.
    """
    make_file(layout.runner_file(home))
    with layout.runner_file(home).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            found = file.read().strip()
            yield int(found) if found.isdigit() else None
            return
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield None
