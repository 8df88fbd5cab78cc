"""Window functions over periods give, at each instant, what they give over the rows of that instant."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import duckdb
import pytest

from oracle.shards import shards
from weft.period_sql.notation import DUCKDB, SPARK, Axis
from weft.period_sql.sweep import Sweep
from weft.period_sql.windows import PARTITION, Rank, topmost, windowed
from weft.sql.dialects.duckdb_dialect import local_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTEGERS = Axis("a", "b", "c", "1000")
LAST = 20
ORDER = f"OVER (PARTITION BY {PARTITION} ORDER BY r.w1 DESC NULLS LAST)"
"""Keys are compared alone, so that rows with equal keys are peers."""
TOTAL = f"OVER (PARTITION BY {PARTITION} ORDER BY r.w1 DESC NULLS LAST, r.c1)"
Row = tuple[object, ...]


def ranked(function: str, most: int) -> Rank:
    """The rank that a text with PARTITION means."""
    return Rank(function.split("()")[0], ("w1",), function.split("ORDER BY ")[1][:-1], str(most))


def drawn(chance: random.Random) -> list[Row]:
    """Rows of c1, p1, w1 and a period; c1 tells rows with the same key apart, and some rows occur twice."""
    rows: list[Row] = []
    for number in range(chance.randint(0, 14)):
        start = chance.randint(0, LAST - 1)
        end = chance.choice([None, chance.randint(start + 1, LAST)])
        row = (number // 2, chance.choice([None, 1, 2]), chance.choice([None, 1, 1, 2, 3]), start, end)
        rows += [row] * chance.choice([1, 1, 2])
    return rows


def given(rows: list[Row]) -> str:
    """The rows as SQL."""
    names = "c1, p1, w1, a, b"
    if not rows:
        return f"SELECT {', '.join(f'CAST(NULL AS INT) AS {name}' for name in names.split(', '))} WHERE FALSE"
    shown = ", ".join(f"({', '.join('NULL' if value is None else str(value) for value in row)})" for row in rows)
    return f"SELECT * FROM (VALUES {shown}) AS v({names})"


def at(rows: list[Row], instant: int) -> list[Row]:
    """The rows whose period contains the instant, without the period."""
    return [row[:-2] for row in rows if row[-2] <= instant and (row[-1] is None or instant < row[-1])]  # type: ignore[operator]


def wanted(rows: list[Row], instant: int, function: str, most: int | None) -> Counter[Row]:
    """What DuckDB computes over the rows of one instant."""
    alive = [(*row, 0, None) for row in at(rows, instant)]
    text = f"SELECT c1, {function.replace(PARTITION, 'p1')} AS c2 FROM ({given(alive)}) AS r"
    found = duckdb.execute(f"SELECT * FROM ({text}) AS s WHERE c2 <= {most or 1000} OR c2 IS NULL").fetchall()
    return Counter(found)


@pytest.mark.parametrize("seed", shards(60, 10))
def test_ranks_and_values_at_each_instant(seed: int) -> None:
    """``windowed`` for any function, and ``topmost`` for ranks."""
    chance = random.Random(seed)
    rows, most = drawn(chance), chance.randint(1, 3)
    ranks = [f"ROW_NUMBER() {TOTAL}", f"RANK() {ORDER}", f"DENSE_RANK() {ORDER}"]
    sweep = Sweep(INTEGERS, DUCKDB)
    for function in (*ranks, f"LAG(r.c1) {TOTAL}", f"SUM(r.w1) {ORDER}"):
        found = duckdb.execute(windowed(sweep, given(rows), 1, ["p1"], [function])).fetchall()
        for instant in range(LAST + 1):
            assert Counter(at(found, instant)) == wanted(rows, instant, function, None), function
    for function in ranks:
        found = duckdb.execute(
            topmost(sweep, given(rows), 1, ["p1"], ranked(function, most), many=seed % 2 == 0)
        ).fetchall()
        for instant in range(LAST + 1):
            assert Counter(at(found, instant)) == wanted(rows, instant, function, most), function


@pytest.mark.parametrize("seed", range(5))
def test_ranks_among_many_fragments(seed: int) -> None:
    """Rows at nodes of all levels: short and long periods in a partition of more than 64 fragments."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in range(90):
        start = chance.randint(0, 150)
        length = chance.choice([1, 2, 5, 20, 70, None])
        row = (
            number,
            chance.choice([None, 1]),
            chance.choice([None, 1, 2, 3, 4, 5, 6]),
            start,
            length and start + length,
        )
        rows += [row] * chance.choice([1, 1, 1, 2])
    most, text = chance.randint(1, 3), given(rows)
    for function in (f"ROW_NUMBER() {TOTAL}", f"RANK() {ORDER}", f"DENSE_RANK() {ORDER}"):
        found = duckdb.execute(
            topmost(Sweep(INTEGERS, DUCKDB), text, 1, ["p1"], ranked(function, most), many=seed < 4)
        ).fetchall()
        for instant in range(0, 230, 13):
            assert Counter(at(found, instant)) == wanted(rows, instant, function, most), function


def test_periods_are_maximal() -> None:
    """A row whose rank does not change has one period, although other rows come and go."""
    rows: list[Row] = [(1, 1, 9, 0, None), (2, 1, 5, 2, 4), (3, 1, 4, 3, None)]
    for text in (
        windowed(Sweep(INTEGERS, DUCKDB), given(rows), 1, ["p1"], [f"RANK() {ORDER}"]),
        topmost(Sweep(INTEGERS, DUCKDB), given(rows), 1, ["p1"], ranked(f"RANK() {ORDER}", 1), many=True),
    ):
        assert (1, 1, 0, None) in duckdb.execute(text).fetchall()


def test_spark_gets_its_own_functions() -> None:
    """The text for Spark names no function of DuckDB."""
    text = topmost(Sweep(INTEGERS, SPARK), "SELECT 1", 1, [], ranked(f"RANK() {ORDER}", 1), many=True)
    assert "UNNEST" not in text
    assert " DIV " in text


ROWS = ("ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING")
ROWS += ("ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",)
RANGES = ("RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING", "RANGE BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING")
RANGES += ("RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", "RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING")
OF_ROWS = ("FIRST_VALUE(n)", "LAST_VALUE(s)", "NTH_VALUE(n, 2)")
OF_RANGES = ("COUNT(s)", "SUM(n)", "MIN(s)", "MAX(n)")


def test_values_and_ranges_are_those_of_spark(spark: SparkSession) -> None:
    """DuckDB computes FIRST_VALUE, LAST_VALUE and NTH_VALUE, and frames of RANGE, for ``state_engine``."""
    chance = random.Random(3)
    shown = ", ".join(
        f"({number}, {chance.choice((1, 2))}, {chance.choice(('NULL', *range(-3, 4)))}, "
        f"{chance.choice(('NULL', repr('a'), repr('ä'), repr('')))}, TIMESTAMP '2026-01-01 00:00:0{number % 7}')"
        for number in range(60)
    )
    given = f"(VALUES {shown}) AS r(id, k, n, s, w)"
    sides, nulls = ("", " DESC"), ("NULLS FIRST", "NULLS LAST")
    total = [
        f"{each} OVER (PARTITION BY k ORDER BY n{side} {none}, id {frame})"
        for each, frame, side, none in product(OF_ROWS, ROWS, sides, nulls)
    ]
    ties = [
        f"{each} OVER (PARTITION BY k ORDER BY n{side} {none} {frame})"
        for each, frame, side, none in product(OF_RANGES, RANGES, sides, nulls)
    ]
    timely = [
        f"{each} OVER (PARTITION BY k ORDER BY w{side} RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND INTERVAL "
        f"'1' SECOND FOLLOWING)"
        for each, side in product(OF_RANGES, sides)
    ]
    texts = [*total, *ties, *timely]
    text = (
        f"SELECT id, {', '.join(f'{each} AS c{number}' for number, each in enumerate(texts))} FROM {given} ORDER BY id"
    )
    found = zip(*duckdb.execute(local_text(text)).fetchall(), strict=True)
    wanted = zip(*map(tuple, spark.sql(text).collect()), strict=True)
    assert not [each for each, ours, theirs in zip(["id", *texts], found, wanted, strict=True) if ours != theirs]
