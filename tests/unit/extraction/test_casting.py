"""Text to values: the quick ways give what the exact ones do, for any text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.schema import DataType
from weft.extraction.files import inference
from weft.extraction.files.casting import exactly_from_text, from_text
from weft.storage.local_sql import connect

DAYS = ["2020-01-01", "1582-10-10", "0001-01-01", "0000-01-01", "9999-12-31", "12020-01-01", "2020-1-1", "44-03-15"]
DAYS += ["2020/01/01", "2019-02-29", "-0044-03-15", "+2020-01-01", "20200101", "infinity", "epoch", "1900-01-01"]
TIMES = ["", " 00:00:00", "T10:20:30", " 10:20", " 23:59:59.999999", " 10:20:30.1234567", " 24:00:00", " 10:20:60"]
TIMES += [" 1:2:3", " 10:20:30,5", "  10:20:30", " 10", " 00:00:00.1", "T10:20:30.000000000"]
ZONES = ["", "Z", "+02", "-05:30", " UTC", " Europe/Paris", "+00:00", " (BC)", "+02:00:30", " z", "+99", " GMT", " EST"]
NUMBERS = ["0", "-0", "+1", "007", "1", "-7", "127", "128", "-32769", "2147483648", "9223372036854775808", "1e3", "1.0"]
NUMBERS += [
    "1_000",
    "0x10",
    "1.5",
    ".5",
    "5.",
    "nan",
    "-inf",
    "1e999",
    "1e-400",
    "1d",
    "1,5",
    "0.1",
    "12345678901234567890",
]
SPACES = st.sampled_from(["", "", "", " ", "\t", "\n", "\u00a0", "  ", "\0"])
TEXTS = st.one_of(
    st.builds("{}{}{}".format, st.sampled_from(DAYS), st.sampled_from(TIMES), st.sampled_from(ZONES)),
    st.sampled_from([*NUMBERS, "true", "F", "yes", "", "TRUE"]),
    st.text("0123456789-+.:eET Zna", max_size=12),
    st.datetimes().map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(str),
)
CELLS = st.lists(st.builds("{}{}{}".format, SPACES, TEXTS, SPACES) | st.none(), min_size=1, max_size=60)
KINDS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "TIMESTAMP", "DATE", "BOOLEAN", "DECIMAL(9,2)"]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return connect(threads=1)


@settings(max_examples=150, deadline=None)
@given(CELLS)
def test_the_quick_cast_equals_the_exact_cast(connection: duckdb.DuckDBPyConnection, cells: list[str | None]) -> None:
    connection.register("cells", pa.table({"cell": pa.array(cells, pa.string())}))
    for kind in map(DataType.parse, KINDS):
        ways = (from_text("cell", kind), exactly_from_text("cell", kind))
        quick, exact = (
            connection.execute(f"SELECT cell, CAST({way} AS VARCHAR), typeof({way}) FROM cells").fetchall()
            for way in ways
        )
        assert quick == exact, str(kind)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(inference._TESTS)), st.data())
def test_types_are_inferred_quickly_as_they_are_by_every_test(
    connection: duckdb.DuckDBPyConnection, mostly: str, data: st.DataObject
) -> None:
    """Columns of one kind mostly, since every value has to pass for the quick way to be taken."""
    alike = {
        "BIGINT": st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(["-0", "12345678901234567"]),
        "DATE": st.dates().map(str) | st.sampled_from(DAYS),
        "TIMESTAMP": st.datetimes().map(str) | st.builds("{}{}".format, st.sampled_from(DAYS), st.sampled_from(TIMES)),
        "DOUBLE": st.floats().map(str),
        "BOOLEAN": st.booleans().map(str),
        "DECIMAL": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    }[mostly]
    cells = data.draw(st.lists(alike | st.none(), max_size=4) | st.lists(alike | TEXTS, max_size=4))
    table = pa.table({"cell": pa.array(cells, pa.string())})
    found = []
    for quick in (inference._QUICK, {}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inference, "_QUICK", quick)
            seen = inference.Inference(["cell"])
            seen.observe(connection, table)
            [evidence] = seen.evidence().values()
            found.append((evidence.filled, evidence.possible, seen.types()))
    assert found[0] == found[1]


IN_A_ZONE = """
import sys
from weft.extraction.files.source import open_file
from weft.extraction.batches import Timing
source = open_file(sys.argv[1], None, ts_from="day")
print([row for batch in source.batches(Timing("day")) for row in batch.rows.to_pylist()])
"""


def test_the_zone_of_the_machine_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("day,a\n2020-07-08,1\n2020-07-08 10:00:00,2\n2020-07-08 10:00:00+01:00,3\n")
    read = [
        subprocess.run(
            [sys.executable, "-c", IN_A_ZONE, str(path)],
            env={**os.environ, "TZ": zone},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        for zone in ("UTC", "America/New_York")
    ]
    assert read[0] == read[1] and read[0].count("'a'") == 3
