"""Rows that are known: equal as Spark's <=>, for keys of every type."""

from __future__ import annotations

import datetime as dt
import math
import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.errors import StorageError
from weft.storage.columns import INSTANT
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import (
    connect,
    count_differing,
    first_per_key,
    share_memory,
    without_keys_of,
    without_stored_keys,
)
from weft.store import local_store

DAY = dt.date(9999, 12, 31)
KEYS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "STRING": (pa.string(), ["a", "", "é😀", " a"], ["A", "a ", "e"]),
    "BOOLEAN": (pa.bool_(), [True], [False]),
    "TINYINT": (pa.int8(), [-128, 0], [127]),
    "BIGINT": (pa.int64(), [2**63 - 1, -(2**63)], [0]),
    "FLOAT": (pa.float32(), [math.inf, 0.5], [-math.inf]),
    "DOUBLE": (pa.float64(), [1e308, -1.5], [5e-324]),
    "DECIMAL": (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal("9999999999999999999999999999.9")], [Decimal("1.5")]),
    "DATE": (pa.date32(), [DAY, dt.date(1, 1, 1)], [dt.date(1970, 1, 1)]),
    "TIMESTAMP": (INSTANT, [-1, 253_402_300_799_999_999, -62_135_596_800_000_000], [0, 1]),
    "BINARY": (pa.binary(), [b"", b"\xff\x00"], [b"\xff"]),
}


def write(folder: Path, number: int, rows: pa.Table) -> DataFile:
    pq.write_table(rows, folder / f"{number}.parquet", store_schema=False)
    place = local_store(folder / f"{number}.parquet")
    return DataFile(place, place.size(), rows.num_rows, {}, {})


def rows(kind: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"Key": pa.array(values, kind), "_seq": pa.array(range(len(values)), pa.int64())})


@pytest.mark.parametrize("name", KEYS)
def test_a_row_is_known_by_its_key(tmp_path: Path, name: str) -> None:
    kind, known, other = KEYS[name]
    files = [write(tmp_path, n, pa.table({"Key": pa.array([value], kind)})) for n, value in enumerate([*known, None])]
    batch = rows(kind, [*other, *known, None])
    left = without_stored_keys(batch, files, ["Key"], "_seq")
    assert left.column("_seq").to_pylist() == list(range(len(other)))
    assert left.schema.equals(batch.schema)
    assert without_stored_keys(batch, files[:-1], ["Key"], "_seq").num_rows == len(other) + 1
    assert without_stored_keys(batch, [], ["Key"], "_seq").equals(batch)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_nan_and_minus_zero_is_zero(tmp_path: Path, kind: pa.DataType) -> None:
    batch = rows(kind, [0.0, -0.0, math.nan, -math.nan, None, 1.0])
    assert first_per_key(batch, ["Key"], "_seq").column("_seq").to_pylist() == [0, 2, 4, 5]
    for zero in (0.0, -0.0):
        file = write(tmp_path, 0, pa.table({"Key": pa.array([zero, math.nan, None], kind)}))
        assert without_stored_keys(batch, [file], ["Key"], "_seq").column("_seq").to_pylist() == [5]


def test_several_keys_are_one_and_the_first_comes_first(tmp_path: Path) -> None:
    pairs = [("b", None), ("a", 1), ("b", None), ("a", None), ("a", 1), (None, None)]
    batch = pa.table(
        {"k": [k for k, _ in pairs], "l": pa.array([v for _, v in pairs], pa.int64()), "_seq": [9, 8, 7, 6, 5, 4]}
    )
    first = first_per_key(batch, ["k", "l"], "_seq")
    assert first.column("_seq").to_pylist() == [4, 5, 6, 7]
    file = write(tmp_path, 0, pa.table({"l": pa.array([None, 1], pa.int64()), "k": ["b", "z"], "more": ["", ""]}))
    assert without_stored_keys(first, [file], ["k", "l"], "_seq").column("_seq").to_pylist() == [4, 5, 6]


def test_keys_of_given_rows_are_known() -> None:
    batch, known = (
        rows(pa.int64(), [1, None, 2, 1]),
        pa.table({"more": ["", ""], "Key": pa.array([None, 1], pa.int64())}),
    )
    assert without_keys_of(batch, known, ["Key"], "_seq").column("_seq").to_pylist() == [2]
    assert without_keys_of(batch, known.slice(0, 0), ["Key"], "_seq").equals(batch)


def test_rows_that_differ_from_the_row_of_their_key_are_counted_once(tmp_path: Path) -> None:
    kinds = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("y", pa.string())])

    def table(*values: tuple[int | None, float | None, str | None]) -> pa.Table:
        columns = zip(*values, strict=True) if values else ([], [], [])
        return pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds.types, strict=True)], schema=kinds)

    def placed(*values: tuple[int | None, float | None, str | None]) -> pa.Table:
        return table(*values).append_column("_seq", pa.array(range(len(values)), pa.int64()))

    nan = math.nan
    stored = table((1, nan, "a"), (2, None, "b"), (None, 0.0, None), (4, 1.0, "d"))
    pq.write_table(stored, tmp_path / "0.parquet", row_group_size=2, store_schema=False)
    place = local_store(tmp_path / "0.parquet")
    files = [
        DataFile(place, place.size(), 4, {}, {}),
        write(tmp_path, 1, table((4, 2.0, "d"), (5, None, None)).drop_columns("x")),
    ]
    known = placed((1, nan, "a"), (2, None, "b"), (None, -0.0, None), (5, None, None), (9, 9.0, "z"))
    assert count_differing(known, placed(), files, ["k"], "_seq") == 0
    other = placed((1, 0.0, "a"), (2, None, None), (None, 0.0, ""), (4, None, "d"), (5, 5.0, None), (9, 1.0, ""))
    assert count_differing(other, placed(), files, ["k"], "_seq") == 5
    assert count_differing(placed((4, 1.0, "d")), placed(), files, ["k"], "_seq") == 1  # from the row of a file
    assert count_differing(known, placed((9, 9.0, "z")), files, ["k"], "_seq") == 0
    assert count_differing(known, placed((9, 9.0, "Z")), [], ["k"], "_seq") == 1
    assert count_differing(other, placed(), files, ["k", "x", "y"], "_seq") == 0  # without a value to compare
    assert count_differing(other.slice(0, 0), placed(), files, ["k"], "_seq") == 0
    (tmp_path / "1.parquet").write_bytes(b"PAR1" + bytes(files[1].size - 8) + b"PAR1")
    with pytest.raises(StorageError, match="the stored rows cannot be read"):
        count_differing(other, placed(), files, ["k"], "_seq")


def test_a_duckdb_has_a_part_of_the_memory_and_is_shared() -> None:
    def settings(*how: Any) -> tuple[float, int, str, bool]:
        with connect(*how) as connection:
            names = ("memory_limit", "threads", "TimeZone", "autoload_known_extensions")
            text = ", ".join(f"current_setting('{name}')" for name in names)
            [(memory, threads, zone, loads)] = connection.execute(f"SELECT {text}").fetchall()
        number, unit = memory.split()
        return float(number) * {"MiB": 1, "GiB": 1024}[unit], threads, zone, loads

    macro = ("CREATE MACRO twice(a) AS 2 * a",)
    share_memory(1)
    found = {how: settings(*how) for how in ((1,), (), (1, macro), (2, macro))}
    assert [each[1:] for each in found.values()] == [(1, "UTC", False), (2, "UTC", False)] * 2
    least = found[1,][0]
    assert [round(each[0] / least) for each in found.values()] == [1, 2, 2, 5]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    assert least <= machine / 20 * 1.1  # DuckDB rounds
    assert sum(each[0] for each in found.values()) <= machine / 2 * 1.01
    try:
        share_memory(4)  # as four executors on this machine do
        shared = {how: settings(*how) for how in found}
        assert 4 * sum(each[0] for each in shared.values()) <= machine / 2 * 1.01
        assert [round(found[how][0] / shared[how][0]) for how in found] == [4] * 4
    finally:
        share_memory(1)
    assert {how: settings(*how) for how in found} == found
    with connect(2, macro) as one, connect(2, macro) as other:
        one.execute("CREATE TEMP TABLE t AS SELECT twice(4) AS a")
        assert one.execute("SELECT a FROM t").fetchall() == [(8,)]
        with pytest.raises(duckdb.CatalogException):
            other.execute("SELECT a FROM t")


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path, 0, rows(pa.int64(), [1]))
    (tmp_path / "0.parquet").write_bytes(b"PAR1" + bytes(file.size - 8) + b"PAR1")
    with pytest.raises(StorageError, match="cannot be read") as result:
        without_stored_keys(rows(pa.int64(), [1]), [file], ["Key"], "_seq")
    assert result.value.hint


def test_rows_that_exceed_the_memory_go_to_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stands").mkdir()
    (tmp_path / "spilled").mkdir()
    monkeypatch.chdir(tmp_path / "stands")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spilled"))
    with connect() as connection:
        connection.execute("SET memory_limit = '60MB'")
        connection.execute("CREATE TEMP TABLE long AS SELECT i, hash(i) AS h FROM range(10_000_000) AS t(i)")
        assert list((tmp_path / "spilled").iterdir()) and not list((tmp_path / "stands").iterdir())
    assert not list((tmp_path / "spilled").rglob("*storage*"))


SPILLS = """
import os, shutil, sys
from weft.configuration import spill_folder
from weft.storage.local_sql import connect

def spill():
    with connect() as connection:
        connection.execute("SET memory_limit = '60MB'")
        connection.execute("CREATE TEMP TABLE long AS SELECT i, hash(i) AS h FROM range(10_000_000) AS t(i)")
        assert list(spill_folder().iterdir())

spill()
shutil.rmtree(spill_folder())
spill()
"""


def test_the_spill_folder_is_made_again_after_a_cleaner_has_removed_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SPILLS], env=environment, check=True, timeout=60)
    assert not list(tmp_path.iterdir()), "the process leaves nothing"


FORKS = """
import os, sys
import pyarrow as pa
from weft.arrangement.hashing import row_checksums
from weft.storage.local_sql import connect

rows = pa.record_batch({"a": [1, 2]})
row_checksums(rows)
with connect() as connection:
    connection.execute("SELECT count(*) FROM range(3_000_000)").fetchall()
    child = os.fork()
    if not child:
        row_checksums(rows)
        with connect() as own:
            own.execute("SELECT count(*) FROM range(3_000_000)").fetchall()
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_its_own_duckdb_and_ends() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "7\n"
