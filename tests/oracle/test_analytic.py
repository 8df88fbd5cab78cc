"""Laws 1 and 2 on random queries with aggregates, outer joins, top-k, window functions and scalar subqueries.

DuckDB runs both sides: the reference evaluates the text at every instant, and Weft's branches read the states that a
tick would compute (``derived.StateTables``).  Every text is evaluated at one instant, and the exact deltas of its
states are added up in one window.  Every fourth text is tried with one more law, and of those whose states take much
SQL every twelfth, because DuckDB parses and plans far longer than it computes.  Of the texts without an answer in the
histories that are drawn, every second is left out.  ``make test`` tries the first of the shards, ``make test-long`` all
and 30,000 texts more, with a seed that it prints (WEFT_SEED repeats it).
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

import duckdb
import pytest

from oracle.analytic_counts import CONSTRUCTS, FIRST
from oracle.analytic_engine import Prepared, Probe, TooLong, in_world, informative_world
from oracle.analytic_grammar import analytic_query
from oracle.histories import Case, case, distinct_cases, history
from oracle.laws import Law, Trial, any_partition, exact_deltas, from_now, later_tick, one_instant, union_of_starts
from oracle.shards import shards
from oracle.spelling import Text
from weft.derivation.size import size
from weft.errors import SqlError

TEXTS: Final = 2_400
SHARDS: Final = 12
LONG: Final = 30_000
REPORTED: Final = 10
"""Failures after which a long run ends."""
LARGE: Final = 30
"""Tables that the branches of a text may name: DuckDB takes seconds for larger ones."""
LONGEST: Final = 12_000
"""Characters of SQL that make a text a long one, where one of its instants takes more."""
EVERY: Final = 4
"""Every fourth text of a shard is tried with one more law; `make test-long` tries all of its random ones."""
EVERY_LONG: Final = 3
"""Of these, every third long text is."""
WORLDS: Final = 200
"""Histories that the texts of a shard share."""
TRIES: Final = 6
"""Histories that are drawn for a text."""
SEED: Final = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))
IN_TURN: Final[tuple[Law, ...]] = (
    union_of_starts,
    any_partition,
    from_now,
    any_partition,
    later_tick,
    any_partition,
    union_of_starts,
    any_partition,
)
"""The laws beside ``one_instant``, of which a text tries one, so that a run tries many texts."""
REFUSALS: Final = (
    r"Split the query", r"at most 64 are allowed", r"aggregated subquery", r"LATERAL", r"no column '\w+\.(part|v)'",
    r"multiply out", r"a subquery cannot stand here", r"CASE WHEN NULL",
    r"ALL with expressions",
)  # fmt: skip
"""What Weft may say of a text that it refuses."""
BY_ALL: Final = r"neither in GROUP BY nor in an aggregate"
"""A reason with GROUP BY ALL: DuckDB groups by the columns of HAVING, too, Spark by those of the select list alone."""
ENDED: Final = "SELECT DISTINCT g.n, g.d FROM m AS e RIGHT JOIN r AS g ON g.k = e.n FULL JOIN r AS h ON h.k = e.n"
CHOSEN: Final = "SELECT a.k AS c0, {} AS c1 FROM m AS a"
KEPT: Final = (
    "SELECT COUNT(*) AS c0 FROM m AS a",
    f"WITH q0(a, b) AS ({ENDED} AND e.d <> e.ts WHERE g.k <=> e.k) SELECT i.b AS c0, COUNT(*) AS c1 FROM q0 AS i "
    "RIGHT JOIN q0 AS j ON i.b IS NOT NULL LEFT JOIN q0 AS l ON TRUE WHERE l.b IS NOT NULL GROUP BY i.b",
    "WITH q0(a, b) AS (SELECT MIN(c.d), c.x FROM u AS c GROUP BY 2) SELECT LAST_VALUE(e.a) OVER (ORDER BY e.a DESC "
    "NULLS LAST, e.b NULLS FIRST) AS c0, ROW_NUMBER() OVER (ORDER BY e.a DESC NULLS LAST, e.b NULLS FIRST) AS c1 "
    "FROM q0 AS e",
    Text(
        CHOSEN.format("MAX_BY(a.x, a.n) OVER (PARTITION BY a.f)"),
        CHOSEN.format(
            "CASE WHEN COUNT(a.n) OVER (PARTITION BY a.f) > 0 THEN FIRST_VALUE(a.x) OVER (PARTITION BY a.f ORDER BY "
            "a.n DESC NULLS LAST, a.x NULLS LAST) END"
        ),
    ),
    "SELECT COUNT(*) AS c0 FROM (SELECT DISTINCT * FROM u) AS b FULL JOIN m AS c ON c.n = b.k GROUP BY c.ts",
    "SELECT c.n AS c0, COUNT(*) AS c1 FROM r AS c WHERE c.ts - INTERVAL 1 MICROSECOND * c.k = NOW() - INTERVAL 1 "
    "MICROSECOND * c.k OR NOW() >= c.ts - INTERVAL 2 MICROSECONDS GROUP BY c.n",
    "SELECT LAG(i.x, 1) OVER (ORDER BY j.k DESC NULLS LAST, i.x DESC NULLS LAST) AS c0, ROW_NUMBER() OVER (ORDER BY "
    "j.k DESC NULLS LAST, i.x DESC NULLS LAST) AS c1 FROM r AS i FULL JOIN r AS j ON j.x = i.x",
    "SELECT COUNT(*) AS c0 FROM u AS b WHERE NOW() IN (b.ts, b.d) GROUP BY b.x",
    "SELECT COUNT(*) AS c0 FROM u AS b WHERE NOW() <=> b.ts GROUP BY b.x",
    "SELECT a.n AS c0 FROM r AS a UNION SELECT DISTINCT c.n AS c0 FROM m AS c ORDER BY c0 NULLS FIRST LIMIT 1",
    "SELECT e.a AS c0 FROM (SELECT b.n AS i0 FROM u AS b UNION SELECT c.k AS c0 FROM m AS c "
    "ORDER BY i0 NULLS FIRST LIMIT 1) AS e(a)",
    "SELECT COUNT(h.x) AS c0 FROM m AS c LEFT JOIN r AS e ON e.n = c.n LEFT JOIN m AS g ON g.f = TRUE "
    "LEFT JOIN r AS h ON g.n = h.k GROUP BY GROUPING SETS ((g.ts), (g.k))",
    "SELECT b.x AS c0 FROM u AS b GROUP BY b.x HAVING MAX(b.ts) < NOW() AND COUNT(DISTINCT b.ts) > 0",
    "SELECT a.n AS c0 FROM m AS a JOIN (SELECT b.k AS k, MAX(b.d) AS d FROM u AS b GROUP BY b.k) AS g ON g.k = a.k "
    "WHERE NOW() > g.d",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2, e.n AS c3 FROM (m AS a LEFT JOIN r AS b ON a.k = b.k) LEFT JOIN (u AS c "
    "LEFT JOIN r AS e ON c.n = e.k) ON c.k = b.n",
    "SELECT a.k AS c0, e.n AS c1 FROM m AS a LEFT JOIN (r AS b LEFT JOIN (u AS c LEFT JOIN m AS e ON c.n = e.n) ON b.k "
    "= c.k) ON a.x = b.x",
    "SELECT a.k AS c0, e.n AS c1, COUNT(*) AS c2 FROM m AS a FULL JOIN (r AS b LEFT JOIN u AS c ON c.n = b.n RIGHT "
    "JOIN m AS e ON b.k = e.k) ON a.n = e.n GROUP BY a.k, e.n",
)
"""Texts that failed before, and thresholds on the columns of groups."""


class Course:
    """Tries cases one after another and counts what they are like."""

    def __init__(self, seed: int, every: int = EVERY) -> None:
        self.every, chance = every, random.Random(seed)
        drawn = [history(chance) for _ in range(WORLDS)]
        fuller = sorted(drawn[WORLDS // 4 :], key=lambda each: min(map(len, each.rows.values())))
        self.engine = Prepared([*drawn[: WORLDS // 4], *fuller[WORLDS // 4 :]])
        self.counts: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()

    def run(self, given: Case, turn: int) -> None:
        """Raises AssertionError where a law does not hold."""
        self.counts["drawn"] += 1
        try:
            probe = informative_world(self.engine, given, TRIES)
        except duckdb.Error:
            self.counts["not for DuckDB"] += 1
            return
        if not probe.answered and turn % 2:
            self.counts["dull"] += 1
            return
        trial = Trial(in_world(self.engine, given, probe.world), self.engine)
        if self.refused(trial):
            return
        if size(trial.standing.compiled.lifted).sources > LARGE:
            self.counts["large"] += 1
            return
        try:
            self.tried(trial, turn)
        except TooLong:
            self.counts["too long"] += 1
        else:
            self.note(trial, probe)

    def tried(self, trial: Trial, turn: int) -> None:
        before = self.engine.characters
        self.holds(one_instant, trial)
        self.holds(exact_deltas, trial)
        long = self.engine.characters - before > LONGEST
        self.counts["long"] += long
        every = self.every * EVERY_LONG if long else self.every
        if turn // 2 % every == 0:  # texts without answers have even numbers
            self.holds(IN_TURN[turn // 2 // self.every % len(IN_TURN)], trial)
            self.counts["tried with one more law"] += 1

    @staticmethod
    def holds(law: Law, trial: Trial) -> None:
        trial.random.seed(trial.case.salt)
        try:
            law(trial)
        except Exception as error:
            error.args = (f"{law.__name__}: {error}\n{trial.case}",)
            raise

    def refused(self, trial: Trial) -> bool:
        try:
            _ = trial.standing
        except SqlError as refused:
            reasons = (*REFUSALS, BY_ALL) if "GROUP BY ALL HAVING" in trial.case.text.spark else REFUSALS
            if not any(re.search(reason, str(refused)) for reason in reasons):
                refused.args = (f"{refused}\n{trial.case.text.spark}",)
                raise
            self.counts["refused"] += 1
            return True
        return False

    def note(self, trial: Trial, probe: Probe) -> None:
        self.counts["tried"] += 1
        self.counts["with answers"] += probe.answered
        self.counts["whose answer changes"] += probe.changes
        text = trial.case.text.spark
        self.fired.update(name for name, pattern in CONSTRUCTS.items() if re.search(pattern, text))
        self.fired.update({f"states: {way}": count for way, count in trial.read_by.items()})


def checked(course: Course, drawn: int) -> None:
    counts = course.counts
    assert counts["tried"] >= 0.5 * drawn, f"too many texts are left out: {counts}"
    assert counts["with answers"] >= 0.7 * counts["tried"], f"the cases have become dull: {counts}"
    assert counts["whose answer changes"] >= 0.5 * counts["tried"], f"the cases have become dull: {counts}"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", shards(SHARDS, FIRST))
def test_laws_on_distinct_texts(shard: int, record_property: Callable[[str, object], None]) -> None:
    course, number = Course(shard), -1
    for number, each in enumerate(distinct_cases(0, TEXTS * (shard + 1) // SHARDS, analytic_query)):
        if number >= TEXTS * shard // SHARDS:
            course.run(each, number)
    record_property("analytic", {"shards": 1, **course.counts, **course.fired})
    checked(course, TEXTS // SHARDS)


@pytest.fixture(scope="module")
def loaded() -> Prepared:
    """The histories of the first shard."""
    return Course(0).engine


@pytest.mark.parametrize("text", KEPT)
def test_texts_that_failed_once(text: str | Text, loaded: Prepared) -> None:
    for number, law in enumerate((union_of_starts, one_instant, later_tick, from_now, exact_deltas)):
        given = case(random.Random(number), lambda chance: text if isinstance(text, Text) else Text(text, text))
        world = informative_world(loaded, given, 3).world
        trial = Trial(in_world(loaded, given, world), loaded)
        for each in (any_partition, law):
            Course.holds(each, trial)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("shard", range(4))
def test_many_more(shard: int) -> None:
    """Report up to ``REPORTED`` failures: a run takes half an hour."""
    course, failed = Course(SEED + shard, every=1), list[Exception]()
    print(f"{LONG // 4} texts, seed {SEED + shard}")
    for number in range(LONG // 4):
        try:
            course.run(case(random.Random(f"{SEED + shard}, {number}"), analytic_query), number)
        except Exception as error:  # noqa: BLE001
            failed.append(error)
            print(repr(error), flush=True)
        if len(failed) == REPORTED:
            break
    print(dict(course.counts))
    assert not failed, f"{len(failed)} of the texts failed, see above"
    checked(course, LONG // 4)
