"""Sums and averages continued from stored totals are those of all rows, also where a sum does not fit its type."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from running_sums import END, STORED, TYPES, Sums, periods, rows_at
from weft.algebra.schema import MOST_DIGITS, DataType
from weft.arrangement.state_store import computed
from weft.execution.totals import deltas_schema
from weft.period_sql.notation import DUCKDB
from weft.planning.state_plan import continued_deltas, state_deltas, state_rows, suffix
from weft.planning.state_sql import added_sql, added_up_sql, continued_sql, totals_of
from weft.storage.columns import arrow_type, stored_schema

CASES = (1, pytest.param(30, marks=pytest.mark.slow))
"""Histories of each kind."""


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("type", STORED, ids=str)
def test_continued_sums_are_those_of_all_rows(type: DataType, grouped: bool, moving: bool, cases: int) -> None:
    chance, sums, nulls = random.Random(f"{type}{grouped}{moving}"), Sums(type, grouped, moving), 0
    for _ in range(cases):
        rows = sums.drawn(chance, 30)
        stored: pa.Table | None = None
        for tau, t in pairwise([0, *sorted(chance.sample(range(1, END), 4)), END + 20]):
            state = sums.state(tau, t)
            deltas = continued_deltas(state, "news")
            assert deltas is not None
            views = {path.view + suffix(state): sums.given(rows) for path in deltas.paths}
            new = computed(deltas.sql, deltas_schema(state), **views)
            keys = [pa.field("c1", pa.string())] if grouped else []
            kept = pa.schema([*keys, *(pa.field(name, arrow_type(kind)) for name, kind in totals_of(state))])
            before = kept.empty_table() if stored is None else stored
            text = continued_sql(state, "d_", "b_", DUCKDB)
            own = pa.schema(
                [*stored_schema(state), *(pa.field(f"_{name}", arrow_type(k)) for name, k in totals_of(state))]
            )
            found = periods(computed(text, own, d_=new, b_=before).select(stored_schema(state).names))
            for instant in range(tau, t):
                assert rows_at(found, instant) == sums.at(rows, instant), f"at {instant}: {rows}"
                nulls += any(row[-4] is None and row[-2] for row in sums.at(rows, instant))
            added = computed(added_sql(state, "d_"), kept, d_=new)
            stored = pa.concat_tables([before, added])
            if chance.random() < 0.5:
                stored = computed(added_up_sql(state, "rows_"), kept, rows_=stored)
    assert nulls or type.precision != MOST_DIGITS


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_sums_of_all_rows_are_computed_by_the_same_parts(type: DataType) -> None:
    chance = random.Random(str(type))
    for moving in (False, True):
        sums = Sums(type, True, moving)
        rows = sums.drawn(chance, 40)
        plan = state_rows(sums.state(None, END), None)
        (view,) = {path.view for path in plan.paths.values()}
        views = {view + suffix(plan.state): sums.given(rows)}
        found = periods(computed(plan.sql(DUCKDB), stored_schema(plan.state), **views))
        for instant in range(END):
            assert rows_at(found, instant) == sums.at(rows, instant)


def test_sums_whose_parts_spark_cannot_keep_are_not_continued() -> None:
    assert state_deltas(Sums(DataType("DECIMAL", 38, 16), True, False).state(10, 20)) is None
