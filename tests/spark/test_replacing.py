"""Replace the text of a standing query on real tables.

The query delivers each row once: the answers of the old text before the replacement, and the answers of the new text at
any instant. ``oracle.reference`` evaluates random pairs of queries at every instant.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from oracle.engines import GRID, Sqlite
from oracle.expressions import LAST
from oracle.grammar import query
from oracle.histories import Row
from oracle.laws import same
from oracle.reference import reference
from oracle.spelling import Text
from replayed import DAY, HOUR, START, answers, delta_rows, first_instants, load, replay_home
from spark.test_random import WAYS, arrive, delivered, since, world
from weft.cli.app import app
from weft.errors import LimitExceeded
from weft.execution import driver_reader
from weft.planning.plan import columns_of, standing_plan
from weft.store import local_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.algebra.schema import TableSchema
    from weft.api import Weft

PAIRS = 3
MOST_BRANCHES = 5
"""Spark plans many branches slowly, and the replacement is the same for more branches."""


def pairs(chance: random.Random, engine: Sqlite, schemas: dict[str, TableSchema]) -> list[tuple[Text, Text]]:
    """Return pairs of queries with the same columns. In most pairs, each query has answers that the other does not
    have.
    """
    drawn = defaultdict[Any, list[Text]](list)
    found: list[tuple[Text, Text]] = []
    while len(found) < PAIRS:
        text = query(chance)
        plan = standing_plan(text.spark, schemas)
        if len(plan.first) + len(plan.branches) > MOST_BRANCHES or not reference(engine, text.plain).first():
            continue
        alike = drawn[columns_of(plan.query)]
        alike.append(text)
        if len(alike) == 2:
            found.append((alike[0], alike[1]))
            alike.clear()
    return found


@pytest.mark.parametrize(("number", "way"), [(1, "driver"), pytest.param(2, "spark", marks=pytest.mark.slow)])
def test_the_answers_are_those_of_the_old_text_and_the_new_ones(
    number: int, way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS[way])
    chance = random.Random(number)
    history = world(number).history
    engine = Sqlite()
    engine.load(history.rows)
    weft = replay_home(tmp_path / "home")
    first = LAST // 2
    arrive(weft, spark, history, 0, first)
    given = pairs(chance, engine, dict(weft.schemas()))
    stored = [row[5] for rows in history.rows.values() for row in rows if row[5] < first]
    begun = min(stored, default=first)
    for count, (old, _) in enumerate(given):
        weft.install(f"q{count}", old.spark)
    weft.tick(now=GRID + first)
    arrive(weft, spark, history, first, LAST + 1)
    expected: list[dict[Row, int]] = []
    report = weft.replacement("q0", given[0][1].spark)
    for count, (old, new) in enumerate(given):
        before = since(reference(engine, old.plain), begun, first)
        same(f"{old} before", delivered(weft, f"q{count}"), before)
        weft.install(f"q{count}", new.spark, replace=True)
        expected.append(before)
    weft.tick(now=GRID + LAST + 1)
    for count, (old, new) in enumerate(given):
        whole = since(reference(engine, new.plain), begun, LAST + 1) | expected[count]
        same(f"{old}\nreplaced by {new}", delivered(weft, f"q{count}"), whole)
    now = since(reference(engine, given[0][1].plain), begun, first)  # the time of the home's clock
    known = len(now.keys() & expected[0].keys())
    assert (report.new, report.known, report.only_old) == (len(now) - known, known, len(expected[0]) - known)


@pytest.fixture
def weft(tmp_path: Path, spark: SparkSession) -> Weft:
    made = replay_home(tmp_path / "home")
    load(made, spark, "msgs", [message(name, day, group) for name, day, group in FIRST])
    return made


FIRST = (("a", 1, "sci.space"), ("b", 2, "rec.x"), ("c", 3, "sci.space"))


def message(name: str, day: float, group: str) -> tuple[Any, ...]:
    return (name, group, None, START + int(day * DAY))


def text(group: str) -> str:
    return f"SELECT msgid FROM msgs WHERE newsgroup = '{group}'"


def names(weft: Weft, query: str) -> list[str]:
    return [values[0] for _, _, values in answers(weft, query)]


def test_channels_continue_and_the_dry_run_shows_the_next_answers(weft: Weft, spark: SparkSession) -> None:
    weft.install("q", text("sci.space"), to=["file:q.csv", "delta:q"])
    weft.install("from-now", text("sci.space"), start="now", to=["cursor"])
    weft.tick(now=START + 4 * DAY)
    both = "SELECT msgid FROM msgs WHERE newsgroup = 'rec.x' OR msgid = 'c'"
    ran = CliRunner().invoke(app, ["install", "q", both, "--replace", "--dry-run", "--home", str(weft.home)])
    assert ran.output.splitlines()[-4:] == [
        "The next tick would deliver 1 answer that q has not delivered, from the start.",
        "The new text also returns 1 of the 2 answers that q has delivered.",
        "1 answer came from the old text only: they stay delivered.",
        "Nothing was changed.",
    ]
    weft.pause("q")
    paused = CliRunner().invoke(app, ["install", "q", both, "--replace", "--dry-run", "--home", str(weft.home)])
    report = "The first tick after `weft resume q` would deliver 1 answer that q has not delivered, from the start."
    assert paused.output.splitlines()[-4:] == [report, *ran.output.splitlines()[-3:]]
    weft.resume("q")
    given = ["install", "q", both, "--replace", "--dry-run", "--json", "--home", str(weft.home)]
    found = json.loads(CliRunner().invoke(app, given).stdout)
    assert {name: found[name] for name in ("answers", "new", "known", "only_old")} == {
        "answers": 2, "new": 1, "known": 1, "only_old": 1,
    }  # fmt: skip
    assert weft.replacement("q", both, start="now").new == 0
    assert weft.show("q").replaced == ()
    weft.install("q", both, replace=True)
    weft.install("from-now", text("rec.x"), replace=True)
    load(weft, spark, "msgs", [message("d", 5, "rec.x"), message("e", 5, "sci.space")])
    weft.tick(now=START + 6 * DAY)
    assert answers(weft, "q") == [
        (1, START + 1 * DAY, ("a",)),
        (2, START + 3 * DAY, ("c",)),
        (3, START + 2 * DAY, ("b",)),
        (4, START + 5 * DAY, ("d",)),
    ]
    assert names(weft, "from-now") == ["d"]
    lines = (weft.home / "files" / "q.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["_ordinal", "1", "2", "3", "4"]
    written = local_store(weft.home / "delta" / "q")
    assert delta_rows(written, ["_ordinal", "msgid"]) == [
        (1, "a"),
        (2, "c"),
        (3, "b"),
        (4, "d"),
    ]
    weft.install("q", text("sci.space"), replace=True, start="now")
    load(weft, spark, "msgs", [message("f", 7, "sci.space")])
    weft.tick(now=START + 8 * DAY)
    assert names(weft, "q") == ["a", "c", "b", "d", "f"]  # e entered the result before, and is not a new answer


def test_what_reads_its_results_gets_what_begins_before_its_window(weft: Weft, spark: SparkSession) -> None:
    weft.install("q", text("sci.space"))
    weft.tick(now=START + HOUR)
    weft.install("all", "SELECT msgid FROM results.q WHERE NOW() >= _first_at + INTERVAL 1 DAYS")
    weft.install("later", "SELECT msgid FROM results.q", start="now")
    weft.install("skipping", "SELECT msgid FROM results.q")
    weft.install("top", "SELECT a.msgid FROM results.all a")
    weft.pause("skipping")
    weft.tick(now=START + int(3.5 * DAY))
    weft.resume("skipping", skip=True)
    load(weft, spark, "msgs", [message("d", 4, "rec.x")])
    weft.tick(now=START + 5 * DAY)
    assert not [query.reason for query in weft.queries() if query.state == "failed"]
    assert [names(weft, name) for name in ("all", "top", "later", "skipping")] == [
        ["a", "c"],
        ["a", "c"],
        ["a", "c"],
        [],
    ]
    weft.install("q", "SELECT msgid FROM msgs", replace=True)
    weft.tick(["q"], now=START + 5 * DAY)  # the query that reads the result is not in this tick
    weft.tick(now=START + 6 * DAY)
    expected = {("a",): 2, ("c",): 4, ("b",): 3, ("d",): 5}
    for name in ("all", "top"):
        assert first_instants(weft, name) == {row: START + day * DAY for row, day in expected.items()}, name
    assert names(weft, "later") == ["a", "c", "b", "d"]
    assert names(weft, "skipping") == ["d"]


def test_too_many_answers_are_reported_before(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    weft.install("q", text("rec.x"))
    weft.tick(now=START + 4 * DAY)
    monkeypatch.setenv("WEFT_QUERY_ROWS", "1")
    with pytest.raises(LimitExceeded, match="the query found 2 new rows"):
        weft.replacement("q", "SELECT msgid FROM msgs")
    assert weft.replacement("q", text("rec.x") + " AND msgid <> 'c'").known == 1
