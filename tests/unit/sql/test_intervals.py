"""Columns of intervals: the bound query has the rows of a text that computes microseconds.  DuckDB runs both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

from netnews import table
from weft.algebra.schema import BIGINT, DATE, INT, INTERVAL, INTERVALS, STRING, TIMESTAMP, DataType
from weft.api.arguments import column_list
from weft.cli.printing import shown
from weft.delivery.rendering import csv_cells, json_value
from weft.errors import Refused, SqlError
from weft.planning.explain import explain
from weft.planning.plan import columns_of, plan
from weft.planning.view_plan import bound_view
from weft.sql.dialects.duckdb_dialect import MACROS, local_text
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql
from weft.storage.ledger import ResultRow
from weft.storage.typed_answers import answers_table, typed_table
from weft.storage.values import decode

PARCELS = table(1, "parcels", {"id": INT, "shop": STRING, "sent": TIMESTAMP, "got": TIMESTAMP, "day": DATE})
KEPT = table(2, "kept", {"id": INT, "delay": INTERVALS})
TABLES = {each.name: each for each in (PARCELS, KEPT)}
ROWS = """
CREATE TABLE parcels (id INT, shop VARCHAR, sent TIMESTAMP, got TIMESTAMP, day DATE, ts TIMESTAMP);
CREATE TABLE kept (id INT, delay BIGINT, ts TIMESTAMP);
INSERT INTO parcels VALUES
  (1, 'a', '2024-01-01', '2024-01-03 12:00:00.5', '2024-01-02', '2024-01-04'),
  (2, 'a', '2024-01-02', '2024-01-02 00:00:03', '2024-01-03', '2024-01-04'),
  (3, 'b', '2024-01-05', '2024-01-04', '2024-01-02', '2024-01-05'), (4, 'b', '2024-01-05', NULL, NULL, '2024-01-05'),
  (5, 'c', '0001-01-01', '9999-12-31 23:59:59.999999', '2024-01-01', '2024-01-06');
INSERT INTO kept VALUES (1, 216000500000, '2024-01-01'), (2, NULL, '2024-01-01'), (3, -86400000000, '2024-01-01');
"""
MICROS = "(epoch_us(got) - epoch_us(sent))"
ALIKE = {
    "SELECT id, got - sent AS d FROM parcels": f"SELECT id, {MICROS} FROM parcels",
    "SELECT id, -(got - sent) AS d, (got - sent) + INTERVAL 1 DAY AS e FROM parcels WHERE id < 5": (
        f"SELECT id, -{MICROS}, {MICROS} + 86400000000 FROM parcels WHERE id < 5"
    ),
    "SELECT id, (got - sent) / 7 AS d FROM parcels WHERE id < 5": (
        f"SELECT id, CAST(ROUND({MICROS} / 7) AS BIGINT) FROM parcels WHERE id < 5"
    ),
    "SELECT d.id, d.wait FROM (SELECT id, got - sent AS wait FROM parcels) AS d WHERE d.wait > INTERVAL 1 DAY": (
        f"SELECT id, {MICROS} FROM parcels WHERE {MICROS} > 86400000000"
    ),
    "SELECT shop, SUM(got - sent) AS s, MIN(got - sent) AS l, MAX(got - sent) AS m, AVG(got - sent) AS a, "
    "COUNT(got - sent) AS n FROM parcels WHERE id < 5 GROUP BY shop": (
        f"SELECT shop, SUM({MICROS}), MIN({MICROS}), MAX({MICROS}), CAST(ROUND(AVG({MICROS})) AS BIGINT), "
        f"COUNT({MICROS}) FROM parcels WHERE id < 5 GROUP BY shop"
    ),
    "SELECT MEDIAN(got - sent) AS m, MAX_BY(got - sent, id) AS l, MIN_BY(id, got - sent) AS i, "
    "COUNT(DISTINCT got - sent) AS n FROM parcels": (
        f"SELECT CAST(ROUND(MEDIAN({MICROS})) AS BIGINT), LAST({MICROS} ORDER BY id), 3, 4 FROM parcels"
    ),
    "SELECT got - sent AS d, COUNT(*) AS n FROM parcels GROUP BY d HAVING d > INTERVAL 1 SECOND OR d IS NULL": (
        f"SELECT {MICROS} AS d, COUNT(*) FROM parcels GROUP BY d HAVING d > 1000000 OR d IS NULL"
    ),
    "SELECT shop FROM parcels GROUP BY shop HAVING SUM(got - sent) / COUNT(*) > INTERVAL 1 DAY": (
        f"SELECT shop FROM parcels GROUP BY shop HAVING SUM({MICROS}) / COUNT(*) > 86400000000"
    ),
    "SELECT id, ts - LAG(ts) OVER (ORDER BY ts, id) AS gap, SUM(got - sent) OVER (PARTITION BY shop) AS s, "
    "LAG(got - sent) OVER (ORDER BY id) AS l FROM parcels": (
        f"SELECT id, epoch_us(ts) - epoch_us(LAG(ts) OVER (ORDER BY ts, id)), SUM({MICROS}) OVER (PARTITION BY shop), "
        f"LAG({MICROS}) OVER (ORDER BY id) FROM parcels"
    ),
    "SELECT id, got - sent AS d FROM parcels ORDER BY d DESC NULLS LAST LIMIT 2": (
        f"SELECT id, {MICROS} AS d FROM parcels ORDER BY d DESC NULLS LAST LIMIT 2"
    ),
    "SELECT id FROM parcels WHERE got - sent > (SELECT AVG(p.got - p.sent) FROM parcels p WHERE p.id < 5)": (
        f"SELECT id FROM parcels WHERE {MICROS} > (SELECT AVG({MICROS}) FROM parcels WHERE id < 5)"
    ),
    "SELECT id FROM parcels WHERE got - sent IN (SELECT delay FROM kept)": (
        f"SELECT id FROM parcels WHERE {MICROS} IN (SELECT delay FROM kept)"
    ),
    "SELECT id FROM parcels WHERE got - sent <= ALL (SELECT COALESCE(k.delay, INTERVAL 9 DAYS) FROM kept k)": (
        f"SELECT id FROM parcels WHERE {MICROS} <= -86400000000"
    ),
    "SELECT id FROM kept WHERE delay > INTERVAL 1 DAY": "SELECT id FROM kept WHERE delay > 86400000000",
    "SELECT p.id, k.delay FROM parcels p LEFT JOIN kept k ON k.id = p.id AND k.delay > INTERVAL 0 DAYS": (
        "SELECT p.id, k.delay FROM parcels p LEFT JOIN kept k ON k.id = p.id AND k.delay > 0"
    ),
    "SELECT delay FROM kept UNION SELECT got - sent FROM parcels": f"SELECT delay FROM kept UNION SELECT {MICROS} "
    "FROM parcels",
    "SELECT id, CASE WHEN id = 1 THEN got - sent ELSE INTERVAL 1 HOUR END AS c, GREATEST(got - sent, INTERVAL 2 DAYS) "
    "AS g FROM parcels WHERE id < 4": (
        f"SELECT id, CASE WHEN id = 1 THEN {MICROS} ELSE 3600000000 END, GREATEST({MICROS}, 172800000000) FROM parcels "
        "WHERE id < 4"
    ),
    "SELECT v.d FROM (VALUES (INTERVAL 1 DAY), (INTERVAL 90 MINUTES)) AS v(d) WHERE v.d > INTERVAL 2 HOURS": (
        "SELECT 86400000000"
    ),
    "SELECT id FROM parcels WHERE sent + (got - sent) = got": "SELECT id FROM parcels WHERE got IS NOT NULL",
}


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(ROWS)
    for head, body in MACROS.items():
        connection.execute(f"CREATE MACRO {head} AS {body}")
    return connection


@pytest.mark.parametrize("text", ALIKE)
def test_intervals_have_the_values_of_microseconds(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    bound = local_text(query_sql(bind(text, TABLES)))
    found = rows.execute(bound).fetchall()
    expected = rows.execute(ALIKE[text]).fetchall()
    assert expected
    assert sorted(set(map(repr, found))) == sorted(set(map(repr, expected)))


TYPES = {
    "got - sent": "INTERVAL DAY TO SECOND",
    "day - DATE '2024-01-01'": "INTERVAL DAY TO SECOND",
    "SUM(got - sent) OVER ()": "INTERVAL DAY TO SECOND",
    "AVG(got - sent) OVER ()": "INTERVAL DAY TO SECOND",
    "COUNT(got - sent) OVER ()": "BIGINT",
    "INTERVAL 1 DAY": "INTERVAL DAY TO SECOND",
}


@pytest.mark.parametrize("value", TYPES)
def test_the_type_of_a_column_is_that_of_spark(value: str) -> None:
    ((_, kind),) = columns_of(bind(f"SELECT {value} AS x FROM parcels", TABLES))
    assert kind.declared == TYPES[value]
    assert DataType.of_column(kind.declared) == kind and DataType.of_column(kind.declared).shape == kind.shape


def test_a_column_of_an_interval_keeps_its_name() -> None:
    assert [name for name, _ in columns_of(bind("SELECT k.delay FROM kept k", TABLES))] == ["delay"]


REFUSED = {
    "SELECT ARRAY_AGG(got - sent) AS a FROM parcels": "INTERVAL DAY TO SECOND",
    "SELECT STDDEV(got - sent) AS a FROM parcels": "INTERVAL DAY TO SECOND",
    "SELECT delay FROM kept UNION SELECT id FROM kept": "INTERVAL DAY TO SECOND on one side and INT",
    "SELECT id FROM kept WHERE delay > 5": "TIMESTAMPDIFF",
    "SELECT a.id FROM kept a JOIN (SELECT id AS delay FROM kept) b USING (delay)": "cannot be compared",
    "SELECT INTERVAL 3 MONTHS AS m FROM parcels": "MONTHS",
    "SELECT NOW() - ts AS age FROM parcels": "every microsecond",
    "SELECT CAST(delay AS STRING) AS d FROM kept": "cannot be converted",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert REFUSED[text] in f"{caught.value} {caught.value.hint}"


def test_a_table_has_no_column_of_intervals() -> None:
    with pytest.raises(Refused, match="INTERVAL"):
        column_list("delay INTERVAL DAY TO SECOND")


def test_an_explanation_shows_the_interval_and_not_its_microseconds() -> None:
    text = "SELECT d.id FROM (SELECT id, got - sent AS d, ts FROM parcels) d WHERE NOW() > d.ts + d.d"
    brief = "\n".join(explain(plan(text, TABLES)).brief)
    assert "NOW passes parcels.ts + (parcels.got - parcels.sent)" in brief
    brief = "\n".join(explain(plan("SELECT AVG(got - sent) AS a FROM parcels", TABLES)).brief)
    assert "AVG(parcels.got - parcels.sent)" in brief and "MICRO" not in brief


def test_views_have_columns_of_intervals() -> None:
    kinds = {"id": INT, "sent": TIMESTAMP, "got": TIMESTAMP, "valid_from": TIMESTAMP, "valid_to": TIMESTAMP}
    tracked = table(1, "parcels", kinds, end=None)
    tracked = type(tracked)(1, "parcels", tracked.columns[:-1], "valid_from", "valid_to")
    view = bound_view("SELECT id, got - sent AS d FROM parcels WHERE got - sent > INTERVAL 1 DAY", {"parcels": tracked})
    assert [(name, kind.declared) for name, kind in view.columns] == [("id", "INT"), ("d", "INTERVAL DAY TO SECOND")]


LENGTH = dt.timedelta(days=-1, microseconds=5)
SHOWN: dict[str, Callable[[dt.timedelta], object]] = {
    "table": shown,
    "json": lambda value: json_value(value, INTERVALS),
    "csv": lambda value: csv_cells([value]).strip(),
}


@pytest.mark.parametrize("form", SHOWN)
def test_every_form_prints_iso_8601(form: str) -> None:
    assert decode(["-86399999995", None], [INTERVALS, INTERVALS]) == (LENGTH, None)
    assert SHOWN[form](LENGTH) == "-PT23H59M59.999995S"
    assert SHOWN[form](dt.timedelta(days=36525, hours=1)) == "P36525DT1H"


def test_python_has_durations_and_a_delta_table_has_numbers() -> None:
    row = ResultRow(1, 0, 1, (LENGTH,))
    columns = [("d", INTERVALS)]
    assert answers_table(columns, [row]).column("d").type == pa.int64()
    assert answers_table(columns, [row]).column("d").to_pylist() == [-86399999995]
    assert typed_table(columns, [(LENGTH,)]).column("d").to_pylist() == [LENGTH]
    assert (INTERVALS == BIGINT, INTERVALS.shape) == (True, INTERVAL)


@pytest.mark.parametrize("micros", [-(2**63), -(2**63) + 1, 2**63 - 1])
def test_every_number_of_microseconds_is_a_duration(micros: int) -> None:
    (value,) = decode([str(micros)], [INTERVALS])
    columns = [("d", INTERVALS)]
    assert typed_table(columns, [(value,), (None,)]).column("d").to_pylist() == [value, None]
    assert answers_table(columns, [ResultRow(1, 0, 1, (value,))]).column("d").to_pylist() == [micros]
