"""A log is read on from where a process has come to: the same table as read anew, and never another one's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_tables import commit_file
from weft.errors import LeaseLost, StorageError
from weft.location import Location
from weft.storage import delta_log
from weft.storage.commit import append_rows, require_table
from weft.storage.delta_log import (
    DeltaSnapshot,
    delta_snapshot,
    forget_log,
    has_commits,
    latest_version,
    transaction_version,
)

SCHEMA: Final = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", pa.string())])


def rows(*instants: int | None) -> pa.Table:
    count = len(instants)
    return pa.table([pa.array(instants, SCHEMA.field("ts").type), list(range(count)), ["a"] * count], schema=SCHEMA)


def made(folder: Path, commits: int = 0) -> Location:
    table = Location.of(folder / "t")
    require_table(table, SCHEMA, {})
    for number in range(1, commits + 1):
        append_rows(table, rows(number * 1_000_001), "a", number)
    return table


def anew(table: Location) -> DeltaSnapshot:
    forget_log(table)
    return delta_snapshot(table)


def as_told(snapshot: DeltaSnapshot) -> tuple[object, ...]:
    return snapshot.version, snapshot.rows, sorted(snapshot.files, key=lambda file: file.location)


def elsewhere(table: Location) -> DeltaTable:
    """A handle of another writer's."""
    return DeltaTable(table.uri)


CHANGES: dict[str, Callable[[Location, int], object]] = {
    "rows": lambda table, n: append_rows(table, rows(n * 1_000_003, -7, None), "a", n),
    "far instants": lambda table, n: append_rows(table, rows(-(2**61), 2**61), "a", n),
    "no instants": lambda table, n: append_rows(table, rows(None), "a", n),
    "column": lambda table, n: require_table(table, SCHEMA.append(pa.field(f"at{n}", SCHEMA.types[0])), {}),
    "property": lambda table, n: require_table(table, SCHEMA, {"delta.appendOnly": "false"}),
    "delete": lambda table, n: elsewhere(table).delete("k = 1"),
    "compact": lambda table, n: elsewhere(table).optimize.compact(),
    "checkpoint": lambda table, n: elsewhere(table).create_checkpoint(),
}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.booleans()), max_size=8))
def test_a_log_read_on_is_the_log_read_anew(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, bool]]
) -> None:
    table = made(tmp_path_factory.mktemp("t"))
    for number, (change, look) in enumerate(changes, 1):
        CHANGES[change](table, number)
        if look:
            delta_snapshot(table)
    followed, transaction = delta_snapshot(table), transaction_version(table, "a")
    assert latest_version(table) == followed.version
    again = anew(table)
    if any(change in ("delete", "compact") for change, _ in changes):  # their statistics are of texts, too
        assert [file.location for file in as_files(followed)] == [file.location for file in as_files(again)]
        assert [file.least.get("ts") for file in as_files(followed)] == [f.least.get("ts") for f in as_files(again)]
    else:
        assert as_told(followed) == as_told(again)
    forget_log(table)
    assert transaction_version(table, "a") == transaction


def as_files(snapshot: DeltaSnapshot) -> list[delta_log.DataFile]:
    return sorted(snapshot.files, key=lambda file: file.location)


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, commits=8)
    delta_snapshot(table)
    read: list[str] = []
    whole = delta_log.commit_actions

    def counted(commit: Location) -> list[dict[str, object]]:
        read.append(commit.name)
        return whole(commit)

    monkeypatch.setattr(delta_log, "commit_actions", counted)
    listed: list[Location] = []
    names = Location.names
    monkeypatch.setattr(Location, "names", lambda place: listed.append(place) or names(place))
    for _ in range(3):
        assert has_commits(table)
        assert delta_snapshot(table, check_files=False).version == 8
    elsewhere(table).delete("k = 5")
    assert delta_snapshot(table, check_files=False).rows == 8
    assert latest_version(table) == elsewhere(table).version()
    assert len(read) <= 1
    assert listed == []


def put_back(copy: Path, table: Location) -> None:
    shutil.rmtree(table.path)
    shutil.copytree(copy, table.path)


@pytest.mark.parametrize("since", [0, 1, 3])
def test_an_older_copy_that_is_put_back_is_read_anew(tmp_path: Path, since: int) -> None:
    """With a history of its own afterwards, shorter, as long, or longer than the one that was known."""
    table = made(tmp_path, commits=2)
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    append_rows(table, rows(5), "a", 3)
    assert (delta_snapshot(table).version, transaction_version(table, "a")) == (3, 3)
    put_back(copy, table)
    for number in range(since):
        written = pa.table({"ts": rows(7)["ts"], "k": [9], "x": ["other"]})
        elsewhere_append(table, written, 10 + number)
    found = delta_snapshot(table)
    assert (found.version, found.rows) == (2 + since, 2 + since)
    assert transaction_version(table, "a") == (2 if not since else 9 + since)
    assert as_told(found) == as_told(anew(table))


def elsewhere_append(table: Location, given: pa.Table, number: int) -> None:
    """Another process's commit: nothing that this one has read comes into it."""
    import subprocess
    import sys

    program = (
        "import sys, pyarrow as pa; from weft.location import Location; from weft.storage.commit import append_rows;"
        "rows = pa.ipc.open_stream(sys.stdin.buffer).read_all();"
        "append_rows(Location(sys.argv[1]), rows, 'a', int(sys.argv[2]))"
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, given.schema) as stream:
        stream.write_table(given)
    raw = sink.getvalue().to_pybytes()
    subprocess.run([sys.executable, "-c", program, table.path, str(number)], input=raw, check=True)


def test_a_handle_that_was_left_sees_who_came_between(tmp_path: Path) -> None:
    table = made(tmp_path, commits=1)
    elsewhere_append(table, rows(3), 5)
    with pytest.raises(LeaseLost):
        append_rows(table, rows(4), "a", 5)
    assert delta_snapshot(table).rows == 2
    append_rows(table, rows(4), "a", 6)
    assert (delta_snapshot(table).rows, transaction_version(table, "a")) == (3, 6)


def test_damage_to_what_is_new_is_noticed(tmp_path: Path) -> None:
    table = made(tmp_path, commits=2)
    delta_snapshot(table)
    elsewhere_append(table, rows(3), 5)
    os.truncate(commit_file(Path(table.path), 3), 20)
    for look in (delta_snapshot, latest_version, lambda place: append_rows(place, rows(1), "a", 9)):
        with pytest.raises(StorageError, match="truncated"):
            look(table)


def test_a_table_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    table = made(tmp_path, commits=2)
    delta_snapshot(table)
    shutil.rmtree(table.path)
    assert not has_commits(table)
    with pytest.raises(StorageError, match="no Delta table"):
        delta_snapshot(table)
