"""First deliveries by DuckDB and by Spark: the ledgers must be equal, with ordinals, hashes and texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from replayed import DAY, HOUR, START, ledger_rows, load, replay_home
from weft.algebra.schema import DataType
from weft.errors import ExecutionError
from weft.execution import driver_reader, duckdb_answers
from weft.execution.driver_reader import NOTHING, ReadBounds
from weft.execution.duckdb_answers import LargeAnswers
from weft.execution.engines import choosing
from weft.sql.dialects.duckdb_dialect import JAVA_TEXT
from weft.storage.temporal_sql import TemporalSql, temporal_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "k STRING, n INT, x BIGINT, b BOOLEAN, d DATE, at TIMESTAMP, f DOUBLE, p DECIMAL(38,10), w TIMESTAMP"
TYPES = [(name, DataType.parse(kind)) for name, kind in map(str.split, _COLUMNS.split(", "))]
TEXTS = ("", "a", "A", "ä", "\u1f926", "\0", "a\0b", " a", "%_\\'\"`", "e\u0301", None)
NUMBERS = (0, -1, 7, 2**31 - 1, -(2**31), None)
DAYS = (-719_162, -1, 0, 11_052, 2_932_896, None)
QUERIES = {
    "every": "SELECT k, n, x, b, d, at FROM m",
    "pairs": "SELECT DISTINCT a.k, o.n FROM m a, m o WHERE a.n = o.n AND a.k >= o.k",
    "old": "SELECT a.k, a.at FROM m a WHERE a.ts < NOW() - INTERVAL 3 HOURS AND NOT EXISTS (SELECT * FROM m o WHERE "
    "o.n = a.n AND o.ts > a.ts)",
    "window": "SELECT a.x FROM m a WHERE a.ts BETWEEN NOW() - INTERVAL 2 HOURS AND NOW() - INTERVAL 1 HOUR",
    "one": "SELECT k, d FROM m WHERE n = 0 AND k LIKE 'a%'",
    "other": "SELECT k, d FROM m WHERE n = -1 AND k LIKE 'a%'",
    "hours": "SELECT a.k, a.n FROM m a WHERE a.ts > NOW() - INTERVAL 90 MINUTES",
    "days": "SELECT a.k, a.n FROM m a WHERE a.ts > NOW() - INTERVAL 2 DAYS",
    "moment": "SELECT a.k, a.n FROM m a WHERE a.ts > NOW() - INTERVAL 1 MICROSECOND",
    "null": "SELECT x, k FROM m WHERE k IS NULL",
    "rests": "SELECT WINDOW(CAST(d AS TIMESTAMP), '7 seconds').start AS s, n % 7 AS r, MOD(x, 1000) AS m FROM m",
    "money": "SELECT CAST(p AS DECIMAL(12,3)) AS m, CAST(p AS DECIMAL(12,2)) * (1 - CAST(p AS DECIMAL(12,2))) AS q, "
    "x * CAST(p AS DECIMAL(12,2)) AS w, CAST(p AS DECIMAL(20,2)) * CAST(n AS DECIMAL(20,2)) AS z FROM m",
    "delays": "SELECT a.k, a.ts - o.ts AS delay, a.at - o.at AS other FROM m a JOIN m o ON a.n <=> o.n AND a.k = 'ä'",
    "states": "SELECT k, CASE WHEN at < NOW() - INTERVAL 1 DAY THEN 'late' WHEN b THEN 'due' ELSE k END AS state, "
    "b AND at < NOW() - INTERVAL 2 DAYS AS old FROM m",
    "calendar": "SELECT DATE_TRUNC('WEEK', CAST(d AS TIMESTAMP)) AS w, DATE_TRUNC('QUARTER', ts) + INTERVAL 1 QUARTER "
    "AS q FROM m WHERE ts >= DATE_TRUNC('DAY', NOW()) AND ts < NOW() - INTERVAL 1 HOUR",
    "doubles": "SELECT f, f * 2 - n AS g, k, CASE WHEN n > 0 THEN n * f END AS p, x * CAST(1E-6 AS DOUBLE) * f AS s "
    "FROM m WHERE f > 0",
    "nan": "SELECT k FROM m WHERE f > 2",
    "listed": r"SELECT k, n FROM m WHERE n IN (7, -1) AND k NOT IN ('a', '%_\\\'\"`')",
}
"""``one`` and ``other`` share a plan and a parameter table, and so do ``hours``, ``days`` and ``moment``."""
RANKED = {
    "ranked": "SELECT k, n, RANK() OVER (PARTITION BY b ORDER BY f DESC) AS r, DENSE_RANK() OVER (ORDER BY f) AS e "
    "FROM m",
    "top": "SELECT k, x FROM m QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY f DESC, n) <= 3",
    "before": "SELECT k, LAG(x) OVER (PARTITION BY n ORDER BY f NULLS LAST, k) AS l FROM m",
}
BY_SPARK = {
    "zeros": "SELECT k FROM m WHERE f = 0",
    "pattern": "SELECT k FROM m WHERE k RLIKE '^a.'",
    "point": "SELECT CAST(CAST(p AS DECIMAL(2,2)) AS STRING) AS text FROM m",
    "wide": "SELECT n, k FROM m WHERE p = CAST(p AS DECIMAL(38,2))",
    "far": "SELECT CAST(at + INTERVAL 9000 YEARS AS STRING) AS text FROM m",
    "wraps": "SELECT k FROM m WHERE (CASE WHEN b THEN LENGTH(k) ELSE 1 END) * 1500000000 < 0",
}
"""Queries that DuckDB must not compute, because it may differ from Spark."""


def rows() -> list[tuple[Any, ...]]:
    """Return rows with every text, number and day, some of them twice, in an order that differs from that of ts."""
    found = []
    for number in range(66):
        text, n, day = TEXTS[number % 11], NUMBERS[number % 6], DAYS[number % 5]
        at = None if number % 13 == 0 else START + number
        ts = START + (number * 7 % 66) * HOUR // 4
        half = (None, 0.0, -0.0, float("nan"), 1.5)[number % 5]
        exact = (None, Decimal("0.051"), Decimal("-0.5"), Decimal("0.05"))[number % 4]
        wide = None if n is None else n * 2**31
        found.append((text, n, wide, (True, False, None)[number % 3], day, at, half, exact, ts))
    return found


class Home:
    """A home with the queries, after two ticks. ``made`` has what DuckDB computed, or None where Spark had to."""

    def __init__(self, folder: Path, spark: SparkSession, bounds: ReadBounds, queries: Mapping[str, str]) -> None:
        self.made: list[LargeAnswers | pa.Table | None] = []
        weft, given = replay_home(folder), rows()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_reader, "BOUNDS", bounds)
            patch.setattr("weft.execution.new_answers.large_answers", self._noted(duckdb_answers.large_answers))
            patch.setattr("weft.execution.answers.small_answers", self._noted(duckdb_answers.small_answers))
            load(weft, spark, "m", given[:50], TYPES)
            for name, text in queries.items():
                weft.install(name, text)
            weft.tick(now=START + DAY)
            load(weft, spark, "m", [(*row[:-1], row[-1] + 2 * DAY) for row in given[40:]], TYPES)
            weft.tick(now=START + 4 * DAY)
        assert {query.reason for query in weft.queries()} == {None}
        self.ledger = ledger_rows(weft.catalog.data)

    def _noted(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            self.made.append(compute(*given))
            return self.made[-1]

        return noted


def test_duckdb_delivers_what_spark_delivers(spark: SparkSession, tmp_path: Path) -> None:
    wanted = Home(tmp_path / "spark", spark, NOTHING, {**QUERIES, **BY_SPARK})
    assert not wanted.made
    assert {row[0] for row in wanted.ledger} == set(range(1, len(QUERIES) + len(BY_SPARK) + 1))

    whole = Home(tmp_path / "whole", spark, replace(NOTHING, large=1_000_000), {**QUERIES, **BY_SPARK})
    assert whole.ledger == wanted.ledger
    first, second = whole.made
    assert isinstance(first, LargeAnswers) and isinstance(second, LargeAnswers) and second.added
    assert sorted(first.added) == list(range(1, len(QUERIES) + 1)), "DuckDB delivers no others"

    small = Home(tmp_path / "small", spark, ReadBounds(), QUERIES)
    assert small.ledger == [row for row in wanted.ledger if row[0] <= len(QUERIES)]
    assert all(isinstance(each, pa.Table) for each in small.made)
    assert sum(each.num_rows for each in small.made if isinstance(each, pa.Table)) >= len(small.ledger)


def test_spark_repeats_what_duckdb_cannot_finish(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {name: QUERIES[name] for name in ("every", "old", "one", "other")}
    wanted = Home(tmp_path / "spark", spark, NOTHING, queries)
    whole = replace(NOTHING, large=1_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "BOUNDS", replace(choosing.BOUNDS, steps=len(wanted.ledger) // 4))
        many = Home(tmp_path / "many", spark, whole, queries)
    assert many.ledger == wanted.ledger
    assert None in many.made, "there are more answers than the bound"

    def exhausted(_: TemporalSql, __: str) -> Iterator[pa.RecordBatch]:
        raise ExecutionError("the rows cannot be computed: Out of Memory Error")

    monkeypatch.setattr(TemporalSql, "batches", exhausted)
    unwritten = Home(tmp_path / "unwritten", spark, whole, queries)
    assert unwritten.ledger == wanted.ledger
    assert None not in unwritten.made, "DuckDB fails when it writes"


def test_both_engines_sort_zeros_and_nan_alike(spark: SparkSession, tmp_path: Path) -> None:
    small = Home(tmp_path / "small", spark, ReadBounds(), RANKED)
    assert None not in small.made and {row[0] for row in small.ledger} == {1, 2, 3}
    assert small.ledger == Home(tmp_path / "spark", spark, NOTHING, RANKED).ledger


def test_expressions_that_may_differ_stay_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    made = Home(tmp_path / "small", spark, ReadBounds(), {"zeros": BY_SPARK["zeros"]}).made
    assert made == [None, None]


def test_spark_writes_doubles_that_java_may_write_differently(spark: SparkSession, tmp_path: Path) -> None:
    """Versions of Java before 19 write more digits of some large doubles."""
    queries = {"large": "SELECT f * 1E16D AS g FROM m WHERE f > 0", "zero": "SELECT f FROM m WHERE f < 1"}
    small = Home(tmp_path / "small", spark, ReadBounds(), queries)
    assert small.made == [None, None]
    assert small.ledger == Home(tmp_path / "spark", spark, NOTHING, queries).ledger


def test_duckdb_gives_doubles_the_text_of_java(spark: SparkSession) -> None:
    """Powers of two are those of which versions of Java before 19 write more digits."""
    chance = random.Random(7)
    values = [0.0, 1e-3, 9.999e-4, 1e7, 9_999_999.999999998, 1e15, 9e15, 1e-7, *map(float, ("nan", "inf", "-inf"))]
    values += [sign * 2.0**power for power in range(-1074, 1024) for sign in (1, -1)]
    values += [chance.choice((1, -1)) * 10 ** chance.uniform(-7, 15) for _ in range(20_000)]
    values += [
        round(chance.uniform(-1, 1) * 10.0**digits, 12 - digits) or 1.0 for digits in range(8) for _ in range(2_000)
    ]
    wanted = spark.createDataFrame(pa.table({"x": values})).selectExpr("x", "CAST(x AS STRING) AS text").toArrow()
    with temporal_sql(1) as sql:
        sql.given("given", wanted)
        within = "ABS(x) BETWEEN 1E-7 AND 9E15 OR x = 0 OR ISNAN(x) OR ISINF(x)"
        found = sql.rows(f"SELECT text, {JAVA_TEXT}(x) AS found FROM given WHERE {within}")
    assert found.num_rows > 30_000
    assert found.column("found").to_pylist() == found.column("text").to_pylist()
