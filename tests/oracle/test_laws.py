"""Laws 1 and 2, and what rests on them, on random queries × histories × partitions (design, section 3).

``make test`` runs fixed seeds; ``make test-long`` takes more, with a seed that it prints (WEFT_SEED repeats it).
DuckDB runs both sides.  It is wrong itself now and then on nested correlated subqueries, so a case that fails there is
tried on SQLite, which runs subqueries as they stand: only a case that fails on both is Weft's.
"""

from __future__ import annotations

import os
import random
import warnings

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from oracle.engines import DuckDb, Engine, Sqlite
from oracle.grammar import Case, cases
from oracle.laws import LAWS, Law, Trial, any_partition
from weft.errors import SqlError

ON_DUCKDB = 400
ON_SQLITE = 250
LONG = 10_000
SHARDS = (1, 2)
ON_DUCKDB_SHARDS = (1, 2, 3, 4, 5)
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))


def check(laws: tuple[Law, ...], engine: Engine, cases_wanted: int, start: int) -> None:
    """Tries the laws on random cases; the seed is in the failure's text."""
    arbiter = Sqlite()
    ran: list[bool] = []
    disputed: list[str] = []

    @seed(start)
    @settings(
        max_examples=cases_wanted,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(cases())
    def each(case: Case) -> None:
        trial = Trial(case, engine)
        if _too_large(trial):
            return
        for law in laws:
            trial.random.seed(case.salt)
            try:
                law(trial)
            except (AssertionError, duckdb.Error):
                if engine.name == arbiter.name:
                    raise
                law(Trial(case, arbiter))
                disputed.append(case.text)
        ran.append(bool(trial.reference.first()))

    print(f"{cases_wanted} cases on {engine.name}, seed {start}")
    each()
    if disputed:
        warnings.warn(f"{len(disputed)} cases of {len(ran)} hold on SQLite only: {disputed[0]}", stacklevel=1)
    assert len(disputed) * 200 <= len(ran), f"too many cases hold on SQLite only: {disputed[:3]}"
    assert len(ran) >= cases_wanted * 0.98
    assert sum(ran) >= len(ran) * 0.35, "the cases have become dull: too few of them have any answer"


def _too_large(trial: Trial) -> bool:
    """Whether the case is beyond the limit on a query's size (``sql/limits.py``); few are, and they are not counted."""
    try:
        return trial.plan is None
    except SqlError as refused:
        if "Take it apart" in str(refused):
            return True
        raise


@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("shard", ON_DUCKDB_SHARDS)
def test_laws_on_duckdb(shard: int) -> None:
    check((any_partition,), DuckDb(), ON_DUCKDB, shard)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("shard", SHARDS)
def test_every_law_on_sqlite(shard: int) -> None:
    check(LAWS, Sqlite(), ON_SQLITE, 100 + shard)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("shard", SHARDS)
def test_many_more_on_duckdb(shard: int) -> None:
    check(LAWS, DuckDb(), LONG // 4, SEED + shard)


@pytest.mark.slow
@pytest.mark.parametrize("shard", SHARDS)
def test_many_more_on_sqlite(shard: int) -> None:
    check(LAWS, Sqlite(), LONG, SEED + 100 + shard)
