"""Window functions that look a few rows back are the same over the last rows of each partition and the new rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise

import pyarrow as pa
import pytest

from weft.algebra.relation import StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.arrangement.state_store import computed
from weft.derivation.lift import bound_state
from weft.derivation.stateful import states
from weft.execution.totals import deltas_schema
from weft.planning.last_rows import last_rows_sql, looks_few_back, new_rows_sql
from weft.planning.plan import standing_plan
from weft.planning.state_plan import continued_deltas, state_deltas, state_rows, suffix
from weft.planning.state_sql import is_settled
from weft.storage.columns import stored_schema

STRING, INT = DataType("STRING"), DataType("INT")
TABLE = TableSchema(1, "t", (Column(1, "g", STRING), Column(2, "k", STRING), Column(3, "ts", TIMESTAMP)), "ts")
ENDING = TableSchema(
    1, "t", (Column(1, "g", STRING), Column(2, "k", STRING), Column(3, "ts", TIMESTAMP), Column(4, "te", TIMESTAMP)),
    "ts", "te",
)  # fmt: skip
Message = tuple[str | None, str | None, int]
"""The group, the key and the ts in microseconds."""


def windowed(text: str, tau: int, t: int, table: TableSchema = TABLE) -> StateSchema:
    """The only state of the text in the window [tau, t)."""
    plan = standing_plan(text, {"t": table})
    (found,) = {state for event in plan.branches for state in states(event.relation)}
    constants = {f"p{number}": value for number, value in enumerate(plan.parameters, 1)}
    window = {name: Literal(at, TIMESTAMP) for name, at in (("tau", tau), ("t", t), ("t0", 0))}
    return bound_state(found, {**window, **constants})


def table_of(rows: Sequence[Message]) -> pa.Table:
    kinds = (pa.string(), pa.string(), pa.timestamp("us", "UTC"))
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, ["g", "k", "ts"])


def of(rows: Sequence[Message], partition: bool) -> list[tuple[object, ...]]:
    """For each row, the key two rows before, and the number of keys that are not NULL in it and the row before."""
    found: list[tuple[object, ...]] = []
    for g, k, ts in rows:
        mine = sorted(
            (r for r in rows if not partition or r[0] == g), key=lambda r: (r[2], r[1] is not None, r[1] or "")
        )
        place = mine.index((g, k, ts))
        back = mine[place - 2][1] if place >= 2 else "none"
        found.append((g, k, ts, back, sum(r[1] is not None for r in mine[max(0, place - 1) : place + 1])))
    return found


@pytest.mark.parametrize("partition", [True, False])
def test_the_rows_of_windows_are_those_of_the_whole_table(partition: bool) -> None:
    over = "PARTITION BY g ORDER BY ts, k" if partition else "ORDER BY ts, k"
    text = (
        f"SELECT g, k, ts, LAG(k, 2, 'none') OVER ({over}) AS back, "
        f"COUNT(k) OVER ({over} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t"
    )
    chance = random.Random(5)
    for _ in range(3):
        rows = list(
            {
                (chance.choice(["a", "b", None]), chance.choice([None, *"uvwxyz"]), chance.randint(1, 60))
                for _ in range(40)
            }
        )
        if not partition:  # the keys of rows of one instant differ, because groups are no part of the order
            rows = list({(k, ts): (g, k, ts) for g, k, ts in rows}.values())
        cuts = [0, *sorted(chance.sample(range(1, 60), 5)), 61]
        found, stored = [], None
        for tau, t in pairwise(cuts):
            state = windowed(text, tau, t)
            deltas = continued_deltas(state, "news")
            assert deltas is not None
            (path,) = {each.view for each in deltas.paths}
            new = computed(deltas.sql, deltas_schema(state), **{path + suffix(state): table_of(rows)})
            columns = [name for name in new.column_names if name[0] in "cx"]
            before = new.slice(0, 0).select(columns) if stored is None else stored
            schema = stored_schema(state)
            found += computed(new_rows_sql(state, "d_", "b_"), schema, d_=new, b_=before).to_pylist()
            every = pa.concat_tables([before, new.select(columns)])
            stored = computed(last_rows_sql(state, "rows_"), every.schema, rows_=every)
            assert stored.num_rows <= 2 * (len({row[0] for row in rows}) if partition else 1)
        values = [tuple(_micros(value) for value in list(row.values())[:5]) for row in found]
        assert sorted(values, key=repr) == sorted(of(rows, partition), key=repr)


def _micros(value: object) -> object:
    return round(value.astimezone(timezone.utc).timestamp() * 1e6) if isinstance(value, datetime) else value


@pytest.mark.parametrize(
    ("function", "table"),
    [
        ("LEAD(k) OVER (PARTITION BY g ORDER BY ts, k)", TABLE),
        ("LAG(k, -1) OVER (PARTITION BY g ORDER BY ts, k)", TABLE),
        ("ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts, k)", TABLE),
        ("COUNT(*) OVER (PARTITION BY g ORDER BY ts, k ROWS UNBOUNDED PRECEDING)", TABLE),
        ("LAG(k) OVER (PARTITION BY g ORDER BY k, ts)", TABLE),
        ("LAG(k) OVER (PARTITION BY g ORDER BY ts DESC, k)", TABLE),
        ("LAG(k) OVER (PARTITION BY g ORDER BY ts, k)", ENDING),
    ],
)
def test_other_functions_need_more_rows(function: str, table: TableSchema) -> None:
    assert state_deltas(windowed(f"SELECT g, k, {function} AS x FROM t", 10, 20, table)) is None


def test_a_look_up_needs_the_earlier_rows() -> None:
    state = windowed("SELECT g, k, LAG(k) OVER (PARTITION BY g ORDER BY ts, k) AS x FROM t", 10, 20)
    assert looks_few_back(state) and state_deltas(state) is not None
    assert continued_deltas(state, 0) is None


@pytest.mark.parametrize(("offset", "settled"), [(-1, False), (0, True), (2, True)])
def test_a_lag_that_looks_ahead_changes_later(offset: int, settled: bool) -> None:
    state = windowed(f"SELECT g, k, LAG(k, {offset}) OVER (PARTITION BY g ORDER BY ts, k) AS x FROM t", 10, 20)
    assert is_settled(state.operator, state_rows(state, None).input) is settled
