"""Cleaning deletes old files that no snapshot names, and keeps the log from a checkpoint on. Readers get an error."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from weft.errors import FilesRemoved, StorageError
from weft.schedule.clock import now_us
from weft.storage.cleaning import HOUR_US, UNCOMMITTED_US, DeletableFiles, clear, deletable_files, delete
from weft.storage.columns import INSTANT
from weft.storage.compaction import commit_rewritten, rewrite
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import check_log
from weft.storage.table import REMOVING, Fence, Table
from weft.store import Store, store_of

SCHEMA = pa.schema([("a", pa.int64()), ("ts", INSTANT)])


@pytest.fixture
def table(tmp_path: Path) -> Store:
    """Three rows, whose files became one."""
    place = store_of(tmp_path / "t")
    Table(place).ensure(SCHEMA, {"delta.appendOnly": "true"})
    add(place, 1, 2, 3)
    found = rewrite(Table(place), Table(place).snapshot().files, ["ts"])
    assert found is not None
    commit_rewritten(Table(place), found, 1, now_us())
    return place


def add(table: Store, *values: int) -> None:
    for value in values:
        rows = pa.table({"a": [value], "ts": pa.array([value], INSTANT)}, schema=SCHEMA)
        Table(table).append(rows, Fence("weft-table-1", value))


def cleaned(table: Store, files: DeletableFiles) -> None:
    delete(Table(table), files, 2, lambda: None)


def stored(table: Store) -> list[int]:
    found: list[int] = DeltaTable(table.uri).to_pyarrow_table().column("a").to_pylist()
    return sorted(found)


def files(table: Store) -> list[str]:
    return [name for name in table.names() if name.endswith(".parquet")]


def long_ago(place: Store, hours: float = 24 * 30) -> None:
    for name in place.names():
        then = time.time() - hours * 3600
        os.utime(f"{place}/{name}", (then, then))


def test_files_go_once_they_are_out_of_the_log_for_long_enough(table: Store) -> None:
    long_ago(table)  # when they were written does not count
    assert deletable_files(Table(table), HOUR_US, now_us()).data == ()
    found = deletable_files(Table(table), 0, now_us())
    assert len(found.data) == 3
    assert found.size == sum(place.size() for place in found.data)
    cleaned(table, found)
    assert len(files(table)) == 1
    assert stored(table) == [1, 2, 3]
    assert deletable_files(Table(table), 0, now_us()).data == ()
    assert Table(table).number(REMOVING) == 2


def test_a_reader_that_loses_a_file_reads_again(table: Store) -> None:
    add(table, 4)
    before = Table(table).snapshot().files
    whole = rewrite(Table(table), before, ["ts"])
    assert whole is not None
    commit_rewritten(Table(table), whole, 1, now_us())
    cleaned(table, deletable_files(Table(table), 0, now_us()))
    with pytest.raises(FilesRemoved, match="removed from its table") as raised:
        read_data_files(before, SCHEMA)
    assert (raised.value.where, raised.value.hint) == (str(before[0].location), "Run the command again.")
    assert read_data_files(Table(table).snapshot().files, SCHEMA).num_rows == 4


def test_a_file_that_the_table_still_names_is_damage(table: Store) -> None:
    (file,) = Table(table).snapshot().files
    file.location.remove()
    with pytest.raises(StorageError, match="a data file is missing") as raised:
        read_data_files([file], SCHEMA)
    assert not isinstance(raised.value, FilesRemoved)
    assert raised.value.where == str(file.location) and "backup" in (raised.value.hint or "")


def test_a_checkpoint_lists_the_files_of_the_table(table: Store) -> None:
    add(table, 4)
    before = Table(table).files()
    whole = rewrite(Table(table), before, ["ts"])
    assert whole is not None
    commit_rewritten(Table(table), whole, 1, now_us())
    (now,) = Table(table).files()
    DeltaTable(table.uri).create_checkpoint()
    for file in (*before, now):
        file.location.remove()
    for file in before:
        with pytest.raises(FilesRemoved):
            read_data_files([file], SCHEMA)
    with pytest.raises(StorageError, match="a data file is missing"):
        read_data_files([now], SCHEMA)


def test_a_reader_of_a_dropped_table_reports_no_damage(table: Store) -> None:
    files = Table(table).snapshot().files
    clear(Table(table))
    assert not Table(table).exists()
    with pytest.raises(FilesRemoved):
        read_data_files(files, SCHEMA)


def test_what_a_dead_writer_left_goes_after_its_time(table: Store) -> None:
    orphan = table / "part-00000-dead-c000.zstd.parquet"
    Path(orphan.path).write_bytes(b"PAR1 half")
    Path(table.path, ".part-00000-dead-c000.zstd.parquet.crc").write_bytes(b"crc")
    Path(table.path, "a note.txt").write_text("somebody's own")
    long_ago(table, hours=23)
    assert orphan not in deletable_files(Table(table), 0, now_us()).data  # its writer may live
    long_ago(table, hours=25)
    assert orphan not in deletable_files(Table(table), 2 * UNCOMMITTED_US, now_us()).data
    found = deletable_files(Table(table), HOUR_US, now_us())
    assert found.data == (orphan,)
    cleaned(table, found)
    assert not any("dead" in name for name in table.names())
    assert "a note.txt" in table.names()
    assert stored(table) == [1, 2, 3]


def test_half_a_commit_under_another_name_is_no_commit(table: Store) -> None:
    for name in (".00000000000000000005.json.1234.tmp", "_commit_0f3c.json.tmp"):
        Path(table.path, "_delta_log", name).write_text('{"add":{"path":"x.pa')
    Table(table).forget()
    assert stored(table) == [1, 2, 3]
    cleaned(table, deletable_files(Table(table), 0, now_us()))
    add(table, 4)
    Table(table).forget()
    assert len(Table(table).snapshot().files) == 2
    assert stored(table) == [1, 2, 3, 4]


def test_the_log_goes_up_to_a_checkpoint_that_is_old_enough(table: Store) -> None:
    log = table / "_delta_log"
    DeltaTable(table.uri).create_checkpoint()
    add(table, 5)
    assert deletable_files(Table(table), HOUR_US, now_us()).log == ()
    long_ago(log, hours=2)
    add(table, 6)
    DeltaTable(table.uri).create_checkpoint()  # of which somebody may not know yet
    found = deletable_files(Table(table), HOUR_US, now_us())
    assert [place.name for place in found.log] == [f"{number:020}.json" for number in range(4)]
    cleaned(table, found)
    Table(table).forget()
    assert check_log(table) == 7
    assert stored(table) == [1, 2, 3, 5, 6]
    assert sorted(file.rows or 0 for file in Table(table).snapshot().files) == [1, 1, 3]
    add(table, 7)


def test_there_is_nothing_where_there_is_no_table(tmp_path: Path) -> None:
    assert deletable_files(Table(store_of(tmp_path / "none")), 0, now_us()).data == ()
