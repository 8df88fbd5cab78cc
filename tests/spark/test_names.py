"""Columns with special names, and tables next to the views of other queries, from a file to the answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replayed import DAY, START, first_instants, replay_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "asked": "SELECT a.`user-id` FROM t AS a, t AS b WHERE b.`reply.to` = a.`user-id` AND b.`é` > 1",
    "due": "SELECT `user-id`, `my.date` FROM t WHERE NOW() > `my.date` + INTERVAL 1 DAY",
    "alone": "SELECT a.`user-id` FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.`reply.to` = a.`user-id`) "
    "AND NOW() >= a.ts + INTERVAL 2 DAYS",
    "beside": "SELECT a.`user-id`, n.`user-id` AS other FROM t a, t_news n WHERE n.`reply.to` = a.`user-id`",
    "all": "SELECT * FROM t AS `t_news`",
}
FIRST = "user-id,reply.to,my.date,é\nann,,1993-04-05 12:00:00,1\nbob,ann,1993-04-09 00:00:00,2\n"


def test_names_that_must_be_quoted(tmp_path: Path, spark: SparkSession) -> None:
    weft = replay_home(tmp_path / "home")
    for name in ("t", "t_news"):
        (tmp_path / f"{name}.csv").write_text(FIRST)
        weft.ingest_file(tmp_path / f"{name}.csv", name, ts_from="my.date")
    for name, text in QUERIES.items():
        weft.install(name, text)
    weft.tick(now=START + 5 * DAY)
    (tmp_path / "more.csv").write_text("user-id,reply.to,my.date,é\ncyd,bob,1993-04-10 06:00:00,3\n")
    weft.ingest_file(tmp_path / "more.csv", "t", ts_from="my.date")
    weft.tick(now=START + 9 * DAY)
    noon = START + DAY // 2
    assert first_instants(weft, "asked") == {("ann",): START + 4 * DAY, ("bob",): START + 5 * DAY + DAY // 4}
    assert {row[0]: s for row, s in first_instants(weft, "due").items()} == {
        "ann": noon + DAY + 1,
        "bob": START + 5 * DAY + 1,
        "cyd": START + 6 * DAY + DAY // 4 + 1,
    }
    assert first_instants(weft, "alone") == {
        ("ann",): noon + 2 * DAY,
        ("cyd",): START + 7 * DAY + DAY // 4,
    }
    assert first_instants(weft, "beside") == {("ann", "bob"): START + 4 * DAY}
    assert {row[0] for row in first_instants(weft, "all")} == {"ann", "bob", "cyd"}
    assert weft.try_query("SELECT `my.date`, `user-id` FROM t WHERE `é` >= 2", now=START + 9 * DAY).count == 2
