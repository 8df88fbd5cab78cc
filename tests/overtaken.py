"""A process that is stopped in the middle of its work, and goes on after something else has happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import update

from weft.catalog import Catalog, ddl

_PROGRAM = """
import os, signal, sys
from pathlib import Path
from weft.api import Weft
import {module} as module

real, passes = module.{function}, []

def stopped(*given, **named):
    passes.append(1)
    if len(passes) == {at}:
        os.kill(os.getpid(), signal.SIGSTOP)
    return real(*given, **named)

module.{function} = stopped
with Weft.open(Path(sys.argv[1])) as weft:
    try:
        {command}
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("done")
"""


def overtaken(home: Path, place: tuple[str, str], command: str, act: Callable[[], object], at: int = 1) -> str:
    """Return what a process prints that is stopped as it calls a function, and goes on after ``act``.

    ``place`` has the module and the name of the function, and ``at`` is the number of the call. ``command`` is a
    statement over ``weft``, the open home.
    """
    program = _PROGRAM.format(module=place[0], function=place[1], command=command, at=at)
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(home)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED).si_status == signal.SIGSTOP
        act()
        child.send_signal(signal.SIGCONT)
        return child.communicate(timeout=60)[0]
    finally:
        child.kill()
        child.communicate()


def end_leases(catalog: Catalog) -> None:
    """Let all leases, and those of loads, end by time."""
    with catalog._database.changing() as connection:
        for table in (ddl.leases, ddl.active_loads):
            connection.execute(update(table).values(expires_at=0))
