"""Laws 1 and 2 on real messages: the paper's five queries over 20 Newsgroups and two mailing lists.

The messages arrive in parts, with a tick after each part. For every division into parts, the answers equal those of SQL
in closed form over all stored rows. On a sample, they also equal those of the texts evaluated at every instant.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from every_instant import Timeline
from replayed import Answers, Row, answers, first_instants, replay_home, stored_rows
from scenario.corpora import FOUR_WEEKS, Corpus, Lists, News, arrived, closed_forms, install, stored, texts, threads
from weft.api import Weft

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.data, pytest.mark.timeout(900)]
NAMES = ("Q1", "Q2", "Q3", "Q4", "Q5")


@dataclass(frozen=True)
class Delivered:
    """A corpus that arrived in seven parts, with the expected answers for every other division."""

    corpus: Corpus
    weft: Weft
    t: int
    closed: Mapping[str, Mapping[Row, int]]
    answers: Mapping[str, Answers]


@pytest.fixture(scope="module", params=[News, pytest.param(Lists, marks=pytest.mark.slow)], ids=["20news", "linux"])
def seven(
    request: pytest.FixtureRequest, spark: SparkSession, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Delivered:
    """A corpus after seven parts and seven ticks."""
    corpus: Corpus = request.param(data)
    folder = tmp_path_factory.mktemp(corpus.name)
    parts = corpus.parts(7, folder)
    weft = arrived(folder / "home", corpus, parts)
    closed = closed_forms(stored(weft), corpus, parts[-1].t)
    print({name: len(rows) for name, rows in closed.items()})
    return Delivered(corpus, weft, parts[-1].t, closed, {name: answers(weft, name) for name in NAMES})


def test_seven_ticks_give_what_the_closed_forms_say(seven: Delivered) -> None:
    assert seven.weft.catalog.tables.named("msgs").rows == seven.corpus.stored
    ticks = seven.weft.catalog.ticks.of_query(seven.weft.catalog.queries.named("Q4").query_id, 10)
    assert len(ticks) == 7 and sum(bool(tick.rows) for tick in ticks) >= 4
    for name in NAMES:
        assert seven.closed[name], name
        assert first_instants(seven.weft, name) == seven.closed[name], name


def test_one_tick_gives_the_same_in_the_same_order(seven: Delivered, tmp_path: Path) -> None:
    shutil.copytree(seven.weft.home, tmp_path / "home")
    weft = replay_home(tmp_path / "home")
    for name in NAMES:
        weft.remove(name)
    install(weft, seven.corpus)
    weft.tick(now=seven.t)
    for name in NAMES:
        assert answers(weft, name) == seven.answers[name], name


def test_the_texts_themselves_say_so_at_sampled_instants(seven: Delivered) -> None:
    """Law 1 at an instant: a row of the result that was not delivered before begins at this instant."""
    timeline = Timeline({"msgs": stored(seven.weft)})
    chance = random.Random(1992)
    for name, text in texts(seven.corpus).items():
        delivered = seven.closed[name]
        begins = sorted(set(delivered.values()))
        between = [chance.randrange(begins[0], seven.t) for _ in range(2)]
        for s in [begins[0], begins[-1], *chance.sample(begins, 6), *between]:
            begun = {row for row, first_at in delivered.items() if first_at == s}
            before = {row for row, first_at in delivered.items() if first_at < s}
            assert timeline.at(text, s) - before == begun, (name, s)


def test_the_texts_themselves_say_so_at_every_instant_of_some_threads(seven: Delivered) -> None:
    sample = threads(stored(seven.weft), 200)
    assert sample.num_rows > 150
    there = set(sample.column("msgid").to_pylist())
    timeline = Timeline({"msgs": sample})
    instants = timeline.instants({"msgs": ["ts"]}, seven.t, (0, FOUR_WEEKS))
    for name, text in texts(seven.corpus).items():
        found = {row: first_at for row, first_at in seven.closed[name].items() if row[0] in there}
        assert timeline.first(text, instants) == found, name


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_sixty_ticks_give_the_same(seven: Delivered, tmp_path: Path) -> None:
    weft = arrived(tmp_path / "home", seven.corpus, seven.corpus.parts(60, tmp_path))
    assert stored_rows(weft, "msgs") == stored_rows(seven.weft, "msgs")
    for name in NAMES:
        assert answers(weft, name) == seven.answers[name], name


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [7, 60])
def test_ticks_after_one_load_give_the_same(seven: Delivered, count: int, tmp_path: Path) -> None:
    """All rows are stored before the first tick, and most rows have a later time than the tick."""
    [whole] = seven.corpus.parts(1, tmp_path / "whole")
    weft = replay_home(tmp_path / "home")
    assert seven.corpus.load(weft, whole) == seven.corpus.stored
    assert stored_rows(weft, "msgs") == stored_rows(seven.weft, "msgs")
    install(weft, seven.corpus)
    for part in seven.corpus.parts(count, tmp_path / "parts"):
        weft.tick(now=part.t)
    for name in NAMES:
        assert answers(weft, name) == seven.answers[name], name
