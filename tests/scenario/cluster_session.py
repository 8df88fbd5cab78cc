"""The demo's session as a process of its own, on the Spark that the environment names.

    python cluster_session.py HOME CATALOG STORE [go-on]

The process prints ``busy`` when Spark runs the first job of the third tick, and at the end the answers as one line of
JSON: for each query its answers with their ordinals and first instants. With ``go-on``, the process continues what
another machine has begun.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from weft.api.weft import Weft
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, play, weeks, write_week
from weft.execution import driver_reader
from weft.runtime.session import running_jvm, session_started, spark_session

Answers = dict[str, list[list[object]]]
_WATCHED_WEEK = "Week 3"


class Silent:
    """A stage that prints nothing."""

    def heading(self, text: str) -> None:
        pass

    def line(self, text: str = "") -> None:
        pass

    def command(self, text: str) -> None:
        pass

    def working(self, text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        pass


class Reporting(Silent):
    """A stage that prints only ``busy``, at the first Spark job of the tick of the third week."""

    def __init__(self) -> None:
        self.watched = False

    def heading(self, text: str) -> None:
        self.watched = text == _WATCHED_WEEK

    def command(self, text: str) -> None:
        if self.watched and text.startswith("tick"):
            threading.Thread(target=_report_first_job, daemon=True).start()


def _report_first_job() -> None:
    while not session_started():
        time.sleep(0.01)
    tracker = running_jvm().session.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.01)
    print("busy", flush=True)


def answers(home: Path) -> Answers:
    """Return the answers of the demo's queries."""
    with Weft.open(home) as weft:
        return {name: [[row.ordinal, row.first_at, *row.values] for row in weft.results(name)] for name, *_ in QUERIES}


def read_by_spark() -> None:
    """Make Spark read every relation of a tick, and write the answers."""
    driver_reader.BOUNDS = replace(driver_reader.BOUNDS, whole=-1, filtered=-1, news=-1, written=-1, large=-1)


def go_on(home: Path, catalog: str, store: str) -> None:
    """Make a folder for the home, and load and tick the weeks that are missing."""
    numbers: dict[str, int] = {}
    with Weft.open(home, create=True, catalog=catalog, store=store) as weft:
        assert weft.catalog.ticks.planned() is not None, "no tick was interrupted"
        watermark = weft.catalog.home().watermark
        for week, articles in enumerate(weeks()):
            folder, end = write_week(home / "news", week, articles, numbers), BEGIN + timedelta(days=7 * (week + 1))
            if watermark < end.timestamp() * 1_000_000:
                weft.ingest_mail([folder], ts_from="date")
                weft.tick(now=end)


if __name__ == "__main__":
    home, catalog, store = Path(sys.argv[1]), *sys.argv[2:4]
    spark_session(None)
    read_by_spark()
    if sys.argv[4:]:
        go_on(home, catalog, store)
    else:
        play(home, Reporting(), catalog=catalog, store=store)
    print(json.dumps(answers(home)), flush=True)
