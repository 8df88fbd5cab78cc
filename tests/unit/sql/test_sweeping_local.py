"""The sweeps that are DuckDB's own give what those that Spark reads, too, give."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from weft.sql.sweeping import coalesced, without
from weft.sql.sweeping_local import coalesced_locally, without_locally
from weft.storage.temporal_sql import TemporalSql, temporal_sql

HEADS = "c1, c2, valid_from, valid_to"


def given(sql: TemporalSql, name: str, chance: random.Random) -> None:
    """A table of random periods, some open, some of equal rows that overlap or meet; NULL and NaN among the values."""
    rows = []
    for _ in range(chance.randrange(12)):
        start = chance.randrange(9)
        end = chance.choice([None, start + chance.randint(1, 4)])
        rows.append((chance.choice(["a", "b", None]), chance.choice([0.0, -0.0, float("nan"), None]), start, end))
    types = (pa.string(), pa.float64(), pa.timestamp("us"), pa.timestamp("us"))
    columns = [pa.array([row[n] for row in rows], type) for n, type in enumerate(types)]
    sql.given(name, pa.table(columns, HEADS.split(", ")))


def told(sql: TemporalSql, text: str) -> list[str]:
    """The rows of a query; -0.0 and 0.0 are one value."""
    found = sql.rows(f"SELECT c1, c2 + 0.0 AS c2, valid_from, valid_to FROM ({text}) AS told")
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("seed", range(60))
def test_periods_are_made_maximal_alike(seed: int) -> None:
    with temporal_sql() as sql:
        given(sql, "one", random.Random(seed))
        query = f"SELECT {HEADS} FROM one"
        assert told(sql, coalesced_locally(query, 2)) == told(sql, coalesced(query, 2))


@pytest.mark.parametrize("seed", range(60))
def test_periods_are_taken_from_one_another_alike(seed: int) -> None:
    chance = random.Random(seed)
    with temporal_sql() as sql:
        for name in ("one", "other"):
            given(sql, f"{name}_raw", chance)
            sql.table(name, f"SELECT {HEADS} FROM ({coalesced(f'SELECT {HEADS} FROM {name}_raw', 2)}) AS told")
        local = without_locally("one", "other", 2)
        assert told(sql, local) == told(sql, without("one", "other", 2))
