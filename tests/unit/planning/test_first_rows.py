"""The first ranks of a window need only the first rows before it, and the rows that change."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pyarrow as pa
import pytest

from weft.algebra.relation import StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.arrangement.state_store import computed
from weft.derivation.lift import bound_state
from weft.derivation.stateful import states
from weft.planning.first_rows import FirstRows, first_rows
from weft.planning.plan import standing_plan
from weft.planning.state_plan import state_rows

STRING, INT = DataType("STRING"), DataType("INT")
TABLE = TableSchema(1, "t", (Column(1, "g", STRING), Column(2, "k", STRING), Column(3, "ts", TIMESTAMP)), "ts")
COUNTS = "(SELECT g, k, COUNT(*) AS n FROM t GROUP BY g, k)"
ORDERS = {
    "ROW_NUMBER": "ORDER BY n DESC, k",
    "RANK": "ORDER BY n DESC",
    "DENSE_RANK": "ORDER BY n",
}
Groups = dict[tuple[str | None, str | None], int]


def windowed(text: str, **constants: int) -> StateSchema:
    """The state of the window function in the window [10, 20), with the constants of the query."""
    (found,) = {state for event in standing_plan(text, {"t": TABLE}).branches for state in states(event.relation)}
    window = {"tau": Literal(10, TIMESTAMP), "t": Literal(20, TIMESTAMP), "t0": Literal(0, TIMESTAMP)}
    return bound_state(found, {**window, **{name: Literal(n, INT) for name, n in constants.items()}})


def first(rank: str, most: int, partition: str = "PARTITION BY g ") -> FirstRows | None:
    ranked = f"SELECT *, {rank}() OVER ({partition}{ORDERS[rank]}) AS place FROM {COUNTS} AS c"
    return first_rows(state_rows(windowed(f"SELECT g, k, n FROM ({ranked}) AS r WHERE place <= {most}", p1=most), None))


def totals(groups: Mapping[tuple[str | None, str | None], int], parts: random.Random | None = None) -> pa.Table:
    """The stored totals of the groups, some of them in two rows."""
    rows = []
    for (g, k), n in groups.items():
        some = parts.randint(-2, 2) if parts is not None else 0
        rows += [(g, k, n - some), (g, k, some)] if some else [(g, k, n)]
    columns = [[row[place] for row in rows] for place in range(3)]
    kinds = (pa.string(), pa.string(), pa.int64())
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], ["c1", "c2", "n"])


def stored(groups: Groups, chance: random.Random) -> tuple[pa.Table, pa.Table]:
    """The totals of the groups in two tables, in the first of which each group has at most one row."""
    first = {key: n - chance.choice([0, 0, 1, 3]) for key, n in groups.items() if chance.random() < 0.8}
    first = {key: n for key, n in first.items() if n}
    rest = {key: n - first.get(key, 0) for key, n in groups.items() if n != first.get(key, 0)}
    return totals(first), totals(rest, chance)


def leading(groups: Groups, rank: str, most: int, *, whole: bool) -> set[tuple[str | None, str | None, int]]:
    """The groups with a rank up to ``most`` at one instant, in plain Python."""
    found = set()
    for (g, k), n in groups.items():
        rivals = [(own, m) for (other, own), m in groups.items() if whole or other == g]
        match rank:
            case "ROW_NUMBER":
                mine = (-n, k is not None, k or "", g is not None, g or "")
                keys = [
                    (-m, j is not None, j or "", f is not None, f or "")
                    for (f, j), m in groups.items()
                    if whole or f == g
                ]
                before = sum(key < mine for key in keys)
            case "RANK":
                before = sum(m > n for _, m in rivals)
            case _:
                before = len({m for _, m in rivals if m < n})
        if before < most:
            found.add((g, k, n))
    return found


@pytest.mark.parametrize("rank", ORDERS)
@pytest.mark.parametrize("partition", ["PARTITION BY g ", ""])
def test_other_rows_never_matter(rank: str, partition: str) -> None:
    chance, left_out = random.Random(7), 0
    keys: list[tuple[str | None, str | None]] = [(g, k) for g in ("a", "b", None) for k in (*"stuvwxyz", None)]
    for _ in range(60):
        most = chance.randint(1, 3)
        rows = first(rank, most, partition)
        assert rows is not None
        before = {key: chance.randint(1, 6) for key in keys if chance.random() < 0.8}
        touched = chance.sample(keys, chance.randint(0, 4))
        near = {key: before[key] for key in touched if key in before}
        schema = pa.schema([("c1", pa.string()), ("c2", pa.string())])
        largest, later = stored(before, chance)
        given = {"largest_": largest, "later_": later, "near_": totals(near, chance)}
        found = computed(rows.sql(*given), schema, **given)
        kept = {(row["c1"], row["c2"]) for row in found.to_pylist()} | set(touched)
        left_out += len(before.keys() - kept)
        for _ in range(4):
            now = {**before, **{key: chance.randint(0, 6) for key in touched}}
            now = {key: n for key, n in now.items() if n}
            few = {key: n for key, n in now.items() if key in kept}
            whole = not partition
            assert leading(few, rank, most, whole=whole) == leading(now, rank, most, whole=whole)
    assert left_out > 200


def test_only_the_partitions_that_are_needed() -> None:
    rows = first("RANK", 1)
    assert rows is not None
    before = totals({("a", "x"): 1, ("b", "x"): 2, (None, "x"): 3})
    wanted = pa.table({"p1": pa.array(["b", None], pa.string())})
    schema = pa.schema([("c1", pa.string()), ("c2", pa.string())])
    given = {"largest_": before, "later_": before.slice(0, 0), "near_": before.slice(0, 0), "partitions_": wanted}
    found = computed(rows.sql("largest_", "later_", "near_", ["p1"]), schema, **given)
    assert {row["c1"] for row in found.to_pylist()} == {"b", None}


@pytest.mark.parametrize("rank", ORDERS)
def test_more_ranks_than_duckdb_keeps_of_a_partition(rank: str) -> None:
    rows = first(rank, 1_000_000)
    assert rows is not None
    before = totals({("a", "x"): 1, ("a", "y"): 2})
    given = {"largest_": before, "later_": before.slice(0, 0), "near_": before.slice(0, 0)}
    schema = pa.schema([("c1", pa.string()), ("c2", pa.string())])
    assert computed(rows.sql(*given), schema, **given).num_rows == 2


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT g FROM (SELECT *, RANK() OVER (ORDER BY n) AS r FROM {COUNTS} c WHERE n > 2) d WHERE r <= 3",
        f"SELECT g FROM (SELECT *, RANK() OVER (ORDER BY n + 1) AS r FROM {COUNTS} c) d WHERE r <= 3",
        "SELECT g FROM (SELECT *, RANK() OVER (ORDER BY k) AS r FROM t) d WHERE r <= 3",
    ],
)
def test_other_windows_need_all_rows(text: str) -> None:
    assert first_rows(state_rows(windowed(text, p1=3, p2=3), None)) is None
