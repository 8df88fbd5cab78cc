"""Random texts under ``--keep synopsis``: a tick computes every text that the installation accepts, for all values.

The table has the extreme values of each type (``odd_table``). The steps of a tick run as in a home, over rows in
memory: events, formula, answers.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from drawn_expressions import COLUMNS, Expressions
from odd_table import ROWS, TABLES
from weft.algebra.schema import TableSchema
from weft.errors import WeftError
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine
from weft.execution.synopsis.answers import ledger_rows
from weft.execution.synopsis.batch import EngineState, prepared
from weft.execution.synopsis.evaluating import stepped_on
from weft.execution.synopsis.news import News
from weft.planning.synopsis_plan import SynopsisPlan, sql_synopsis
from weft.storage.columns import stored_schema
from weft.storage.local_sql import connect
from weft.store import store_of

TEXTS = 300
FIRST = 946_684_800_000_000
"""The instant of the first state, µs UTC."""


def odd_rows() -> pa.Table:
    """The rows of the table, each a state of its own, in two copies."""
    schema = stored_schema(TABLES["odd"])
    cells = [[None if cell.strip() == "NULL" else cell.strip() for cell in row.split("|")] for row in ROWS]
    given = [*cells, *cells]
    with connect() as connection:
        texts = ", ".join(f"{name} VARCHAR" for name in COLUMNS)
        connection.execute(f"CREATE TEMP TABLE given ({texts}, ts TIMESTAMPTZ)")
        for number, row in enumerate(given):
            marks = ", ".join("?" for _ in row)
            connection.execute(f"INSERT INTO given VALUES ({marks}, make_timestamptz({FIRST + number}))", row)
        heads = [f"{name} AS {name}" if kind == "STRING" else _cast(name, kind) for name, kind in COLUMNS.items()]
        found = connection.sql(f"SELECT {', '.join(heads)}, ts FROM given ORDER BY ts").to_arrow_table()
    return found.select(schema.names).cast(schema)


def _cast(name: str, kind: str) -> str:
    return f"encode({name}) AS {name}" if kind == "BINARY" else f"CAST({name} AS {kind}) AS {name}"


@dataclass(frozen=True)
class InMemory(News):
    """News whose tables are in memory."""

    rows: pa.Table = field(kw_only=True)

    def _given(self, engine: Engine, table: Any, names: Any, bounds: Any = None) -> str:
        engine.given("odd_rows", self.rows.select([*sorted({*names} - {"ts"}), "ts"]))
        return "odd_rows"


def ticked(plan: SynopsisPlan, rows: pa.Table) -> list[tuple[int, list[str | None]]]:
    """The answers of a tick: the instant of each row, and its values in the stored form."""
    odd = SimpleNamespace(table_id=1, schema=TABLES["odd"])
    news = InMemory(store_of("/"), [odd], None, None, FIRST + len(rows), rows=rows)  # type: ignore[list-item]
    stamps = rows.column("ts")
    numbers = pa.array(range(len(rows)), pa.int64())
    points = pa.table({"tp": numbers, "at": stamps.cast(pa.int64()), "ts": stamps})
    events = dict.fromkeys(each for part in plan.parts for each in part.events)
    found, query = [], SimpleNamespace(query_id=1)
    with duckdb_engine() as engine:
        engine.given("points", points)
        bounds = news.bounds(engine, None)
        assert bounds is not None
        batch = prepared(engine, plan.synopsis, EngineState(), "points", news.events(engine, events, bounds))
        step = stepped_on(engine, plan.synopsis, EngineState(), batch)
        for number, part in enumerate(plan.parts):
            for row in ledger_rows(part, step, number, query, most=1_000).to_pylist():  # type: ignore[arg-type]
                found.append((row["first_at"], row["row"]))
    return sorted(found, key=repr)


def accepted(text: str, tables: dict[str, TableSchema] = TABLES) -> SynopsisPlan | None:
    try:
        return sql_synopsis(text, tables)
    except WeftError:
        return None


def text(chance: random.Random, drawn: Expressions) -> str:
    """A SELECT over the table, or over it twice."""
    truth = drawn._of("truth", chance.choice((1, 1, 2)))
    value = drawn._of(chance.choice(("truth", "number", "text", "day", "instant")), chance.choice((0, 1, 1, 2)))
    if chance.random() < 0.6:
        return f"SELECT {value} AS o, i FROM odd WHERE {truth}"
    inner = f"(SELECT ts, s, {value} AS o FROM odd WHERE {truth})"
    column, sign = chance.choice(tuple(COLUMNS)), chance.choice(("=", "=", "<>", "<", "<=>"))
    met = chance.choice((f"x.s = z.s AND x.ts < z.ts AND z.{column} {sign} z.{column}", "x.s = z.s AND x.ts < z.ts"))
    return f"SELECT x.o, z.i FROM {inner} AS x, odd AS z WHERE {met}"


@pytest.mark.timeout(300)
def test_accepted_texts_are_computed() -> None:
    rows, counts, seen, number = odd_rows(), Counter[str](), set[str](), 0
    while len(seen) < TEXTS:
        chance, number = random.Random(number), number + 1
        drawn = text(chance, Expressions(number))
        if drawn in seen:
            continue
        seen.add(drawn)
        if (plan := accepted(drawn)) is None:
            continue
        try:
            found = ticked(plan, rows)
        except WeftError as error:
            raise AssertionError(f"{drawn}\n{error}") from error
        counts["accepted"] += 1
        counts["with answers"] += bool(found)
        counts.update(word for word in ("<=>", "DISTINCT", "+", "CAST", "IN (", "LIKE") if word in drawn)
    print(dict(counts))
    assert counts["accepted"] > 0.25 * TEXTS
    assert counts["with answers"] > 0.6 * counts["accepted"]
    assert all(counts[word] > 2 for word in ("<=>", "DISTINCT", "+", "CAST", "IN (", "LIKE")), counts


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("s <=> t", {None}),
        ("i <=> y", {"1", "0", None}),
        ("i IS NOT DISTINCT FROM y AND l <=> i", {"1", "0", None}),
        ("i IS DISTINCT FROM y AND i < 0", {"-2147483648", "-5"}),
        ("(b <=> c) AND NOT (b <=> TRUE)", {"0", None}),
        ("l + l > 0 AND l > 10", {"12"}),
        ("i - 1 < 0 AND i * i >= 0", {"0", "-5"}),
    ],
)
def test_conditions_that_failed_at_the_tick(condition: str, values: set[str | None]) -> None:
    plan = sql_synopsis(f"SELECT i FROM odd WHERE {condition}", TABLES)
    assert {row[0] for _, row in ticked(plan, odd_rows())} == values
