from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_tables import commit_file, newest_data_file, write_table
from weft.errors import FilesRemoved, StorageError
from weft.storage.data_files import check_data_file
from weft.storage.delta_log import check_log
from weft.storage.table import Table
from weft.store import store_of


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    for number in range(1, 4):
        write_table(path, [number * 1_000_000, number * 1_000_000 + 1], number=number)
    return path


def test_a_snapshot_has_version_files_rows_and_bounds(table: Path) -> None:
    found = Table(store_of(table)).snapshot()
    assert (found.version, found.rows, len(found.files)) == (2, 6, 3)
    newest = max(found.files, key=lambda file: file.greatest["ts"])
    assert newest.location == store_of(newest_data_file(table))
    assert newest.size == newest.location.size()
    assert newest.least["ts"] <= 3_000_000
    assert newest.greatest["ts"] >= 3_000_001  # Delta itself keeps milliseconds only
    assert (newest.least["a"], newest.greatest["a"]) == (0, 1)


def test_transactions_are_found_by_their_id(table: Path) -> None:
    assert Table(store_of(table)).number("weft-table-1") == 3
    assert Table(store_of(table)).number("weft-table-2") is None
    assert Table(store_of(table).parent / "none").number("weft-table-1") is None


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    assert not Table(store_of(tmp_path)).exists()
    assert Table(store_of(tmp_path)).files() == ()
    with pytest.raises(StorageError, match="no Delta table"):
        Table(store_of(tmp_path)).snapshot()
    # A writer that died before its first commit leaves data and an empty log.
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "part-0.parquet").touch()
    assert Table(store_of(tmp_path)).number("weft-table-1") is None


def test_the_files_of_one_commit(table: Path) -> None:
    (added,) = Table(store_of(table)).entry(2).added
    assert added.location == store_of(newest_data_file(table))
    assert added.rows == 2
    with pytest.raises(StorageError, match="missing") as raised:
        Table(store_of(table)).entry(9)
    assert raised.value.where == str(commit_file(table, 9)) and raised.value.hint


def test_a_checkpoint_stands_for_the_commits_before_it(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    write_table(table, [9_000_000], number=4)
    commit_file(table, 0).unlink()
    commit_file(table, 1).unlink()
    assert Table(store_of(table)).snapshot().rows == 7
    assert Table(store_of(table)).snapshot().version == check_log(store_of(table)) == 3


def cut(file: Path, size: int) -> None:
    os.truncate(file, size)


def checkpointed(table: Path) -> Path:
    DeltaTable(str(table)).create_checkpoint()
    return next((table / "_delta_log").glob("*.checkpoint.parquet"))


def overwritten(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty last commit": lambda t: cut(commit_file(t, 2), 0),
    "blank last commit": lambda t: commit_file(t, 2).write_text("\n\n"),
    "torn last commit": lambda t: cut(commit_file(t, 2), commit_file(t, 2).stat().st_size - 40),
    "zeroed last commit": lambda t: overwritten(commit_file(t, 2)),
    "last commit that is no object": lambda t: commit_file(t, 2).write_text("[1, 2]\n"),
    "last commit that is not UTF-8": lambda t: commit_file(t, 2).write_bytes(b"\xff\xfe{}"),
    "empty commit in the middle": lambda t: cut(commit_file(t, 1), 0),
    "missing commit in the middle": lambda t: commit_file(t, 1).unlink(),
    "missing first commit": lambda t: commit_file(t, 0).unlink(),
    "missing data file": lambda t: newest_data_file(t).unlink(),
    "cut data file": lambda t: cut(newest_data_file(t), 100),
    "empty data file": lambda t: cut(newest_data_file(t), 0),
    "zeroed data file": lambda t: overwritten(newest_data_file(t)),
    "cut checkpoint": lambda t: cut(checkpointed(t), 50),
    "zeroed checkpoint": lambda t: overwritten(checkpointed(t)),
    "empty last commit under a checkpoint": lambda t: (checkpointed(t), cut(commit_file(t, 2), 0)),
    "missing log": lambda t: shutil.rmtree(t / "_delta_log"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported_with_a_remedy_and_never_read_as_empty(table: Path, damage: str) -> None:
    DAMAGES[damage](table)
    with pytest.raises(StorageError) as reported:
        for file in Table(store_of(table)).snapshot().files:
            check_data_file(file)
    assert not isinstance(reported.value, FilesRemoved)
    assert reported.value.hint
    assert str(table) in str(reported.value)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if "commit" in name])
def test_a_damaged_log_has_no_transactions(table: Path, damage: str) -> None:
    DAMAGES[damage](table)
    with pytest.raises(StorageError):
        Table(store_of(table)).number("weft-table-1")
