"""Who holds a lease: this process, named so that another on the same machine can tell that it is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """``host:pid:start``; the start tells a process from a later one that was given the same number."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def is_gone(holder: str) -> bool:
    """Whether the holder was a process of this machine that no longer runs.

    False where that cannot be known: another machine, or a name of another form.  Its lease must then run out.
    """
    host, _, rest = holder.rpartition(":")
    host, _, number = host.rpartition(":")
    if host != socket.gethostname() or not number.isdigit():
        return False
    pid = int(number)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs, as another user
        return False
    return _started(pid) != rest


def _started(pid: int) -> str:
    """When the process started, in the kernel's ticks since boot; empty where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command's name is in brackets and may itself hold blanks and brackets.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""
