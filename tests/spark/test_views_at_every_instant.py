"""Standing queries over views with NOW deliver the same answers for any sequence of ticks, and `weft try` evaluates one
instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oracle.engines import GRID
from replayed import replay_home
from weft.errors import SqlError
from weft.instants import format_rfc3339

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from weft.api import Weft

VIEWS = {
    "due": "SELECT id FROM s WHERE due < NOW() AND NOW() < due + INTERVAL 10 MICROSECONDS",
    "due_depts": "SELECT s.dept FROM due d JOIN s ON s.id = d.id",
    "gone": "SELECT id FROM s WHERE PERIOD_END(s) < NOW()",
    "quiet": "SELECT dept, COUNT(*) AS n FROM s GROUP BY dept HAVING MAX(at) < NOW() - INTERVAL 30 MICROSECONDS",
    "latest": "SELECT dept, MAX(at) AS last FROM s GROUP BY dept",
    "quiet_depts": "SELECT dept FROM latest WHERE last < NOW() - INTERVAL 30 MICROSECONDS",
}
STANDING = {
    "due": "SELECT id FROM due",
    "depts": "SELECT dept FROM due_depts",
    "quiet": "SELECT dept FROM quiet_depts",
    "not_due": "SELECT s.id FROM s WHERE NOT EXISTS (SELECT 1 FROM due d WHERE d.id = s.id) "
    f"AND NOW() >= TIMESTAMP '{format_rfc3339(GRID + 25)}'",
}
EXPECTED = {
    "due": [(1, 21), (2, 41)],
    "depts": [("A", 21), ("B", 41)],
    "quiet": [("B", 41)],  # A would be quiet from 31 on, but another row arrives before
    "not_due": [(2, 25), (1, 30), (3, 30)],
}


@pytest.fixture
def weft(spark: SparkSession, tmp_path: Path) -> Weft:
    """A source that changes at 30 on the grid: row 3 arrives, and its department is no longer quiet."""
    file, weft = tmp_path / "s.csv", replay_home(tmp_path / "home")
    rows = [f"1,A,{instant(20)},{instant(0)}", f"2,B,{instant(40)},{instant(10)}", f"3,A,,{instant(29)}"]
    file.write_text("\n".join(["id, dept, due, at", *rows[:2], ""]))
    weft.add_source("s", "csv", str(file), ["id"])
    weft.poll_source("s", now=GRID + 1)
    file.write_text("\n".join(["id, dept, due, at", *rows, ""]))
    for name, text in VIEWS.items():
        weft.add_view(name, text)
    return weft


def instant(number: int) -> str:
    return format_rfc3339(GRID + number)


def answer_rows(weft: Weft, name: str) -> list[tuple[object, int]]:
    return [(row.values[0], row.first_at - GRID) for row in weft.results(name)]


def test_every_instant_counts_whenever_ticks_happen(weft: Weft) -> None:
    for name, text in STANDING.items():
        weft.install(f"often_{name}", text)
        weft.install(f"once_{name}", text)
    often = [f"often_{name}" for name in STANDING]
    weft.tick(often, now=GRID + 22)
    weft.poll_source("s", now=GRID + 30)
    weft.tick(often, now=GRID + 31)
    weft.tick(now=GRID + 55)
    assert {query.reason for query in weft.queries()} == {None}
    assert {name: answer_rows(weft, f"often_{name}") for name in STANDING} == EXPECTED
    assert {name: answer_rows(weft, f"once_{name}") for name in STANDING} == EXPECTED
    found = weft.backtest(STANDING["due"], until=GRID + 55)
    assert [(row[0], at - GRID) for at, row in found.answers] == EXPECTED["due"]
    planned = weft.replacement("once_depts", "SELECT s.dept FROM s JOIN due d ON d.id = s.id")
    assert (planned.new, planned.known) == (0, 2)
    assert weft.try_query(STANDING["due"]).rows == ()  # at the current time, nothing is due
    with pytest.raises(SqlError, match="the view gone"):
        weft.install("gone", "SELECT * FROM gone")
    weft.install("quiet", "SELECT * FROM quiet")
    for name in ("gone", "quiet"):
        assert weft.try_query(f"SELECT * FROM {name}").count == (0 if name == "gone" else 1)
