"""A writer whose lease was taken over takes no file out of a table, whenever it wakes up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from weft.errors import LeaseLost
from weft.location import Location
from weft.schedule.clock import now_us
from weft.storage import commit, removing
from weft.storage.cleaning import deletable_files, delete
from weft.storage.columns import INSTANT
from weft.storage.commit import append_rows, commit_files, require_table
from weft.storage.compaction import commit_rewritten, rewrite
from weft.storage.delta_log import delta_snapshot, forget_log, open_table, transaction_version
from weft.storage.discarding import discard
from weft.storage.fence import spend
from weft.storage.purge import delete_now, purge
from weft.storage.removing import REMOVING, Remover
from weft.storage.taking_back import roll_back

SCHEMA = pa.schema([("query_id", pa.int64()), ("ts", INSTANT)])
STALE, LATER = 5, 9
STALE_REMOVER = Remover(STALE, lambda: None)


@pytest.fixture
def table(tmp_path: Path) -> Location:
    """Three rows in three files; the folder is named as the ledger, which a purge looks for."""
    place = Location.of(tmp_path / "ledger")
    require_table(place, SCHEMA, {})
    append(place, 1, 2, 3)
    return place


def append(table: Location, *values: int) -> None:
    for value in values:
        rows = pa.table({"query_id": [value], "ts": pa.array([value], INSTANT)}, schema=SCHEMA)
        append_rows(table, rows, "weft-table-1", value)


def stored(table: Location) -> list[int]:
    found: list[int] = DeltaTable(table.uri).to_pyarrow_table().column("query_id").to_pylist()
    return sorted(found)


def data_files(table: Location) -> int:
    return sum(name.endswith(".parquet") for name in table.names())


def append_only(table: Location) -> bool:
    return DeltaTable(table.uri).metadata().configuration.get("delta.appendOnly") == "true"


REMOVALS: dict[str, Callable[[Location], object]] = {
    "a load is undone": lambda table: roll_back(table, [1], STALE, now_us()),
    "answers are purged": lambda table: purge(table.parent, [1], STALE),
    "rows are discarded": lambda table: discard(table, pc.field("query_id") == 1, 1, STALE_REMOVER, now_us(), 0),
}


def later_writer(table: Location) -> None:
    """What commits of a later lease leave in the log, made through handles of its own."""
    forget_log(table)
    spend(table, REMOVING, LATER)


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_writer_that_was_overtaken_before_it_looks_removes_nothing(table: Location, removal: str) -> None:
    later_writer(table)
    with pytest.raises(LeaseLost, match="another writer"):
        REMOVALS[removal](table)
    assert (stored(table), data_files(table)) == ([1, 2, 3], 3)
    assert transaction_version(table, REMOVING) == LATER


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_writer_that_was_overtaken_between_its_look_and_its_commit_removes_nothing(
    table: Location, removal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_table(table, SCHEMA, {"delta.appendOnly": "true"} if "undone" in removal else {})

    def asleep(place: Location) -> object:
        opened = open_table(place)
        later_writer(place)
        return opened

    monkeypatch.setattr(removing, "open_table", asleep)
    with pytest.raises(LeaseLost, match="another writer"):
        REMOVALS[removal](table)
    assert stored(table) == [1, 2, 3]
    assert transaction_version(table, REMOVING) == LATER
    assert append_only(table) == ("undone" in removal)


def test_a_writer_that_was_overtaken_between_its_own_commits_goes_no_further(
    table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_table(table, SCHEMA, {"delta.appendOnly": "true"})

    def asleep(*given: object, **named: object) -> None:
        later_writer(table)
        commit_files(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "commit_files", asleep)
    with pytest.raises(LeaseLost, match="another writer"):
        roll_back(table, [1], STALE, now_us())
    assert stored(table) == [1, 2, 3]
    assert transaction_version(table, REMOVING) == LATER


def test_an_undo_that_died_in_between_is_finished_and_the_table_takes_rows_only_again(
    table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_table(table, SCHEMA, {"delta.appendOnly": "true"})

    def killed(*given: object, **named: object) -> None:
        commit_files(*given, **named)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(commit, "commit_files", killed)
        roll_back(table, [1], STALE, now_us())
    assert (stored(table), append_only(table)) == ([2, 3], False)
    found = roll_back(table, [1], LATER, now_us())
    assert found is not None
    assert (stored(table), found[1], append_only(table)) == ([2, 3], 2, True)


def compacted(table: Location) -> None:
    found = rewrite(table, delta_snapshot(table).files, ["ts"])
    assert found is not None
    commit_rewritten(table, found, 1, now_us())


def test_a_stale_writer_deletes_nothing(table: Location) -> None:
    compacted(table)
    found = deletable_files(table, 0, now_us())
    assert len(found.data) == 3
    later_writer(table)
    with pytest.raises(LeaseLost):
        delete(table, found, STALE_REMOVER)
    assert data_files(table) == 4


def test_a_writer_that_lost_its_lease_deletes_nothing_though_the_table_does_not_say_so(table: Location) -> None:
    compacted(table)

    def lost() -> None:
        raise LeaseLost("another writer took this home over")

    with pytest.raises(LeaseLost):
        delete(table, deletable_files(table, 0, now_us()), Remover(STALE, lost))
    assert data_files(table) == 4


def test_a_file_that_a_writer_is_about_to_name_is_not_deleted(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    compacted(table)

    def meanwhile(point: str) -> None:
        if point == "commit.written":
            found = deletable_files(table, 0, now_us())
            assert len(found.data) == 3  # those of the compaction
            delete(table, found, Remover(LATER, lambda: None))

    monkeypatch.setattr(commit, "failpoint", meanwhile)
    append(table, 4)
    assert stored(table) == [1, 2, 3, 4]


def test_a_compacted_file_that_a_purge_deletes_before_its_commit_enters_no_log(
    table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge with ``--now`` deletes files that no commit has named, of whatever age."""

    def asleep(*given: object, **named: object) -> None:
        delete_now(table.parent, Remover(LATER, lambda: None), now_us())
        assert data_files(table) == 3
        commit_files(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "commit_files", asleep)
    with pytest.raises(LeaseLost):
        compacted(table)
    assert stored(table) == [1, 2, 3]


def test_a_compacted_file_that_a_purge_has_deleted_is_not_committed(table: Location) -> None:
    found = rewrite(table, delta_snapshot(table).files, ["ts"])
    assert found is not None
    delete_now(table.parent, Remover(1, lambda: None), now_us())
    assert commit_rewritten(table, found, LATER, now_us()) is None
    assert stored(table) == [1, 2, 3]
