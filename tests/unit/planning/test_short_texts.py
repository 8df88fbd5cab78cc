"""A short text does not occupy the compiler: it is compiled or refused soon."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from netnews import TABLES
from weft.errors import SqlError
from weft.planning.plan import standing_plan


def doubling(body: str) -> str:
    """Return a text in which each of 64 WITHs reads the one before it twice."""
    named = "".join(f", a{n} AS ({body.format(before=f'a{n - 1}')})" for n in range(1, 64))
    return f"WITH a0 AS (SELECT msgid AS k FROM msgs){named} SELECT k FROM a63"


def nested(depth: int) -> str:
    text = "SELECT msgid AS k FROM msgs"
    for level in range(depth):
        text = f"SELECT k FROM ({text}) AS d{level} WHERE k <> '{level}'"
    return text


KEYS = ("msgid", "sender", "newsgroup", "subject", "inreplyto", "date", "ts")
TEXTS = {
    "deep derived tables": nested(60),
    "OR of ANDs": "SELECT msgid FROM msgs WHERE "
    + " OR ".join(f"(msgid = '{n}' AND sender = '{n}')" for n in range(450)),
    "OR of ANDs with NOW": "SELECT msgid FROM msgs WHERE "
    + " OR ".join(f"(msgid = '{n}' AND NOW() > ts + INTERVAL {n} DAY)" for n in range(1, 300)),
    "long IN": f"SELECT name FROM users WHERE age IN ({', '.join(map(str, range(10_000)))})",
    "long CASE": f"SELECT CASE {' '.join(f'WHEN age = {n} THEN {n}' for n in range(500))} END AS c FROM users",
    "UNION": " UNION ".join(["SELECT msgid FROM msgs"] * 60),
    "CUBE": f"SELECT COUNT(*) AS n FROM msgs GROUP BY CUBE({', '.join(KEYS[:6])}), CUBE({', '.join(KEYS[:6])})",
    "window over ROLLUP": "SELECT RANK() OVER (ORDER BY n) AS r FROM "
    "(SELECT COUNT(*) AS n FROM msgs GROUP BY ROLLUP(msgid, sender, newsgroup)) AS d",
    "nested EXISTS": "SELECT m0.msgid FROM msgs m0 WHERE "
    + "".join(f"EXISTS (SELECT 1 FROM msgs m{n} WHERE m{n}.inreplyto = m{n - 1}.msgid AND " for n in range(1, 20))
    + "TRUE"
    + ")" * 19,
    "joins that double": doubling("SELECT x.k FROM {before} AS x, {before} AS y"),
    "unions that double": doubling("SELECT k FROM {before} UNION ALL SELECT k FROM {before}"),
    "groups that double": doubling("SELECT x.k FROM {before} AS x JOIN {before} AS y ON x.k = y.k GROUP BY x.k"),
    "scalar subqueries": "SELECT "
    + ", ".join(
        f"(SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid AND r.sender <> '{n}') AS c{n}" for n in range(15)
    )
    + " FROM msgs m",
    "recursion": "WITH RECURSIVE r AS (SELECT msgid AS k FROM msgs UNION SELECT m.msgid FROM r "
    "JOIN msgs m ON m.inreplyto = r.k "
    + "".join(f"JOIN users u{n} ON u{n}.name = m.sender " for n in range(20))
    + ") SELECT k FROM r",
}


REFUSED = {
    "OR of ANDs with NOW": "at most 64",
    "long IN": "at most 2000",
    "long CASE": "at most 2000",
    "CUBE": "4096 grouping sets",
    "nested EXISTS": "at most 1,000",
    "joins that double": "more than 500",
    "unions that double": "more than 500",
    "groups that double": "more than 500",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_short_text_is_compiled_or_refused_soon(kind: str) -> None:
    began = time.process_time()
    with pytest.raises(SqlError, match=REFUSED[kind]) if kind in REFUSED else nullcontext():
        standing_plan(TEXTS[kind], TABLES)
    assert time.process_time() - began < 2
