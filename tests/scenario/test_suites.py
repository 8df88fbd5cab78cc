"""The queries of TPC-H and Nexmark as standing queries, in homes with the suites' data in batches.

The answers and their first instants are those that DuckDB gives at every instant at which rows arrive.  ``make test``
installs some of the queries, ``make test-long`` all.  ``tests/unit/planning/test_suites.py`` plans all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from every_instant import Timeline
from oracle.laws import same
from replayed import answers, replay_home
from weft.bench.nexmark_texts import Events
from weft.bench.suite_data import Nexmark, SuiteData, Tpch, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
EVENTS = Events(600, 1_600_000_000_000_000, 100_000, 20)
Row = tuple[Any, ...]
TPCH_FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
NEXMARK_PARTS = (0.0, 1 / 3, 2 / 3, 1.0)
"""Events of one instant arrive in one part."""


def plain(text: str) -> str:
    """A query of Nexmark as DuckDB reads it: windows are buckets of time, formats those of C."""
    text = re.sub(r"DATE_FORMAT\(dateTime, 'yyyy-MM-dd'\)", "STRFTIME(dateTime, '%Y-%m-%d')", text)
    text = re.sub(r"DATE_FORMAT\(dateTime, 'HH:mm'\)", "STRFTIME(dateTime, '%H:%M')", text)
    bucket = "TIME_BUCKET(INTERVAL 10 SECONDS, dateTime)"
    text = text.replace("WINDOW(dateTime, '10 seconds').start", bucket)
    text = text.replace("WINDOW(dateTime, '10 seconds').end", f"{bucket} + INTERVAL 10 SECONDS")
    text = text.replace("WINDOW(dateTime, '10 seconds')", bucket)
    hopping = re.sub(r"WINDOW\(dateTime, '10 seconds', '2 seconds'\)(\.start)?", "slide", text)
    if hopping == text:
        return text
    slides = "TIME_BUCKET(INTERVAL 2 SECONDS, dateTime) - INTERVAL 2 SECONDS * k"
    source = f"(SELECT *, UNNEST([{slides} FOR k IN [0, 1, 2, 3, 4]]) AS slide FROM bid) AS hopping"
    return hopping.replace("FROM bid GROUP", f"FROM {source} GROUP")


def comparable(value: Any) -> Any:
    """Quotients and means have more digits in one engine than in the other."""
    if isinstance(value, float) or (isinstance(value, Decimal) and int(value.as_tuple().exponent) < -4):
        return f"{float(value):.4g}"
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def earliest(found: Iterable[tuple[Row, int]]) -> dict[Row, int]:
    first: dict[Row, int] = {}
    for row, at in found:
        key = tuple(map(comparable, row))
        first[key] = min(at, first.get(key, at))
    return first


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


@pytest.mark.parametrize("names", [("q4", "q13"), pytest.param((), marks=pytest.mark.slow)])
def test_tpch(names: Sequence[str], spark: SparkSession, tmp_path: Path) -> None:
    data = Tpch(tmp_path, SCALE)
    data.generate()
    queries = {name: text for name, text in data.queries.items() if name in names or not names}
    install_and_compare(data, queries, TPCH_FIFTHS, tmp_path, [data.instant(share) for share in TPCH_FIFTHS[1:]])


@pytest.mark.parametrize("names", [("q5", "q7", "q16"), pytest.param((), marks=pytest.mark.slow)])
def test_nexmark(names: Sequence[str], spark: SparkSession, tmp_path: Path) -> None:
    data = Nexmark(EVENTS)
    queries = {name: text for name, text in data.queries.items() if name in names or not names}
    install_and_compare(data, queries, NEXMARK_PARTS, tmp_path, EVENTS.instants())
