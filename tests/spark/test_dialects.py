"""Texts in DuckDB's dialect give the same by DuckDB and, translated, by Weft, over rows with the usual difficulties."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from every_instant import Timeline
from weft import Weft
from weft.errors import SqlError

NOW = dt.datetime(2026, 3, 9, 12, tzinfo=dt.timezone.utc)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ann", "price": Decimal("2.50"), "rate": 0.5, "day": dt.date(2026, 3, 1)},
    {"id": 2, "name": "ann ", "price": Decimal("-2.50"), "rate": -1.5, "day": dt.date(2025, 12, 31)},
    {"id": 3, "name": "", "price": None, "rate": None, "day": dt.date(2024, 2, 29)},
    {"id": -7, "name": None, "price": Decimal("0.00"), "rate": 1e300, "day": None},
    {"id": None, "name": "Ünï_%x", "price": Decimal("9.99"), "rate": 0.1, "day": dt.date(2026, 1, 5)},
    {"id": 8, "name": "it's", "price": Decimal("2.50"), "rate": 3.0, "day": dt.date(2026, 3, 8)},
]
QUERIES = """
SELECT id, id / 2 AS half, id / -3 AS third, id % 3 AS rest FROM t
SELECT id, rate / NULLIF(id, 0) AS r FROM t
SELECT id::BIGINT + 1 AS n, name::VARCHAR AS s, id::TEXT || '!' AS u, day::TIMESTAMP AS at FROM t
SELECT id, name FROM t WHERE name ILIKE 'AN%' OR name LIKE '%_%x'
SELECT id FROM t WHERE name > 'Z' OR name = '' OR name = 'it''s'
SELECT concat(name, '-', name) AS c, ifnull(name, 'none') AS d, name || 'x' AS e FROM t
SELECT id, date_trunc('week', ts) AS w, date_trunc('month', day) AS m, date_trunc('quarter', ts) AS q FROM t
SELECT id, date_diff('day', day, ts) AS d, year(day) AS y, month(day) AS m, day(day) AS k FROM t
SELECT id FROM t WHERE ts < now() - INTERVAL 3 DAY
SELECT id FROM t WHERE ts >= now() - INTERVAL '4 days' AND day + INTERVAL 1 MONTH < now()
SELECT id, price FROM t QUALIFY row_number() OVER (ORDER BY price, id) <= 2
SELECT id, row_number() OVER (ORDER BY price DESC, id DESC) AS n FROM t
SELECT id, lag(id) OVER (PARTITION BY price ORDER BY ts) AS p, rank() OVER (ORDER BY price) AS r FROM t
SELECT price, count(*) AS n, count(id) FILTER (WHERE id > 1) AS k, sum(id) AS s, avg(id) AS a FROM t GROUP BY ALL
SELECT name, min(price) AS a, max(day) AS b, avg(rate) AS c FROM t GROUP BY name HAVING count(*) > 0
SELECT coalesce(id, -1) AS a, nullif(id, 2) AS b, abs(id) AS c, CASE WHEN id > 1 THEN 'a' ELSE 'b' END AS d FROM t
SELECT substring(name, 2, 2) AS a, left(name, 2) AS b, length(name) AS c, upper(name) AS d, instr(name, 'n') AS e FROM t
SELECT replace(name, 'n', 'm') AS a, trim(name, ' ') AS b, rtrim(name, ' ') AS c, strpos(name, '%') AS d FROM t
SELECT a.id, b.id AS other FROM t a LEFT JOIN t b ON a.price = b.price AND a.id < b.id
SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE price > 2) AND NOT EXISTS (SELECT 1 FROM t u WHERE u.id > t.id)
SELECT id, extract(year FROM day) AS y, extract(quarter FROM ts) AS q, extract(hour FROM ts) AS h FROM t
SELECT id IS DISTINCT FROM 2 AS a, id IS NOT DISTINCT FROM NULL AS b, id BETWEEN 1 AND 3 AS c FROM t
SELECT id, TRY_CAST('2026-03-01' AS DATE) AS n, CAST(id AS DOUBLE) / 3 AS f FROM t
SELECT "id" AS "My Id" FROM "t" WHERE id == 2 UNION SELECT id FROM t WHERE id > 7
WITH dear AS (SELECT id, price * 2 AS p FROM t WHERE price > 1) SELECT d.id, d.p + 0.5 AS q FROM dear d
SELECT id FROM t WHERE id > 1 OR name = 'a\\b'
SELECT count_if(id > 100) AS a, count_if(id > 1) AS b FROM t WHERE id > 100
SELECT a.id, b.id AS other FROM t a, t b WHERE a.price = b.price
SELECT (CASE WHEN id > 1 THEN 1 ELSE NULL END) / 2 AS a, ifnull(id, 3) - id AS b, name || id || day AS c FROM t
"""


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Weft, Timeline]]:
    with Weft.open(tmp_path_factory.mktemp("dialects") / "home", clock="replay", create=True) as home:
        home.make_table("t", "id INT, name STRING, price DECIMAL(8,2), rate DOUBLE, day DATE")
        rows = [{**row, "ts": NOW - dt.timedelta(days=n, hours=n)} for n, row in enumerate(ROWS)]
        home.append("t", rows, ts_from="ts")
        kinds = [("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2)), ("rate", pa.float64())]
        schema = pa.schema([*kinds, ("day", pa.date32()), ("ts", pa.timestamp("us", "UTC"))])
        yield home, Timeline({"t": pa.Table.from_pylist(rows, schema)})


def same(value: Any) -> Any:
    """A value without what the two engines show differently: types of numbers, the last digit, an instant's zone."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return float(f"{float(value):.12g}")
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime.combine(value, dt.time()) if isinstance(value, dt.date) else value


@pytest.mark.parametrize("text", [line for line in QUERIES.splitlines() if line])
def test_a_translated_text_gives_the_same(text: str, homes: tuple[Weft, Timeline]) -> None:
    home, timeline = homes
    timeline.connection.execute(f"SET VARIABLE now_at = TIMESTAMP '{NOW.replace(tzinfo=None)}'; SET TimeZone = 'UTC'")
    found = timeline.connection.execute(text.replace("now()", "getvariable('now_at')")).fetchall()
    answer = home.try_query(text, now=NOW, limit=None, dialect="duckdb")
    shown = {tuple(map(same, row.values())) for row in answer.to_dicts()}
    assert shown == {tuple(map(same, row)) for row in found}
    assert len(shown) > 0


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("SELECT id / id AS x FROM t WHERE price = 0 OR id - id = 0", "SELECT id / (id - id) AS x FROM t"),
        ("SELECT price::INT AS x FROM t", "SELECT CAST(price AS INT) AS x FROM t"),
        ("SELECT day - DATE '2026-01-01' AS x FROM t", "SELECT day - DATE '2026-01-01' AS x FROM t"),
    ],
)
def test_refused_constructs_give_other_rows(text: str, spark: str, homes: tuple[Weft, Timeline]) -> None:
    """The refusals are of queries that Spark would answer otherwise."""
    home, timeline = homes
    with pytest.raises(SqlError, match=r"is not translated.*line 1, column 8"):
        home.explain(text, dialect="duckdb")
    other = home.try_query(spark, now=NOW, limit=None)
    timeline.connection.execute(f"SET VARIABLE now_at = TIMESTAMP '{NOW.replace(tzinfo=None)}'")
    original = spark.replace("CAST(price AS INT)", "price::INT")
    found = {tuple(map(str, row)) for row in timeline.connection.execute(original).fetchall()}
    assert {tuple(map(str, row.values())) for row in other.to_dicts()} != found


def test_the_original_is_stored(homes: tuple[Weft, Timeline]) -> None:
    home, _ = homes
    text = "SELECT id, name\nFROM t WHERE price::DECIMAL(8,2) > 1 -- dear"
    installed = home.install("dear", text, dialect="duckdb")
    assert installed.sql.splitlines()[:3] == ["-- In the dialect duckdb:", "-- SELECT id, name", f"-- {text[16:]}"]
    assert home.tick(now=NOW + dt.timedelta(days=1)).reports[-1].outcomes[0].rows == 3
    assert {row.values[0] for row in home.results("dear")} == {1, 8, None}
    replaced = home.install("dear", text.replace("> 1", "> 5"), dialect="duckdb", replace=True)
    assert "> 5" in replaced.sql.splitlines()[-1]
    with pytest.raises(SqlError, match=r"no column 'nothing'.*line 2, column 7"):
        home.install("x", "SELECT id,\n      nothing FROM t", dialect="duckdb")
