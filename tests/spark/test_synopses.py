"""Law 1 for queries with a synopsis: they deliver the same answers as the same queries over the history."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayed import first_instants, load, replay_home
from weft.algebra.schema import DataType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000_000
COLUMNS = [
    (name, DataType.parse(kind))
    for name, kind in (
        *(("a", "INT"), ("b", "STRING"), ("x", "DOUBLE"), ("d", "DECIMAL(6,2)"), ("day", "DATE"), ("at", "TIMESTAMP")),
        ("ts", "TIMESTAMP"),
    )
]
QUERIES = {
    "types": "SELECT r.a, r.b, r.x, r.d, r.day, r.at, s.b AS other FROM r, s WHERE r.a = s.a AND r.ts < s.ts",
    "within": "SELECT s.a + 1 AS a, UPPER(r.b) AS b FROM r, s WHERE r.x = s.x AND r.d <> s.d "
    "AND s.ts >= r.ts + INTERVAL 1 HOUR AND s.ts <= r.ts + INTERVAL 3 HOURS",
    "any_order": "SELECT r.day FROM r, s WHERE r.at < s.at AND s.b LIKE 'x%' AND r.day IS NOT NULL",
    "three": "SELECT r.a, u.b FROM r, s, r u WHERE r.a = s.a AND s.a = u.a AND r.ts < s.ts AND s.ts <= u.ts",
    "either": "SELECT a FROM r WHERE x > 1.5 UNION SELECT s.a FROM r, s WHERE s.b = r.b AND r.ts < s.ts",
}


def drawn(chance: random.Random, ts: int) -> tuple[Any, ...]:
    from decimal import Decimal

    some = (
        chance.choice((1, 2, 3)),
        chance.choice(("x", "xy", "é", "")),
        chance.choice((0.0, -0.0, 1.5, 2.25, float("nan"))),
        chance.choice((Decimal("1.50"), Decimal("-0.05"))),
        chance.choice((0, 18_000)),
        chance.choice((0, -1_500_000, 1_600_000_000_000_001)),
    )
    return (*(None if chance.random() < 0.15 else value for value in some), ts)


def as_text(answers: dict[tuple[Any, ...], int]) -> dict[str, int]:
    """Return the answers as text, where NaN equals NaN. A synopsis returns 0.0 for -0.0, which is the same value."""
    return {repr(tuple(0.0 if value == 0.0 else value for value in row)): at for row, at in answers.items()}


def test_the_same_answers_at_the_same_instants_with_and_without_a_synopsis(tmp_path: Path, spark: SparkSession) -> None:
    chance = random.Random(7)
    weft = replay_home(tmp_path / "home")
    ts, made = 1_600_000_000_000_000, False
    for _ in range(3):
        rows: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": []}
        for _ in range(14):
            ts += chance.choice((0, 1, HOUR // 2, HOUR))
            rows[chance.choice("rs")].append(drawn(chance, ts))
        for name in "rs":
            load(weft, spark, name, rows[name], COLUMNS)
        if not made:
            for name, text in QUERIES.items():
                weft.install(name, text)
                weft.install(f"{name}_kept", text, keep="synopsis")
            made = True
        ts += 1
        weft.tick(now=ts)
        for name in QUERIES:
            whole, kept = first_instants(weft, name), first_instants(weft, f"{name}_kept")
            assert as_text(kept) == as_text(whole), name
    assert all(first_instants(weft, name) for name in QUERIES)
    weft.close()
