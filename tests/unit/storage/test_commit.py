"""Commits without Spark: the fence from every side, what is written, how tables are made and grow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from delta_tables import before_commit, opened
from s3_server import environment
from weft.errors import LeaseLost, StorageError
from weft.storage.columns import INSTANT
from weft.storage.data_files import FileForm
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns
from weft.storage.table import PROPERTIES, Commit, Fence, Table
from weft.store import LocalStore, S3Store, Store, store_of

SCHEMA = pa.schema([("a", pa.int64()), ("ts", INSTANT)])
APP = "weft-table-1"
TS_ONLY = {COLUMNS_PROPERTY: named_columns(["ts"]), "delta.appendOnly": "true"}


@pytest.fixture
def table(store: Store) -> Store:
    place = store / "tables/1-t"
    Table(place).ensure(SCHEMA, TS_ONLY)
    return place


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "ts": pa.array([v * 1_000_000 for v in values], INSTANT)})


def stored(table: Store) -> list[int]:
    found: list[int] = opened(table).to_pyarrow_table().column("a").to_pylist()
    return sorted(found)


def append(table: Store, number: int, *values: int, app: str = APP) -> Commit:
    return Table(table).append(rows(*values), Fence(app, number))


def test_a_commit_is_one_file_in_the_order_given_with_its_transaction(table: Store) -> None:
    many = pa.concat_tables([rows(*range(low, low + 4_999)) for low in range(0, 60_000, 4_999)])
    committed = Table(table).append(many, Fence(APP, 7))
    assert (committed.version, committed.rows) == (1, many.num_rows)
    (file,) = Table(table).entry(1).added
    assert pq.read_table(file.location.path, filesystem=file.location.filesystem).column("a").to_pylist() == (
        many.column("a").to_pylist()
    )
    assert committed.files == (file,)
    assert (Table(table).number(APP), Table(table).find(APP, 7)) == (7, committed)
    assert append(table, 8, 1).version == 2
    assert append(table, 1, 2, app="weft-other").version == 3


@pytest.mark.parametrize("number", [6, 7])
def test_a_stale_or_repeated_transaction_is_refused(table: Store, number: int) -> None:
    Table(table).append(rows(1), Fence(APP, 7))
    with pytest.raises(LeaseLost, match="another writer"):
        Table(table).append(rows(2), Fence(APP, number))
    assert stored(table) == [1]
    assert Table(table).number(APP) == 7


def test_a_number_that_was_spent_cannot_be_used(table: Store) -> None:
    Table(table).spend(APP, 3)
    with pytest.raises(LeaseLost):
        Table(table).append(rows(1), Fence(APP, 3))
    assert append(table, 4, 2).version == 2
    assert stored(table) == [2]


def test_a_number_that_is_used_just_before_it_is_spent_stays_its_writer_s(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_commit(monkeypatch, lambda: append(table, 5, 1))
    Table(table).spend(APP, 5)
    found = Table(table).find(APP, 5)
    assert found is not None
    assert (found.version, Table(table).snapshot().version, stored(table)) == (1, 1, [1])


def before_handle(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """``act`` happens once, between the write of a data file and the opening of the handle that commits it."""
    write = FileForm.write

    def late(*given: Any) -> Any:
        monkeypatch.setattr(FileForm, "write", write)
        written = write(*given)
        act()
        return written

    monkeypatch.setattr(FileForm, "write", late)


WINDOWS = (before_handle, before_commit)


BETWEEN: dict[str, Callable[[Store], object]] = {
    "the same number is spent": lambda t: Table(t).spend(APP, 5),
    "a later number is spent": lambda t: Table(t).spend(APP, 9),
    "another commits with the same number": lambda t: Table(t).append(rows(100), Fence(APP, 5)),
    "another commits with a later number": lambda t: Table(t).append(rows(100), Fence(APP, 6)),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("act", BETWEEN)
def test_whatever_the_same_application_commits_meanwhile_fences_this_one(
    table: Store, act: str, window: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 1, 1)
    window(monkeypatch, lambda: BETWEEN[act](table))
    with pytest.raises(LeaseLost):
        Table(table).append(rows(2), Fence(APP, 5))
    assert 2 not in stored(table)
    assert Table(table).number(APP) >= 5  # type: ignore[operator]


@pytest.mark.parametrize("window", WINDOWS)
def test_another_application_does_not_disturb(
    table: Store, window: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    window(monkeypatch, lambda: append(table, 99, 1, app="weft-other"))
    assert append(table, 5, 2).version == 2
    assert stored(table) == [1, 2]


def test_a_table_that_changes_meanwhile_is_no_lost_lease(table: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = SCHEMA.append(pa.field("b", pa.string()))
    before_commit(monkeypatch, lambda: Table(table).ensure(grown, TS_ONLY))
    with pytest.raises(StorageError, match="could not be changed while rows were being stored") as result:
        Table(table).append(rows(1), Fence(APP, 5))
    assert result.value.hint
    assert append(table, 5, 1).version == 2  # nothing had come of it


def test_a_commit_that_came_through_counts_though_what_followed_it_failed(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = DeltaTable.create_write_transaction

    def then_fails(*arguments: Any, **named: Any) -> None:
        through(*arguments, **named)
        raise OSError("no space for a checkpoint")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", then_fails)
    assert append(table, 5, 1).version == 1
    assert stored(table) == [1]
    Table(table).spend(APP, 6)
    assert Table(table).number(APP) == 6


def test_a_property_is_set_behind_a_fence(table: Store) -> None:
    append(table, 6, 1)
    Table(table).set_properties({"delta.appendOnly": "false"}, Fence(APP, 7), "a test was running")
    assert Table(table).metadata().configuration["delta.appendOnly"] == "false"
    with pytest.raises(LeaseLost, match="another writer took this home over while a test was running"):
        Table(table).set_properties({"delta.appendOnly": "true"}, Fence(APP, 7), "a test was running")


def test_a_fence_that_repeats_serves_several_commits_of_one_lease(table: Store) -> None:
    token = Fence("weft-lease", 3, repeats=True)
    first, second = (Table(table).append(rows(n), token) for n in (1, 2))
    assert (first.version, second.version) == (1, 2)
    assert [file.name for file in first.files] != [file.name for file in second.files]
    with pytest.raises(LeaseLost):
        Table(table).append(rows(3), Fence("weft-lease", 2, repeats=True))
    with pytest.raises(LeaseLost):
        Table(table).append(rows(3), Fence("weft-lease", 3))


WRITER = """
import sys
from weft.configuration import configuration, s3_access
from weft.store import store_of
from weft.storage.table import Fence, Table
import deltalake
import pyarrow as pa
through = deltalake.DeltaTable.create_write_transaction
def late(*given, **named):
    print("written", flush=True)
    sys.stdin.readline()
    through(*given, **named)
deltalake.DeltaTable.create_write_transaction = late
rows = pa.table({"a": pa.array([2], pa.int64())})
try:
    table = Table(store_of(sys.argv[1], s3_access(configuration())))
    print("version", table.append(rows, Fence("weft-table-1", 5)).version)
except Exception as error:
    print(type(error).__name__)
"""


def writer_with_its_handle_open(table: Store) -> subprocess.Popen[str]:
    """Another process, its data file written, before its commit."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(table)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | (environment(table.access) if isinstance(table, S3Store) else {}),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def test_a_process_that_was_given_up_cannot_commit_when_it_wakes(table: Store) -> None:
    process = writer_with_its_handle_open(table)
    Table(table).spend(APP, 5)
    result, _ = process.communicate("\n", timeout=60)
    assert result == "LeaseLost\n"
    assert stored(table) == []


def test_a_process_that_is_left_alone_commits(table: Store) -> None:
    result, _ = writer_with_its_handle_open(table).communicate("\n", timeout=60)
    assert result == "version 1\n"
    assert stored(table) == [2]


def test_a_process_killed_with_its_handle_open_leaves_nothing_that_counts(table: Store) -> None:
    process = writer_with_its_handle_open(table)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert Table(table).find(APP, 5) is None
    assert stored(table) == []
    assert append(table, 5, 3).version == 1
    assert stored(table) == [3]


def test_a_failed_write_leaves_no_file(table: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(table.names())

    def full(*_: object, **_options: object) -> None:
        assert set(table.names()) > before or not isinstance(table, LocalStore)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(StorageError, match=r"the disk is full, with [0-9,]+ bytes free") as failed:
        Table(table).append(rows(1), Fence(APP, 1))
    assert "Errno" not in failed.value.message
    assert (failed.value.hint or "").startswith("Free some space and run the command again")
    assert set(table.names()) == before
    assert Table(table).snapshot().version == 0


@pytest.mark.parametrize(
    "wrong",
    [pa.table({"z": [1]}), pa.table({"a": ["no number"]}), pa.table({"a": pa.array([2**63], pa.uint64())})],
)
def test_rows_that_are_not_the_table_s_are_refused(table: Store, wrong: pa.Table) -> None:
    with pytest.raises(StorageError, match="could not be changed"):
        Table(table).append(wrong, Fence(APP, 1))
    assert Table(table).snapshot().version == 0


def test_encodings_become_plain_and_a_missing_column_null(store: Store) -> None:
    table = store / "t"
    texts = pa.schema([("s", pa.string()), ("l", pa.list_(pa.string())), ("b", pa.binary()), ("gone", pa.int8())])
    Table(table).ensure(texts, {})
    odd = pa.table(
        {
            "b": pa.array([b"\xff"], pa.large_binary()),
            "s": pa.array(["x"], pa.string_view()).cast(pa.string()).dictionary_encode(),
            "l": pa.array([["y", None]], pa.large_list(pa.large_string())),
        }
    )
    (file,) = Table(table).append(odd, Fence(APP, 1)).files
    found = pq.read_table(file.location.path, filesystem=file.location.filesystem)
    assert found.schema.equals(texts)
    assert found.to_pylist() == [{"s": "x", "l": ["y", None], "b": b"\xff", "gone": None}]


def test_a_table_is_made_once_and_grows(table: Store) -> None:
    Table(table).append(rows(1), Fence(APP, 1))
    Table(table).ensure(SCHEMA, TS_ONLY)
    assert Table(table).snapshot().version == 1
    grown = SCHEMA.append(pa.field("seen", INSTANT)).append(pa.field("a.b", INSTANT))
    wanted = {**TS_ONLY, COLUMNS_PROPERTY: named_columns(["ts", "seen", "a.b"])}
    Table(table).ensure(grown, wanted)
    Table(table).ensure(grown, wanted)
    committed = Table(table).append(rows(2).append_column("seen", pa.array([5], INSTANT)), Fence(APP, 2))
    assert committed.version == 4  # columns, properties, rows
    newest = max(Table(table).snapshot().files, key=lambda file: file.least["ts"])
    assert (newest.least["seen"], newest.greatest["seen"]) == (0, 999)
    assert [row["seen"] is None for row in opened(table).to_pyarrow_table().sort_by("a").to_pylist()] == [
        True,
        False,
    ]
    configuration = opened(table).metadata().configuration
    assert configuration == {**PROPERTIES, **wanted}


def test_a_table_has_a_description_partitions_and_properties_of_its_own(store: Store) -> None:
    table = Table(store / "t")
    table.ensure(SCHEMA, {"weft.own": "1"}, "what it is", ["a"])
    made = table.metadata()
    assert (made.description, made.partition_columns) == ("what it is", ["a"])
    assert made.configuration == {**PROPERTIES, "weft.own": "1"}
    table.ensure(SCHEMA, {"weft.own": "2"})
    assert table.metadata().configuration == {**PROPERTIES, "weft.own": "2"}
    assert table.schema().equals(SCHEMA)


def test_rows_and_entries_are_read_and_a_number_without_rows_has_no_commit(table: Store) -> None:
    found = [append(table, number, number, number + 10) for number in (1, 2)]
    Table(table).spend(APP, 3)
    assert [Table(table).find(APP, number) for number in (0, 1, 2, 3, 4)] == [None, *found, None, None]
    assert Table(table).find("weft-other", 1) is None
    assert [entry.version for entry in Table(table).entries()] == [3, 2, 1, 0]
    assert list(Table(table.parent / "none").entries()) == []
    only = pa.schema([SCHEMA.field("a")])

    def scanned(**how: Any) -> list[int]:
        batches = Table(table).scan(only, **how)
        return sorted(value for batch in batches for value in batch.column("a").to_pylist())

    assert scanned() == [1, 2, 11, 12]
    assert scanned(condition=pc.field("a") > 2, files=found[1].files) == [12]
    Table(table).forget()
    DeltaTable(table.uri, storage_options=table.options).create_checkpoint()
    for version in (0, 1):
        (table / f"_delta_log/{version:020d}.json").remove()
    assert [entry.version for entry in Table(table).entries()] == [3, 2]


def test_all_that_a_commit_needs_is_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        forced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    table = store_of(tmp_path / "tables/1-t")
    log = f"{table.path}/_delta_log"
    Table(table).ensure(SCHEMA, {})
    assert forced == [f"{log}/{0:020d}.json", *sorted(map(str, (tmp_path, tmp_path / "tables", table, log)))]
    forced.clear()
    Table(table).ensure(SCHEMA.append(pa.field("b", pa.int64())), {})
    assert forced == [f"{log}/{1:020d}.json", str(tmp_path / "tables"), table.path, log]
    forced.clear()
    (file,) = append(table, 1, 1).files
    assert forced == [file.location.path, f"{log}/{2:020d}.json", str(tmp_path / "tables"), table.path, log]
    forced.clear()
    assert Table(table).find(APP, 1) is not None  # its writer may have died before
    assert file.location.path in forced and f"{log}/{2:020d}.json" in forced


def test_a_commit_that_cannot_be_forced_to_the_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store_of(tmp_path / "t")
    Table(table).ensure(SCHEMA, {})

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StorageError, match="parquet could not be flushed to the disk: Input/output error"):
            append(table, 1, 1)
    assert stored(table) == [1]


def test_a_writer_that_died_before_its_first_commit_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "part-0.parquet").touch()
    Table(store_of(tmp_path / "t")).ensure(SCHEMA, TS_ONLY)
    assert append(store_of(tmp_path / "t"), 1, 1).version == 1


def test_checkpoints_are_automatic_and_the_log_keeps_the_needed_entries(store: Store) -> None:
    table = store / "t"
    short = {**TS_ONLY, "delta.checkpointInterval": "4", "delta.logRetentionDuration": "interval 0 days"}
    Table(table).ensure(SCHEMA, short)
    for number in range(1, 14):
        committed = append(table, number, number)
        assert committed.version == number
        assert Table(table).find(APP, number) == committed
        with pytest.raises(LeaseLost):
            Table(table).append(rows(number), Fence(APP, number))
    assert any("checkpoint" in name for name in (table / "_delta_log").names())
    assert stored(table) == list(range(1, 14))
