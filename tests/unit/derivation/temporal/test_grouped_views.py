"""Views with subqueries around aggregates, grouping sets and counts of several columns hold what DuckDB answers to
their texts at each instant."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from temporal_values import Histories, tracked

LAST: Final = 12
TEXTS: Final = (
    "SELECT k FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING MIN(x) NOT IN (SELECT w FROM u WHERE w IS NOT NULL)",
    "SELECT id FROM t WHERE x IN (SELECT MAX(u.w) FROM u WHERE u.k = t.k)",
    "SELECT id FROM t WHERE x IN (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k GROUP BY w HAVING COUNT(*) > 0)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT COUNT(*) FROM u WHERE u.k = t.k HAVING COUNT(*) > 1)",
    "SELECT k, x, COUNT(*) AS n, GROUPING(k) AS g FROM t GROUP BY CUBE (k, x) HAVING COUNT(*) > 0",
    "SELECT UPPER(k) AS h, COUNT(*) AS n, COUNT(DISTINCT x) FILTER (WHERE x > 1) AS m FROM t GROUP BY h",
    "SELECT k, COUNT(DISTINCT x, id) AS n FROM t GROUP BY 1",
    "SELECT k, COUNT_IF(x > 1) AS n, BOOL_AND(x > 1) AS a, BOOL_OR(x > 2) AS o FROM t GROUP BY ALL",
)
OTHERWISE: Final = {
    "COUNT_IF(x > 1)": "COUNT(CASE WHEN x > 1 THEN 1 END)",
    "COUNT(DISTINCT x, id)": "COUNT(DISTINCT CASE WHEN x IS NOT NULL AND id IS NOT NULL THEN (x, id) END)",
}
"""What DuckDB spells in another way."""
TABLES: Final = (tracked(1, "t", id="INT", k="STRING", x="INT"), tracked(2, "u", k="STRING", w="INT"))


def history(chance: random.Random, names: int) -> list[tuple[Any, ...]]:
    found = {}
    for number in range(14):
        start = chance.randrange(LAST)
        end = chance.choice((None, chance.randint(start + 1, LAST)))
        values = (chance.choice("ab") if chance.random() < 0.8 else None, chance.choice((None, 0, 1, 2, 3)))
        found[number if names == 3 else values] = (*((number,) if names == 3 else ()), *values, start, end)
    return list(found.values())


@pytest.mark.parametrize("text", TEXTS)
def test_a_view_holds_what_its_text_answers_at_each_instant(text: str) -> None:
    home, changed = Histories(TABLES), 0
    for seed in range(6):
        chance = random.Random(seed)
        rows = {"t": history(chance, 3), "u": history(chance, 2)}
        home.load(rows)
        value = home.view(text, LAST)
        answers = []
        for instant in range(LAST):
            found = {row for row, periods in value.items() for a, b in periods if a <= instant < (b or LAST + 1)}
            answers.append(found)
            assert found == answered(home, text, instant), (seed, instant, rows)
        changed += len({frozenset(each) for each in answers}) > 1
    assert changed > 2


def answered(home: Histories, text: str, instant: int) -> set[tuple[Any, ...]]:
    for given, written in OTHERWISE.items():
        text = text.replace(given, written)
    at = f"TIMESTAMP '1970-01-01' + INTERVAL {instant} MICROSECONDS"
    there = (
        f"{each.name} AS (SELECT * FROM main.{each.name} WHERE valid_from <= {at} "
        f"AND (valid_to IS NULL OR {at} < valid_to))"
        for each in TABLES
    )
    return set(home.connection.execute(f"WITH {', '.join(there)} {text}").fetchall())
