"""Laws 1 and 2 on the queries of TPC-H and Nexmark, without Spark.

DuckDB runs both sides, as in ``test_analytic``. The reference evaluates the text at every instant at which rows arrive.
Weft's branches read the states that a tick would compute. ``scenario/test_suites.py`` runs the queries on Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from every_instant import Timeline
from oracle.derived import Pair, Standing, StateTables, rows_of, run
from oracle.engines import GRID, DuckDb, Row, grid
from oracle.laws import same
from suite_texts import NEXMARK, TPCH, earliest, plain, schemas
from weft.bench.nexmark_texts import QUERIES, Events
from weft.bench.suite_data import Nexmark, SuiteData, Tpch
from weft.bench.tpch_texts import queries
from weft.sql.dialects.duckdb_dialect import MACROS, local_text

SCALE: Final = 0.01
SCALES: Final = {"q9": 0.001}
"""DuckDB chooses a slow order for one of the joins of q9."""
EVENTS: Final = Events(400, 1_600_000_000_000_000, 100_000, 20)
FIFTHS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
THIRDS: Final = (0.0, 1 / 3, 2 / 3, 1.0)


class Local(DuckDb):
    """Reads Weft's SQL with the macros that Weft gives DuckDB; instants are microseconds from 1970."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, body in MACROS.items():
            self.connection.execute(f"CREATE MACRO {name.split('(')[0]}({name.split('(', 1)[1]} AS {body}")
        for name, rows in tables.items():
            self.connection.register("given", rows)
            self.connection.execute(f"CREATE TABLE {name} AS FROM given")

    @staticmethod
    def translated(text: str) -> str:
        return local_text(text)

    def run(self, text: str, **instants: int) -> list[Row]:
        rows = self.connection.execute(self.translated(text)).fetchall()
        return [tuple(grid(value) + GRID if isinstance(value, datetime) else value for value in row) for row in rows]


class Counted(Local):
    """Counts the rows that the operators of DuckDB pass on while they compute states."""

    rows = 0

    def table(self, name: str, text: str) -> int:
        made = f"CREATE OR REPLACE TEMP TABLE {name} AS {self.translated(text)}"
        found = self.connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {made}").fetchall()
        self.rows += sum(map(_passed_on, json.loads(found[0][1])["operator"]))
        return int(self.connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0])


def _passed_on(operator: dict[str, Any]) -> int:
    return int(operator["intermediate_rows"]) + sum(map(_passed_on, operator.get("children", ())))


class Suite:
    """The data of a suite, and both engines over all of it."""

    def __init__(self, data: SuiteData, shares: Sequence[float], kinds: dict[str, dict[str, str]]) -> None:
        self.data, self.shares, self.schemas = data, shares, schemas(kinds)
        parts: dict[str, list[pa.Table]] = {}
        with duckdb.connect() as connection:
            for low, high in pairwise(shares):
                for table, text in data.batch(low, high):
                    parts.setdefault(table, []).append(connection.sql(text).to_arrow_table())
        tables = {table: pa.concat_tables(found) for table, found in parts.items()}
        self.local, self.timeline = Counted(tables), Timeline(tables)

    def delivered(self, text: str, shares: Sequence[float]) -> dict[Row, int]:
        """The answers of the ticks, each at the end of a batch."""
        standing, found, tau = Standing.of(text, self.schemas), list[Pair](), None
        for share in shares:
            t = self.data.instant(share) + 1 - GRID
            group = standing.group([standing.member(1, tau)], t)
            found += run(self.local, rows_of(group, "FALSE", None, StateTables(self.local)))
            tau = t
        return earliest((row, at) for row, at, _ in found)

    def passed_on(self, text: str) -> int:
        """The rows that operators pass on in the first delivery over all data."""
        before = self.local.rows
        self.delivered(text, (1.0,))
        return self.local.rows - before

    def compare(self, text: str, instants: Sequence[int]) -> None:
        wanted = earliest(self.timeline.first(plain(text), [GRID, *instants]).items())
        same(text, self.delivered(text, self.shares[1:]), wanted)
        assert wanted, "no answers: the data are too few"


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Suite]:
    @cache
    def of_scale(scale: float) -> Suite:
        data = Tpch(tmp_path_factory.mktemp("tpch"), scale)
        data.generate()
        return Suite(data, FIFTHS, TPCH)

    return of_scale


@pytest.mark.parametrize("name", queries(1))
def test_tpch(name: str, tpch: Callable[[float], Suite]) -> None:
    suite = tpch(SCALES.get(name, SCALE))
    suite.compare(suite.data.queries[name], [suite.data.instant(share) for share in FIFTHS[1:]])


@pytest.mark.parametrize("name", ("q4", "q13", "q16", "q18", "q21", "q22"))
def test_the_rows_of_a_first_delivery_grow_as_the_data(name: str, tpch: Callable[[float], Suite]) -> None:
    small, large = (tpch(scale) for scale in (SCALE / 2, SCALE))
    before, after = (suite.passed_on(suite.data.queries[name]) for suite in (small, large))
    assert before < after < 2.5 * before


@pytest.fixture(scope="module")
def nexmark() -> Suite:
    return Suite(Nexmark(EVENTS), THIRDS, NEXMARK)


@pytest.mark.parametrize("name", QUERIES)
def test_nexmark(name: str, nexmark: Suite) -> None:
    nexmark.compare(QUERIES[name], EVENTS.instants())
