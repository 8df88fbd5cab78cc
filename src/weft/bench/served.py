"""Measure commands run through ``weft serve``: their wall time, and the processor time of both processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weft.errors import ExecutionError

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of wall clock, of processors in the command, and meanwhile in the server with its Java."""

    wall: float
    client: float
    server: float


@contextmanager
def serving(home: Path, environ: Mapping[str, str]) -> Iterator[int]:
    """Run a ``weft serve`` of the home, warm after its rehearsal, during the block, and yield its process id.

    Raises ExecutionError if it does not start, or ends during its rehearsal.
    """
    command = [sys.executable, "-m", "weft", "serve", "--home", str(home)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, text=True
    ) as process:
        try:
            if process.stdout is None or not process.stdout.readline().startswith("Serving"):
                raise ExecutionError("weft serve did not start", hint="Run it yourself to see its output.")
            if not any(line.startswith("Warm") for line in process.stdout):
                raise ExecutionError("weft serve ended during its rehearsal")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def cost(command: Sequence[str], environ: Mapping[str, str], server: int) -> Cost:
    """Run a weft command and return its cost; raise ExecutionError if it fails or no server runs it."""
    server_before, before = _processor(server), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ,
    )
    stderr = process.stderr.read() if process.stderr is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or stderr:
        raise ExecutionError(
            f"weft {command[0]} through a server failed with exit code {process.returncode}: {stderr.decode()!r}"
        )
    return Cost(wall, usage.ru_utime + usage.ru_stime, _processor(server) - server_before)


def _processor(pid: int) -> float:
    """Return the processor seconds of a process and its descendants."""
    # The name is in parentheses and may contain spaces; the times are fields 12 and 13 after it.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
    threads = Path(f"/proc/{pid}/task").iterdir()  # a process is a child of the thread that started it
    below = [child for thread in threads for child in (thread / "children").read_text(encoding="utf-8").split()]
    return own + sum(_processor(int(child)) for child in below)
