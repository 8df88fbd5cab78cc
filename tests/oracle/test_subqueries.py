"""Laws 1 and 2 on subqueries in GROUP BY, in aggregates, and after IN with several columns.

DuckDB evaluates the texts at each instant.
"""

from __future__ import annotations

import random
from typing import Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.expressions import LAST
from oracle.histories import Case, history
from oracle.laws import Trial, any_partition, from_now, union_of_starts
from oracle.spelling import Text

FOUND: Final = "EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.n)"
TEXTS: Final = (
    f"SELECT a.k, COUNT(*) FILTER (WHERE {FOUND}) AS c FROM m AS a GROUP BY a.k",
    f"SELECT {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY {FOUND}",
    f"SELECT a.x, {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY GROUPING SETS ((a.x, {FOUND}), (a.x))",
    f"SELECT CASE WHEN {FOUND} THEN 'found' ELSE 'open' END AS e, MAX(a.n) AS c FROM m AS a GROUP BY ALL",
    f"SELECT a.k, SUM(CASE WHEN {FOUND} THEN 1 ELSE 0 END) AS c FROM m AS a LEFT JOIN u ON u.k = a.k GROUP BY a.k",
    "SELECT a.k, MAX((SELECT COUNT(*) FROM r AS b WHERE b.k = a.n)) AS c FROM m AS a GROUP BY a.k",
    "SELECT a.k, a.n FROM m AS a WHERE (a.k, a.n) IN (SELECT b.k, MAX(b.n) FROM r AS b GROUP BY b.k)",
    "SELECT a.k FROM m AS a WHERE (a.k, a.x) IN (SELECT b.k, b.x FROM r AS b WHERE b.f IS NULL OR b.n < 2)",
    f"SELECT a.k, {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY a.k, e HAVING NOT e OR COUNT(*) > 1",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_subquery_means_what_it_says_at_each_instant(text: str) -> None:
    engine, telling = Prepared(), 0
    for number in range(4):
        chance = random.Random(number)
        given = history(chance)
        while not all(given.rows[name] for name in ("m", "r")):
            given = history(chance)
        engine.load(given.rows)
        cuts = tuple(sorted(chance.sample(range(1, LAST + 1), 2)))
        trial = Trial(Case(Text(text, text), given, cuts, number), engine)
        telling += bool(trial.reference.first())
        for law in (union_of_starts, any_partition, from_now):
            law(trial)
    assert telling
