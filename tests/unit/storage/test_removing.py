"""A writer whose lease was taken over takes no file out of a table, whenever it wakes up."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_tables import before_commit, opened
from weft.errors import LeaseLost
from weft.schedule.clock import now_us
from weft.storage import table as table_module
from weft.storage.cleaning import deletable_files, delete
from weft.storage.columns import INSTANT
from weft.storage.compaction import commit_rewritten, rewrite
from weft.storage.removing import DISCARDING, remove_commits, remove_rows
from weft.storage.table import REMOVING, Fence, Table
from weft.store import Store

SCHEMA = pa.schema([("query_id", pa.int64()), ("ts", INSTANT)])
STALE, LATER = 5, 9
DOING = "a test was running"


@pytest.fixture
def table(store: Store) -> Store:
    """Three rows in three files."""
    place = store / "t"
    Table(place).ensure(SCHEMA, {})
    append(place, 1, 2, 3)
    return place


def append(table: Store, *values: int) -> None:
    for value in values:
        rows = pa.table({"query_id": [value], "ts": pa.array([value], INSTANT)}, schema=SCHEMA)
        Table(table).append(rows, Fence("weft-table-1", value))


def stored(table: Store) -> list[int]:
    found: list[int] = opened(table).to_pyarrow_table().column("query_id").to_pylist()
    return sorted(found)


def data_files(table: Store) -> int:
    return sum(name.endswith(".parquet") for name in table.names())


def append_only(table: Store) -> bool:
    return opened(table).metadata().configuration.get("delta.appendOnly") == "true"


def undo(table: Store, token: int) -> None:
    remove_commits(Table(table), [1], token, now_us())


def remove(table: Store, also: dict[str, int] | None = None) -> None:
    gone = pc.field("query_id") == 1
    remove_rows(Table(table), gone, lambda _: True, STALE, now_us(), DOING, also=also, news=not also)


REMOVALS: dict[str, Callable[[Store], object]] = {
    "a load is undone": lambda table: undo(table, STALE),
    "answers are purged": remove,
    "rows are discarded": lambda table: remove(table, {DISCARDING: 1}),
}


def later_writer(table: Store) -> None:
    """What commits of a later lease leave in the log, made through handles of its own."""
    Table(table).forget()
    Table(table).spend(REMOVING, LATER)


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_writer_that_was_overtaken_before_it_looks_removes_nothing(table: Store, removal: str) -> None:
    later_writer(table)
    with pytest.raises(LeaseLost, match="another writer"):
        REMOVALS[removal](table)
    assert (stored(table), data_files(table)) == ([1, 2, 3], 3)
    assert Table(table).number(REMOVING) == LATER


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_writer_that_was_overtaken_between_its_look_and_its_commit_removes_nothing(
    table: Store, removal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table(table).ensure(SCHEMA, {"delta.appendOnly": "true"} if "undone" in removal else {})

    before_commit(monkeypatch, lambda: later_writer(table))
    with pytest.raises(LeaseLost, match="another writer"):
        REMOVALS[removal](table)
    assert stored(table) == [1, 2, 3]
    assert Table(table).number(REMOVING) == LATER
    assert append_only(table) == ("undone" in removal)


def test_a_writer_that_was_overtaken_between_its_own_commits_goes_no_further(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table(table).ensure(SCHEMA, {"delta.appendOnly": "true"})

    through = Table.commit

    def asleep(*given: Any, **named: Any) -> object:
        monkeypatch.setattr(Table, "commit", through)
        later_writer(table)
        return through(*given, **named)

    monkeypatch.setattr(Table, "commit", asleep)
    with pytest.raises(LeaseLost, match="another writer"):
        undo(table, STALE)
    assert stored(table) == [1, 2, 3]
    assert Table(table).number(REMOVING) == LATER


def test_an_undo_that_died_in_between_is_finished_and_the_table_takes_rows_only_again(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table(table).ensure(SCHEMA, {"delta.appendOnly": "true"})

    through = Table.commit

    def killed(*given: Any, **named: Any) -> None:
        through(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Table, "commit", killed)
        undo(table, STALE)
    assert (stored(table), append_only(table)) == ([2, 3], False)
    undo(table, LATER)
    assert (stored(table), append_only(table)) == ([2, 3], True)


def compacted(table: Store) -> None:
    found = rewrite(Table(table), Table(table).snapshot().files, ["ts"])
    assert found is not None
    commit_rewritten(Table(table), found, 1, now_us())


def test_a_stale_writer_deletes_nothing(table: Store) -> None:
    compacted(table)
    found = deletable_files(Table(table), 0, now_us())
    assert len(found.data) == 3
    later_writer(table)
    with pytest.raises(LeaseLost):
        delete(Table(table), found, STALE, lambda: None)
    assert data_files(table) == 4


def test_a_writer_that_lost_its_lease_deletes_nothing_though_the_table_does_not_say_so(table: Store) -> None:
    compacted(table)

    def lost() -> None:
        raise LeaseLost("another writer took this home over")

    with pytest.raises(LeaseLost):
        delete(Table(table), deletable_files(Table(table), 0, now_us()), STALE, lost)
    assert data_files(table) == 4


def test_a_file_that_a_writer_is_about_to_name_is_not_deleted(table: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    compacted(table)

    def meanwhile(point: str) -> None:
        if point == "commit.written":
            found = deletable_files(Table(table), 0, now_us())
            assert len(found.data) == 3  # those of the compaction
            delete(Table(table), found, LATER, lambda: None)

    monkeypatch.setattr(table_module, "failpoint", meanwhile)
    append(table, 4)
    assert stored(table) == [1, 2, 3, 4]


def test_a_compacted_file_is_not_deleted_before_its_commit(table: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile() -> None:
        assert deletable_files(Table(table), 0, now_us()).data == ()

    before_commit(monkeypatch, meanwhile)
    compacted(table)
    assert (stored(table), len(Table(table).files())) == ([1, 2, 3], 1)


LOCAL = pytest.mark.parametrize("store", ["local"], indirect=True)  # the age of an object cannot be set


def aged(table: Store) -> None:
    for name in table.names():
        os.utime(f"{table}/{name}", (0, 0))


@LOCAL
def test_a_compacted_file_that_became_old_and_was_deleted_is_not_committed(table: Store) -> None:
    found = rewrite(Table(table), Table(table).files(), ["ts"])
    assert found is not None
    aged(table)
    delete(Table(table), deletable_files(Table(table), 0, now_us()), 1, lambda: None)
    assert commit_rewritten(Table(table), found, LATER, now_us()) is None
    assert (stored(table), data_files(table)) == ([1, 2, 3], 3)


@LOCAL
def test_a_compacted_file_that_a_later_writer_deletes_after_the_look_at_it_enters_no_log(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        aged(table)
        delete(Table(table), deletable_files(Table(table), 0, now_us()), LATER, lambda: None)
        assert data_files(table) == 3

    before_commit(monkeypatch, meanwhile)
    with pytest.raises(LeaseLost):
        compacted(table)
    assert stored(table) == [1, 2, 3]
