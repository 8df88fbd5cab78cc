"""The first ranks of a window need only the first rows before it, and the rows that change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.relation import StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.arrangement.state_store import computed
from weft.derivation.lift import bound_state
from weft.derivation.stateful import states
from weft.planning.first_rows import MORE, FirstRows, first_rows
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
    text = f"SELECT g, k, n FROM ({ranked}) AS r WHERE place <= {most}"
    rows = first_rows(state_rows(windowed(text, p1=most), None))
    return None if rows is None else replace(rows, kept=most)


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


@pytest.mark.parametrize("rank", ORDERS)
@pytest.mark.parametrize("partition", ["PARTITION BY g ", ""])
def test_stored_groups_suffice_unless_too_few_remain(rank: str, partition: str) -> None:
    """The stored groups and those that change have the first ranks at each instant, and the next groups to store."""
    chance, counts, whole = random.Random(11), Counter[str](), not partition
    keys: list[Key] = [(g, k) for g in ("a", "b", None) for k in (*"stuvwxyz", None)]
    for _ in range(30):
        found = first(rank, chance.randint(1, 3), partition)
        assert found is not None
        rows = replace(found, kept=found.most + chance.randint(0, 9))
        before = {key: chance.randint(1, 12) for key in keys if chance.random() < 0.8}
        kept, more = prefixes(before, rows, whole, chance)
        touched = chance.sample(keys, chance.randint(0, 6))
        given = {"first_": first_groups(kept, more), "changing_": keys_table(touched)}
        kind = pa.schema([("whole", pa.bool_()) if whole else ("p1", pa.string())])
        short = set(computed(rows.short_sql(*given), kind, **given).column(0).to_pylist())
        used = {key for key in before if key in kept or key in touched or place(key, whole) in short}
        counts["short"] += len(short)
        counts["left out"] += len(before.keys() - used)
        now = before
        for _ in range(4):
            now = {**before, **{key: chance.randint(0, 12) for key in touched}}
            now = {key: n for key, n in now.items() if n}
            few = {key: n for key, n in now.items() if key in used or key in touched}
            assert leading(few, rank, rows.most, whole=whole) == leading(now, rank, rows.most, whole=whole)
        enough = {key: n for key, n in kept.items() if place(key, whole) not in short}
        at_end = {key: n for key, n in now.items() if key in touched and place(key, whole) not in short}
        counts["next"] += require_next(rows, first_groups(enough, more), keys_table(touched), at_end, now, whole)
    assert min(counts["short"], counts["left out"], counts["next"]) > 5, counts


Key = tuple[str | None, str | None]


def place(key: Key, whole: bool) -> str | bool | None:
    """The partition of a group."""
    return True if whole else key[0]


def in_order(groups: Groups, rows: FirstRows, whole: bool) -> dict[Any, list[Key]]:
    """The groups of each partition in the order of the ranks, and then of their keys, in plain Python."""
    ordered = sorted(groups, key=lambda key: tuple((value is None, value or "") for value in key))
    for name, item in reversed(list(zip(rows.order, rows.spelled.split(", "), strict=True))):
        values = {key: {"n": n, "g": key[0], "k": key[1]}[name] for key, n in groups.items()}
        some = [key for key in ordered if values[key] is not None]
        some.sort(key=lambda key: values[key], reverse="DESC" in item)
        nulls = [key for key in ordered if values[key] is None]
        ordered = nulls + some if item.endswith("FIRST") else some + nulls
    found: dict[Any, list[Key]] = {}
    for key in ordered:
        found.setdefault(place(key, whole), []).append(key)
    return found


def prefixes(groups: Groups, rows: FirstRows, whole: bool, chance: random.Random) -> tuple[Groups, dict[Key, int]]:
    """The first groups of each partition, as many as may be stored, and whether it may have more."""
    kept: Groups = {}
    more: dict[Key, int] = {}
    for ordered in in_order(groups, rows, whole).values():
        some = ordered[: chance.randint(1, rows.kept) if chance.random() < 0.5 else rows.kept]
        flag = int(len(some) < len(ordered) or chance.random() < 0.3)
        kept |= {key: groups[key] for key in some}
        more |= dict.fromkeys(some, flag)
    return kept, more


def first_groups(groups: Groups, more: Mapping[Key, int]) -> pa.Table:
    flags = pa.array([more[key] for key in groups], pa.int64())
    return totals(groups).append_column(MORE, flags)


def keys_table(keys: Sequence[Key]) -> pa.Table:
    return totals(dict.fromkeys(keys, 1)).select(["c1", "c2"])


def require_next(
    rows: FirstRows, stored: pa.Table, changing: pa.Table, at_end: Groups, now: Groups, whole: bool
) -> int:
    """The first groups of each partition are stored. Return the number of partitions with further groups."""
    given = {"stored_": stored, "first_": stored, "changing_": changing, "at_end_": totals(at_end)}
    changed = computed(rows.changed_sql(*given), stored.schema, **given)
    after = computed(rows.added_up_sql("rows_"), stored.schema, rows_=pa.concat_tables([stored, changed])).to_pylist()
    assert all(row["n"] == now[row["c1"], row["c2"]] for row in after)
    more = {(row["c1"], row["c2"]): row[MORE] for row in after}
    assert len(more) == len(after)
    partitions = {place((row["c1"], row["c2"]), whole) for row in stored.to_pylist()} | {
        place(key, whole) for key in at_end
    }
    partial = 0
    for name, ordered in in_order(now, rows, whole).items():
        if name in partitions:
            flags = [more.get(key) for key in ordered]
            size = sum(flag is not None for flag in flags)
            assert 0 < size <= rows.kept and set(flags[size:]) <= {None} and len(set(flags[:size])) == 1
            assert flags[0] == 1 or size == len(ordered)
            assert size >= min(rows.most, len(ordered)) or rows.of_values
            partial += flags[0] == 1
    return partial


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
