"""Laws 1 and 2 of outer joins: each text over drawn histories, against the text itself at every instant.

SQLite runs both sides, because it takes a third of DuckDB's time. Before 3.39 it has no FULL JOIN, so DuckDB runs them.
SQLite does not know the aliases inside two pairs of parentheses, so DuckDB runs these texts, too.
"""

from __future__ import annotations

import random
import sqlite3

import pytest

from oracle.engines import DuckDb, Sqlite
from oracle.expressions import LAST
from oracle.histories import Case, history
from oracle.laws import Trial, any_partition, one_instant, union_of_starts
from oracle.spelling import Text
from weft.algebra.relation import Union
from weft.algebra.traverse import walk

HISTORIES = 6
TEXTS = (
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k",
    "SELECT a.x AS c0, b.x AS c1 FROM m AS a LEFT OUTER JOIN r AS b ON a.k = b.k AND a.n > 0 AND b.ts <= a.ts",
    "SELECT a.k AS c0, b.k AS c1 FROM m AS a RIGHT JOIN r AS b ON a.k < b.n",
    "SELECT a.k AS c0, a.n AS c1, b.k AS c2 FROM m AS a FULL OUTER JOIN r AS b ON a.k = b.k AND a.x = b.x",
    "SELECT a.k AS c0, b.k AS c1 FROM m AS a FULL JOIN r AS b ON a.ts = b.ts WHERE a.k = 1 OR b.k IS NULL",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k AND b.d <= NOW()",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.k IS NULL",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.n IS NULL",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.k IS NULL AND a.d <= NOW()",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.n > 0",
    "SELECT a.k AS c0, b.x AS c1 FROM m AS a FULL JOIN r AS b ON a.k = b.k WHERE b.k = 1 AND a.n IS NULL",
    "SELECT a.k AS c0, b.x AS c1 FROM m AS a FULL JOIN r AS b ON a.k = b.k WHERE a.k IS NOT NULL",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM m AS a LEFT JOIN r AS b ON a.k = b.k LEFT JOIN u AS c ON b.n = c.n",
    "SELECT a.k AS c0, c.x AS c2 FROM m AS a LEFT JOIN r AS b ON a.k = b.k RIGHT JOIN u AS c ON b.n = c.n",
    "SELECT a.k AS c0, c.x AS c1 FROM m AS a JOIN r AS b ON a.k = b.k LEFT JOIN u AS c ON c.n = b.n AND c.x = a.x",
    "SELECT a.k AS c0, c.x AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k JOIN u AS c ON c.n = a.n WHERE b.k IS NULL",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k LEFT JOIN u AS c ON c.k = a.k WHERE b.k IS NULL AND "
    "c.k IS NULL",
    "SELECT k AS c0, a.n AS c1, b.n AS c2 FROM m AS a FULL JOIN r AS b USING (k)",
    "SELECT k AS c0, x AS c1, b.n AS c2 FROM m AS a RIGHT JOIN r AS b USING (k, x)",
    "SELECT k AS c0, c.x AS c1 FROM m AS a FULL JOIN r AS b USING (k) LEFT JOIN u AS c USING (k)",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN (SELECT c.k, c.n FROM r AS c LEFT JOIN u AS e ON c.k = e.k "
    "WHERE e.k IS NULL) AS b ON a.k = b.k",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k AND NOT EXISTS (SELECT 1 FROM u AS c WHERE "
    "c.n = b.n)",
    "SELECT a.k AS c0 FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b LEFT JOIN u AS c ON b.k = c.k AND c.n = a.n WHERE "
    "b.k = a.k AND c.k IS NULL)",
    "SELECT a.k AS c0 FROM m AS a WHERE a.k NOT IN (SELECT c.n FROM r AS b LEFT JOIN u AS c ON b.k = c.k)",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE NOT EXISTS (SELECT 1 FROM u AS c "
    "WHERE c.k = b.n)",
    "SELECT b.ts AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.ts NOT IN (SELECT c.d FROM u AS c)",
    "SELECT DISTINCT a.k AS c0, COALESCE(b.n, 0) AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k",
    "SELECT a.k AS c0, b.k AS c1 FROM m AS a, u AS c LEFT JOIN r AS b ON c.k = b.k",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM m AS a LEFT JOIN (r AS b JOIN u AS c ON b.n = c.n) ON a.k = b.k",
    "SELECT a.k AS c0, c.x AS c1 FROM (m AS a JOIN r AS b ON a.k = b.k AND a.n < b.n) RIGHT JOIN u AS c ON c.k = b.k",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM m AS a LEFT JOIN ((r AS b) JOIN ((u AS c)) ON b.n = c.n) ON a.k = b.k",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM m AS a LEFT JOIN ((r AS b JOIN u AS c ON b.n = c.n)) ON a.k = b.k",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM m AS a LEFT JOIN (r AS b LEFT JOIN u AS c ON b.n = c.n) ON a.k = b.k",
    "SELECT a.k AS c0, b.n AS c1, c.x AS c2 FROM (m AS a LEFT JOIN r AS b ON a.k = b.k) JOIN u AS c ON c.n = b.n",
    "SELECT a.k AS c0, c.x AS c1 FROM m AS a JOIN (r AS b FULL JOIN u AS c ON b.n = c.n) ON a.k = c.k OR b.k IS NULL",
    "SELECT a.k AS c0, c.x AS c1 FROM m AS a FULL JOIN (r AS b RIGHT JOIN u AS c ON b.n = c.n) ON a.k = c.k AND a.n > "
    "b.k WHERE a.n = 1 OR c.n IS NULL",
    "SELECT a.k AS c0, c.x AS c1 FROM m AS a RIGHT JOIN (r AS b JOIN u AS c ON b.n = c.n LEFT JOIN m AS e ON e.n = c.k "
    "AND e.d <= NOW()) ON a.k = b.k",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN (r AS b LEFT JOIN u AS c ON b.k = c.k) ON a.k = b.k WHERE c.k IS NULL",
    "SELECT a.k AS c0 FROM m AS a WHERE NOT EXISTS (SELECT 1 FROM r AS e LEFT JOIN (r AS b LEFT JOIN u AS c ON b.k = "
    "c.k AND c.n = a.n) ON e.k = b.k WHERE e.n = a.k AND c.k IS NULL)",
    "SELECT a.k AS c0 FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b LEFT JOIN u AS c ON c.k = b.k LEFT JOIN r AS e ON "
    "e.n = c.n AND e.x = a.x LEFT JOIN u AS g ON g.k = e.k WHERE b.k = a.k AND g.k IS NULL)",
    "SELECT a.k AS c0 FROM m AS a WHERE EXISTS (SELECT 1 FROM r AS b LEFT JOIN (u AS c LEFT JOIN r AS e ON e.n = c.n "
    "AND e.x = a.x LEFT JOIN u AS g ON g.k = e.k) ON c.k = b.k WHERE b.k = a.k AND g.k IS NULL)",
)
ONE_PART = (
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.k IS NULL",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE b.n > 0",
    "SELECT a.k AS c0 FROM m AS a LEFT JOIN r AS b ON a.k = b.k LEFT JOIN u AS c ON c.k = a.k WHERE b.k IS NULL AND "
    "c.k IS NULL",
    "SELECT a.k AS c0 FROM m AS a JOIN (r AS b LEFT JOIN u AS c ON b.k = c.k) ON a.k = b.k WHERE c.k IS NULL",
    "SELECT a.k AS c0, b.n AS c1 FROM m AS a FULL JOIN r AS b ON a.k = b.k WHERE a.n = 1 AND b.n = 1",
)
"""Texts whose WHERE leaves one part of each outer join."""


def engine_of(text: str) -> Sqlite | DuckDb:
    return Sqlite() if sqlite3.sqlite_version_info >= (3, 39) and "((" not in text else DuckDb()


@pytest.mark.parametrize("text", TEXTS)
def test_an_outer_join_is_what_its_text_says_at_every_instant(text: str) -> None:
    chance, engine = random.Random(TEXTS.index(text)), engine_of(text)
    answered = False
    for _ in range(HISTORIES):
        found = history(chance)
        cuts = sorted(chance.randint(0, LAST + 1) for _ in range(2))
        trial = Trial(Case(Text(text, text), found, tuple(cuts), chance.randrange(2**16)), engine)
        engine.load(found.rows)
        for law in (union_of_starts, any_partition, one_instant):
            law(trial)
        answered |= bool(trial.reference.first())
    assert answered


@pytest.mark.parametrize("text", ONE_PART)
def test_one_part_of_an_outer_join_needs_no_union(text: str) -> None:
    trial = Trial(Case(Text(text, text), history(random.Random(1)), (), 1), DuckDb())
    assert not any(isinstance(part, Union) for part in walk(trial.bound))
