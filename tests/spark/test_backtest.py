"""A backtest gives the answers that the query delivers after its installation and ticks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from replayed import first_instants, load, micros, replay_home
from weft.algebra.schema import INT, STRING, TIMESTAMP
from weft.cli.app import app
from weft.errors import Refused, SqlError
from weft.execution import duckdb_answers
from weft.execution import new_answers as finding

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from weft.api import Weft
    from weft.execution.backtest import Backtest

DAY = 86_400_000_000
START = 733_968_000_000_000
"""1993-04-05."""
COLUMNS = [("k", STRING), ("n", INT), ("ts", TIMESTAMP)]
ROWS = [("a", 1, 0), ("b", 2, 1), ("a", 3, 2), (None, 4, 3), ("c", None, 5), ("b", 6, 8)]
TEXTS = (
    "SELECT k, n FROM seen WHERE n <> 2 OR n IS NULL",
    "SELECT k FROM seen WHERE ts < NOW() - INTERVAL 2 DAYS",
    "SELECT s.k FROM seen s WHERE NOT EXISTS (SELECT 1 FROM seen t WHERE t.k = s.k AND t.ts > s.ts) AND "
    "s.ts <= NOW() - INTERVAL 36 HOURS",
    "SELECT x FROM (VALUES (1), (2)) AS v(x)",
    "SELECT k FROM seen WHERE n > 100",
)
SINCE, UNTIL = 2, 7


@pytest.fixture
def weft(spark: SparkSession, tmp_path: Path) -> Weft:
    made = replay_home(tmp_path / "home")
    load(made, spark, "seen", [(k, n, START + day * DAY) for k, n, day in ROWS], COLUMNS)
    return made


def first_instants_of(found: Backtest) -> dict[tuple[object, ...], int]:
    return {row: at for at, row in found.answers}


@pytest.mark.parametrize("engine", ["memory", "files", "Spark"])
def test_a_backtest_returns_the_answers(weft: Weft, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine != "memory":  # too large for the driver's memory
        monkeypatch.setattr(finding, "_collected", lambda *args, **kwargs: None)
    if engine == "Spark":
        monkeypatch.setattr(duckdb_answers, "is_same", lambda *_: False)
    until = START + UNTIL * DAY
    whole = [weft.backtest(text, until=until, limit=None) for text in TEXTS]
    later = [weft.backtest(text, since=START + SINCE * DAY, until=until, limit=None) for text in TEXTS]
    weft.tick(now=START + SINCE * DAY)
    for number, text in enumerate(TEXTS):
        weft.install(f"whole{number}", text)
        weft.install(f"later{number}", text, start="now")
    weft.tick(now=until)
    for number, text in enumerate(TEXTS):
        assert first_instants_of(whole[number]) == first_instants(weft, f"whole{number}"), text
        assert first_instants_of(later[number]) == first_instants(weft, f"later{number}"), text
    for found in (*whole, *later):
        instants = [at for at, _ in found.answers]
        assert instants == sorted(instants)
        assert found.count == len(instants) == sum(found.counts)
        width = -(-(found.until - found.begin) // 60)
        assert all(found.counts[(at - found.begin) // width] for at in instants)
    assert weft.queries(limit=100)[0].name == "whole0", "a backtest installs nothing"
    weft.close()


def test_it_is_shown_and_refused(weft: Weft, tmp_path: Path) -> None:
    found = weft.backtest(TEXTS[0], until=micros(START + 9 * DAY), limit=2)
    assert (len(found.answers), found.count) == (2, 5)
    assert found.nothing is None
    early = weft.backtest(TEXTS[0], until="1990-01-01").nothing
    assert early is not None and early.startswith("No row was loaded for the time before 1990-01-01 00:00:00 UTC: ")
    with pytest.raises(Refused, match="the window from 1993-04-07 00:00:00 UTC to 1993-04-06 00:00:00 UTC is empty"):
        weft.backtest(TEXTS[0], since="1993-04-07", until="1993-04-06")
    with pytest.raises(SqlError, match="FETCH"):
        weft.backtest("SELECT k FROM seen ORDER BY k FETCH FIRST 1 ROWS ONLY")
    weft.close()
    asked = ["backtest", TEXTS[1], "--to", "1993-04-12", "--home", str(tmp_path / "home")]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    assert "1993-04-07 00:00:00.000001" in run.output and "█" in run.output
    assert "3 answers, from the start, before 1993-04-12 00:00:00 UTC" in run.output
    found_json = json.loads(CliRunner().invoke(app, [*asked, "--json", "--limit", "1"]).stdout)
    assert found_json["answers"] == [{"_first_at": "1993-04-07T00:00:00.000001Z", "k": "a"}]
    assert (found_json["count"], sum(found_json["timeline"]["counts"])) == (3, 3)
