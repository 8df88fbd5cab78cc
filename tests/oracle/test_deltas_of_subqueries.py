"""Exact deltas of totals over rows with EXISTS, NOT EXISTS and IN, and laws 1 and 2 on the same texts.

DuckDB evaluates the texts at each instant, and adds the deltas up (``StateTables.off``).
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.derived import Standing, StateTables, schemas
from oracle.expressions import LAST
from oracle.histories import Case, History, history
from oracle.laws import Trial, any_partition, exact_deltas
from oracle.spelling import Text
from weft.derivation.stateful import states
from weft.planning.state_plan import state_deltas

BODIES: Final = (
    "SELECT 1 FROM r AS b WHERE b.k = a.k",
    "SELECT 1 FROM r AS b WHERE b.k = a.k AND b.n <> a.n",
    "SELECT 1 FROM r AS b WHERE b.k = a.k AND b.x = a.x AND b.f",
    "SELECT 1 FROM r AS b WHERE b.k <=> a.k AND b.x = a.x",
    "SELECT 1 FROM u AS b WHERE b.n = a.k AND b.d <= NOW()",
    "SELECT 1 FROM u AS b WHERE b.n = a.n AND b.ts > NOW() - INTERVAL 3 MICROSECONDS",
    "SELECT 1 FROM u AS b, r AS g WHERE b.k = a.n AND g.n = b.n",
    "SELECT 1 FROM m AS b WHERE b.k = a.k AND b.ts > a.ts",
    "SELECT 1 FROM r AS b WHERE b.k = a.k AND NOT EXISTS (SELECT 1 FROM u AS g WHERE g.k = b.k AND g.n = a.n)",
    "SELECT b.k FROM r AS b WHERE b.k = a.k UNION ALL SELECT g.k FROM u AS g WHERE g.k = a.k AND g.x = a.x",
)
FROM: Final = (
    "m AS a",
    "m AS a, u AS h WHERE h.k = a.k",
    "m AS a LEFT JOIN u AS h ON h.k = a.n",
    "m AS a WHERE a.d <= NOW()",
    "m AS a WHERE a.ts > NOW() - INTERVAL 4 MICROSECONDS",
)
KEPT: Final = (
    "SELECT a.x, COUNT(*) AS c FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.k) GROUP BY a.x",
    "SELECT COUNT(*) AS c, SUM(a.n) AS s FROM m AS a WHERE NOT EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.k)",
    "SELECT a.x, COUNT(h.n) AS c FROM m AS a LEFT JOIN u AS h ON h.k = a.k AND h.n > 0 GROUP BY a.x",
    "SELECT a.n, COUNT(*) AS c FROM m AS a WHERE a.k IN (SELECT b.k FROM r AS b WHERE b.n > 0) GROUP BY a.n",
)
WHOLE: Final = (
    "SELECT a.x, COUNT(*) AS c FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b WHERE b.n > 1) GROUP BY a.x",
    "SELECT a.x, COUNT(*) AS c FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b WHERE b.k < a.k) GROUP BY a.x",
    "SELECT a.x, COUNT(*) AS c FROM m AS a WHERE a.k NOT IN (SELECT b.k FROM r AS b) GROUP BY a.x",
    "SELECT a.x, MAX(a.n) AS c FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.k) GROUP BY a.x",
    "SELECT a.k, COUNT(h.n) AS c FROM m AS a LEFT JOIN u AS h ON h.k = a.k GROUP BY a.k",
)
"""Totals that a tick does not continue: no equality connects the subquery to the rows, a row can leave a MAX, or the
equality has the keys of the groups, which a tick looks up."""


def drawn(chance: random.Random) -> str:
    """A text with one or two subqueries below an aggregate."""
    parts = [chance.choice(("", "NOT ")) + f"EXISTS ({chance.choice(BODIES)})" for _ in range(chance.choice([1, 1, 2]))]
    condition = f" {chance.choice(('AND', 'AND', 'OR'))} ".join(parts)
    given, heads = chance.choice(FROM), chance.choice(("a.x", "a.k", "a.x, a.n", ""))
    measures = chance.choice(("COUNT(*) AS c", "COUNT(a.n) AS c, SUM(a.n) AS s", "SUM(a.k + 1) AS c, COUNT(*) AS s"))
    where = "AND" if "WHERE" in given else "WHERE"
    by = f" GROUP BY {heads}" if heads else ""
    return f"SELECT {heads}{', ' if heads else ''}{measures} FROM {given} {where} ({condition}){by}"


def lasting(chance: random.Random) -> History:
    """A history in which each table has rows, and no row ends."""
    while True:
        given = history(chance)
        if not given.ending and all(given.rows.values()):
            return given


def tried(text: str, chance: random.Random, histories: int) -> Counter[str]:
    """Check the laws of a text over some histories.  Return the number of answers, and how the states were read."""
    found = Counter[str]()
    for _ in range(histories):
        given, engine = lasting(chance), Prepared()
        engine.load(given.rows)
        cuts = tuple(sorted(chance.sample(range(1, LAST + 1), 2)))
        trial = Trial(Case(Text(text, text), given, cuts, chance.randrange(2**16)), engine)
        for law in (exact_deltas, exact_deltas, any_partition):
            law(trial)
        found += Counter(answers=len(trial.reference.first())) + trial.read_by
    return found


@pytest.mark.parametrize("text", KEPT)
def test_totals_over_subqueries_have_exact_deltas(text: str) -> None:
    found = tried(text, random.Random(text), 3)
    assert found["answers"] and found["deltas of subqueries"] == 6


@pytest.mark.parametrize("count", [24, pytest.param(600, marks=pytest.mark.slow)])
def test_drawn_texts(count: int) -> None:
    chance, found, texts = random.Random(count), Counter[str](), 0
    for _ in range(count):
        now = tried(drawn(chance), chance, 1)
        found += now
        texts += bool(now["deltas of subqueries"])
    assert texts >= 0.6 * count and found["answers"] > count, (texts, found)


@pytest.mark.parametrize("text", WHOLE)
def test_other_totals_are_computed_from_the_tables(text: str) -> None:
    standing = Standing.of(text, schemas(lasting(random.Random(text))))
    group = standing.group([standing.member(1, 2)], LAST)
    (state,) = {each for branch in group.branches() for each in states(branch.event.relation)}
    assert state_deltas(state) is None
    assert tried(text, random.Random(text), 1)["deltas of subqueries"] == 0


def test_a_sum_that_is_wrong_is_noticed() -> None:
    """Without the rows that the deltas read, they do not add up."""
    chance, wrong = random.Random(3), 0
    for _ in range(8):
        given, engine = lasting(chance), Prepared()
        engine.load(given.rows)
        standing = Standing.of(KEPT[1], schemas(given))
        group = standing.group([standing.member(1, 2)], LAST)
        (state,) = {each for branch in group.branches() for each in states(branch.event.relation)}
        deltas = state_deltas(state)
        assert deltas is not None
        tables = StateTables(engine)
        for below in deltas.reads:
            tables.made[below.name, "news"] = tables._nothing(f"{below.name}_none", below)
        wrong += bool(tables.off(state, range(2, LAST)))
    assert wrong
