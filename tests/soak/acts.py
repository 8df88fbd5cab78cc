"""What a process of a soak test does to the home: one act, given as JSON.

    python -m soak.acts FOLDER ACT

The folder has the home, the file of the clock that all processes share, and the files that they load. A process that is
killed or stopped gets the failpoint in ``WEFT_FAILPOINT``. With ``SOAK_STOP`` it stops there instead of dying. With
``SOAK_SECONDS`` it dies after so many seconds of processor time, wherever it is.

``SOAK_CATALOG`` and ``SOAK_STORE`` are the places of the catalog and the data of the home, if it is not a local one.
Spark then computes all ticks, views and synopses.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenario import attached
from scenario.cluster_session import read_by_spark
from weft.api import Weft
from weft.errors import WeftError
from weft.execution.engines import choosing

STOP, SECONDS = "SOAK_STOP", "SOAK_SECONDS"
CATALOG, STORE = "SOAK_CATALOG", "SOAK_STORE"
Act = Mapping[str, Any]


@dataclass(frozen=True)
class Clock:
    """A wall clock in a file, in microseconds UTC."""

    file: Path

    def __call__(self) -> int:
        return int(self.file.read_text())

    def move(self, by: int) -> None:
        """Move the clock. No process sees a part of the number."""
        new = self.file.with_suffix(".new")
        new.write_text(str(self() + by))
        new.replace(self.file)


def opened(folder: Path) -> Weft:
    """Open the home of a soak test, or create it."""
    catalog, store = os.environ.get(CATALOG), os.environ.get(STORE)
    if store is not None:
        read_by_spark()
        choosing.BOUNDS = choosing.NOTHING
    return Weft.open(folder / "home", create=True, catalog=catalog, store=store, wall=Clock(folder / "clock"))


def _tick(weft: Weft, _: Act) -> None:
    weft.tick()


def _append(weft: Weft, act: Act) -> None:
    weft.append("orders", [dict(zip(("id", "amount", "ref"), row, strict=True)) for row in act["rows"]])


def _load(weft: Weft, act: Act) -> None:
    weft.ingest_file(weft.home.parent / act["file"], "orders")


def _install(weft: Weft, act: Act) -> None:
    weft.install(act["name"], act["text"], to=act["to"], keep=act["keep"])


def _replace(weft: Weft, act: Act) -> None:
    weft.install(act["name"], act["text"], replace=True)


def _remove(weft: Weft, act: Act) -> None:
    weft.remove(act["name"], purge=act["purge"], now=act["purge"])


def _pause(weft: Weft, act: Act) -> None:
    weft.pause(act["name"])


def _resume(weft: Weft, act: Act) -> None:
    weft.resume(act["name"])


def _deliver(weft: Weft, _: Act) -> None:
    weft.deliver()


def _poll(weft: Weft, _: Act) -> None:
    weft.poll_source("staff", allow_empty=True)


def _correct(weft: Weft, act: Act) -> None:
    values = None if act["dept"] is None else {"dept": act["dept"]}
    weft.correct_source("staff", {"id": act["id"]}, act["begin"], act["end"], values)


def _refresh(weft: Weft, _: Act) -> None:
    weft.refresh_views()


def _add_view(weft: Weft, act: Act) -> None:
    weft.add_view(act["name"], act["text"])


def _remove_view(weft: Weft, act: Act) -> None:
    weft.remove_view(act["name"])


def _maintain(weft: Weft, _: Act) -> None:
    for _step in weft.maintain(retain=0):
        pass


ACTS: Mapping[str, Callable[[Weft, Act], None]] = {
    "append": _append,
    "load": _load,
    "install": _install,
    "replace": _replace,
    "remove": _remove,
    "pause": _pause,
    "resume": _resume,
    "tick": _tick,
    "deliver": _deliver,
    "poll": _poll,
    "correct": _correct,
    "refresh": _refresh,
    "add view": _add_view,
    "remove view": _remove_view,
    "maintain": _maintain,
}


def done(weft: Weft, act: Act) -> str:
    """Do an act. Return ``done``, or the class and the message of the refusal."""
    try:
        ACTS[act["act"]](weft, act)
    except WeftError as error:
        return f"{type(error).__name__}: {error.message}"
    return "done"


def _stops_once() -> None:
    """Let a failpoint stop this process instead of killing it, at the first time only."""
    signalled = os.kill

    def stopped(process: int, _signal: int) -> None:
        del os.environ["WEFT_FAILPOINT"]
        os.kill = signalled
        signalled(process, signal.SIGSTOP)

    os.kill = stopped


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if os.environ.pop(STOP, None):
        _stops_once()
    if attached.PORT in os.environ:
        attached.attach(place / "spark.log")
    with opened(place) as home:
        if seconds := os.environ.pop(SECONDS, None):
            signal.setitimer(signal.ITIMER_PROF, float(seconds))
        print(done(home, json.loads(sys.argv[2])), flush=True)
