"""Views and synopses beyond the bounds of the driver: Spark computes the same results with the same safety."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import forked
from replayed import replay_home
from unit.execution.test_synopses import FIRST, QUERIES, Row, _text, delivered, drawn, expected, load, made
from weft.api import Weft
from weft.catalog import layout
from weft.cli.app import run
from weft.execution.engines import choosing
from weft.execution.engines.choosing import NOTHING, EngineBounds
from weft.execution.history_log import log_of
from weft.execution.synopsis.taking_in import TakenIn, Together
from weft.runtime import settings
from weft.storage.periods import periods
from weft.storage.table import Table
from weft.storage.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
VIEWS = {
    "devs": "SELECT id, name FROM staff WHERE dept = 'Dev'",
    "sizes": "SELECT dept, COUNT(*) AS n, AVG(id) AS mean FROM staff GROUP BY dept",
    "recent": "SELECT name FROM devs d WHERE PERIOD_END(d) >= NOW() - INTERVAL 150 MICROSECONDS",
}
PEERS = "SELECT a.name, b.name AS peer FROM staff a JOIN staff b ON a.dept = b.dept AND a.id < b.id"
STEPS = (
    (100, ["1,Ann,Dev", "2,Ben,Ops", "3,Cy,Ops"]),
    (200, ["1,Ann,Dev", "2,Ben,Dev", "4,Di,Dev"]),
    (300, ["2,Ben,Ops", "4,Di,Dev", "3,Cy,Ops"]),
)
ON_SPARK_ANEW = EngineBounds(-1, -1, again=0)
CORRECTED = 250
"""The instant of a correction: Ben was in Ops until 150, and not until 200."""


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans for one partition and generates no code, which for a few rows takes most of the time."""
    monkeypatch.setattr(settings, "_LARGE", settings._ROWS_ONLY)


def write(file: Path, rows: list[str]) -> None:
    file.write_text("\n".join(["id, name, dept", *rows, ""]))


def course(folder: Path, monkeypatch: pytest.MonkeyPatch, bounds: EngineBounds) -> tuple[Weft, list[str], object]:
    """A home whose views are refreshed after each step; the engines of the refreshes, and what a query delivered."""
    monkeypatch.setattr(choosing, "BOUNDS", bounds)
    weft, file = replay_home(folder / "home"), folder / "staff.csv"
    write(file, STEPS[0][1])
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=STEPS[0][0])
    for name, text in VIEWS.items():
        weft.add_view(name, text, batched=True)
    weft.install("new_devs", "SELECT id, name FROM devs")
    engines = []
    for at, rows in STEPS:
        if at > CORRECTED:
            weft.correct_source("staff", {"id": 2}, 150, 200, {"name": "Ben", "dept": "Dev"}, now=CORRECTED)
        write(file, rows)
        weft.poll_source("staff", now=at)
        engines += [each.by for each in weft.refresh_views(now=at + 10) if each.changed or each.gone]
        weft.tick(now=at + 20)
    result = [(row.values, row.first_at) for row in weft.results("new_devs")]
    return weft, engines, result


def kept(weft: Weft, name: str) -> list[str]:
    return sorted(map(repr, periods(log_of(weft.catalog, weft.catalog.tables.named(name))).to_pylist()))


def test_views_are_the_same_on_both_engines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = []
    for number, bounds in enumerate((EngineBounds(), NOTHING)):
        place = tmp_path / str(number)
        place.mkdir()
        homes.append(course(place, monkeypatch, bounds))
    (driver, by_driver, result), (other, by_spark, also_told) = homes
    assert {*by_driver} == {"driver"} and {*by_spark} == {"Spark"} and len(by_driver) == len(by_spark) > len(VIEWS)
    assert result == also_told and len(result) == 3
    for name in VIEWS:
        assert kept(driver, name) == kept(other, name) != [], name
    assert verify(other.catalog) == []
    shown = other.show_view("devs")
    assert shown.periods == driver.show_view("devs").periods
    assert [choice.sentence(what) for what, choice in shown.next_refreshes] == [
        "The next refresh runs on Spark: the auxiliary view of staff has 0 new log rows, more than 0."
    ]


def test_a_computation_that_exceeds_the_bounds_goes_on_with_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "BOUNDS", EngineBounds(steps=5))
    weft, file = replay_home(tmp_path / "home"), tmp_path / "staff.csv"
    write(file, [f"{number},N{number},Dev" for number in range(4)])
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    weft.add_view("few", "SELECT dept FROM staff", batched=True)
    weft.add_view("many", PEERS, batched=True)
    assert {each.name: each.by for each in weft.refresh_views(now=2_000)} == {"few": "driver", "many": "Spark"}
    assert (weft.show_view("few").periods, weft.show_view("many").periods) == (1, 6)
    assert weft.show_view("many").next_refreshes[0][1].why == "staff has 0 new log rows, at most 500,000"


KILLED = """
import sys
from weft.execution.engines import choosing
choosing.BOUNDS = choosing.NOTHING
from weft.cli import main
sys.argv = ["weft", "view", "refresh", "--home", sys.argv[1], "--now", "1970-01-01T00:00:01Z"]
main()
"""
POINTS = ("view.computed", *(pytest.param(p, marks=pytest.mark.slow) for p in ("view.reserved", "view.written")))


@pytest.mark.parametrize("point", POINTS)
def test_a_refresh_that_died_after_spark_wrote_its_files_leaves_nothing_visible(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft, file = replay_home(tmp_path / "home"), tmp_path / "staff.csv"
    write(file, STEPS[0][1])
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    weft.add_view("all_staff", "SELECT id, name FROM staff", batched=True)
    weft.close()
    command = [sys.executable, "-c", KILLED, str(weft.home)]
    died = subprocess.run(command, env=_environment(point), check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-500:]
    with Weft.open(tmp_path / "home") as again:
        stored = point == "view.written"
        assert verify(again.catalog) == []
        monkeypatch.setattr(choosing, "BOUNDS", NOTHING)
        (done,) = again.refresh_views(now=2_000_000)
        assert (done.trouble, done.by, done.changed) == (None, "Spark", 0 if stored else 3)
        assert len(kept(again, "all_staff")) == 3
        assert again.catalog.tables.named("all_staff").last_ts == (1_000_000 if stored else 2_000_000)
        assert again.catalog.reservations.still_open() == () and verify(again.catalog) == []


def _environment(point: str) -> dict[str, str]:
    import os

    return {**os.environ, "WEFT_FAILPOINT": point, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}


def test_synopses_deliver_the_same_on_both_engines_by_turns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine changes from tick to tick, so that each reads what the other stored."""
    pick, rows = random.Random(11), (*FIRST, *drawn(11))
    cuts = sorted({*pick.sample(range(2, len(rows)), 3), len(rows)})
    with made(tmp_path, FIRST) as weft:
        loaded, found = len(FIRST), []
        for number, cut in enumerate(cuts):
            end = rows[cut - 1].ts + 1
            while cut < len(rows) and rows[cut].ts < end:
                cut += 1  # a tick processes all rows of an instant
            load(weft, tmp_path, rows[loaded:cut])
            loaded = max(loaded, cut)
            monkeypatch.setattr(choosing, "BOUNDS", EngineBounds() if number % 2 else NOTHING)
            engine = weft.explain_tick("before").engine
            found.append(None if engine is None else engine.by)
            weft.tick(now=end)
            for name, asked in QUERIES.items():
                assert delivered(weft, name) == expected(asked, rows[:loaded], end), name
        assert found[:2] == ["Spark", "driver"]
        assert verify(weft.catalog) == []
        assert {query.state for query in weft.queries()} == {"active"}


@pytest.mark.parametrize("point", ["tick.written:1", "tick.written:2"])
def test_a_process_that_completes_a_dead_tick_chooses_the_engine_by_its_size(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, names = (*FIRST, *drawn(3)), ["before", "within"]
    with made(tmp_path, rows, names):
        pass
    end = rows[-1].ts + 1
    command = [sys.executable, "-m", "weft", "tick", "--home", str(tmp_path / "home"), "--now", _text(end)]
    assert forked.run(command, point).returncode == -signal.SIGKILL
    monkeypatch.setattr(choosing, "BOUNDS", NOTHING)
    monkeypatch.setattr(Together, "in_this_process", _refused)
    with Weft.open(tmp_path / "home") as weft:
        weft.pause("within")
        weft.resume("within")
        assert weft.catalog.ticks.planned() is None
        for name in names:
            assert delivered(weft, name) == expected(QUERIES[name], rows, end) != {}
        more = (Row("r", end, (2, "xy", None)), Row("s", end + 1, (2, "z")))
        load(weft, tmp_path, more)
        weft.tick(now=end + 2)
        for name in names:
            assert delivered(weft, name) == expected(QUERIES[name], (*rows, *more), end + 2)
        assert verify(weft.catalog) == []


def _refused(_: Together) -> TakenIn:
    raise AssertionError("this process computes nothing beyond the bounds")


def test_a_relation_is_rewritten_by_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.storage import stored_relations

    monkeypatch.setattr(choosing, "BOUNDS", NOTHING)
    monkeypatch.setattr(stored_relations, "_FILES", 2)
    rows = (*FIRST, *drawn(3))
    with made(tmp_path, rows, ["before"]) as weft:
        for cut in (10, 20, 30, len(rows)):
            weft.tick(now=rows[cut - 1].ts + 1)
        wanted = expected(QUERIES["before"], rows, rows[-1].ts + 1)
        assert delivered(weft, "before") == wanted != {}
        folders = [name for name in (weft.catalog.data / layout.SYNOPSES).names() if name != "states"]
        sizes = [len(Table(weft.catalog.data / layout.SYNOPSES / name).files()) for name in folders]
        assert sizes and max(sizes) <= 1 + 2  # one before the last change, which has two partitions
        assert verify(weft.catalog) == []


def test_explain_says_which_engine_the_next_tick_takes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with made(tmp_path, (*FIRST, *drawn(3)), ["before"]) as weft:
        home = ["--home", str(weft.home)]
        assert run(["explain", "--tick", "before", *home]) == 0
        shown = capsys.readouterr().out
        assert "The next tick runs on the driver: r and s have 42 new rows, at most" in shown
        monkeypatch.setattr(choosing, "BOUNDS", EngineBounds(events=10))
        assert run(["explain", "--tick", "before", "--json", *home]) == 0
        engine = json.loads(capsys.readouterr().out)["engine"]
        assert engine == {"by": "Spark", "why": "r and s have 42 new rows, more than 10"}
        weft.tick(now=FIRST[0].ts + 10**12)
        assert weft.explain_tick("before").quiet == "no rows have arrived in r or s"


def test_a_large_batch_has_the_view_computed_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either engine records the same periods as small refreshes do, also of rows that end and of corrections."""
    kept_by: dict[str, list[list[str]]] = {}
    engines = {"small": EngineBounds(), "driver": EngineBounds(again=0), "Spark": ON_SPARK_ANEW}
    for by, bounds in engines.items():
        (tmp_path / by).mkdir()
        weft, _, result = course(tmp_path / by, monkeypatch, bounds)
        kept_by[by] = [kept(weft, name) for name in VIEWS] + [sorted(map(repr, result))]  # type: ignore[call-overload]
        assert verify(weft.catalog) == []
    assert kept_by["small"] == kept_by["driver"] == kept_by["Spark"]
    write(tmp_path / "Spark" / "staff.csv", ["5,Ed,Dev"])
    weft.poll_source("staff", now=400)
    (said,) = (choice.why for what, choice in weft.show_view("sizes").next_refreshes if what == "The next refresh")
    assert said.startswith("the view is recomputed, because") and "more than 0" in said
