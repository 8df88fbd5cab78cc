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
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from weft.errors import LeaseLost, StorageError
from weft.location import Location
from weft.storage import commit, fence
from weft.storage.columns import INSTANT
from weft.storage.commit import append_rows, require_table
from weft.storage.delta_log import added_files, delta_snapshot, latest_version, transaction_version
from weft.storage.fence import find_version, make_durable, spend
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns

SCHEMA = pa.schema([("a", pa.int64()), ("ts", INSTANT)])
APP = "weft-table-1"
TS_ONLY = {COLUMNS_PROPERTY: named_columns(["ts"]), "delta.appendOnly": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Location:
    place = Location.of(tmp_path / "tables" / "1-t")
    require_table(place, SCHEMA, TS_ONLY)
    return place


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "ts": pa.array([v * 1_000_000 for v in values], INSTANT)})


def stored(table: Location) -> list[int]:
    found: list[int] = DeltaTable(table.uri).to_pyarrow_table().column("a").to_pylist()
    return sorted(found)


def test_a_commit_is_one_file_in_the_order_given_with_its_transaction(table: Location) -> None:
    many = pa.concat_tables([rows(*range(low, low + 4_999)) for low in range(0, 60_000, 4_999)])
    version = append_rows(table, many, APP, 7)
    make_durable(table, version)
    (file,) = added_files(table, version)
    assert pq.read_table(file.location.uri).column("a").to_pylist() == many.column("a").to_pylist()
    assert (version, file.rows) == (1, many.num_rows)
    assert (transaction_version(table, APP), find_version(table, APP, 7)) == (7, 1)
    assert append_rows(table, rows(1), APP, 8) == 2
    assert append_rows(table, rows(2), "weft-other", 1) == 3


@pytest.mark.parametrize("number", [6, 7])
def test_a_stale_or_repeated_transaction_is_refused(table: Location, number: int) -> None:
    append_rows(table, rows(1), APP, 7)
    with pytest.raises(LeaseLost, match="another writer"):
        append_rows(table, rows(2), APP, number)
    assert stored(table) == [1]
    assert transaction_version(table, APP) == 7


def test_a_number_that_was_spent_cannot_be_used(table: Location) -> None:
    spend(table, APP, 3)
    with pytest.raises(LeaseLost):
        append_rows(table, rows(1), APP, 3)
    assert append_rows(table, rows(2), APP, 4) == 2
    assert stored(table) == [2]


def test_a_number_that_is_used_just_before_it_is_spent_stays_its_writer_s(
    table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_table = fence.open_table

    def late(place: Location) -> Any:
        monkeypatch.setattr(fence, "open_table", open_table)
        append_rows(place, rows(1), APP, 5)
        return open_table(place)

    monkeypatch.setattr(fence, "open_table", late)
    spend(table, APP, 5)
    assert (find_version(table, APP, 5), latest_version(table), stored(table)) == (1, 1, [1])


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """``act`` happens once, between the opening of the handle and the commit through it."""
    write = commit.write_data_file

    def late(data: pa.Table, file: Location) -> None:
        monkeypatch.setattr(commit, "write_data_file", write)
        act()
        write(data, file)

    monkeypatch.setattr(commit, "write_data_file", late)


BETWEEN: dict[str, Callable[[Location], object]] = {
    "the same number is spent": lambda t: spend(t, APP, 5),
    "a later number is spent": lambda t: spend(t, APP, 9),
    "another commits with the same number": lambda t: append_rows(t, rows(100), APP, 5),
    "another commits with a later number": lambda t: append_rows(t, rows(100), APP, 6),
}


@pytest.mark.parametrize("act", BETWEEN)
def test_whatever_the_same_application_commits_meanwhile_fences_this_one(
    table: Location, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_rows(table, rows(1), APP, 1)
    meanwhile(monkeypatch, lambda: BETWEEN[act](table))
    with pytest.raises(LeaseLost):
        append_rows(table, rows(2), APP, 5)
    assert 2 not in stored(table)
    assert transaction_version(table, APP) >= 5  # type: ignore[operator]


def test_another_application_does_not_disturb(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: append_rows(table, rows(1), "weft-other", 99))
    assert append_rows(table, rows(2), APP, 5) == 2
    assert stored(table) == [1, 2]


def test_a_table_that_changes_meanwhile_is_no_lost_lease(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = SCHEMA.append(pa.field("b", pa.string()))
    meanwhile(monkeypatch, lambda: require_table(table, grown, TS_ONLY))
    with pytest.raises(StorageError, match="could not be stored") as told:
        append_rows(table, rows(1), APP, 5)
    assert told.value.hint
    assert append_rows(table, rows(1), APP, 5) == 2  # nothing had come of it


def test_a_commit_that_came_through_counts_though_what_followed_it_failed(
    table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = commit.commit_files

    def then_fails(*arguments: Any, **named: Any) -> None:
        through(*arguments, **named)
        raise OSError("no space for a checkpoint")

    monkeypatch.setattr(commit, "commit_files", then_fails)
    assert append_rows(table, rows(1), APP, 5) == 1
    assert stored(table) == [1]


WRITER = """
import sys
from weft.location import Location
from weft.storage import commit, fence
import pyarrow as pa
write = commit.write_data_file
def late(rows, file):
    write(rows, file)
    print("written", flush=True)
    sys.stdin.readline()
commit.write_data_file = late
rows = pa.table({"a": pa.array([2], pa.int64())})
try:
    print("version", commit.append_rows(Location.of(sys.argv[1]), rows, "weft-table-1", 5))
except Exception as error:
    print(type(error).__name__)
"""


def writer_with_its_handle_open(table: Location) -> subprocess.Popen[str]:
    """Another process, its data file written, before its commit."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, table.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def test_a_process_that_was_given_up_cannot_commit_when_it_wakes(table: Location) -> None:
    process = writer_with_its_handle_open(table)
    spend(table, APP, 5)
    told, _ = process.communicate("\n", timeout=60)
    assert told == "LeaseLost\n"
    assert stored(table) == []


def test_a_process_that_is_left_alone_commits(table: Location) -> None:
    told, _ = writer_with_its_handle_open(table).communicate("\n", timeout=60)
    assert told == "version 1\n"
    assert stored(table) == [2]


def test_a_process_killed_with_its_handle_open_leaves_nothing_that_counts(table: Location) -> None:
    process = writer_with_its_handle_open(table)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert find_version(table, APP, 5) is None
    assert stored(table) == []
    assert append_rows(table, rows(3), APP, 5) == 1
    assert stored(table) == [3]


def test_what_cannot_be_written_leaves_no_file(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(table.names())

    def full(_rows: pa.Table, where: str, **_options: object) -> None:
        Path(where.removeprefix("file://")).write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commit.pq, "write_table", full)
    with pytest.raises(StorageError, match=r"the disk is full, with [0-9,]+ bytes free") as failed:
        append_rows(table, rows(1), APP, 1)
    assert "Errno" not in failed.value.message
    assert (failed.value.hint or "").startswith("Free some space and run the command again")
    assert set(table.names()) == before
    assert latest_version(table) == 0


@pytest.mark.parametrize(
    "wrong",
    [pa.table({"z": [1]}), pa.table({"a": ["no number"]}), pa.table({"a": pa.array([2**63], pa.uint64())})],
)
def test_rows_that_are_not_the_table_s_are_refused(table: Location, wrong: pa.Table) -> None:
    with pytest.raises(StorageError, match="could not be stored"):
        append_rows(table, wrong, APP, 1)
    assert latest_version(table) == 0


def test_encodings_become_plain_and_a_missing_column_null(tmp_path: Path) -> None:
    table = Location.of(tmp_path / "t")
    texts = pa.schema([("s", pa.string()), ("l", pa.list_(pa.string())), ("b", pa.binary()), ("gone", pa.int8())])
    require_table(table, texts, {})
    odd = pa.table(
        {
            "b": pa.array([b"\xff"], pa.large_binary()),
            "s": pa.array(["x"], pa.string_view()).cast(pa.string()).dictionary_encode(),
            "l": pa.array([["y", None]], pa.large_list(pa.large_string())),
        }
    )
    (file,) = added_files(table, append_rows(table, odd, APP, 1))
    found = pq.read_table(file.location.uri)
    assert found.schema.equals(texts)
    assert found.to_pylist() == [{"s": "x", "l": ["y", None], "b": b"\xff", "gone": None}]


def test_a_table_is_made_once_and_grows(table: Location) -> None:
    append_rows(table, rows(1), APP, 1)
    require_table(table, SCHEMA, TS_ONLY)
    assert latest_version(table) == 1
    grown = SCHEMA.append(pa.field("seen", INSTANT)).append(pa.field("a.b", INSTANT))
    wanted = {**TS_ONLY, COLUMNS_PROPERTY: named_columns(["ts", "seen", "a.b"])}
    require_table(table, grown, wanted)
    require_table(table, grown, wanted)
    version = append_rows(table, rows(2).append_column("seen", pa.array([5], INSTANT)), APP, 2)
    assert version == 4  # columns, properties, rows
    newest = max(delta_snapshot(table).files, key=lambda file: file.least["ts"])
    assert (newest.least["seen"], newest.greatest["seen"]) == (0, 999)
    assert [row["seen"] is None for row in DeltaTable(table.uri).to_pyarrow_table().sort_by("a").to_pylist()] == [
        True,
        False,
    ]
    configuration = DeltaTable(table.uri).metadata().configuration
    assert configuration == {**commit.PROPERTIES, **wanted}


def test_a_writer_that_died_before_its_first_commit_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "part-0.parquet").touch()
    require_table(Location.of(tmp_path / "t"), SCHEMA, TS_ONLY)
    assert append_rows(Location.of(tmp_path / "t"), rows(1), APP, 1) == 1


def test_checkpoints_come_by_themselves_and_the_log_keeps_what_is_looked_for(tmp_path: Path) -> None:
    table = Location.of(tmp_path / "t")
    short = {**TS_ONLY, "delta.checkpointInterval": "4", "delta.logRetentionDuration": "interval 0 days"}
    require_table(table, SCHEMA, short)
    for number in range(1, 14):
        version = append_rows(table, rows(number), APP, number)
        assert find_version(table, APP, number) == version == number
        with pytest.raises(LeaseLost):
            append_rows(table, rows(number), APP, number)
    assert any("checkpoint" in name for name in (table / "_delta_log").names())
    assert stored(table) == list(range(1, 14))
