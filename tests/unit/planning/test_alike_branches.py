"""The SELECTs of alike branches return the rows of the branches, and there are few of them."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.scalar import Literal, Scalar
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.planning import alike_branches
from weft.planning.alike_branches import alike_selects
from weft.planning.plan import Branch, for_one, standing_plan
from weft.storage.temporal_sql import TemporalSql, temporal_sql

HOUR = 3_600_000_000
TABLE = TableSchema(
    1,
    "msgs",
    tuple(
        Column(number, name, kind)
        for number, (name, kind) in enumerate(
            [("msgid", STRING), ("inreplyto", STRING), ("size", BIGINT), ("ts", TIMESTAMP)], 1
        )
    ),
    "ts",
)
ROWS: defaultdict[str, int] = defaultdict(lambda: 16)
"""The number of rows of each view."""
OWN = ("{}.size < 3", "{}.size IS NULL", "{}.msgid <> 'm1'", "{}.inreplyto LIKE 'm%'")
LATER = "{}.ts < NOW() - INTERVAL 2 HOURS"
ANSWERED = "{} EXISTS (SELECT * FROM msgs a WHERE a.inreplyto = {}.msgid AND a.size > 1)"
COLUMNS = ("{0}.msgid, {0}.size", "{0}.inreplyto, {0}.size + 1", "{0}.msgid, 7", "':t', {0}.size")


def drawn(chance: random.Random) -> str:
    """Return a query with one or two relations, a STRING and a BIGINT. The names of range variables vary."""
    one, other = chance.sample(["m", "r", "size", "x"], 2)
    conditions = [each.format(one) for each in chance.sample(OWN[:4], chance.randrange(3))]
    tables = [f"msgs {one}"]
    if chance.random() < 0.6:
        tables.insert(chance.randrange(2), f"msgs {other}")
        conditions.append(f"{one}.inreplyto = {other}.msgid")
        conditions += [each.format(other) for each in chance.sample(OWN[:4], chance.randrange(2))]
        if chance.random() < 0.3:
            conditions.append(f"{one}.size < {other}.size")
    if chance.random() < 0.3:
        conditions.append(LATER.format(one))
    if chance.random() < 0.3:
        conditions.append(ANSWERED.format(chance.choice(["", "NOT"]), one))
    columns = chance.choice(COLUMNS).format(chance.choice([one, other]) if len(tables) > 1 else one)
    chance.shuffle(conditions)
    return f"SELECT {columns} FROM {', '.join(tables)} WHERE {' AND '.join(conditions or ['TRUE'])}"


def instant(hours: int) -> Scalar:
    return Literal(hours * HOUR, TIMESTAMP, fixed=True)


def branches_of(texts: Iterable[str], since: Sequence[int] = (4,)) -> list[tuple[Branch, int]]:
    """Return the branches of the queries 1, 2 … in windows of ten hours, which begin at the hours ``since`` in turn."""
    found = []
    for number, text in enumerate(texts, 1):
        plan, begin = standing_plan(text, {"msgs": TABLE}), since[number % len(since)]
        window = {"tau": instant(begin), "t": instant(begin + 10), "t0": instant(0)}
        found += [(for_one(each, plan.values, window, whole=False), number) for each in plan.branches]
    return found


def filled(sql: TemporalSql, branches: Iterable[tuple[Branch, int]], chance: random.Random) -> None:
    """Fill each view with rows, some of them twice, and some with NULLs."""
    for view in sorted({path.view for branch, _ in branches for path in branch.paths.values()}):
        rows = []
        for _ in range(14):
            names = [chance.choice([None, "m1", "m2", "m3", "x"]) for _ in range(2)]
            at = dt.datetime(1970, 1, 1) + dt.timedelta(hours=chance.randrange(20))
            rows.append((*names, chance.choice([None, 0, 1, 2, 3, 4]), at))
        rows += rows[:2]
        given = dict(zip(("msgid", "inreplyto", "size", "ts"), zip(*rows, strict=True), strict=True))
        sql.given(view, pa.table({name: pa.array(values) for name, values in given.items()}))


def rows_of(sql: TemporalSql, selects: Iterable[str]) -> Counter[tuple[Any, ...]]:
    found = Counter[tuple[Any, ...]]()
    for select in selects:
        found.update(zip(*(column.to_pylist() for column in sql.rows(select).columns), strict=True))
    return found


def alone(branch: Branch, query_id: int) -> str:
    return f"SELECT CAST({query_id} AS BIGINT), b.* FROM ({branch.sql}) AS b"


@pytest.mark.parametrize("fewest", [1, 4])
def test_the_rows_are_those_of_the_branches(fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike_branches, "FEWEST", fewest)
    monkeypatch.setattr(alike_branches, "_MOST", 7)
    seen = Counter[str]()
    for number in range(5):
        chance = random.Random(number)
        branches = branches_of((drawn(chance) for _ in range(40)), since=(4, 4, 6))
        with temporal_sql(1) as sql:
            filled(sql, branches, chance)
            selects, others = alike_selects(branches, ROWS)
            wanted = rows_of(sql, (alone(*each) for each in branches))
            found = rows_of(sql, [*(text for text, _ in selects), *(alone(*each) for each in others)])
        assert found == wanted != Counter(), number
        seen.update({"selects": len(selects), "others": len(others)})
    assert seen["selects"] > 0
    assert (seen["others"] > 0) == (fewest > 1)


def test_different_shapes_over_the_same_join_need_few_selects() -> None:
    shapes = [
        f"SELECT m.msgid, m.size FROM msgs m, msgs r WHERE m.inreplyto = r.msgid AND {' AND '.join(some)}"
        for count in range(1, 5)
        for some in combinations([each.format("m") for each in OWN], count)
    ]
    branches = branches_of(shapes)
    selects, others = alike_selects(branches, ROWS)
    assert (len(branches), len(selects), others) == (30, 2, [])


@pytest.mark.parametrize("text", ["size < {} AND {}", "{1} AND size < {0}", "size < {} AND {} AND msgid <> 'm1'"])
def test_an_expression_that_can_overflow_is_computed_only_for_rows_that_meet_the_other_conditions(text: str) -> None:
    """An overflow would let Spark compute the tick."""
    product = "size * 9223372036854775807 > size"
    branches = branches_of(f"SELECT msgid, size FROM msgs WHERE {text.format(most, product)}" for most in (1, 2, 2, 1))
    with temporal_sql(1) as sql:
        filled(sql, branches, random.Random(0))
        ((select, _),), _ = alike_selects(branches, ROWS)
        assert rows_of(sql, [select]) == rows_of(sql, (alone(*each) for each in branches)) != Counter()


def test_many_rows_of_a_view_divide_the_branches() -> None:
    """DuckDB may hold each pair of a row and a branch in memory."""
    branches = branches_of(
        f"SELECT m.msgid, r.size FROM msgs m, msgs r WHERE m.inreplyto = r.msgid AND m.size <> {size}"
        + f" AND m.msgid <> '{size}'" * (size % 2)
        for size in range(40)
    )
    few, _ = alike_selects(branches, ROWS)
    many, _ = alike_selects(branches, defaultdict(lambda: 400_000))
    huge, _ = alike_selects(branches, defaultdict(lambda: 10_000_000))
    assert (len(few), len(many), len(huge)) == (2, 8, len(branches))
    assert {pairs for _, pairs in many} == {10 * 400_000}
