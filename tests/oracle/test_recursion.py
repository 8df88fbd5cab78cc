"""Laws 1 and 2 on WITH RECURSIVE: DuckDB's own recursion over the rows alive at each instant against Weft's rounds.

The graphs have an edge from k to n for each row.  They have cycles, parallel edges, NULLs, edges that end, and edges
that begin at one instant.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.derived import Standing, schemas
from oracle.expressions import LAST
from oracle.histories import Case, History, case, informative_case
from oracle.laws import Trial, any_partition, from_now, later_tick, one_instant, union_of_starts
from oracle.recursive_grammar import recursive_query
from oracle.spelling import Text
from weft.planning.recursion_plan import continued_recursion
from weft.planning.state_causes import all_states
from weft.planning.state_plan import timeless

CASES: Final = 16
LONG: Final = 400
LAWS: Final = (any_partition, one_instant, union_of_starts, later_tick, from_now)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", [range(CASES), pytest.param(range(CASES, LONG), marks=pytest.mark.slow)])
def test_recursions_deliver_the_rows_of_each_instant(cases: range) -> None:
    engine, counts = Prepared(), Counter[str]()
    for number in cases:
        found, reference = informative_case(engine, case(random.Random(number), recursive_query), 6)
        trial = Trial(found, engine)
        trial.reference = reference
        counts["with answers"] += bool(reference.first())
        counts["changing"] += reference.changes
        counts["ending"] += bool(found.history.ending)
        for law in LAWS:
            trial.random.seed(found.salt)
            try:
                law(trial)
            except Exception as error:
                error.args = (f"{law.__name__}: {error}\n{found}",)
                raise
    assert counts["with answers"] >= 0.7 * len(cases) and counts["changing"] >= 0.5 * len(cases), counts
    assert counts["ending"] >= 0.3 * len(cases), counts


def continuing(chance: random.Random) -> Case:
    """A recursion whose stored rows a tick continues, and four ticks."""
    while True:
        found = case(chance, recursive_query)
        standing = Standing.of(found.text.spark, schemas(found.history))
        ending = bool(found.history.ending) or chance.random() < 0.3
        if ending and any(map(continued_recursion, all_states(standing.shape.evaluated))):
            return replace(found, cuts=tuple(sorted(chance.sample(range(1, LAST + 1), 3))))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", [range(CASES), pytest.param(range(CASES, LONG), marks=pytest.mark.slow)])
def test_stored_rows_are_continued(cases: range) -> None:
    """Any partition into ticks, with the stored rows kept and lost, delivers what one tick over the tables delivers."""
    engine, counts = Prepared(), Counter[str]()
    for number in cases:
        found = continuing(random.Random(number))
        engine.load(found.history.rows)
        trial = Trial(found, engine)
        if number % 3 == 0:
            any_partition(trial)
        computed_again(trial)
        counts["deep"] += trial.read_by["stored rows"] > 0 and " t.d + 1" in found.text.spark
        counts += trial.read_by
    assert counts["stored rows"] >= 2 * len(cases) and counts["deep"] >= 0.2 * len(cases), counts
    least = 0.3 if cases.start == 0 else 0.5  # few cases vary more
    assert counts["grew"] >= 0.5 * len(cases) and counts["touched rows"] >= least * len(cases), counts


def computed_again(trial: Trial) -> None:
    """The rows that continue stored rows are those that a tick computes from the tables, as often and as long."""
    stored: dict[str, tuple[int, str]] = {}
    for tau, t in trial.windows():
        group = trial.standing.group([trial.standing.member(1, None if tau == 0 else tau)], t)
        read = {each for branch in group.branches() for each in all_states(branch.event.relation)}
        for state in filter(continued_recursion, read):
            before = len(rows(trial, stored[timeless(state).name][1])) if timeless(state).name in stored else 0
            states, again = trial.states(None, stored), trial.states(None)
            assert states is not None and again is not None
            _, whole = states.continued(state)
            found = rows(trial, whole)
            assert found == rows(trial, again.whole(state)), f"[{tau}, {t}): {trial.case}"
            trial.read_by["grew"] += 0 < before < len(found)


def rows(trial: Trial, table: str) -> list[str]:
    return sorted(map(repr, trial.engine.run(f"SELECT * FROM {table}")))


PATHS: Final = (
    "WITH RECURSIVE t(a, b) AS (SELECT a.k, a.n FROM m AS a UNION SELECT t.a, c.n FROM t JOIN m AS c ON c.k = t.b) "
)


def graph(chance: random.Random) -> History:
    """Nine edges between four nodes, so that a pair has a short path and an older, longer one."""
    ends = chance.random() < 0.5
    rows = []
    for _ in range(9):
        start = chance.randint(0, LAST)
        end = chance.randint(start + 1, LAST + 1) if ends and chance.random() < 0.6 else None
        rows.append((chance.randrange(4), chance.randrange(4), "a", None, None, start, end))
    return History({"m": tuple(rows), "r": (), "u": ()}, ("m",) if ends else ())


@pytest.mark.parametrize("top", ["SELECT t.a, t.b FROM t", "SELECT t.a, COUNT(*) AS c FROM t GROUP BY t.a"])
def test_a_longer_path_may_begin_before_a_shorter_one(top: str) -> None:
    engine = Prepared()
    for number in range(8):
        chance = random.Random(number)
        given = graph(chance)
        engine.load(given.rows)
        trial = Trial(Case(Text(PATHS + top, PATHS + top), given, (chance.randint(1, LAST),), number), engine)
        for law in (union_of_starts, any_partition):
            law(trial)
        computed_again(trial)
