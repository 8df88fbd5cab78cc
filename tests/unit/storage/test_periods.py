"""The log of a tracked table tells what the source had when, by whatever part of it is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coalesced import Period, Row, coalesced
from weft.algebra.schema import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, TableSchema
from weft.storage.columns import stored_schema
from weft.storage.periods import (
    change_at,
    difference,
    known_at,
    open_periods,
    periods,
    repeated_keys,
    values_of,
)

LOG = TableSchema(
    1,
    "staff",
    (
        Column(7, "case", BIGINT),
        Column(1, "id", BIGINT),
        Column(2, "dept", STRING),
        Column(3, "pay", DOUBLE),
        Column(4, "valid_from", TIMESTAMP),
        Column(5, "valid_to", TIMESTAMP),
        Column(6, "ts", TIMESTAMP),
    ),
)
SCHEMA = stored_schema(LOG)
VALUES = pa.schema([SCHEMA.field(name) for name in values_of(LOG)])
NAN = "NaN"
"""Stands for the number, which is not equal to itself."""
State = dict[int | None, tuple[str | None, Any]]
STATES = st.lists(
    st.dictionaries(
        st.one_of(st.none(), st.integers(1, 3)),
        st.tuples(st.sampled_from([None, "", "Dev", "Ops"]), st.sampled_from([None, 0.0, 1.5, NAN])),
        max_size=4,
    ),
    min_size=1,
    max_size=7,
)
CASES = st.lists(STATES, min_size=1, max_size=40)
"""Histories side by side in one table, so that many are tried at once."""


def at_instants(cases: list[list[State]]) -> list[tuple[int, list[Row]]]:
    """The rows of all cases at each instant; one that has no more states keeps its last."""
    return [
        (
            10 * step,
            [
                (case, key, *values)
                for case, states in enumerate(cases)
                for key, values in states[min(step, len(states) - 1)].items()
            ],
        )
        for step in range(max(map(len, cases)))
    ]


def snapshot(rows: list[Row]) -> pa.Table:
    plain = [tuple(float("nan") if value == NAN else value for value in row) for row in rows]
    columns = list(zip(*plain, strict=True)) if plain else [()] * len(VALUES)
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, VALUES, strict=True)], schema=VALUES)


def recorded(states: list[tuple[int, list[Row]]]) -> pa.Table:
    log = SCHEMA.empty_table()
    for instant, rows in states:
        changed = difference(open_periods(log), snapshot(rows))
        log = pa.concat_tables([log, change_at(*changed, instant, LOG)])
    return log


def period_rows(found: pa.Table) -> list[Period]:
    columns = [found.column(name).to_pylist() for name in values_of(LOG)]
    pairs = [found.column(name).cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to")]
    rows = (tuple(NAN if value != value else value for value in row) for row in zip(*columns, strict=True))
    return list(zip(rows, *pairs, strict=True))


@settings(max_examples=12)
@given(CASES)
@example([[{1: ("Dev", NAN)}, {}, {1: ("Dev", NAN)}, {2: ("Dev", NAN)}]])
@example([[{None: (None, None)}, {None: ("", None)}, {None: (None, None)}]])
def test_snapshots_give_the_coalesced_history(cases: list[list[State]]) -> None:
    at = at_instants(cases)
    log = recorded(at)
    found = period_rows(periods(log))
    assert len(found) == len(set(found))
    assert set(found) == coalesced(at)
    middle = len(at) // 2  # as it was known then
    assert set(period_rows(periods(known_at(log, 10 * middle)))) == coalesced(at[: middle + 1])


@settings(max_examples=8)
@given(CASES, st.sampled_from(["Dev", "Ops", ""]))
def test_a_part_that_was_found_by_values_has_its_periods(cases: list[list[State]], dept: str) -> None:
    at = at_instants(cases)
    log = recorded(at)
    whole = coalesced(at)
    part = log.filter(pc.equal(log.column("dept"), dept))
    assert set(period_rows(periods(part))) == {each for each in whole if each[0][2] == dept}
    began = log.filter(pc.equal(log.column("valid_from").cast(pa.int64()), 10))
    assert set(period_rows(periods(began))) == {each for each in whole if each[1] == 10}
    late = log.filter(pc.greater_equal(log.column("ts").cast(pa.int64()), 20))
    ended = {each for each in period_rows(periods(late)) if each[2] is not None and each[2] >= 20}
    assert ended == {each for each in whole if each[2] is not None and each[2] >= 20}


def test_a_period_that_was_taken_back_is_none() -> None:
    log = recorded([(10, [(0, 1, "Dev", None)])])
    back = change_at(open_periods(log), VALUES.empty_table(), 10, LOG)
    later = back.set_column(6, "ts", pa.array([20], SCHEMA.field("ts").type))
    assert period_rows(periods(pa.concat_tables([log, later]))) == []
    assert period_rows(periods(known_at(pa.concat_tables([log, later]), 19))) == [((0, 1, "Dev", None), 10, None)]


def test_a_key_of_several_rows_is_found() -> None:
    rows = snapshot([(0, 1, "Dev", 0.0), (0, 1, "Ops", 0.0), *[(0, None, "Dev", 0.0)] * 2, (0, 2, "Dev", 0.0)])
    assert repeated_keys(rows, ["id"]) == [((1,), 2), ((None,), 2)]
    assert repeated_keys(rows, ["id", "dept"]) == [((None, "Dev"), 2)]
