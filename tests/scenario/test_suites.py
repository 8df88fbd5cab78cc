"""The queries of TPC-H and Nexmark as standing queries, in homes with the suites' data in batches.

The answers and their first instants are those that DuckDB gives at every instant at which rows arrive.  ``make test``
installs some of the queries, ``make test-long`` all.  ``tests/oracle/test_suites.py`` compares all of them without
Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from every_instant import Timeline
from oracle.laws import same
from replayed import answers, replay_home
from suite_texts import earliest, plain
from weft.bench.nexmark_texts import Events
from weft.bench.suite_data import Nexmark, SuiteData, Tpch, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
EVENTS = Events(600, 1_600_000_000_000_000, 100_000, 20)
TPCH_FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
NEXMARK_PARTS = (0.0, 1 / 3, 2 / 3, 1.0)
"""Events of one instant arrive in one part."""


def install_and_compare(
    data: SuiteData, queries: Mapping[str, str], shares: Sequence[float], folder: Path, instants: Iterable[int]
) -> None:
    """Installs the queries in a home, loads and ticks part after part, and compares with DuckDB."""
    weft, arrived = replay_home(folder / "home"), dict[str, list[pa.Table]]()
    for number, (low, high) in enumerate(pairwise(shares)):
        for table, file in write(data, low, high, folder / f"part{number}"):
            weft.ingest_file(file, table, ts_from="ts")
            arrived.setdefault(table, []).append(pq.read_table(file))
        if not number:
            for name, text in queries.items():
                weft.install(name, text)
        weft.tick(now=data.instant(high) + 1)
        assert {query.name: query.reason for query in weft.queries() if query.reason} == {}
    stored = Timeline({table: pa.concat_tables(parts) for table, parts in arrived.items()})
    for name, text in queries.items():
        wanted = earliest(stored.first(plain(text), instants).items())
        found = earliest((row, at) for _, at, row in answers(weft, name))
        same(name, found, wanted)
        assert wanted, f"{name} has no answers: the data are too few"


@pytest.mark.parametrize("names", [("q13",), pytest.param((), marks=pytest.mark.slow)])
def test_tpch(names: Sequence[str], spark: SparkSession, tmp_path: Path) -> None:
    data = Tpch(tmp_path, SCALE)
    data.generate()
    queries = {name: text for name, text in data.queries.items() if name in names or not names}
    install_and_compare(data, queries, TPCH_FIFTHS, tmp_path, [data.instant(share) for share in TPCH_FIFTHS[1:]])


@pytest.mark.parametrize("names", [("q5", "q16"), pytest.param((), marks=pytest.mark.slow)])
def test_nexmark(names: Sequence[str], spark: SparkSession, tmp_path: Path) -> None:
    data = Nexmark(EVENTS)
    queries = {name: text for name, text in data.queries.items() if name in names or not names}
    install_and_compare(data, queries, NEXMARK_PARTS, tmp_path, EVENTS.instants())
