"""Stored rows are continued as all tables derive them, also if a tick reads only the rows that it looks up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.access import Access, DeltaScan, FullScan, Key, Lookup
from weft.algebra.relation import StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import INT, TIMESTAMP, Column, TableSchema
from weft.derivation.access_paths import in_reading_order
from weft.derivation.lift import bound_state
from weft.derivation.recursion import DEPTH
from weft.execution.driver_reader import LocalRows
from weft.execution.engines.duckdb import BeyondBounds, duckdb_engine
from weft.execution.recursion import fixpoint, give, results, with_periods
from weft.execution.stored_recursion import _changes
from weft.execution.temp_views import Rows
from weft.execution.windows import slices_between
from weft.period_sql.notation import VALID_TIME, conjunction, same
from weft.planning.plan import plan
from weft.planning.recursion_plan import continued_recursion, recursion_plan
from weft.planning.state_causes import all_states
from weft.planning.state_plan import suffix

LAST = 12
NODES = 5
STEPS = {
    "one table": "JOIN links AS l ON l.src = r.b",
    "by one column": "JOIN links AS l ON l.src = r.b JOIN known AS k ON k.node = l.dst",
    "through the recursion": "JOIN links AS l ON l.src = r.b JOIN known AS k ON k.node = r.a",
    "NOT EXISTS": "JOIN links AS l ON l.src = r.b WHERE NOT EXISTS (SELECT 1 FROM known AS k WHERE k.node = l.dst)",
    "EXISTS": "JOIN links AS l ON l.src = r.b WHERE EXISTS (SELECT 1 FROM known AS k WHERE k.node = l.dst)",
}


def table(number: int, name: str, columns: str) -> TableSchema:
    kinds = dict.fromkeys(columns.split(), INT) | {"valid_from": TIMESTAMP, "valid_to": TIMESTAMP}
    listed = tuple(Column(place, label, kind) for place, (label, kind) in enumerate(kinds.items(), 1))
    return TableSchema(number, name, listed, "valid_from", "valid_to")


TABLES = {each.name: each for each in (table(1, "links", "src dst"), table(2, "known", "node"))}


def at(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, timezone.utc)


def drawn(chance: random.Random, width: int, count: int) -> pa.Table:
    rows = []
    for _ in range(count):
        start = chance.randrange(LAST)
        end = at(chance.randint(start + 1, LAST)) if chance.random() < 0.6 else None
        rows.append((*(chance.choice([*range(NODES), None]) for _ in range(width)), at(start), end))
    names = ["src", "dst"] if width == 2 else ["node"]
    kinds = [*[pa.int32()] * width, *[pa.timestamp("us", "UTC")] * 2]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, [*names, "valid_from", "valid_to"])


@dataclass
class Views:
    """The relations of access paths: of a look-up, only the rows with a wanted key."""

    suffix: str
    rows: dict[str, Rows] = field(default_factory=dict)
    columns: Mapping[str, set[str]] = field(default_factory=dict)

    @property
    def local(self) -> dict[str, Any]:
        return dict(self.rows)


def read(tables: Mapping[str, pa.Table], state: StateSchema, paths: Sequence[Access], given: Mapping[str, Rows]) -> Any:
    tau, t = (each.value for each in state.window[:2] if isinstance(each, Literal))
    every: dict[str, Any] = {name: LocalRows(None, rows) for name, rows in tables.items()} | dict(given)
    assert isinstance(tau, int) and isinstance(t, int)
    views, slices = Views(suffix(state)), slices_between(paths, tau, t)
    for several in in_reading_order(paths):
        keys: dict[str, dict[Key, list[pa.ChunkedArray]]] = {}
        for path in several:
            rows = every[path.table]
            if isinstance(path, Lookup):
                wanted = keys.setdefault(path.view, {}).setdefault(path.key, [])
                wanted.append(views.local[path.via.view].column(path.via_key.column))
                rows = rows.among(keys[path.view])
            elif isinstance(path, DeltaScan):
                rows = rows.inside(slices[path.table])
            views.rows[path.view] = rows
    return views


def counts(rows: pa.Table, tau: int, t: int) -> list[Counter[tuple[Any, ...]]]:
    """The rows at each instant of the window, with their multiplicities."""
    found = []
    for instant in range(tau, t):
        alive = Counter[tuple[Any, ...]]()
        for *values, start, end in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            alive[tuple(values)] += start <= at(instant) and (end is None or at(instant) < end)
        found.append(+alive)
    return found


def state_of(text: str, tau: int, t: int) -> StateSchema:
    made = plan(text, TABLES)
    (found,) = all_states(made.evaluated)
    window = {name: Literal(n, TIMESTAMP) for name, n in (("tau", tau), ("t", t), ("t0", 0))}
    return bound_state(found, {**window, **{f"p{n}": value for n, value in enumerate(made.parameters, 1)}})


def text_of(step: str, duplicates: bool) -> str:
    if not duplicates:
        followed = f"SELECT r.a, l.dst FROM r {step}"
        return f"WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM links UNION {followed}) SELECT a, b FROM r"
    followed = f"SELECT r.a, l.dst, r.d + 1 FROM r {step}{' AND' if ' WHERE ' in step else ' WHERE'} r.d < 2"
    return f"WITH RECURSIVE r(a, b, d) AS (SELECT src, dst, 0 FROM links UNION ALL {followed}) SELECT a, b, d FROM r"


def from_tables(state: StateSchema, tables: Mapping[str, pa.Table]) -> tuple[pa.Table, pa.Table]:
    whole = recursion_plan(state)
    with duckdb_engine(1) as engine:
        give(engine, read(tables, state, [FullScan(name) for name in tables], {}))
        return results(engine, whole, fixpoint(engine, whole, 100))


def from_stored(state: StateSchema, tables: Mapping[str, pa.Table], stored: pa.Table) -> tuple[pa.Table, pa.Table, int]:
    """The rows in the window, those at its end, and the number of touched rows."""
    continued = continued_recursion(state)
    assert continued is not None
    news, last, touched = _changes(continued, stored, lambda paths, given: read(tables, state, paths, given), 100)
    with duckdb_engine(1) as engine:
        engine.given("stored", stored)
        engine.given("touched", touched)
        met = conjunction(same(VALID_TIME.columns(continued.width), "s", "o"))
        kept = engine.rows(f"SELECT s.* FROM stored AS s ANTI JOIN touched AS o ON {met}")
        engine.given("kept", kept)
        held = engine.rows(with_periods(continued, "kept")).drop_columns([DEPTH])
    rows = pa.concat_tables([news, held.rename_columns(news.column_names).cast(news.schema)])
    return rows, pa.concat_tables([kept.cast(last.schema), last]), touched.num_rows


@pytest.mark.parametrize("duplicates", [False, True], ids=["UNION", "UNION ALL"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.slow)])
def test_what_continues_stored_rows(step: str, duplicates: bool, seeds: range) -> None:
    text, touched = text_of(step, duplicates), 0
    for seed in seeds:
        chance = random.Random(seed)
        tables = {"links": drawn(chance, 2, 9), "known": drawn(chance, 1, 6)}
        first, second = sorted(chance.sample(range(1, LAST), 2))
        _, stored = from_tables(state_of(text, 0, first), tables)
        for tau, t in ((first, second), (second, LAST + 1)):
            state = state_of(text, tau, t)
            rows, stored, more = from_stored(state, tables, stored)
            assert counts(rows, tau, t) == counts(from_tables(state, tables)[0], tau, t), (seed, tau, t)
            touched += more
    assert touched


@pytest.mark.parametrize(("ended", "few"), [(18, True), (23, False), (90, False)])
def test_all_rows_are_derived_again_if_many_are_touched(ended: int, few: bool) -> None:
    """A chain of ten links gives 55 rows. All links of some chains end at once."""
    ends = [at(5) if number < ended else None for number in range(90) for _ in range(10)]
    rows = [(n + n // 10, n + n // 10 + 1, at(0), end) for n, end in enumerate(ends)]
    names = ["src", "dst", "valid_from", "valid_to"]
    schema = pa.schema(zip(names, [pa.int32(), pa.int32(), *[pa.timestamp("us", "UTC")] * 2], strict=True))
    tables = {"links": pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)}
    _, stored = from_tables(state_of(text_of(STEPS["one table"], False), 0, 2), tables)
    state = state_of(text_of(STEPS["one table"], False), 2, LAST)
    assert stored.num_rows == 90 * 55
    if few:
        assert from_stored(state, tables, stored)[2] == ended * 55
    else:
        with pytest.raises(BeyondBounds, match="are touched"):
            from_stored(state, tables, stored)
