"""Random recursions over the tables of the grammar: an edge leads from k to n in each row."""

from __future__ import annotations

import random
from typing import Final

from oracle.spelling import Text

SEEDS: Final = (
    "SELECT a.k, a.k, 0 FROM m AS a WHERE a.f",
    "SELECT a.k, a.n, 0 FROM m AS a",
    "SELECT DISTINCT a.k, a.n, 0 FROM r AS a",
    "SELECT a.k, a.n, 0 FROM u AS a WHERE a.ts > NOW() - INTERVAL 3 MICROSECONDS",
    "SELECT a.k, a.n, 0 FROM m AS a WHERE NOT EXISTS (SELECT 1 FROM u AS b WHERE b.k = a.n)",
    "SELECT a.k, MAX(a.n), 0 FROM m AS a GROUP BY a.k",
    "SELECT a.k, a.n, 0 FROM m AS a UNION ALL SELECT b.k, b.n, 0 FROM u AS b",
    "SELECT v.i, v.i, 0 FROM (VALUES (0), (1)) AS v(i)",
)
STEPS: Final = (
    "SELECT t.a, c.n, {d} FROM t JOIN m AS c ON c.k = t.b WHERE {w}",
    "SELECT t.a, c.n, {d} FROM u AS c, t WHERE c.k = t.b AND {w}",
    "SELECT t.a, c.n, {d} FROM t JOIN r AS c ON c.k <=> t.b WHERE {w}",
    "SELECT c.k, t.b, {d} FROM t JOIN m AS c ON c.n = t.a AND NOT c.f WHERE {w}",
    "SELECT t.a, c.n, {d} FROM t LEFT JOIN m AS c ON c.k = t.b WHERE {w}",
    "SELECT t.a, c.n, {d} FROM t JOIN m AS c ON c.k = t.b WHERE {w} AND c.d <= NOW()",
    "SELECT t.a, c.n, {d} FROM t JOIN u AS c ON c.k = t.b WHERE {w} AND NOT EXISTS (SELECT 1 FROM r AS e "
    "WHERE e.k = c.n)",
    "SELECT t.a, c.n, {d} FROM t JOIN (SELECT e.k, CAST(COUNT(*) AS INT) AS n FROM r AS e GROUP BY e.k) AS c "
    "ON c.k = t.b WHERE {w}",
    "SELECT j.a, j.n, j.d FROM (SELECT t.a, c.n, {d} AS d FROM t JOIN m AS c ON c.k = t.b AND {w}) AS j",
    "SELECT t.a, c.n, {d} FROM t JOIN m AS c ON c.k = t.b WHERE {w} AND (c.f OR c.ts > NOW() - "
    "INTERVAL 2 MICROSECONDS)",
    "SELECT t.a, c.n, {d} FROM t JOIN m AS c ON c.k = t.b JOIN u AS e ON e.n = t.a WHERE {w}",
)
TOPS: Final = (
    "SELECT t.a, t.b FROM t",
    "SELECT t.a, t.b, t.d FROM t",
    "SELECT t.b AS c0, COUNT(*) AS c1 FROM t GROUP BY t.b",
    "SELECT e.x FROM u AS e WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b = e.n)",
    "SELECT e.x, t.a FROM m AS e JOIN t ON t.b = e.n",
    "SELECT s.a, t.b FROM t AS s JOIN t ON s.b = t.a",
    "SELECT t.b FROM t WHERE t.a = 1",
)


def recursive_query(chance: random.Random) -> Text:
    """A recursion; UNION ALL, which would not end in a cycle, counts its steps."""
    deep = chance.random() < 0.4
    parts = {"d": "t.d + 1", "w": f"t.d < {chance.randint(1, 3)}"} if deep else {"d": "t.d", "w": "TRUE"}
    word = chance.choice(["UNION", "UNION ALL"]) if deep else "UNION"
    step, seed, top = chance.choice(STEPS).format(**parts), chance.choice(SEEDS), chance.choice(TOPS)
    text = f"WITH RECURSIVE t(a, b, d) AS ({seed} {word} {step}) {top}"
    if " UNION ALL " in seed:
        text = text.replace(seed, f"({seed})")
    return Text(text, text)
