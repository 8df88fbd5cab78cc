"""What commands do, done in a home that is thrown away.

Once for the class-data archive (``runtime/archiving.py``), and some twenty ticks for a server that has just started:
Java compiles what is done often, and a typed command then finds it compiled.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from weft.api.weft import Weft
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, weeks, write_week

_WEEKS: Final = 2
_DAYS: Final = 21
"""Ticks of the demo's first weeks, one a day, before a server is warm: the time of a tick falls over some twenty."""
_MORE: Final = (
    "SELECT newsgroup, sender, date FROM msgs WHERE newsgroup IN ('sci.space', 'rec.bicycles') AND subject LIKE '%o%'",
    "SELECT upper(m.sender) AS s FROM msgs m JOIN msgs n ON m.msgid = n.inreplyto WHERE n.ts > NOW() - INTERVAL 1 DAY",
)


def rehearse() -> None:
    """Loads two weeks of the demo, installs its queries, ticks after each week, and tries all of them."""
    with TemporaryDirectory(prefix="weft-rehearsal-") as folder, _defaults():
        place = Path(folder)
        with Weft.open(place / "home", clock="replay", create=True) as weft:
            numbers: dict[str, int] = {}
            for number, week in enumerate(weeks()[:_WEEKS]):
                weft.ingest_mail([write_week(place / "news", number, week, numbers)], ts_from="date")
                if number == 0:
                    for name, user, sql, _ in QUERIES:
                        weft.install(name, sql, user=user)
                weft.tick(now=BEGIN + timedelta(days=7 * (number + 1)))
            for sql in (*(each[2] for each in QUERIES), *_MORE):
                weft.try_query(sql)
            _large(weft, place / "table")


def days(place: Path) -> Generator[None]:
    """Loads three weeks of the demo into a home in ``place``, then each day ticks and tries a query; pauses after each.

    Raises WeftError where something of it fails.
    """
    tried = cycle((*(each[2] for each in QUERIES), *_MORE))
    with Weft.open(place / "home", clock="replay", create=True) as weft:
        numbers: dict[str, int] = {}
        for number, week in enumerate(islice(weeks(), _DAYS // 7)):
            weft.ingest_mail([write_week(place / "news", number, week, numbers)], ts_from="date")
        for name, user, sql, _ in QUERIES:
            weft.install(name, sql, user=user)
        for day in range(1, _DAYS + 1):
            weft.tick(now=BEGIN + timedelta(days=day))
            yield
            weft.try_query(next(tried))
            yield


def _large(weft: Weft, table: Path) -> None:
    """Writes and reads a table by Spark itself, as large results are."""
    spark = weft.session()
    for mode in ("errorifexists", "append"):
        spark.range(1_000).selectExpr("id", "id % 7 AS g").write.format("delta").mode(mode).save(str(table))
    spark.read.format("delta").load(str(table)).groupBy("g").count().collect()


@contextmanager
def _defaults() -> Iterator[None]:
    """A user's limits and folders are not for what is rehearsed."""
    names = ("WEFT_QUERY_SECONDS", "WEFT_QUERY_ROWS", "WEFT_FILES_ROOT", "WEFT_DELTA_ROOT")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
