"""``weft bench commands``: what typed commands take, each in a process of its own, over the demo's home.

    weft bench commands --rounds 5

A command is run over a fresh copy of one home, now without and now with the class-data archive, in turn, and medians
are reported: its wall time, and the processor time of all that it starts, Java and what outlives it included.  Then
each round starts a server over a fresh copy, waits for its rehearsal to end, and the four commands are typed beside it
one after another, each once: their own processor time is reported, and that of the server meanwhile.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from weft.api.weft import Weft
from weft.bench.served import Cost, cost, serving
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, WEEKS, weeks, write_week
from weft.demo.rehearsal import rehearse
from weft.errors import ExecutionError, Refused
from weft.runtime.archiving import make_archive
from weft.runtime.session import stop_session

_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of Linux: processes that lose their parent become this one's, and can be waited for."""

WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "cold": {"WEFT_CLASS_ARCHIVE": "off"},
    "archive": {"WEFT_CLASS_ARCHIVE": "auto"},
}
"""How a command is run, by the name of its column: the variables of the environment that it gets."""

_QUESTION: Final = (
    "SELECT m.msgid, m.subject FROM msgs m, msgs r WHERE r.inreplyto = m.msgid AND r.newsgroup = 'comp.databases'"
)


@dataclass
class Measured:
    """One command in one way: seconds of the wall's clock and of processors, in the order of the rounds."""

    command: str
    way: str
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    """Of processors in the server, where there is one."""


def compare(rounds: int, folder: Path | None, out: Path | None, say: Callable[[str], None]) -> None:
    """Measures each command in each way, says what it finds, and writes the figures to ``out`` as JSON.

    Raises Refused where processes cannot be followed (elsewhere than on Linux) or there is no archive to compare with,
    ExecutionError where a command fails.
    """
    if sys.platform != "linux":
        raise Refused("weft bench commands counts the processor time of processes as Linux does")
    if make_archive(rehearse) not in ("made", "there"):
        raise Refused("there is no class-data archive to compare with", hint="`weft prepare` says why.")
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with TemporaryDirectory(prefix="weft-bench-", dir=folder) as text:
        place = Path(text)
        commands = prepare(place)
        found = {(name, way): Measured(name, way) for name in commands for way in WAYS}
        for number in range(rounds):
            for (name, way), each in found.items():
                _measure(commands[name], place, WAYS[way], each)
                say(f"  {number + 1}: {name}, {way}: {each.wall[-1]:.2f} s, processors {each.processor[-1]:.2f} s")
        for number in range(rounds):
            for name, took in _beside_a_server(place, commands).items():
                served = found.setdefault((name, "serve"), Measured(name, "serve"))
                served.wall.append(took.wall)
                served.processor.append(took.client)
                served.server.append(took.server)
                say(f"  {number + 1}: {name}, serve: {took.wall:.2f} s, server's processors {took.server:.2f} s")
    say(report(list(found.values())))
    if out is not None:
        out.write_text(json.dumps([asdict(each) for each in found.values()], indent=2) + "\n", encoding="utf-8")
        say(f"written to {out}")


def prepare(place: Path) -> dict[str, list[str]]:
    """Makes the demo's home but for its last week, in ``place/made``, and what the commands need; the commands."""
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
    """The four commands beside one server that has done nothing but its rehearsal, and a tick before the one."""
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


def _measure(command: Sequence[str], place: Path, environ: Mapping[str, str], found: Measured) -> None:
    wall, processor = run(command, {**os.environ, **environ, "WEFT_HOME": str(_fresh_home(place))})
    found.wall.append(wall)
    found.processor.append(processor)


def run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[float, float]:
    """Runs a weft command to the end of all that it starts: (seconds until it ended, processor seconds of all).

    Raises ExecutionError where it fails.
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
        except ChildProcessError:  # none is left
            break
        processor += usage.ru_utime + usage.ru_stime
        if pid == process.pid:
            wall = time.perf_counter() - before
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ExecutionError(
            f"weft {command[0]} ended with exit code {process.returncode}", hint="Type it, to see what it says."
        )
    return wall, processor


def report(found: Sequence[Measured]) -> str:
    """A small table: a row a command, for each way the medians of wall and processor seconds, and of the server's.

    >>> print(report([Measured("try", "cold", [2.0, 9.0, 4.0], [5.0, 6.0, 7.0])]))
    seconds     cold: wall  processors
    try               4.00        6.00
    >>> print(report([Measured("try", "serve", [0.2], [0.1], [0.3])]))
    seconds    serve: wall  processors    server
    try               0.20        0.10      0.30
    """
    ways = list(dict.fromkeys(each.way for each in found))
    served = {each.way for each in found if each.server}
    heads = (f"{way + ': wall':>14}{'processors':>12}" + (f"{'server':>10}" if way in served else "") for way in ways)
    lines = ["seconds " + "".join(heads)]
    for name in dict.fromkeys(each.command for each in found):
        cells = [each for way in ways for each in found if (each.command, each.way) == (name, way)]
        figures = (
            f"{statistics.median(each.wall):14.2f}{statistics.median(each.processor):12.2f}"
            + (f"{statistics.median(each.server):10.2f}" if each.server else "")
            for each in cells
        )
        lines.append(f"{name:8}" + "".join(figures))
    return "\n".join(lines)
