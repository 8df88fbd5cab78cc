"""What commands do, done once in a home that is thrown away, for the class-data archive (``runtime/archiving.py``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from weft.api.home import Weft
from weft.demo.netnews import BEGIN
from weft.demo.play import QUERIES, weeks, write_week

_WEEKS: Final = 2
_MORE: Final = (
    "SELECT newsgroup, sender, date FROM msgs WHERE newsgroup IN ('sci.space', 'rec.bicycles') AND subject LIKE '%o%'",
    "SELECT upper(m.sender) AS s FROM msgs m JOIN msgs n ON m.msgid = n.inreplyto WHERE n.ts > NOW() - INTERVAL 1 DAY",
)


def rehearse() -> None:
    """Loads two weeks of the demo, installs its queries, ticks after each week, and tries all of them."""
    with TemporaryDirectory(prefix="weft-rehearsal-") as folder, _defaults():
        place = Path(folder)
        with Weft.open(place / "home", clock="replay") as weft:
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


def _large(weft: Weft, table: Path) -> None:
    """Writes and reads a table by Spark itself, as large results are."""
    spark = weft.session()
    for mode in ("errorifexists", "append"):
        spark.range(1_000).selectExpr("id", "id % 7 AS g").write.format("delta").mode(mode).save(str(table))
    spark.read.format("delta").load(str(table)).groupBy("g").count().collect()


@contextmanager
def _defaults() -> Iterator[None]:
    """A user's limits and folders are not for what is rehearsed."""
    names = ("WEFT_QUERY_SECONDS", "WEFT_QUERY_ROWS", "WEFT_FILES_ROOT")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
