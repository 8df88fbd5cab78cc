"""An arrangement gives the rows that a search through all rows gives, whatever happened to its files and runs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arranged import KINDS, Files, Row, as_table, looked_up, matching
from weft.arrangement import Arrangement, ArrangementError, hashing, manifest, merging
from weft.storage.compaction import Compaction

SCHEMA = pa.schema([("id", pa.int64()), ("parent", pa.string()), ("score", pa.float64())])
ROWS: list[Row] = [
    (number, None if number % 7 == 0 else f"parent {number // 3}", math.nan if number % 5 == 0 else number / 2)
    for number in range(200)
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Many chunks, runs and merges from few rows."""
    patch.setattr(merging, "BATCH_ROWS", 7)
    patch.setattr(merging, "FANOUT", 3)
    patch.setattr(merging, "LEAST_TIER_ROWS", 4)
    patch.setattr(merging, "MERGED_AT_ONCE", 40)
    patch.setattr(merging, "MOST_RUNS", 8)


def opened(folder: Path, key: Sequence[str] = ("parent",), schema: pa.Schema = SCHEMA) -> Arrangement:
    return Arrangement.open(folder, key, schema)


def caught_up(folder: Path, rows: Sequence[Row] = ROWS, key: Sequence[str] = ("parent",)) -> tuple[Arrangement, Files]:
    table = Files(SCHEMA)
    for at in range(0, len(rows), 50):
        table.add(f"part-{at}.parquet", rows[at : at + 50])
    arrangement = opened(folder, key)
    arrangement.catch_up(table.files, table.read)
    return arrangement, table


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, tuple[str, ...], st.SearchStrategy[Row]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    schema = pa.schema([(f"column {at}", KINDS[name][0]) for at, name in enumerate(names)])
    fit = [f"column {at}" for at, name in enumerate(names) if name != "ARRAY<STRING>"]
    if not fit:
        schema, fit, names = schema.append(pa.field("key", pa.string())), ["key"], [*names, "STRING"]
    key = draw(st.lists(st.sampled_from(fit), min_size=1, max_size=3, unique=True))
    return schema, tuple(key), st.tuples(*(st.sampled_from((*KINDS[name][1], None)) for name in names))


IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where forcing a file to the disk takes no time."""

STEPS = st.sampled_from(("add", "add", "add", "merge", "reopen", "vanish", "compact"))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), made=tables())
def test_random_histories_give_what_a_scan_gives(data: st.DataObject, made: Any) -> None:
    schema, key, row = made
    positions = [schema.get_field_index(name) for name in key]
    table, moved, written = Files(schema), [], 0
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        arrangement = opened(Path(folder), key, schema)
        for step in data.draw(st.lists(STEPS, min_size=1, max_size=12)):
            names = sorted(table.content)
            if step == "reopen":
                arrangement = opened(Path(folder), key, schema)
            elif step == "merge":
                arrangement.merge()
            elif step == "vanish" and names:
                del table.content[data.draw(st.sampled_from(names))]
            elif step == "compact" and names:
                moved.append(compact(table, names[:2], f"compacted-{written}"))
                written += 1
            elif step == "add":
                table.add(f"part-{written}", data.draw(st.lists(row, max_size=25)))
                written += 1
            if data.draw(st.booleans()):
                continue  # several changes between two catch-ups
            catch_up_and_compare(arrangement, table, moved, positions, data.draw(st.lists(row, max_size=4)))
        catch_up_and_compare(arrangement, table, moved, positions, data.draw(st.lists(row, max_size=4)))


def compact(table: Files, names: Sequence[str], into: str) -> Compaction:
    removed = [table.file(name) for name in names]
    rows = [row for name in names for row in table.content.pop(name)]
    return Compaction(removed, [table.add(into, reversed(rows))])


def catch_up_and_compare(
    arrangement: Arrangement, table: Files, moved: list[Compaction], positions: Sequence[int], asked: Sequence[Row]
) -> None:
    announced, table.read_rows = arrangement.behind(table.files, moved), 0
    arrangement.catch_up(table.files, table.read, moved)
    moved.clear()
    assert announced == table.read_rows
    assert arrangement.rows == len(table.rows)
    assert arrangement.behind(table.files) == 0
    keys = [tuple(row[at] for at in positions) for row in (*asked, *table.rows[::3])]
    for null_safe in (False, True):
        assert looked_up(arrangement, keys, null_safe) == matching(table.rows, positions, keys, null_safe)


def test_each_row_comes_once_though_keys_repeat(tmp_path: Path) -> None:
    arrangement, table = caught_up(tmp_path)
    keys = [("parent 1",), ("parent 2",), ("parent 1",), (None,), ("not there",)]
    assert looked_up(arrangement, keys) == matching(table.rows, [1], keys)
    assert sum(looked_up(arrangement, keys).values()) == 5  # 3, 4, 5 and 6, 8: the seventh has no parent


def test_null_equals_null_only_where_that_is_asked_for(tmp_path: Path) -> None:
    arrangement, table = caught_up(tmp_path, key=("parent", "score"))
    keys = [(None, 3.5), (None, math.nan), ("parent 1", math.nan), ("parent 1", 2.0)]
    assert looked_up(arrangement, keys) == matching(table.rows, [1, 2], keys)
    assert looked_up(arrangement, keys, null_safe=True) == matching(table.rows, [1, 2], keys, null_safe=True)
    assert sum(looked_up(arrangement, keys, null_safe=True).values()) > sum(looked_up(arrangement, keys).values()) > 0


def test_rows_with_equal_hashes_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        hashing, "_key_hash", lambda columns: f"hash({', '.join(f'k{i}' for i in range(len(columns)))}) % 4"
    )
    arrangement, table = caught_up(tmp_path)
    for key in ("parent 1", "parent 2", "not there"):
        assert looked_up(arrangement, [(key,)]) == matching(table.rows, [1], [(key,)])
    keys = [(f"parent {number}",) for number in range(60)]
    assert not matching(table.rows, [1], keys) - looked_up(arrangement, keys)


def test_keys_of_none_and_keys_of_another_shape(tmp_path: Path) -> None:
    arrangement, _ = caught_up(tmp_path)
    assert arrangement.lookup(pa.table({"k": pa.array([], pa.string())})).num_rows == 0
    assert arrangement.lookup(pa.table({"k": pa.array([None], pa.string())})).schema.equals(SCHEMA)
    with pytest.raises(ArrangementError, match="2 columns do not match the key"):
        arrangement.lookup(pa.table({"a": ["x"], "b": ["y"]}))


def test_a_missing_state_does_not_count_as_empty(tmp_path: Path) -> None:
    with pytest.raises(ArrangementError, match="no state"):
        looked_up(opened(tmp_path / "nothing"), [("parent 1",)])
    arrangement = opened(tmp_path / "empty")
    arrangement.catch_up([], Files(SCHEMA).read)
    assert looked_up(arrangement, [("parent 1",)]) == matching([], [1], [])
    assert arrangement.why_rebuilt is None


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ((), pa.int64()),
        (("x",), pa.int64()),
        (("a",), pa.list_(pa.string())),
        (("a",), pa.timestamp("ns")),
        (("a",), pa.uint8()),
    ],
)
def test_columns_that_cannot_be_arranged_are_refused(tmp_path: Path, key: tuple[str, ...], kind: pa.DataType) -> None:
    with pytest.raises(ArrangementError, match="cannot be created"):
        opened(tmp_path, key, pa.schema([("a", kind)]))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArrangementError, match="cannot be created"):
        opened(tmp_path, ("a",), pa.schema([("a", pa.int64()), ("a", pa.int64())]))


def test_names_that_differ_in_case_and_look_like_its_own(tmp_path: Path) -> None:
    schema = pa.schema([("A", pa.int64()), ("a", pa.int64()), ("hash", pa.string()), ('k0" ;', pa.string())])
    table = Files(schema)
    table.add("part", [(1, 2, "x", "y"), (2, 1, "y", "x")])
    arrangement = opened(tmp_path, ("a", 'k0" ;'), schema)
    arrangement.catch_up(table.files, table.read)
    assert looked_up(arrangement, [(2, "y")]) == matching(table.rows, [1, 3], [(2, "y")])
    assert looked_up(arrangement, [(2, "x")]) == matching([], [1, 3], [])


def test_columns_are_found_by_name_and_others_left_out(tmp_path: Path) -> None:
    arrangement = opened(tmp_path)
    given = as_table(ROWS[:5], SCHEMA).select(["score", "parent", "id"]).append_column("more", pa.array(range(5)))
    table = Files(SCHEMA)
    table.add("part", ROWS[:5])
    arrangement.catch_up(table.files, lambda files: [given])
    assert looked_up(arrangement, [("parent 1",)]) == matching(ROWS[:5], [1], [("parent 1",)])


def test_too_few_rows_from_a_file_are_noticed(tmp_path: Path) -> None:
    arrangement, table = caught_up(tmp_path)
    table.add("new", ROWS[:10])
    with pytest.raises(ArrangementError, match="9 rows were read from files that have 10"):
        arrangement.catch_up(table.files, lambda files: [as_table(ROWS[:9], SCHEMA)])
    arrangement.catch_up(table.files, table.read)
    assert looked_up(arrangement, [("parent 1",)]) == matching(table.rows, [1], [("parent 1",)])
    assert len(list(tmp_path.iterdir())) == arrangement.runs + 1


def test_a_file_of_another_size_and_one_without_a_count(tmp_path: Path) -> None:
    arrangement, table = caught_up(tmp_path)
    table.add("part-0.parquet", ROWS[:3])
    assert arrangement.behind(table.files) == len(table.rows)
    uncounted = [*table.files, type(table.files[0])(table.files[0].location / "x", 5, None, {}, {})]
    assert arrangement.behind(uncounted) is None
    arrangement.catch_up(table.files, table.read)
    assert arrangement.why_rebuilt == "covered files are no longer in the table"
    assert looked_up(arrangement, [("parent 1",)]) == matching(table.rows, [1], [("parent 1",)])


def test_a_compaction_is_taken_without_reading(tmp_path: Path) -> None:
    arrangement, table = caught_up(tmp_path)
    moved = [compact(table, ["part-0.parquet", "part-50.parquet"], "one")]
    moved.append(compact(table, ["one", "part-100.parquet"], "two"))
    table.add("new", [(1000, "parent 1", None)])
    assert arrangement.behind(table.files, moved) == 1
    assert arrangement.behind(table.files) == len(table.rows)
    table.read_rows = 0
    arrangement.catch_up(table.files, table.read, moved)
    assert (table.read_rows, arrangement.rows, arrangement.why_rebuilt) == (1, 201, None)
    assert looked_up(arrangement, [("parent 1",)]) == matching(table.rows, [1], [("parent 1",)])


def test_the_number_of_runs_grows_as_the_logarithm(tmp_path: Path, small: None) -> None:
    arrangement, table = opened(tmp_path), Files(SCHEMA)
    most = 0
    for at in range(90):
        table.add(f"part-{at}", ROWS[2 * at : 2 * at + 2])
        arrangement.catch_up(table.files, table.read)
        most = max(most, arrangement.runs)
    assert most <= 10
    assert arrangement.rows == 180
    before = arrangement.runs
    assert arrangement.merge() == before - arrangement.runs > 0
    assert arrangement.runs <= 3
    assert arrangement.merge() == 0
    assert {path.suffix for path in tmp_path.iterdir()} == {".arrow", ".json"}
    assert len(list(tmp_path.iterdir())) == arrangement.runs + 1


def test_one_key_with_most_rows_is_merged_piece_by_piece(tmp_path: Path, small: None) -> None:
    rows: list[Row] = [(number, None if number % 10 else "rare", 0.0) for number in range(300)]
    arrangement, table = caught_up(tmp_path, rows)
    arrangement.merge()
    assert max(batch.num_rows for run in arrangement._runs for batch in run.batches) <= 14
    for key in (None, "rare"):
        assert looked_up(arrangement, [(key,)], True) == matching(table.rows, [1], [(key,)], True)


def test_a_reader_keeps_its_rows_while_another_process_merges(tmp_path: Path, small: None) -> None:
    writer, table = caught_up(tmp_path)
    reader = opened(tmp_path)
    before = matching(table.rows, [1], [("parent 1",)])
    table.add("new", [(1000, "parent 1", None)])
    writer.catch_up(table.files, table.read)
    writer.merge()
    assert looked_up(reader, [("parent 1",)]) == before
    assert reader.behind(table.files) == 0
    assert looked_up(reader, [("parent 1",)]) == matching(table.rows, [1], [("parent 1",)])


def test_a_run_that_is_merged_between_manifest_and_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, table = caught_up(tmp_path)
    bytes_of, passes = manifest.manifest_bytes, []

    def merged_meanwhile(folder: Path) -> bytes | None:
        raw = bytes_of(folder)
        if not passes:
            passes.append(1)
            table.content.clear()
            table.add("other", ROWS[:20])
            writer.catch_up(table.files, table.read)
        return raw

    monkeypatch.setattr("weft.arrangement.arrangement.manifest_bytes", merged_meanwhile)
    reader = opened(tmp_path)
    assert reader.why_rebuilt is None
    assert looked_up(reader, [("parent 1",)]) == matching(ROWS[:20], [1], [("parent 1",)])


def test_two_objects_that_write_in_turn(tmp_path: Path, small: None) -> None:
    one, table = caught_up(tmp_path)
    other = opened(tmp_path)
    for at, arrangement in enumerate((one, other, one, one, other, other)):
        table.add(f"turn-{at}", [(at, "parent 1", None)])
        table.read_rows = 0
        arrangement.catch_up(table.files, table.read)
        assert table.read_rows == 1
        assert looked_up(arrangement, [("parent 1",)]) == matching(table.rows, [1], [("parent 1",)])


@pytest.fixture
def full_disk() -> Iterator[None]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_said_and_nothing_changes(tmp_path: Path, full_disk: None) -> None:
    arrangement, table = opened(tmp_path), Files(SCHEMA)
    table.add("part", ROWS)
    with pytest.raises(ArrangementError, match="cannot be written"):
        arrangement.catch_up(table.files, table.read)
    assert arrangement.behind(table.files) == 200


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ArrangementError, match="cannot be written"):
        opened(tmp_path / "below").catch_up([], Files(SCHEMA).read)


def test_the_ledger_by_query_and_hash(tmp_path: Path) -> None:
    schema = pa.schema([("query_id", pa.int64()), ("row_hash", pa.string())])
    table = Files(schema)
    table.add("part", [(number % 5, f"{number:064x}") for number in range(1000)])
    arrangement = opened(tmp_path, schema.names, schema)
    arrangement.catch_up(table.files, table.read)
    keys = [(number % 4, f"{number:064x}") for number in range(500)]
    assert looked_up(arrangement, keys) == matching(table.rows, [0, 1], keys)


def test_threads_may_open_runs_at_once() -> None:
    """An unlocked OrderedDict ends the process, so the threads run in a process of their own."""
    code = (
        "import sys; from pathlib import Path; from threading import Thread; from types import SimpleNamespace\n"
        "from weft.arrangement import run\n"
        "sys.setswitchinterval(1e-6)\n"
        "def work():\n"
        "    for number in range(3000):\n"
        "        run.keep_open(Path(f'folder{number % 3}'), [SimpleNamespace(identity=(number,))])\n"
        "threads = [Thread(target=work) for _ in range(4)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "assert sorted(run._open) == ['folder0', 'folder1', 'folder2'], run._open\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
