"""Laws 1 and 2 on Spark: random queries with aggregates, outer joins, top-k and window functions in real homes.

As in ``test_random``, histories arrive in parts with a tick after each part.  Stored running totals continue from tick
to tick, so a home without its state folder must give the same answers.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOMES = 30
QUERIES_A_HOME = 10
MOST = 700
"""The characters of a text. Spark plans larger ones for seconds."""
FILES = replace(NOTHING, large=10_000_000)
"""DuckDB reads the files of all tables."""


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
        if len(text.spark) > MOST:
            continue
        try:
            Standing.of(text.spark, schemas(history))
            seen = reference(engine, text.plain)
        except (SqlError, duckdb.Error):  # the oracle looks at the reasons
            continue
        if seen.changes or chance.random() < 0.1:
            queries.append((text, seen))
    cuts = sorted(chance.sample(range(1, LAST + 1), 2))
    return World(history, tuple(queries), (*cuts, LAST + 1))


def shown(found: dict[Row, int]) -> dict[Row, int]:
    return {tuple(map(comparable, row)): at for row, at in found.items()}


@pytest.mark.parametrize(
    "number", [pytest.param(each, marks=pytest.mark.slow) if each else each for each in range(HOMES)]
)
def test_random_queries_give_what_their_texts_say_at_every_instant(
    number: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", (ReadBounds(), NOTHING, FILES)[number % 3])
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
        weft.tick(now=GRID + until)
        assert {query.reason for query in weft.queries()} == {None}
        done = until
        for count, (text, seen) in enumerate(given.queries):
            wanted = since(seen, begun, until)
            same(f"{text}\nup to {until}", shown(delivered(weft, f"q{count}")), wanted)
