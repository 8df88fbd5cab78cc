"""The expressions that a view may use give the same values on DuckDB, which maintains views, and on Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_values import COLUMNS, rows, shown
from temporal_values import leaf_name, tracked
from weft.derivation.temporal.sequenced import sequenced
from weft.execution.temporal.adding import refusal
from weft.period_sql.notation import DUCKDB, SPARK
from weft.sql.dialects.duckdb_dialect import local_text, not_local
from weft.sql.lower.query import bind_view
from weft.sql.rendering.render import spelled
from weft.sql.rendering.render_temporal import Evaluation, value_sql
from weft.storage.temporal_sql import temporal_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = tuple(
    r"""
i * 2
i * i
b * 3
b * b
t * t
t * i
d * 2
d * d
w * d
d * CAST(w AS DECIMAL(38,2))
m + i * INTERVAL 1 DAY > m
m - t * INTERVAL 2 SECONDS
CAST(w AS DECIMAL(38,2)) * CAST(w AS DECIMAL(38,2)) * w
f * 2
f * f
f * i
i * 1.5
i / 2
i / t
b / i
f / 2
f / f
i / f
b / 3
1 / i
i % 3
i % t
b % i
b % -1
t % 2
MOD(b, t)
MOD(-7, i)
-i
-b
-f
-d
i + 1
b - 1
d + w
d - 0.001
ABS(i)
ABS(b)
ABS(t)
ABS(d)
ABS(w)
FLOOR(i)
CEIL(b)
FLOOR(d)
CEIL(d)
CEILING(w)
ROUND(i)
ROUND(b, 2)
ROUND(d)
ROUND(d, 1)
ROUND(w, 5)
x || y
CONCAT(x, '-', y)
CONCAT(x)
x || 'ä' || y
SUBSTRING(x, 1, 2)
SUBSTRING(x, 2)
SUBSTR(x, 3, 10)
SUBSTRING(x, 2, 0)
LEFT(x, 2)
RIGHT(x, 2)
LEFT(x, 0)
TRIM(x)
LTRIM(x)
RTRIM(x)
REPLACE(x, y, '+')
REPLACE(x, 'a', y)
REPLACE(x, '', 'z')
LENGTH(x)
CHAR_LENGTH(x)
STARTSWITH(x, y)
ENDSWITH(x, y)
CONTAINS(x, y)
x LIKE 'a%'
x LIKE '%b'
x LIKE '_'
x LIKE '__b'
x LIKE '%\\%'
x LIKE '5\\_0'
x LIKE '%\\\\%'
x LIKE ''
x LIKE y
x NOT LIKE y OR q
y LIKE x || '%'
x NOT LIKE '%a%'
x LIKE '%\n'
x LIKE 'it\'s'
x LIKE '_ü%'
GREATEST(i, t)
LEAST(i, b)
GREATEST(x, y)
LEAST(f, 1.0D)
GREATEST(d, w)
GREATEST(m, NULL)
COALESCE(i, 0)
NVL(x, y)
IFNULL(x, 'none')
NULLIF(x, y)
IF(q, x, y)
CASE WHEN i > 0 THEN x ELSE y END
CAST(t AS STRING)
CAST(i AS STRING)
CAST(b AS STRING)
CAST(d AS STRING)
CAST(w AS STRING)
CAST(q AS STRING)
CAST(a AS STRING)
CAST(m AS STRING)
CAST(m AS DATE)
CAST(a AS TIMESTAMP)
CAST(q AS INT)
CAST(q AS BIGINT)
CAST(i AS DECIMAL(3,0))
CAST(b AS INT)
CAST(i AS TINYINT)
CAST(d AS DECIMAL(5,1))
CAST(w AS DECIMAL(38,6))
CAST(i AS DOUBLE)
CAST(b AS DOUBLE)
CAST(d AS DOUBLE)
TRY_CAST(i AS STRING)
TRY_CAST(b AS INT)
CAST(NULL AS STRING)
CAST(NULL AS DATE)
CAST(NULL AS TIMESTAMP)
CAST(NULL AS DECIMAL(9,2))
CAST(NULL AS BOOLEAN)
CAST(NULL AS DOUBLE)
YEAR(m)
MONTH(a)
DAYOFMONTH(a)
DAYOFYEAR(m)
LAST_DAY(a)
HOUR(m)
SECOND(m)
QUARTER(a)
DATE_TRUNC('YEAR', m)
DATE_TRUNC('MONTH', a)
DATE_TRUNC('WEEK', m)
DATE_TRUNC('DAY', m)
DATE_TRUNC('MILLISECOND', m)
DATE_TRUNC('MICROSECOND', m)
NVL2(x, i, b)
UNIX_MICROS(m)
x RLIKE ''
x RLIKE 'a'
x RLIKE '^[a-c]b|\\.'
x RLIKE '[^ab]{2,}'
x RLIKE '\\w\\W?ü'
x RLIKE '(ä|😀)[^&]'
x NOT RLIKE '^ ?a+b? *'
REGEXP_LIKE(y, '%|_')
REGEXP_EXTRACT(x, '(a*)(b)?', 1)
REGEXP_EXTRACT(x, '(a*)(b)?', 2)
REGEXP_EXTRACT(x, '(&|^)([^&]*)')
REGEXP_EXTRACT(x, '[^a]+', 0)
SPLIT_PART(x, 'a', 1)
SPLIT_PART(x, 'a', 2)
SPLIT_PART(x, ' ', 3)
SPLIT_PART(x, '.', 2)
DATE_FORMAT(m, 'yyyy-MM-dd HH:mm:ss')
DATE_FORMAT(a, 'dd.MM.yyyy, HH')
DATE_FORMAT(m, 'yyyyMMdd/mmss')
""".strip().splitlines()
)
REFUSED = {
    "ROUND(f, 1)": "ROUND",
    "FLOOR(f)": "FLOOR",
    "CAST(f AS STRING)": "DOUBLE to STRING",
    "TRY_CAST(x AS INT)": "STRING to INT",
    "CAST(x AS DOUBLE)": "STRING to DOUBLE",
    "d / 3": "/ of",
    "d % 2": "% of",
    "x ILIKE 'a'": "ILIKE",
    "SUBSTRING(x, -2)": "SUBSTRING",
    "SUBSTRING(x, 0, 1)": "SUBSTRING",
    "LEFT(x, i)": "LEFT",
    "CONCAT(x, i)": "CONCAT",
    "INITCAP(x)": "INITCAP",
    "LEVENSHTEIN(x, y)": "LEVENSHTEIN",
    "REGEXP_REPLACE(x, 'a', 'b')": "REGEXP_REPLACE",
    "CAST(d AS INT)": "DECIMAL(9,3) to INT",
    "d * CAST(w AS DECIMAL(38,6))": "* of",
    "CAST(CAST(d AS DECIMAL(2,2)) AS STRING)": "DECIMAL(2,2) to STRING",
    "d > CAST(w AS DECIMAL(38,2))": "> of",
    "COALESCE(d, CAST(w AS DECIMAL(38,2)))": "COALESCE of DECIMAL(9,3) and",
}
TABLE = tracked(1, "nasty", **COLUMNS)


def bound(expressions: tuple[str, ...]) -> Any:
    heads = ", ".join(f"{text} AS e{number}" for number, text in enumerate(expressions))
    return sequenced(bind_view(f"SELECT id, {heads} FROM nasty", {"nasty": TABLE}))


def on_duckdb(sql: str) -> dict[int, list[Any]]:
    with temporal_sql() as local:
        heads = ", ".join(f'"{column.name}" {spelled(column.type)}' for column in TABLE.columns)
        local.connection.execute(f"CREATE TABLE nasty ({heads})")
        marks = ", ".join("?" * len(TABLE.columns))
        since = dt.datetime(1970, 1, 1)
        local.connection.executemany(f"INSERT INTO nasty VALUES ({marks})", [(*row, since, None) for row in rows()])
        found = local.connection.execute(local_text(sql)).fetchall()
    return {row[0]: [shown(value) for value in row[1:-2]] for row in found}


def on_spark(spark: SparkSession, sql: str) -> dict[int, list[Any]]:
    utc, since = dt.timezone.utc, dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    given = [
        (*(each.replace(tzinfo=utc) if isinstance(each, dt.datetime) else each for each in row), since, None)
        for row in rows()
    ]
    heads = ", ".join(f"{column.name} {spelled(column.type)}" for column in TABLE.columns)
    spark.createDataFrame(given, heads).createOrReplaceTempView("nasty")
    return {row[0]: [shown(value) for value in row[1:-2]] for row in spark.sql(sql).collect()}


@pytest.mark.timeout(600)
def test_views_may_call_what_both_engines_compute_alike(spark: SparkSession) -> None:
    unlike = [text for text in SAME if not_local(bound((text,))) is not None]
    assert unlike == []
    local, distributed = (value_sql(bound(SAME), leaf_name, Evaluation(9, 0), each) for each in (DUCKDB, SPARK))
    here, there = on_duckdb(local), on_spark(spark, distributed)
    given = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows()}
    assert here.keys() == there.keys() == given.keys()
    wrong = {
        text: (given[key], here[key][place], there[key][place])
        for place, text in enumerate(SAME)
        for key in given
        if here[key][place] != there[key][place]
    }
    assert wrong == {}, "\n".join(f"{text}: {case}" for text, case in wrong.items())


def test_the_rest_is_refused_by_name() -> None:
    for text, result in REFUSED.items():
        found = not_local(bound((text,)))
        assert found is not None and result in refusal(found), text


SIGMAS = (
    "ΑΣ",
    "ΑΣ Β",
    "Σ",
    "ΑΣΑ",
    "ΣΣ",
    "İI",
    "aΣ.b",
    "aΣ.",
    "Σ.a",
    "ΑΣ ΒΣ",
    "A'Σ",
    "1Σ",
    "ΑΣ1",
    "Α\u0301Σ\u0301",
    "ΑΣ-ΑΣ",
    "ßΣ",
    "İΣ",
)


def test_letters_are_turned_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Each letter alone, and words with a sigma."""
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    pq.write_table(pa.table({"x": [*letters, *SIGMAS]}), tmp_path / "letters.parquet")
    sql = "SELECT x, UPPER(x) AS u, LOWER(x) AS l FROM letters"
    spark.read.parquet(str(tmp_path / "letters.parquet")).createOrReplaceTempView("letters")
    there = {row.x: (row.u, row.l) for row in spark.sql(sql).where("u <> x OR l <> x").collect()}
    with temporal_sql() as local:
        local.given("letters", pq.read_table(tmp_path / "letters.parquet"))
        here = {x: (upper, lower) for x, upper, lower in local.connection.execute(sql).fetchall()}
    assert len(here) > 1_000_000
    wrong = {x: (turned, there.get(x, (x, x))) for x, turned in here.items() if turned != there.get(x, (x, x))}
    assert wrong == {}


NUMBERS = (
    *("", " ", ".", "+", "-", "+.", "-.", ".5", "-.5", "5.", "+5", "-5", "--5", "+-5", " 5", "5 ", "\t5\n", "\x005"),
    *("5\x7f", "\u00a05", "1e3", "0x1", "\u0665", "-0", "00012", "1.x", "1.5.5", "5L", "1_000", "1,000", "1 2", "NaN"),
    *("127", "128", "-128", "-129", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "1.999", "\u20055", "5\n.", "\n", "5\n", "\x1f5\x1c", "\x855", "\u30005", "9" * 41),
)


def test_texts_become_integers_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = tracked(1, "texts", x="STRING")
    given = pa.table({"x": [*NUMBERS, None]})
    pq.write_table(given, tmp_path / "texts.parquet")
    kinds = ("TINYINT", "SMALLINT", "INT", "BIGINT")
    heads = ", ".join(f"CAST(x AS {kind}) AS {kind.lower()}_of" for kind in kinds)
    spark.read.parquet(str(tmp_path / "texts.parquet")).createOrReplaceTempView("plain_texts")
    there = {row[0]: tuple(row[1:]) for row in spark.sql(f"SELECT x, {heads} FROM plain_texts").collect()}
    relation = sequenced(bind_view(f"SELECT x, {heads} FROM texts", {"texts": table}))
    assert not_local(relation) is None
    since = pa.array([0] * len(given), pa.timestamp("us"))
    rows = given.append_column("valid_from", since).append_column("valid_to", pa.nulls(len(given), pa.timestamp("us")))
    with temporal_sql() as local:
        local.given("texts", rows)
        found_here = local.connection.execute(local_text(value_sql(relation, leaf_name, Evaluation(9, 0)))).fetchall()
    here = {row[0]: tuple(row[1:-2]) for row in found_here}
    wrong = {x: (found, there[x]) for x, found in here.items() if found != there[x]}
    assert here.keys() == there.keys() and wrong == {}
