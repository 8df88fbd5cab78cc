"""Dated changes and dated states give the history that the source's states have by definition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coalesced import Period, coalesced
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.storage.changes import change_schema, log_of_keys, log_rows, state_changes, transaction_instants, unknown
from weft.storage.columns import stored_schema
from weft.storage.periods import open_periods, periods, values_of

LOG = TableSchema(
    1,
    "staff",
    (
        Column(1, "case", BIGINT),
        Column(2, "id", BIGINT),
        Column(3, "dept", STRING),
        Column(4, "valid_from", TIMESTAMP),
        Column(5, "valid_to", TIMESTAMP),
        Column(6, "ts", TIMESTAMP),
    ),
)
SCHEMA = stored_schema(LOG)
VALUES = pa.schema([SCHEMA.field(name) for name in values_of(LOG)])
KEYS = ("case", "id")
Change = tuple[str, int, "int | None", "str | None", int]
"""Operation, case, id, dept, own time."""

CHANGES = st.lists(
    st.tuples(
        st.sampled_from("UUUD"),
        st.integers(0, 9),
        st.one_of(st.none(), st.integers(1, 2)),
        st.sampled_from([None, "", "Dev", "Ops"]),
        st.integers(0, 2),  # how much later than the one before
    ),
    min_size=1,
    max_size=120,
)


def with_times(drawn: list[tuple[str, int, int | None, str | None, int]]) -> list[Change]:
    found, now = [], 10
    for op, case, key, dept, later in drawn:
        now += 10 * later
        found.append((op, case, key, None if op == "D" else dept, now))
    return found


def table(changes: Iterable[Change]) -> pa.Table:
    rows = list(changes)
    columns: list[list[Any]] = [[r[1] for r in rows], [r[2] for r in rows], [r[3] for r in rows]]
    columns += [[r[0] for r in rows], [r[4] for r in rows], list(range(len(rows)))]
    schema = change_schema(VALUES)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def applied(log: pa.Table, changes: pa.Table) -> pa.Table:
    """The log after a poll that read these changes."""
    own = log_of_keys(log, changes, KEYS)
    new = unknown(own, changes, KEYS)
    last = max(log.column("ts").cast(pa.int64()).to_pylist(), default=0)
    instants = transaction_instants([new], last + 1, None, 0)
    return pa.concat_tables([log, log_rows(open_periods(own), new, instants, LOG, KEYS)])


def states(changes: list[Change]) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """The source after each of its transactions, by their definition."""
    now: dict[tuple[int, int | None], str | None] = {}
    found = []
    for own in sorted({change[4] for change in changes}):
        for op, case, key, dept, at in changes:
            if at == own and op == "D":
                now.pop((case, key), None)
            elif at == own:
                now[case, key] = dept
        found.append((own, [(*key, dept) for key, dept in now.items()]))
    return found


def period_rows(log: pa.Table) -> set[Period]:
    found = periods(log)
    rows = zip(*(found.column(name).to_pylist() for name in values_of(LOG)), strict=True)
    ends = (found.column(name).cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to"))
    listed = list(zip(rows, *ends, strict=True))
    assert len(listed) == len(set(listed))
    return set(listed)


def test_a_row_that_is_as_it_was_again_at_the_same_time_is_so() -> None:
    """Found by the random test below: the return was taken for a repetition of the first, and left out."""
    changes = with_times([("U", 0, 1, None, 0), ("U", 0, 1, "", 0), ("U", 0, 1, None, 0)])
    assert period_rows(applied(SCHEMA.empty_table(), table(changes))) == {((0, 1, None), 10, None)}


@settings(max_examples=25)
@given(CHANGES, st.lists(st.integers(0, 120), max_size=3), st.integers(0, 120), st.integers(0, 120))
def test_changes_give_the_coalesced_history(drawn: list[Any], cuts: list[int], first: int, last: int) -> None:
    changes = with_times(drawn)
    own = [change[4] for change in changes]
    # A poll ends where a transaction does.
    ends = sorted({n for n in cuts if 0 < n < len(changes) and own[n] != own[n - 1]})
    log = SCHEMA.empty_table()
    for begin, end in zip([0, *ends], [*ends, len(changes)], strict=True):
        log = applied(log, table(changes[begin:end]))
    whole = coalesced(states(changes))
    assert period_rows(log) == whole
    assert applied(log, table(changes)).num_rows == log.num_rows  # all of it again
    again = [change for change in changes if own[min(first, len(own) - 1)] <= change[4] <= own[min(last, len(own) - 1)]]
    if again:
        assert applied(log, table(again)).num_rows == log.num_rows


@settings(max_examples=15)
@given(CHANGES)
def test_whole_states_give_the_same(drawn: list[Any]) -> None:
    at = states(with_times(drawn))
    before = [(1, [(0, 1, "Dev"), (3, None, ""), (20, 1, None)])]
    log = SCHEMA.empty_table()
    for part in (before, [each for each in at if each[1]]):
        rows = [(*row, own, n) for n, (own, row) in enumerate((own, row) for own, rows in part for row in rows)]
        if not rows:
            return
        schema = pa.schema([*VALUES, pa.field("_own", pa.int64()), pa.field("_order", pa.int64())])
        dated = pa.table(
            [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema
        )
        changes = state_changes(dated, open_periods(log), KEYS)
        new = log_rows(open_periods(log), changes, transaction_instants([changes], 0, None, 0), LOG, KEYS)
        log = pa.concat_tables([log, new])
    assert period_rows(log) == coalesced([*before, *(each for each in at if each[1])])


def test_a_change_that_comes_too_late_gets_the_earliest_open_instant() -> None:
    log = applied(SCHEMA.empty_table(), table([("I", 0, 1, "Dev", 10), ("I", 0, 2, "Dev", 50)]))
    late = applied(log, table([("U", 0, 1, "Ops", 30), ("D", 0, 2, None, 60)]))
    assert period_rows(late) == {((0, 1, "Dev"), 10, 51), ((0, 1, "Ops"), 51, None), ((0, 2, "Dev"), 50, 60)}


def test_one_change_that_is_there_twice_counts_once() -> None:
    fed = [("I", 0, 1, "Dev", 10), ("U", 0, 1, "Ops", 20), ("I", 0, 1, "Dev", 10), ("D", 0, 1, None, 30)]
    log = applied(SCHEMA.empty_table(), table([*fed, fed[1], fed[3]]))
    assert period_rows(log) == {((0, 1, "Dev"), 10, 20), ((0, 1, "Ops"), 20, 30)}
    assert applied(log, table([fed[1]])).num_rows == log.num_rows


def test_instants_rise_and_stay_within_their_bounds() -> None:
    changes = table([("I", 0, n, None, at) for n, at in enumerate((5, 20, 15, 90))])
    assert transaction_instants([changes], 10, 50, 0) == {5: 10, 20: 20, 15: 21, 90: 50}
