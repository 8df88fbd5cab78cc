"""Apply the log entries after the cached version: the result is the table as read from the start, never another."""

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
from weft.storage import delta_log
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.table import Fence, Table
from weft.store import LocalStore, Store, store_of

SCHEMA: Final = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", pa.string())])


def rows(*instants: int | None) -> pa.Table:
    count = len(instants)
    return pa.table([pa.array(instants, SCHEMA.field("ts").type), list(range(count)), ["a"] * count], schema=SCHEMA)


def made(folder: Path, commits: int = 0) -> Store:
    table = store_of(folder / "t")
    Table(table).ensure(SCHEMA, {})
    for number in range(1, commits + 1):
        Table(table).append(rows(number * 1_000_001), Fence("a", number))
    return table


def read_from_the_start(table: Store) -> DeltaSnapshot:
    Table(table).forget()
    return Table(table).snapshot()


def as_told(snapshot: DeltaSnapshot) -> tuple[object, ...]:
    return snapshot.version, snapshot.rows, sorted(snapshot.files, key=lambda file: file.location)


def elsewhere(table: Store) -> DeltaTable:
    """A handle of another writer's."""
    return DeltaTable(table.uri)


CHANGES: dict[str, Callable[[Store, int], object]] = {
    "rows": lambda table, n: Table(table).append(rows(n * 1_000_003, -7, None), Fence("a", n)),
    "far instants": lambda table, n: Table(table).append(rows(-(2**61), 2**61), Fence("a", n)),
    "no instants": lambda table, n: Table(table).append(rows(None), Fence("a", n)),
    "column": lambda table, n: Table(table).ensure(SCHEMA.append(pa.field(f"at{n}", SCHEMA.types[0])), {}),
    "property": lambda table, n: Table(table).ensure(SCHEMA, {"delta.appendOnly": "false"}),
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
            Table(table).snapshot()
    followed, transaction = Table(table).snapshot(), Table(table).number("a")
    assert Table(table).snapshot().version == followed.version
    again = read_from_the_start(table)
    if any(change in ("delete", "compact") for change, _ in changes):  # their statistics are of texts, too
        assert [file.location for file in as_files(followed)] == [file.location for file in as_files(again)]
        assert [file.least.get("ts") for file in as_files(followed)] == [f.least.get("ts") for f in as_files(again)]
    else:
        assert as_told(followed) == as_told(again)
    Table(table).forget()
    assert Table(table).number("a") == transaction


def as_files(snapshot: DeltaSnapshot) -> list[delta_log.DataFile]:
    return sorted(snapshot.files, key=lambda file: file.location)


def test_a_file_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, commits=8)
    Table(table).snapshot()
    read: list[str] = []
    whole = LocalStore.read

    def counted(commit: Store) -> bytes:
        read.append(commit.name)
        return whole(commit)

    monkeypatch.setattr(LocalStore, "read", counted)
    listed: list[Store] = []
    names = LocalStore.names
    monkeypatch.setattr(LocalStore, "names", lambda place: listed.append(place) or names(place))
    for _ in range(3):
        assert Table(table).exists()
        assert Table(table).snapshot().version == 8
    elsewhere(table).delete("k = 5")
    assert Table(table).snapshot().rows == 8
    assert Table(table).snapshot().version == elsewhere(table).version()
    assert len(read) <= 1
    assert listed == []


def put_back(copy: Path, table: Store) -> None:
    shutil.rmtree(table.path)
    shutil.copytree(copy, table.path)


@pytest.mark.parametrize("since", [0, 1, 3])
def test_an_older_copy_that_is_put_back_is_read_anew(tmp_path: Path, since: int) -> None:
    """With a history of its own afterwards, shorter, as long, or longer than the one that was known."""
    table = made(tmp_path, commits=2)
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    Table(table).append(rows(5), Fence("a", 3))
    assert (Table(table).snapshot().version, Table(table).number("a")) == (3, 3)
    put_back(copy, table)
    for number in range(since):
        written = pa.table({"ts": rows(7)["ts"], "k": [9], "x": ["other"]})
        elsewhere_append(table, written, 10 + number)
    found = Table(table).snapshot()
    assert (found.version, found.rows) == (2 + since, 2 + since)
    assert Table(table).number("a") == (2 if not since else 9 + since)
    assert as_told(found) == as_told(read_from_the_start(table))


def elsewhere_append(table: Store, given: pa.Table, number: int) -> None:
    """Another process's commit: nothing that this one has read comes into it."""
    import subprocess
    import sys

    program = (
        "import sys, pyarrow as pa; from weft.store import LocalStore; from weft.storage.table import Fence, Table;"
        "rows = pa.ipc.open_stream(sys.stdin.buffer).read_all();"
        "Table(LocalStore(sys.argv[1])).append(rows, Fence('a', int(sys.argv[2])))"
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
        Table(table).append(rows(4), Fence("a", 5))
    assert Table(table).snapshot().rows == 2
    Table(table).append(rows(4), Fence("a", 6))
    assert (Table(table).snapshot().rows, Table(table).number("a")) == (3, 6)


def test_damage_to_new_files_is_noticed(tmp_path: Path) -> None:
    table = made(tmp_path, commits=2)
    Table(table).snapshot()
    elsewhere_append(table, rows(3), 5)
    os.truncate(commit_file(Path(table.path), 3), 20)
    for look in (Table.snapshot, lambda t: t.number("a"), lambda t: t.append(rows(1), Fence("a", 9))):
        with pytest.raises(StorageError, match="truncated"):
            look(Table(table))


def test_a_table_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    table = made(tmp_path, commits=2)
    Table(table).snapshot()
    shutil.rmtree(table.path)
    assert not Table(table).exists()
    with pytest.raises(StorageError, match="no Delta table"):
        Table(table).snapshot()


def test_a_trusted_position_stays_until_somebody_looks_and_no_reader_moves_it_back(tmp_path: Path) -> None:
    table = made(tmp_path, commits=2)
    Table(table).snapshot()
    before = delta_log.follow(table)
    Table(table).append(rows(5), Fence("a", 3))
    Table(table).snapshot()
    delta_log.trust(table)
    delta_log.note(table, before)
    assert delta_log.version_read(str(table)) == 3
    elsewhere_append(table, rows(7), 4)
    assert (delta_log.follow(table).version, Table(table).snapshot().rows) == (3, 3)
    assert delta_log.follow(table, fresh=True).version == 4
    delta_log.distrust(table)
    delta_log.note(table, before)
    assert delta_log.version_read(str(table)) == 2
    assert Table(table).snapshot().rows == 4
    Table(table).forget()
    assert delta_log.version_read(str(table)) is None
