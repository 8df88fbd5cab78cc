"""NOW rounded to days and other units: answers begin at the midnight that makes them true, for any sequence of
ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayed import first_instants, load, micros, replay_home
from weft.algebra.schema import DATE, INT, STRING, TIMESTAMP
from weft.instants import format_full, parse_instant

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = [("k", STRING), ("n", INT), ("due", DATE), ("ts", TIMESTAMP)]
ROWS = [
    ("midnight", 1, 20_000, "2024-10-03 00:00:00"),
    ("noon", 2, 20_001, "2024-10-03 12:00:00"),
    ("last", 3, None, "2024-10-03 23:59:59.999999"),
    ("undated", None, 20_003, "2024-10-04 08:00:00"),
]
"""Day 20,000 is 2024-10-04."""
WANTED = {
    "CURRENT_DATE > ts": {"midnight": "10-04", "noon": "10-04", "last": "10-04", "undated": "10-05"},
    "DATE_TRUNC('day', NOW()) >= ts": {
        "midnight": "10-03", "noon": "10-04", "last": "10-04", "undated": "10-05",
    },
    "CURRENT_DATE >= due": {"midnight": "10-04", "noon": "10-05", "undated": "10-07"},
    "CURRENT_DATE = due": {"midnight": "10-04", "noon": "10-05", "undated": "10-07"},
    "due - INTERVAL 1 DAY <= CURRENT_DATE": {"midnight": "10-03", "noon": "10-04", "undated": "10-06"},
    "DATEDIFF(NOW(), ts) >= n": {"midnight": "10-04", "noon": "10-05", "last": "10-06"},
    "DATE_SUB(CURRENT_DATE, 2) > ts": {"midnight": "10-06", "noon": "10-06", "last": "10-06", "undated": "10-07"},
    "DATE_TRUNC('month', NOW()) > due": {"midnight": "11-01", "noon": "11-01", "undated": "11-01"},
    "TIMESTAMPDIFF(HOUR, ts, NOW()) >= 36": {
        "midnight": "10-04 12:00:00", "noon": "10-05", "last": "10-05 11:59:59.999999", "undated": "10-05 20:00:00",
    },
    "NOT EXISTS (SELECT 1 FROM jobs o WHERE o.due = CURRENT_DATE) AND n = 1": {"midnight": "10-03"},
    "EXISTS (SELECT 1 FROM jobs o WHERE o.due < CURRENT_DATE AND o.n = 2) AND n = 1": {"midnight": "10-06"},
}  # fmt: skip
TICKS = ("2024-10-03 12:00:00", "2024-10-04", "2024-10-04 00:00:00.000001", "2024-10-05 09:00:00", "2024-11-02")


def test_answers_begin_at_midnight(spark: SparkSession, tmp_path: Path) -> None:
    weft = replay_home(tmp_path / "home")
    load(weft, spark, "jobs", [(*row[:3], parse_instant(row[3])) for row in ROWS], COLUMNS)
    for number, condition in enumerate(WANTED):
        weft.install(f"q{number}", f"SELECT j.k FROM jobs j WHERE {condition.replace(' n =', ' j.n =')}")
    for now in TICKS:
        weft.tick(now=parse_instant(now))
    for number, (condition, wanted) in enumerate(WANTED.items()):
        found = {str(k): format_full(micros(at)) for (k,), at in first_instants(weft, f"q{number}").items()}
        assert found == {k: format_full(parse_instant(f"2024-{at}")) for k, at in wanted.items()}, condition
    weft.close()
