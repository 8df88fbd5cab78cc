"""Small files made one: which, with the same rows to the byte, and in one commit behind the fence from every side."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranged import KINDS, as_rows, identical
from delta_tables import before_commit, opened
from weft.errors import LeaseLost, StorageError
from weft.storage.columns import INSTANT
from weft.storage.compaction import CompactionBounds, Rewritten, commit_rewritten, compactable, compactions, rewrite
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile, commit_file
from weft.storage.statistics import COLUMNS_PROPERTY, named_columns
from weft.storage.table import REMOVING, Fence, Table
from weft.store import LocalStore, Store

APP = "weft-table-1"
SCHEMA = pa.schema([("a", pa.int64()), ("ts", INSTANT)])


@pytest.fixture
def table(store: Store) -> Store:
    place = store / "tables/1-t"
    Table(place).ensure(SCHEMA, {COLUMNS_PROPERTY: named_columns(["ts"]), "delta.appendOnly": "true"})
    return place


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "ts": pa.array([v * 1_000_000 for v in values], INSTANT)})


def filled(table: Store, *files: pa.Table) -> tuple[DataFile, ...]:
    known = Table(table).number(APP) or 0
    for number, data in enumerate(files, known + 1):
        Table(table).append(data, Fence(APP, number))
    return Table(table).snapshot().files


def rewritten(table: Store) -> Rewritten:
    found = rewrite(Table(table), Table(table).snapshot().files, ["ts"])
    assert found is not None
    return found


def stored(table: Store) -> list[int]:
    found: list[int] = opened(table).to_pyarrow_table().column("a").to_pylist()
    return sorted(found)


def commit(table: Store, new: Rewritten, token: int, at: int = 0) -> int | None:
    committed = commit_rewritten(Table(table), new, token, at)
    return None if committed is None else committed.version


def file(number: int, least: int, rows: int | None, size: int) -> DataFile:
    return DataFile(LocalStore(f"/t/{number:04}"), size, rows, {"ts": least}, {})


FILES = st.lists(
    st.tuples(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 80)), st.integers(1, 900)), max_size=60
)


@given(FILES)
def test_groups_are_runs_of_small_files_of_about_one_size(drawn: list[tuple[int, int | None, int]]) -> None:
    files = [file(number, *each) for number, each in enumerate(drawn)]
    bounds = CompactionBounds(rows=100, size=1000, fewest=3)
    order = sorted(files, key=lambda each: (each.least["ts"], each.location))
    groups = compactable(files, "ts", bounds)
    for group in groups:
        places = [order.index(each) for each in group]
        assert places == list(range(places[0], places[0] + len(group)))
        assert len(group) >= 3
        assert sum(each.rows or 0 for each in group) <= 100
        assert sum(each.size for each in group) <= 1000
        assert all(each.rows is not None and 2 * each.rows <= 100 and 2 * each.size <= 1000 for each in group)
        assert 2 * max(each.size for each in group) <= sum(each.size for each in group)
    together = [each for group in groups for each in group]
    assert len(together) == len(set(map(id, together)))


def test_a_file_is_written_again_only_a_few_times_however_often_this_is_done() -> None:
    bounds = CompactionBounds(rows=10**9, size=10**9, fewest=8)
    files: list[DataFile] = []
    written = 0
    for number in range(4_000):
        files.append(file(number, number, 1, 10))
        for group in compactable(files, "ts", bounds):
            size = sum(each.size for each in group)
            written += size
            first = files.index(group[0])
            files[first : first + len(group)] = [file(number, group[0].least["ts"], 1, size)]
    assert len(files) < 100
    assert written < 12 * 4_000 * 10


def test_every_value_stays_the_same_to_the_byte(store: Store) -> None:
    place = store / "t"
    schema = pa.schema([("ts", INSTANT), *((name, kind) for name, (kind, _) in KINDS.items())])
    Table(place).ensure(schema, {COLUMNS_PROPERTY: named_columns(["ts"])})
    for number in range(20):
        columns = [pa.array([number * 1_000 + 1, 500, None], INSTANT)]
        columns += [pa.array([vs[number % len(vs)], None, vs[0]], kind) for kind, vs in KINDS.values()]
        Table(place).append(pa.table(columns, schema=schema), Fence(APP, number + 1))
    files = Table(place).snapshot().files
    before = read_data_files(files, schema)
    assert commit(place, rewritten(place), 1) == 21
    (one,) = Table(place).snapshot().files
    after = read_data_files([one], schema)
    assert identical(as_rows(after)) == identical(as_rows(before))
    instants = after.column("ts").cast(pa.int64()).drop_null().to_pylist()
    assert instants == sorted(instants)
    assert (one.least["ts"], one.greatest["ts"]) == (0, 19_999)
    assert identical(as_rows(opened(place).to_pyarrow_table(columns=schema.names))) == identical(as_rows(before))


def test_a_column_that_came_later_is_null_in_the_rows_from_before(table: Store) -> None:
    filled(table, rows(1), rows(2))
    Table(table).ensure(SCHEMA.append(pa.field("b", pa.string())), {})
    filled(table, rows(3).append_column("b", pa.array(["x"])))
    assert commit_rewritten(Table(table), rewritten(table), 1, 0) is not None
    found = opened(table).to_pyarrow_table().to_pylist()
    assert [(row["a"], row["b"]) for row in found] == [(1, None), (2, None), (3, "x")]


def test_the_commit_says_that_no_data_changed_and_whose_it_is(table: Store) -> None:
    files = filled(table, rows(1), rows(3), rows(2))
    version = commit(table, rewritten(table), 7, 5_000_000)
    assert version is not None
    actions = Table(table).entry(version).actions
    removed = [each["remove"] for each in actions if "remove" in each]
    (added,) = (each["add"] for each in actions if "add" in each)
    assert {each["path"] for each in removed} == {each.location.name for each in files}
    assert [each["dataChange"] for each in (*removed, added)] == [False] * 4
    assert {each["deletionTimestamp"] for each in removed} == {5_000}
    assert json.loads(added["stats"])["numRecords"] == 3
    assert Table(table).number(REMOVING) == 7
    one = Table(table).snapshot().files[0].location
    assert pq.read_table(one.path, filesystem=one.filesystem).column("a").to_pylist() == [1, 2, 3]
    found = Table(table).find(APP, 3)
    assert found is not None
    assert found.version == 3
    assert Table(table).append(rows(4), Fence(APP, 4)).version == version + 1


def test_rows_appended_meanwhile_stay(table: Store) -> None:
    filled(table, rows(1), rows(2))
    new = rewritten(table)
    filled(table, rows(9))
    assert commit(table, new, 1) == 4
    assert stored(table) == [1, 2, 9]
    assert len(Table(table).snapshot().files) == 2


def test_a_load_that_comes_first_changes_nothing(table: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(table, rows(1), rows(2))
    before_commit(monkeypatch, lambda: filled(table, rows(9)))
    assert commit(table, rewritten(table), 1) == 4
    assert stored(table) == [1, 2, 9]


BETWEEN: dict[str, Callable[[Store, Rewritten], object]] = {
    "the number is spent": lambda table, _: Table(table).spend(REMOVING, 9),
    "another one did the same": lambda table, _: commit_rewritten(Table(table), rewritten(table), 9, 0),
    "an older one did the same": lambda table, _: commit_rewritten(Table(table), rewritten(table), 3, 0),
}


@pytest.mark.parametrize("act", BETWEEN)
def test_a_concurrent_removal_of_files_fences_this_writer(
    table: Store, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(table, rows(1), rows(2))
    new = rewritten(table)
    before_commit(monkeypatch, lambda: BETWEEN[act](table, new))
    with pytest.raises(LeaseLost, match="another writer"):
        commit_rewritten(Table(table), new, 5, 0)
    assert stored(table) == [1, 2]


def test_a_later_lease_was_at_it_already(table: Store) -> None:
    filled(table, rows(1), rows(2))
    new = rewritten(table)
    Table(table).spend(REMOVING, 6)
    with pytest.raises(LeaseLost):
        commit_rewritten(Table(table), new, 5, 0)
    assert stored(table) == [1, 2]


def test_files_that_are_gone_or_a_new_one_that_is_leave_everything_as_it_is(table: Store) -> None:
    filled(table, rows(1), rows(2))
    one, other = rewritten(table), rewritten(table)
    assert commit_rewritten(Table(table), one, 1, 0) is not None
    assert commit_rewritten(Table(table), other, 2, 0) is None
    assert not other.added.location.exists()
    filled(table, rows(3))
    taken = rewritten(table)
    taken.added.location.remove()  # somebody else took it for litter
    assert commit_rewritten(Table(table), taken, 3, 0) is None
    assert stored(table) == [1, 2, 3]


def test_files_that_do_not_fit_into_memory_stay_apart(table: Store) -> None:
    filled(table, *(rows(*range(100 * n, 100 * n + 100)) for n in range(4)))
    found = rewrite(Table(table), Table(table).snapshot().files, ["ts"], CompactionBounds(held=4_000))
    assert found is not None
    assert len(found.removed) == 2
    assert rewrite(Table(table), Table(table).snapshot().files, ["ts"], CompactionBounds(held=2_000)) is None


def test_a_file_with_other_rows_than_the_log_says_is_never_rewritten(table: Store) -> None:
    files = filled(table, rows(1), rows(2))
    with pytest.raises(StorageError, match="1 row, but the table's log says 2"):
        rewrite(Table(table), [DataFile(files[0].location, files[0].size, 2, {}, {}), files[1]], ["ts"])


def test_the_log_shows_which_files_were_merged_into_which(table: Store) -> None:
    first = filled(table, rows(1), rows(2))
    commit_rewritten(Table(table), rewritten(table), 1, 0)
    middle = filled(table, rows(3))
    commit_rewritten(Table(table), rewritten(table), 2, 0)
    found = compactions(Table(table), [str(each.location) for each in first])
    assert [{f.location for f in each.removed} for each in found] == [
        {each.location for each in first},
        {each.location for each in middle},
    ]
    assert [each.size for each in found[0].removed] == [each.size for each in first]
    assert compactions(Table(table), [str(middle[-1].location)]) == found[1:]
    assert compactions(Table(table), []) == []
    assert compactions(Table(table), ["/never/there"]) == []
    for version in range(4):
        commit_file(table, version).remove()
    assert compactions(Table(table), [str(first[0].location)]) == []
