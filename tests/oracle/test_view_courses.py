"""Law 3 on DuckDB: random views, maintained over random courses of changes, refreshes and time.

A case is a view and a course of its tables. The test compares the first value of the view, and the value after each
refresh. The maintenance is that of a home (``execution.temporal.computing``), over files of log rows. Hypothesis draws
the cases. ``make test-long`` runs ten times as many cases of six times as many views. It prints its seed, and WEFT_SEED
repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from oracle.view_courses import SHARDS, TRIED, WORDS, Keeping, informative_course, one_for_all, optimize
from oracle.view_grammar import LAST, folded, view
from oracle.view_terms import Query
from temporal_values import Value
from weft.errors import SqlError
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds
from weft.execution.temporal import logs
from weft.storage.temporal_sql import TemporalSql, temporal_sql

VIEWS = 520
SOME = 35
"""How many views of a shard `make test` tries. They use every equation and word."""
COURSES = 8
"""How many courses a view is kept along at once; one with an aggregate of all rows, and each ninth: along one."""
ALONE = 9
LOOKED_UP = 6
"""For each sixth view the logs count as large: rows are looked up, and a pool of periods is soon full."""
FROM_SCRATCH = 7
"""Each seventh view is recomputed in its later refreshes."""
REFRESHES = (1, 1, 2)
LONGEST = 220
"""Of longer texts those of the first value are tried (``test_views``); some take a thousand statements to maintain."""
DEEP = 10
"""Each tenth view has three SELECTs or more, and may be half as long again."""
WIDE = 5
"""From so many range variables on a view is planned with DuckDB's optimizer: without it, joins are products."""
LONG = 6
"""How many times as many views ``make test-long`` draws."""
LONG_COURSES = 14
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))


class Tried:
    """The cases of one shard, and their properties."""

    def __init__(self, shard: int, folder: Path, sql: TemporalSql, longest: int = LONGEST) -> None:
        self.shard, self.folder, self.sql, self.longest = shard, folder, sql, longest
        self.courses = COURSES
        self.counts: Counter[str] = Counter()
        self.seen: set[str] = set()

    def fresh(self, chance: random.Random) -> Query:
        """A view of this shard, like none before."""
        while True:
            query = view(chance)
            shape = folded(query)
            mine = crc32(shape.encode()) % SHARDS == self.shard and shape not in self.seen
            size, deep = len(query.text()), len(self.seen) % DEEP == 0
            fits = shape.count("SELECT") > 2 and 2 * size <= 3 * self.longest if deep else size <= self.longest
            if mine and fits:
                self.seen.add(shape)
                return query

    def run(self, chance: random.Random) -> None:
        query = self.fresh(chance)
        alone = one_for_all(query) or len(self.seen) % ALONE == 0
        place = self.folder / str(len(self.seen))
        place.mkdir()
        instants = [*sorted(chance.sample(range(LAST), chance.choice(REFRESHES))), LAST]
        courses = [informative_course(query, chance, instants) for _ in range(1 if alone else self.courses)]
        optimize(self.sql, wanted=query.text().count(" AS a") >= WIDE)
        large = len(self.seen) % LOOKED_UP == 0
        driver_reader.BOUNDS, logs.MOST_POOLED = (ReadBounds(loaded=-1), 5) if large else (ReadBounds(), 50_000)
        try:
            keeping = Keeping(query, courses, place)
            self.along(keeping, instants)
        except SqlError as refused:
            assert "Split the query" in str(refused)
            self.counts["beyond the limits"] += 1

    def along(self, keeping: Keeping, instants: list[int]) -> None:
        """Refreshes at these instants, and compares each course."""
        values: list[list[Value]] = [[] for _ in keeping.courses]
        for t in instants:
            from_scratch = keeping.tau is not None and len(self.seen) % FROM_SCRATCH == 0
            if keeping.tau is not None and not from_scratch:
                self.counts.update(keeping.ran(keeping.tau, t))
            self.counts["recomputed"] += from_scratch
            keeping.refresh(t, from_scratch=from_scratch)
            for number, each in enumerate(keeping.courses):
                found, expected = keeping.value(number), keeping.expected(number, t)
                assert found == expected, (
                    f"at {t} of {instants}, course {number}: {keeping.asked.text()}\n{each.known}\n"
                    f"found {found}\nexpected {expected}"
                )
                values[number].append(found)
        text = keeping.query.text()
        self.counts["views"] += 1
        self.counts["of three SELECTs and more"] += text.count("SELECT") > 2
        self.counts.update(word for word in WORDS if word in text)
        self.counts["cases"] += len(values)
        self.counts["refreshes"] += (len(instants) - 1) * len(values)
        self.counts["with rows"] += sum(any(found) for found in values)
        self.counts["that change"] += sum(any(one != found[0] for one in found) for found in values)
        self.counts["corrections"] += sum(each.corrections for each in keeping.courses)


@pytest.fixture
def tried(tmp_path: Path, shard: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tried]:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds())
    monkeypatch.setattr(logs, "MOST_POOLED", logs.MOST_POOLED)
    with temporal_sql(1) as sql:
        yield Tried(shard, tmp_path, sql)
        optimize(sql, wanted=True)


def drawn(tried: Tried, many: int, *, alike: bool) -> Any:
    """The test of so many views, as Hypothesis draws them; ``alike``: the same ones each time."""

    @settings(
        max_examples=many,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=alike,
    )
    @given(st.integers(0, 2**62))
    def each_view(number: int) -> None:
        tried.run(random.Random(f"{tried.shard}-{number}"))

    return each_view


def judged(tried: Tried, record_property: Any, many: int) -> None:
    counts = tried.counts
    counts["shards"] += 1
    record_property("courses", dict(counts))
    print(dict(counts))
    assert counts["views"] >= 0.95 * many
    assert counts["cases"] >= 5.7 * many
    assert counts["with rows"] >= 0.5 * counts["cases"] and counts["that change"] >= 0.4 * counts["cases"]
    assert counts["corrections"] > many
    assert counts["recomputed"] >= 0.9 * (many // FROM_SCRATCH)
    assert counts["of three SELECTs and more"] > 0.08 * many


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("shard", "views"),
    [
        *((shard, SOME) for shard in range(TRIED)),
        *(pytest.param(shard, VIEWS // SHARDS, marks=pytest.mark.slow) for shard in range(SHARDS)),
    ],
)
def test_views_are_kept_as_their_definitions_say(shard: int, views: int, tried: Tried, record_property: Any) -> None:
    drawn(tried, views, alike=True)()
    judged(tried, record_property, views)
    assert tried.counts["cases"] * VIEWS >= 3_000 * views


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_many_views_are_kept_as_their_definitions_say(shard: int, tried: Tried, record_property: Any) -> None:
    print(f"WEFT_SEED={SEED}")
    tried.longest, tried.courses = 300, LONG_COURSES
    seed(SEED)(drawn(tried, LONG * VIEWS // SHARDS, alike=False))()
    judged(tried, record_property, LONG * VIEWS // SHARDS)
    assert tried.counts["cases"] * SHARDS >= 30_000
