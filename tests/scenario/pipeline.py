"""A user's script as one process: load, install, tick and deliver. A second run continues the work of the first.

    python pipeline.py HOME SOURCES STEP...

The kill tests run the script with ``WEFT_FAILPOINT``, and after the kill without it. It uses a separate JVM or that of
the tests. A batch has a few rows, so one load commits several times.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from scenario import attached
from scenario.cluster_session import read_by_spark
from small_batches import small_batches
from weft.api import Weft
from weft.errors import NotFound
from weft.extraction import ingest
from weft.extraction.batches import batches_of

_LONG_SECONDS = 220
"""After this time, the process prints where it is."""
START = 733_968_000_000_000
DAY = 86_400_000_000
FIRST_TICK = START + 12 * DAY
SECOND_TICK = START + 30 * DAY
THIRD_TICK = START + 40 * DAY

QUERIES = {
    "news": ("SELECT msgid, newsgroup, ts FROM msgs WHERE newsgroup LIKE 'comp.%'", "file:news.jsonl"),
    "chains": (
        "SELECT m.msgid, m.subject FROM msgs m, msgs m1 "
        "WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'",
        "file:deep/chains.csv",
    ),
    "unanswered": (
        "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 3 DAYS "
        "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)",
        "file:unanswered.jsonl",
    ),
    "liked": (
        "SELECT v.voter, m.msgid, v.points FROM votes v JOIN msgs m ON v.msgid = m.msgid "
        "WHERE v.points > 1 OR NOW() >= v.ts + INTERVAL 2 DAYS",
        "cursor",
    ),
    "noticed": (
        "SELECT u.msgid, v.voter FROM results.unanswered u JOIN results.liked v ON v.msgid = u.msgid "
        "WHERE NOW() >= u._first_at + INTERVAL 1 DAYS",
        "file:noticed.jsonl",
    ),
    "counts": ("SELECT newsgroup, COUNT(*) AS articles, COUNT(inreplyto) AS replies FROM msgs GROUP BY 1", "cursor"),
}


def load_first(weft: Weft, sources: Path) -> None:
    weft.ingest_mail([sources / "first"], ts_from="date")


def load_votes(weft: Weft, sources: Path) -> None:
    weft.ingest_file(sources / "votes.csv", "votes", ts_from="at")


def install(weft: Weft, _sources: Path) -> None:
    for name, (text, channel) in QUERIES.items():
        try:
            weft.catalog.queries.named(name)
        except NotFound:
            weft.install(name, text, user="someone", to=[channel])


def first_tick(weft: Weft, _sources: Path) -> None:
    _tick(weft, FIRST_TICK)


def load_more(weft: Weft, sources: Path) -> None:
    weft.ingest_mail([sources / "more"], ts_from="date")


def second_tick(weft: Weft, _sources: Path) -> None:
    _tick(weft, SECOND_TICK)


def third_tick(weft: Weft, _sources: Path) -> None:
    _tick(weft, THIRD_TICK)


def by_spark(_weft: Weft, _sources: Path) -> None:
    """Make Spark read every relation of the ticks that follow, and write the answers."""
    read_by_spark()


def _tick(weft: Weft, t: int) -> None:
    """Tick at ``t`` unless this tick is complete, and always deliver."""
    died = weft.catalog.ticks.planned()
    if died is not None or weft.catalog.home().watermark < t:
        weft.tick(now=max(t, weft.catalog.home().watermark, died.t if died is not None else t))
    weft.deliver()


STEPS: dict[str, Callable[[Weft, Path], None]] = {
    step.__name__: step for step in (load_first, load_votes, install, first_tick, load_more, second_tick)
}
OTHERS: dict[str, Callable[[Weft, Path], None]] = {step.__name__: step for step in (third_tick, by_spark)}
"""The steps that only some tests use."""


def run(home: Path, sources: Path, *steps: str) -> None:
    """Run the steps in order."""
    limit_batches(pytest.MonkeyPatch())
    with Weft.open(home, clock="replay", create=True) as weft:
        for step in steps:
            (STEPS | OTHERS)[step](weft, sources)


def limit_batches(patch: pytest.MonkeyPatch) -> None:
    """Limit batches to a few rows in this process."""
    patch.setattr(ingest, "batches_of", partial(batches_of, max_rows=8))
    small_batches(patch, 5)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(_LONG_SECONDS, exit=False)
    if attached.PORT in os.environ:
        attached.attach(Path(sys.argv[1]) / "logs" / "spark.log")
    run(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
