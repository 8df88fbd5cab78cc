"""The values of temporal views on Spark: random views of the oracle's grammar, and the types of aggregates.

One query contains several views, because planning takes most of the time of a query. Spark generates no code for it.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from oracle.view_grammar import LAST, TABLES, Recorded, folded, history, recorded_at, state_at, view
from oracle.view_terms import Query, periods
from temporal_values import Value, leaf_name, moment, tracked
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.temporal import Temporal, attributes
from weft.derivation.temporal.sequenced import sequenced
from weft.period_sql.notation import SPARK
from weft.runtime.settings import rows_only
from weft.sql.lower.query import bind_view
from weft.sql.rendering.render import spelled
from weft.sql.rendering.render_temporal import Evaluation, value_sql, value_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = {name: tracked(number, name, **columns) for number, (name, columns) in enumerate(TABLES.items(), 1)}
VIEWS = (20, pytest.param(100, marks=pytest.mark.slow))
TOGETHER = 4
"""The number of views in one query."""
MOST_SELECTS = 3
UTC = dt.timezone.utc


def drawn(views: int) -> list[tuple[Query, Recorded, int]]:
    """Return views with a history and an instant at which the view has a row. The views differ in more than
    constants.
    """
    found, seen, number = [], set(), 50_000
    while len(found) < views:
        number += 1
        chance = random.Random(number)
        query = view(chance)
        if query.text().count("SELECT") > MOST_SELECTS or folded(query) in seen:
            continue
        full, now = history(chance), chance.randint(LAST // 2, LAST)
        if state_at(now, full).temporal(query):
            seen.add(folded(query))
            found.append((query, full, now))
    return found


def view_of_rows(spark: SparkSession, name: str, table: TableSchema, rows: list[tuple[Any, ...]]) -> None:
    """Create a temporary view of rows with instants in microseconds."""
    heads = ", ".join(f"{column.name} {spelled(column.type)}" for column in table.columns)
    times = [column.type == TIMESTAMP for column in table.columns]
    shown = [tuple(_time(value) if time else value for value, time in zip(row, times, strict=True)) for row in rows]
    spark.createDataFrame(shown, heads).createOrReplaceTempView(name)


def _time(instant: int | None) -> dt.datetime | None:
    found = moment(instant)
    return None if found is None else found.replace(tzinfo=UTC)


def together(parts: Mapping[int, tuple[Temporal, int]]) -> str:
    """Return one query for several views: the number of the view, its row as JSON, and its periods in microseconds."""
    steps, arms = [], []
    for number, (relation, now) in parts.items():
        chain = value_steps(
            relation, lambda leaf, n=number: f"v{n}_{leaf_name(leaf)}", Evaluation(now, 0), f"step{number}", SPARK
        )
        steps += [f"{step.name} AS ({step.sql})" for step in chain]
        row = ", ".join(_shown(f"c{place}", ref.type.name) for place, ref in enumerate(attributes(relation), 1))
        bounds = "UNIX_MICROS(valid_from) AS start, UNIX_MICROS(valid_to) AS finish"
        arms.append(f"SELECT {number} AS number, ARRAY({row}) AS row, {bounds} FROM {chain[-1].name}")
    return f"WITH {', '.join(steps)} {' UNION ALL '.join(arms)}"


def _shown(column: str, type: str) -> str:
    return f"CAST({f'UNIX_MICROS({column})' if type == 'TIMESTAMP' else column} AS STRING)"


def as_text(value: Value) -> Value:
    return {tuple(None if each is None else str(each) for each in row): spans for row, spans in value.items()}


def groups(cases: list[tuple[Query, Recorded, int]]) -> Iterator[dict[int, tuple[Query, Recorded, int]]]:
    for begin in range(0, len(cases), TOGETHER):
        yield dict(enumerate(cases[begin : begin + TOGETHER], begin))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("views", VIEWS)
def test_random_views(spark: SparkSession, views: int) -> None:
    tried: Counter[str] = Counter()
    for group in groups(drawn(views)):
        parts, expected = {}, {}
        for number, (query, full, now) in group.items():
            for name, rows in recorded_at(now, full).items():
                view_of_rows(spark, f"v{number}_{name}", SCHEMAS[name], rows)
            parts[number] = sequenced(bind_view(query.text(), SCHEMAS)), now
            held = state_at(now, full).temporal(query).items()
            expected[number] = as_text({row: periods(instants, now) for row, instants in held})
        found: dict[int, Value] = defaultdict(dict)
        with rows_only(spark):
            rows_found = spark.sql(together(parts)).collect()
        for row in rows_found:
            found[row.number].setdefault(tuple(row.row), []).append((row.start, row.finish))
        for number, (query, full, now) in group.items():
            value = {row: sorted(spans, key=lambda each: each[0]) for row, spans in found[number].items()}
            assert value == expected[number], f"at {now}: {query.text()}\n{full}"
            tried.update(word for word in ("GROUP BY", "EXISTS", "PERIOD_", "NOW", "EXCEPT") if word in query.text())
    assert min(tried.values()) > 1 and len(tried) == 5, tried


@pytest.mark.parametrize("from_scratch", [False, True])
def test_types_of_aggregates(spark: SparkSession, from_scratch: bool) -> None:
    """The binder and Spark agree on the types of aggregates, for running sums and for separate sums per fragment."""
    numbers = tracked(1, "numbers", a="TINYINT", b="BIGINT", c="DECIMAL(4,2)", f="FLOAT", g="DOUBLE", x="STRING")
    view_of_rows(spark, "numbers", numbers, [])
    text = "SELECT SUM(a) AS c1, SUM(b) AS c2, SUM(c) AS c3, AVG(a) AS c4, AVG(c) AS c5, COUNT(x) AS c6, COUNT(*) AS c7"
    text += ", SUM(f) AS c8, AVG(g) AS c9, MIN(f) AS c10, MAX(x) AS c11, MIN(c) AS c12" if from_scratch else ""
    relation = sequenced(bind_view(f"{text} FROM numbers", {"numbers": numbers}))
    sql = value_sql(relation, leaf_name, Evaluation(9, 0), SPARK)
    types = [spelled_type for _, spelled_type in spark.sql(sql).dtypes][:-2]
    assert types == [spelled(ref.type).lower() for ref in attributes(relation)]
    (row,) = spark.sql(sql).collect()
    assert row.c7 == 0 and row.c1 is None and row.valid_to is None


def test_months_and_lengths(spark: SparkSession) -> None:
    """The same day of another month, or its last day, and a length of more than a day."""
    table = tracked(1, "leap", k="INT")
    day_us = 86_400_000_000
    start = (dt.datetime(1995, 2, 28) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    view_of_rows(spark, "leap", table, [(1, start, None), (2, start - 1, None), (3, start, start + 2 * day_us)])
    now = (dt.datetime(1996, 2, 29) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    text = (
        "SELECT k FROM leap e WHERE PERIOD_START(e) >= NOW() - INTERVAL 1 YEAR AND PERIOD_LENGTH(e) > INTERVAL 2 DAYS"
    )
    relation = sequenced(bind_view(text, {"leap": table}))
    assert [row.c1 for row in spark.sql(value_sql(relation, leaf_name, Evaluation(now, 0), SPARK)).collect()] == [1]
