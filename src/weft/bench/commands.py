"""``weft bench commands``: measure commands over the demo's home, each in a separate process.

    weft bench commands --rounds 5

Each command runs over a fresh copy of one home, alternately without and with the class-data archive. The report has the
medians of the wall time and of the processor time. The processor time includes all processes that the command starts,
including Java and processes that outlive the command. In addition, each round starts a server over a fresh copy and
waits for the end of the rehearsal. Each of the four commands runs once in this server. For these commands, the report
has the processor time of the client and of the server.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from weft.api.weft import Weft
from weft.bench.times import folder_for_tables, write_figures
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, WEEKS, weeks, write_week
from weft.demo.rehearsal import rehearse
from weft.errors import ExecutionError, Refused
from weft.runtime.archiving import make_archive
from weft.runtime.session import stop_session

_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of Linux: the process becomes the parent of orphaned processes and can wait for them."""

WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "cold": {"WEFT_CLASS_ARCHIVE": "off"},
    "archive": {"WEFT_CLASS_ARCHIVE": "auto"},
}
"""Maps each method of running a command to environment variables."""

_QUESTION: Final = (
    "SELECT m.msgid, m.subject FROM msgs m, msgs r WHERE r.inreplyto = m.msgid AND r.newsgroup = 'comp.databases'"
)


@dataclass
class CommandTimes:
    """The wall and processor seconds of a command with one method. Each list has one entry per round."""

    command: str
    way: str
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    """The processor seconds of the server, if the method uses a server."""


def compare(rounds: int, folder: Path | None, out: Path | None, progress: Callable[[str], None]) -> None:
    """Measure each command with each method, print the results, and write the figures to ``out`` as JSON.

    Raise Refused if the system is not Linux or has no class-data archive. Raise ExecutionError if a command fails.
    """
    if sys.platform != "linux":
        raise Refused("weft bench commands runs on Linux only: it measures the processor time of processes")
    if make_archive(rehearse) not in ("made", "there"):
        raise Refused(
            "the class-data archive does not exist",
            hint="Create the archive with `weft prepare`, which also says why it cannot be created.",
        )
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with folder_for_tables(folder) as place:
        commands = prepare(place)
        times = {(name, way): CommandTimes(name, way) for name in commands for way in WAYS}
        for number in range(rounds):
            for (name, way), each in times.items():
                _measure(commands[name], place, WAYS[way], each)
                progress(f"  {number + 1}: {name}, {way}: {each.wall[-1]:.2f} s, processors {each.processor[-1]:.2f} s")
        for number in range(rounds):
            for name, took in _beside_a_server(place, commands).items():
                served = times.setdefault((name, "serve"), CommandTimes(name, "serve"))
                served.wall.append(took.wall)
                served.processor.append(took.client)
                served.server.append(took.server)
                progress(f"  {number + 1}: {name}, serve: {took.wall:.2f} s, server's processors {took.server:.2f} s")
    progress(report(list(times.values())))
    write_figures(out, json.dumps([asdict(each) for each in times.values()], indent=2) + "\n", progress)


def prepare(place: Path) -> dict[str, list[str]]:
    """In ``place/made``, create the demo's home without the last week. Return the commands to measure, by name."""
    numbers: dict[str, int] = {}
    last = WEEKS - 1
    with Weft.open(place / "made", clock="replay", create=True) as weft:
        for number, articles in enumerate(weeks()):
            week = write_week(place / "news", number, articles, numbers)
            if number < last:
                weft.ingest_mail([week], ts_from="date")
        for name, user, sql, _ in QUERIES:
            weft.install(name, sql, user=user)
        weft.tick(now=BEGIN + timedelta(days=7 * last))
    stop_session()
    return {
        "try": ["try", _QUESTION],
        "ingest": ["ingest", "mail", str(place / "news" / f"week-{WEEKS}"), "--ts-from", "date"],
        "tick": ["tick", "--now", f"{BEGIN + timedelta(days=7 * WEEKS):%Y-%m-%d}"],
        "install": ["install", "discussed-too", _QUESTION],
    }


def _beside_a_server(place: Path, commands: Mapping[str, Sequence[str]]) -> dict[str, Cost]:
    """An additional tick (``tick 1``) runs before the tick that the other methods measure."""
    home = _fresh_home(place)
    environ = {**os.environ, **WAYS["archive"], "WEFT_HOME": str(home)}
    before = ["tick", "--now", f"{BEGIN + timedelta(days=7 * WEEKS - 1):%Y-%m-%d}"]
    typed = {name: command for name, command in commands.items() if name != "tick"}
    typed |= {"tick 1": before, "tick": commands["tick"]}
    with serving(home, environ) as server:
        return {name: cost(command, environ, server) for name, command in typed.items()}


def _fresh_home(place: Path) -> Path:
    home = place / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(place / "made", home)
    return home


def _measure(command: Sequence[str], place: Path, environ: Mapping[str, str], times: CommandTimes) -> None:
    wall, processor = run(command, {**os.environ, **environ, "WEFT_HOME": str(_fresh_home(place))})
    times.wall.append(wall)
    times.processor.append(processor)


def run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[float, float]:
    """Run a weft command until all processes of the command end. Return the wall seconds and the processor seconds.

    Raise ExecutionError if the command fails.
    """
    before = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ,
    )
    wall = processor = 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:  # no process is left
            break
        processor += usage.ru_utime + usage.ru_stime
        if pid == process.pid:
            wall = time.perf_counter() - before
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ExecutionError(
            f"weft {command[0]} failed with exit code {process.returncode}",
            hint="Run the command yourself to see its output.",
        )
    return wall, processor


def report(times: Sequence[CommandTimes]) -> str:
    """Return a table with one row per command: the median wall, processor and server seconds of each method.

    >>> print(report([CommandTimes("try", "cold", [2.0, 9.0, 4.0], [5.0, 6.0, 7.0])]))
    seconds     cold: wall  processors
    try               4.00        6.00
    >>> print(report([CommandTimes("try", "cold", [4.0], [6.0]), CommandTimes("tick", "serve", [0.2], [0.1], [0.3])]))
    seconds     cold: wall  processors   serve: wall  processors    server
    try               4.00        6.00
    tick                                        0.20        0.10      0.30
    """
    ways = list(dict.fromkeys(each.way for each in times))
    served = {each.way for each in times if each.server}
    heads = (f"{way + ': wall':>14}{'processors':>12}" + (f"{'server':>10}" if way in served else "") for way in ways)
    lines = ["seconds " + "".join(heads)]
    found = {(each.command, each.way): each for each in times}
    for name in dict.fromkeys(each.command for each in times):
        figures = (_figures(found.get((name, way)), way in served) for way in ways)
        lines.append(f"{name:8}{''.join(figures)}".rstrip())
    return "\n".join(lines)


def _figures(times: CommandTimes | None, served: bool) -> str:
    """Return the columns of a method, which are empty if it did not run the command."""
    if times is None:
        return " " * (36 if served else 26)
    server = f"{statistics.median(times.server):10.2f}" if served else ""
    return f"{statistics.median(times.wall):14.2f}{statistics.median(times.processor):12.2f}{server}"


_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The wall and processor seconds of a command, and the processor seconds of the server, including Java."""

    wall: float
    client: float
    server: float


@contextmanager
def serving(home: Path, environ: Mapping[str, str]) -> Iterator[int]:
    """Run ``weft serve`` for the home while the block runs. After the rehearsal, yield the server's process ID.

    Raise ExecutionError if the server does not start or ends during the rehearsal.
    """
    command = [sys.executable, "-m", "weft", "serve", "--home", str(home)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, text=True
    ) as process:
        try:
            if process.stdout is None or not process.stdout.readline().startswith("Serving"):
                raise ExecutionError("weft serve did not start", hint="Run `weft serve` yourself to see its output.")
            if not any(line.startswith("Warm") for line in process.stdout):
                raise ExecutionError("weft serve ended before it was warmed up")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def cost(command: Sequence[str], environ: Mapping[str, str], server: int) -> Cost:
    """Run a weft command and return the cost. Raise ExecutionError if the command fails or does not run in a server."""
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
    """The result includes the descendants of the process."""
    # The process name is in parentheses and may contain spaces. The times are fields 12 and 13 after the name.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
    threads = Path(f"/proc/{pid}/task").iterdir()  # a process is a child of the thread that started it
    below = [child for thread in threads for child in (thread / "children").read_text(encoding="utf-8").split()]
    return own + sum(_processor(int(child)) for child in below)
