"""Run typical commands in a temporary home. During this rehearsal, Java loads and compiles the code of the commands.

One run is enough for the class-data archive (``runtime/archiving.py``). A new server runs about twenty ticks, so that
later commands use compiled code.
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
"""The number of daily ticks that warm up a server. The duration of a tick decreases for about twenty ticks."""
_DAY_OF_WEEK: Final = "DATE_FORMAT(m.ts, 'E') AS day"
BY_SPARK: Final = (
    f"SELECT m.newsgroup, m.date, {_DAY_OF_WEEK} FROM msgs m WHERE m.newsgroup IN ('sci.space', 'rec.bicycles') AND "
    "m.subject LIKE '%o%'",
    f"SELECT upper(m.sender) AS s, {_DAY_OF_WEEK} FROM msgs m JOIN msgs n ON m.msgid = n.inreplyto "
    "WHERE n.ts > NOW() - INTERVAL 1 DAY",
    f"SELECT m.msgid, {_DAY_OF_WEEK} FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS AND NOT EXISTS "
    "(SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)",
    f"SELECT {_DAY_OF_WEEK}, COUNT(*) AS n FROM msgs m GROUP BY 1 HAVING COUNT(*) > 3",
)
"""Queries that Spark computes also over small tables, because of DATE_FORMAT."""


def rehearse() -> None:
    """Load two weeks of the demo, install the demo's queries, tick after each week, and try queries in Spark."""
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
            for sql in BY_SPARK:
                weft.try_query(sql)
            _large(weft, place / "table")


def days(place: Path) -> Generator[None]:
    """Load three weeks of the demo into a home in ``place``. For each day, run a tick and try a query in Spark.

    The generator yields after each tick and after each query. Raise WeftError if a step fails.
    """
    tried = cycle(BY_SPARK)
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
    """Write and read Parquet files with Spark, as Weft does for large results."""
    spark = weft.session()
    spark.range(1_000).selectExpr("id", "id % 7 AS g").write.parquet(str(table))
    spark.read.parquet(str(table)).groupBy("g").count().collect()


@contextmanager
def _defaults() -> Iterator[None]:
    """Remove the user's limits and folders from the environment while the block runs."""
    names = ("WEFT_QUERY_SECONDS", "WEFT_QUERY_ROWS", "WEFT_FILES_ROOT", "WEFT_DELTA_ROOT")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
