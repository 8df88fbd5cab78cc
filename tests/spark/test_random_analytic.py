"""Laws 1 and 2 on Spark: random queries with aggregates, outer joins, top-k and window functions in real homes.

As in ``test_random``, histories arrive in parts with a tick after each part.  Stored running totals continue from tick
to tick, so a home without its state folder must give the same answers.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from oracle.analytic_engine import Prepared, comparable
from oracle.analytic_grammar import analytic_query
from oracle.derived import Standing, schemas
from oracle.engines import GRID
from oracle.expressions import LAST
from oracle.histories import History, Row
from oracle.histories import history as drawn
from oracle.laws import same
from oracle.reference import Reference, reference
from oracle.spelling import Text
from replayed import replay_home
from spark.test_random import arrive, delivered, since
from weft.catalog import layout
from weft.errors import SqlError
from weft.execution import driver_reader
from weft.execution.driver_reader import NOTHING, ReadBounds
from weft.period_sql.notation import SPARK
from weft.planning.state_causes import all_states
from weft.planning.state_plan import state_rows
from weft.runtime import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOMES = 30
QUERIES_A_HOME = 10
FEWEST = 40
"""The characters of a text. Shorter texts are drawn several times."""
MOST = 8_000
"""The characters of a query's SQL, with that of its states. Spark plans longer SQL for 5 to 40 s in each tick."""
WAYS = {"driver": ReadBounds(), "spark": NOTHING, "large": replace(NOTHING, large=10_000_000)}
"""The ways in which a tick reads its tables: on the driver, with Spark, or by DuckDB over whole tables."""


@dataclass(frozen=True)
class World:
    """A history whose rows do not end, its queries with their references, and the instants of the ticks."""

    history: History
    queries: tuple[tuple[Text, Reference], ...]
    cuts: tuple[int, ...]


def world(number: int) -> World:
    chance = random.Random(number)
    found = [each for each in (drawn(chance) for _ in range(40)) if not each.ending]
    history = max(found, key=lambda each: sum(map(len, each.rows.values())))
    engine = Prepared()
    engine.load(history.rows)
    queries: list[tuple[Text, Reference]] = []
    while len(queries) < QUERIES_A_HOME:
        text = analytic_query(chance)
        if len(text.spark) < FEWEST:
            continue
        try:
            if characters(Standing.of(text.spark, schemas(history))) > MOST:
                continue
            seen = reference(engine, text.plain)
        except (SqlError, duckdb.Error):  # the oracle looks at the reasons
            continue
        if seen.changes or chance.random() < 0.1:
            queries.append((text, seen))
    return World(history, tuple(queries), (chance.randint(1, LAST), LAST + 1))


def characters(standing: Standing) -> int:
    """Return the length of the SQL that the first tick runs."""
    branches = standing.group([standing.member(1, None)], LAST + 1).branches()
    states = {each.name: each for branch in branches for each in all_states(branch.event.relation)}
    return sum(len(each.sql) for each in branches) + sum(
        len(state_rows(each, None).sql(SPARK)) for each in states.values()
    )


def shown(found: dict[Row, int]) -> dict[Row, int]:
    return {tuple(map(comparable, row)): at for row, at in found.items()}


def _case(number: int, way: str) -> Any:
    """Return a test case. Spark plans the queries of a home for about 30 s of processor time: these cases are slow."""
    return pytest.param(number, way, marks=() if (number, way) == (0, "driver") else pytest.mark.slow)


CASES = [*((0, way) for way in WAYS if way != "spark"), *((number, "spark") for number in range(HOMES))]
"""The homes on Spark have 300 distinct texts."""


@pytest.mark.parametrize(("number", "way"), [_case(number, way) for number, way in CASES])
def test_random_queries_give_what_their_texts_say_at_every_instant(
    number: int, way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", WAYS[way])
    # The first ticks also use the settings for few rows, so that Spark compiles no code and plans each query once.
    monkeypatch.setattr(settings, "_SCAN", {})
    given = world(number)
    weft = replay_home(tmp_path / "home")
    done = 0
    stored = [row[5] for rows in given.history.rows.values() for row in rows if row[5] < given.cuts[0]]
    begun = min(stored, default=given.cuts[0])
    for until in given.cuts:
        arrive(weft, spark, given.history, done, until)
        if done == 0:
            for count, (text, _) in enumerate(given.queries):
                weft.install(f"q{count}", text.spark)
        elif number % 2:
            shutil.rmtree(layout.states_folder(tmp_path / "home"), ignore_errors=True)
        spark.sparkContext.setJobGroup(f"{tmp_path} {until}", "a tick")
        with settings.rows_only(spark):
            weft.tick(now=GRID + until)
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(f"{tmp_path} {until}")
        assert jobs or way != "spark" or until <= begun  # nothing has arrived
        assert {query.reason for query in weft.queries()} == {None}
        done = until
        for count, (text, seen) in enumerate(given.queries):
            wanted = since(seen, begun, until)
            same(f"{text}\nup to {until}", shown(delivered(weft, f"q{count}")), wanted)
