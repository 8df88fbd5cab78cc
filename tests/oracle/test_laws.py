"""Laws 1 and 2, and the laws that follow from them, on random queries × histories × partitions (design, section 3).

``make test`` runs about 390 texts that differ in more than names and constants. It counts the rules and operators that
they exercise, and fails if a rule has no case in any shard (``conftest.py``). The tenth of the texts whose branches
name the most tables would take half of the time, so only every fourth of these runs. ``make test-long`` runs all drawn
texts. Hypothesis draws them and finds a smaller failing case. The run prints its seed, and WEFT_SEED repeats it.

SQLite runs both sides, because it runs subqueries as written and small tables fast. DuckDB has types and another parser
of SQL, so it also runs both sides of every sixteenth case. DuckDB itself is sometimes wrong on nested correlated
subqueries. A case therefore counts as an error of Weft only if it fails on both.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from oracle.engines import DuckDb, Sqlite
from oracle.fired import Fired
from oracle.histories import Case, case, distinct_cases, informative_case
from oracle.laws import ALWAYS, COSTLY, LAWS, Law, Trial, any_partition
from oracle.shards import shards
from oracle.spelling import Text
from weft.derivation.stateful import states
from weft.errors import SqlError

TEXTS = 2_240
SHARDS = 12
TRIED = 2
"""How many of them `make test` tries. Together they make every rule fire."""
LARGE = 100
"""Tables that the branches of a large text name, more than."""
EVERY_LARGE = 4
EVERY_ON_DUCKDB = 16
LONG = 4_000
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))
SELDOM = (
    "WITH q0(k) AS (VALUES (1), (2)) SELECT a.k AS c0 FROM q0 AS a WHERE EXISTS "
    "(SELECT * FROM q0 AS b WHERE b.k = a.k AND NOT EXISTS (SELECT * FROM m WHERE m.k = b.k))",
    "SELECT DISTINCT b.n AS c0 FROM r AS b WHERE NOT EXISTS "
    "(SELECT * FROM r AS c WHERE c.x = b.x AND c.k NOT IN (SELECT b.n AS c0 FROM m AS e WHERE e.d <> c.d))",
    "SELECT b.n AS c0, b.k AS c1 FROM r AS b WHERE NOT EXISTS (SELECT * FROM m AS c WHERE c.x = b.x)",
)
"""Texts whose rules few random texts make fire: constant rows in EXISTS, arrivals and departures in NOT EXISTS."""
HISTORIES = 12
"""With each of these texts."""


class Course:
    """Try cases, and count their properties."""

    def __init__(self, every_large: int = 1) -> None:
        """Of the large texts it tries every ``every_large``-th."""
        self.every_large = every_large
        self.sqlite, self.duckdb = Sqlite(), DuckDb()
        self.fired = Fired()
        self.tried = self.answered = self.changed = self.large = self.too_large = 0
        self.disputed: list[str] = []
        self.on_duckdb = 0

    def run(self, given: Case, laws: Sequence[Law], *, second: bool) -> None:
        """Raises AssertionError where a law does not hold."""
        if self.left_out(Trial(given, self.sqlite)):
            return
        found, reference = informative_case(self.sqlite, given)
        trial = Trial(found, self.sqlite)
        trial.reference = reference
        if _refused(lambda: trial.standing):
            self.too_large += 1
            return
        if states(trial.standing.compiled.standing):  # unions that multiply; ``test_analytic`` tries states
            self.too_large += 1
            return
        for law in laws:
            trial.random.seed(found.salt)
            _check(lambda law=law: self.held(law, trial), found, law)  # type: ignore[misc]
        self.fired.note(trial)
        self.tried += 1
        self.answered += bool(reference.first())
        self.changed += reference.changes
        if second:
            self.again(found)

    def left_out(self, trial: Trial) -> bool:
        """Whether it is a large text and not its turn."""
        if _refused(lambda: trial.sources) or trial.sources <= LARGE:
            return False
        self.large += 1
        return (self.large - 1) % self.every_large != 0

    def held(self, law: Law, trial: Trial) -> None:
        """The law on SQLite; on DuckDB where a statement nests deeper than SQLite's parser can."""
        try:
            law(trial)
        except sqlite3.OperationalError as error:
            if "parser stack overflow" not in str(error):
                raise
            self.duckdb.load(trial.case.history.rows)
            law(Trial(trial.case, self.duckdb))

    def again(self, found: Case) -> None:
        """The same on DuckDB, which is believed only where SQLite agrees that something is wrong."""
        self.on_duckdb += 1
        self.duckdb.load(found.history.rows)
        try:
            any_partition(Trial(found, self.duckdb))
        except (AssertionError, duckdb.Error):
            any_partition(Trial(found, self.sqlite))
            self.disputed.append(found.text.spark)


def seldom() -> Iterator[Case]:
    """Yield each text of ``SELDOM`` with some histories."""
    for text in SELDOM:
        for number in range(HISTORIES):
            yield case(random.Random(number), lambda _, text=text: Text(text, text))  # type: ignore[misc]


def _check(law: Callable[[], None], found: Case, name: Law) -> None:
    try:
        law()
    except Exception as error:
        error.args = (f"{name.__name__}: {error}\n{found}",)
        raise


def _refused(compile: Callable[[], object]) -> bool:
    """Whether the case is beyond the limit on a query's size (``sql/lower/query.py``); few are, and not counted."""
    try:
        return compile() is None
    except SqlError as refused:
        if "Split the query" in str(refused):
            return True
        raise


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", shards(SHARDS, TRIED))
def test_laws_on_distinct_texts(shard: int, record_property: Callable[[str, object], None]) -> None:
    course = Course(EVERY_LARGE)
    with course.fired.counting():
        for each in seldom() if shard == 0 else ():
            course.run(each, ALWAYS, second=False)
        for number, each in enumerate(distinct_cases(0, TEXTS)):
            if number % SHARDS == shard:
                turn = number // SHARDS
                laws = (*ALWAYS, COSTLY[turn % len(COSTLY)])
                course.run(each, laws, second=turn % EVERY_ON_DUCKDB == 0)
    counts = {
        "texts": course.tried,
        "large texts drawn": course.large,
        "with answers": course.answered,
        "whose answer changes": course.changed,
    }
    record_property("oracle", {"shards": 1, **counts, "beyond the limits": course.too_large, **course.fired.counts})
    assert course.tried * SHARDS >= 2_000, f"{course.too_large} of the texts are beyond the limits"
    assert course.answered >= 0.7 * course.tried, "the cases have become dull: too few of them have any answer"
    assert course.changed >= 0.5 * course.tried, "the cases have become dull: too few answers change"
    assert len(course.disputed) * 50 <= course.on_duckdb + 50, f"hold on SQLite only: {course.disputed[:3]}"


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(2))
def test_many_more(shard: int) -> None:
    course = Course()

    @seed(SEED + shard)
    @settings(
        max_examples=LONG // 2,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False))
    def each(chance: random.Random) -> None:
        course.run(case(chance), LAWS, second=course.tried % EVERY_ON_DUCKDB == 0)

    print(f"{LONG // 2} cases, seed {SEED + shard}")
    each()
    assert len(course.disputed) * 50 <= course.on_duckdb + 50, f"hold on SQLite only: {course.disputed[:3]}"
