"""Homes that continue totals over rows with subqueries: random histories against DuckDB at each instant."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from replayed import START, first_instants, load, replay_home
from weft.algebra.relation import Relation
from weft.algebra.schema import INT, STRING, TIMESTAMP
from weft.arrangement.state_store import StoredTotals
from weft.execution.states import Continued, StateReader

COLUMNS: Final = (("k", INT), ("n", INT), ("x", STRING), ("at", TIMESTAMP))
KINDS: Final = (pa.int32(), pa.int32(), pa.string(), pa.int64())
TICKS, STEP = 6, 5
TEXTS: Final = {
    "some": "SELECT x, COUNT(*) AS c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n > 0) GROUP BY x",
    "none": "SELECT COUNT(*) AS c, SUM(n) AS s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "both": "SELECT x, SUM(n) AS s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n <> t.n) "
    "AND NOT EXISTS (SELECT 1 FROM t AS o WHERE o.n = t.n AND o.x < t.x) GROUP BY x",
    "member": "SELECT n, COUNT(*) AS c FROM t WHERE k IN (SELECT u.n FROM u WHERE u.x = 'a') GROUP BY n",
    "partner": "SELECT t.x, COUNT(*) AS c, COUNT(u.n) AS d FROM t LEFT JOIN u ON u.k = t.k GROUP BY t.x",
}
Continuations = list[tuple[Relation, bool]]
Row = tuple[int | None, int | None, str | None, int]


def drawn(chance: random.Random, number: int) -> list[Row]:
    """The new rows of a table in a tick, with NULLs, equal rows and equal instants."""
    values = (
        chance.choice([None, *range(9)]),
        chance.choice([None, 0, 1, 2]),
        chance.choice(["a", "b", None]),
        START + number * STEP + chance.randrange(STEP),
    )
    return [values, values] if chance.random() < 0.1 else [values]


def expected(tables: dict[str, list[Row]]) -> dict[str, dict[tuple[Any, ...], int]]:
    """The answers of each query, with their first instants, by DuckDB at each instant."""
    found: dict[str, dict[tuple[Any, ...], int]] = {name: {} for name in TEXTS}
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            columns = [pa.array(each, kind) for each, kind in zip(zip(*rows, strict=True), KINDS, strict=True)]
            connection.register(f"every_{name}", pa.table(columns, ["k", "n", "x", "ts"]))
        for instant in range(START, START + TICKS * STEP):
            for name in tables:
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM every_{name} WHERE ts <= {instant}")
            for name, text in TEXTS.items():
                for row in connection.sql(text).fetchall():
                    found[name].setdefault(row, instant)
    return found


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> Continuations:
    """The operator of each state that a tick tried to continue from its stored totals, and whether it succeeded."""
    tried, original = Continuations(), StateReader._continue

    def continue_(self: StateReader, made: Continued, stored: StoredTotals) -> bool:
        succeeded = original(self, made, stored)
        tried.append((made.state.operator, succeeded))
        return succeeded

    monkeypatch.setattr(StateReader, "_continue", continue_)
    return tried


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))])
def test_totals_of_random_histories(seed: int, tmp_path: Path, continued: Continuations) -> None:
    chance, home, every = random.Random(seed), replay_home(tmp_path / "home"), dict[str, list[Row]](t=[], u=[])
    for number in range(TICKS):
        for name, rows in every.items():
            new = [row for _ in range(chance.choice((0, 2, 5)) if number else 12) for row in drawn(chance, number)]
            load(home, None, name, new, COLUMNS)  # type: ignore[arg-type]
            rows += new
        if not number:
            for name, text in TEXTS.items():
                home.install(name, text)
        home.tick(now=START + (number + 1) * STEP)
    wanted = expected(every)
    for name in TEXTS:
        assert first_instants(home, name) == wanted[name], name
    assert all(succeeded for _, succeeded in continued)
    assert len({state for state, _ in continued}) >= len(TEXTS)  # a tick without new rows continues nothing
