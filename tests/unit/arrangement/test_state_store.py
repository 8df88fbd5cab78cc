"""Stored totals are read only while they are those of the tables, and cost only time where they are not."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from weft.arrangement import state_store
from weft.arrangement.state_store import Files, StateStore, StoredFiles, StoredTotals, among
from weft.storage.columns import INSTANT
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.store import local_store

ROWS = pa.table({"c1": ["a", None, "b"], "n": pa.array([1, 2, 3], pa.int64())})
OTHER = pa.table({"c1": ["a"], "n": pa.array([9], pa.int64())})


def files(folder: Path, *least: tuple[str, int | None]) -> Files:
    """The files of the table ``msgs``, each with the least ts according to the log, or without it."""
    made = [DataFile(local_store(folder) / name, 1, 1, {} if ts is None else {"ts": ts}, {}) for name, ts in least]
    return {"msgs": StoredFiles("ts", made)}


def write(
    store: StateStore, at: int, rows: pa.Table, same: Files, before: StoredTotals | None = None, name: str = "s"
) -> None:
    store.write(name, at, rows, same, before, added_up)


def added_up(rows: pa.Table) -> pa.Table:
    """One row for each group."""
    return rows.group_by("c1").aggregate([("n", "sum")]).rename_columns(["c1", "n"])


def stored(folder: Path) -> StateStore:
    store = StateStore(folder / "states")
    write(store, 100, ROWS, files(folder, ("one", 5)))
    return store


def values(found: StoredTotals | None) -> dict[str | None, int] | None:
    """The total of each group."""
    if found is None:
        return None
    rows = added_up(found.rows)
    return dict(zip(rows.column("c1").to_pylist(), rows.column("n").to_pylist(), strict=True))


def test_the_latest_totals_up_to_an_instant(tmp_path: Path) -> None:
    store = stored(tmp_path)
    write(store, 200, OTHER, files(tmp_path, ("one", 5)))
    same = files(tmp_path, ("one", 5))
    assert store.totals("s", 99, same) is None
    for asked, at, rows in ((100, 100, ROWS), (199, 100, ROWS), (200, 200, OTHER), (999, 200, OTHER)):
        found = store.totals("s", asked, same)
        assert found is not None
        assert (found.at, found.rows) == (at, rows)
    write(store, 300, OTHER, same)
    assert store.totals("s", 199, same) is None  # two instants are kept
    assert store.totals("other", 999, same) is None


@pytest.mark.parametrize(("revised", "valid"), [(None, True), (100, True), (99, False)])
def test_totals_before_which_an_instant_was_corrected(tmp_path: Path, revised: int | None, valid: bool) -> None:
    same = {"msgs": StoredFiles("ts", files(tmp_path, ("one", 5))["msgs"].files, 7)}
    stored(tmp_path)
    asked: list[tuple[set[int], int]] = []

    def earliest(tables: Collection[int], since: int) -> int | None:
        asked.append((set(tables), since))
        return revised

    store = StateStore(tmp_path / "states", earliest)
    assert (store.totals("s", 100, same) is not None) == valid
    assert asked == [({7}, 100)]


@pytest.mark.parametrize(
    ("least", "valid"),
    [
        ([("one", 5)], True),
        ([("one", 5), ("two", 100)], True),  # a later row
        ([("one", 5), ("two", -900)], False),  # a late row
        ([("one", 5), ("two", None)], False),  # nobody knows
        ([("two", 5)], False),  # compacted, undone or purged
        ([], False),
    ],
)
def test_totals_of_other_files(tmp_path: Path, least: list[tuple[str, int | None]], valid: bool) -> None:
    assert (stored(tmp_path).totals("s", 100, files(tmp_path, *least)) is not None) == valid


@pytest.mark.parametrize(("instants", "valid"), [((100, 700), True), ((99, 700), False)])
def test_rows_at_the_instant_of_the_totals_are_later(tmp_path: Path, instants: tuple[int, ...], valid: bool) -> None:
    """The log rounds their instant down to a millisecond, so the file decides."""
    rows = pa.table({"ts": pa.array(instants, INSTANT)})
    new = FileForm(local_store(tmp_path), rows.schema, ("ts",)).write([rows])
    late = DataFile(new.location, new.size, new.rows, {"ts": 0}, {"ts": 999})
    known = files(tmp_path, ("one", 5))["msgs"].files
    found = stored(tmp_path).totals("s", 100, {"msgs": StoredFiles("ts", [*known, late])})
    assert (found is not None) == valid


def test_totals_advance_without_being_written_again(tmp_path: Path) -> None:
    store, now = stored(tmp_path), files(tmp_path, ("one", 5), ("two", 150))
    before = store.totals("s", 100, now)
    assert before is not None
    for at in (200, 300, 400):
        store.advance("s", before, at, now)
        before = store.totals("s", at, now)
        assert before is not None
        assert (before.at, before.rows) == (at, ROWS)
    assert [path.name for path in (tmp_path / "states" / "s").glob("*.arrow")] == ["100.arrow"]
    assert store.totals("s", 400, files(tmp_path, ("one", 5), ("two", 150), ("three", -900))) is None


def test_damage_is_noticed(tmp_path: Path) -> None:
    same = files(tmp_path, ("one", 5))
    for harm in ("data", "short", "manifest", "format"):
        store = stored(tmp_path)
        data, manifest = tmp_path / "states/s/100.arrow", tmp_path / "states/s/100.json"
        if harm == "data":
            data.write_bytes(data.read_bytes()[:-1] + b"?")
        elif harm == "short":
            data.write_bytes(data.read_bytes()[:40])
        elif harm == "manifest":
            manifest.write_text("{")
        else:
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
        assert store.totals("s", 100, same) is None, harm


def test_totals_are_written_beside_a_damaged_description(tmp_path: Path) -> None:
    store, same = stored(tmp_path), files(tmp_path, ("one", 5))
    write(store, 200, OTHER, same)
    (tmp_path / "states/s/200.json").write_text("")
    write(store, 300, OTHER, same, store.totals("s", 299, same))
    assert values(store.totals("s", 300, same)) == {"a": 10, None: 2, "b": 3}


def test_states_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path / "states")
    assert not store.is_refused("s")
    monkeypatch.setattr(state_store, "MOST_BYTES", 10)
    write(store, 100, ROWS, files(tmp_path, ("one", 5)))
    assert store.is_refused("s")
    assert store.totals("s", 100, files(tmp_path, ("one", 5))) is None


def test_unused_states_go_after_a_month(tmp_path: Path) -> None:
    store = stored(tmp_path)
    write(store, 100, ROWS, files(tmp_path, ("one", 5)), name="t")
    old = (tmp_path / "states" / "t").stat().st_mtime - 40 * 86_400
    os.utime(tmp_path / "states" / "t", (old, old))
    store.remove_unused()
    assert [path.name for path in (tmp_path / "states").glob("*")] == ["s"]


def test_files_follow_the_permissions_of_the_home(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    stored(tmp_path)
    for path in (tmp_path / "states").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_null_equals_null(tmp_path: Path) -> None:
    keys = pa.table({"c1": pa.array([None, "a"], pa.string())})
    assert sorted(among(ROWS, keys, ["c1"]).column("n").to_pylist()) == [1, 2]
    assert among(ROWS, keys, []).equals(ROWS)


KINDS = (pa.string(), pa.int32(), pa.float64(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.bool_())


def drawn(chance: random.Random, kind: pa.DataType, count: int) -> pa.Array:
    values = {
        pa.string(): ["", "a", "b", "ü", None],
        pa.float64(): [0.0, 1.5, float("nan"), None],
        pa.decimal128(9, 2): [Decimal("1.10"), Decimal("-1.10"), None],
        pa.bool_(): [True, False, None],
    }.get(kind, [0, 1, 2, 3, None])
    return pa.array(chance.choices(values, k=count), kind)


@pytest.mark.parametrize("width", [1, 2])
def test_look_ups_by_hash_find_the_rows_of_the_groups(width: int, tmp_path: Path) -> None:
    chance, store, same, found = random.Random(width), StateStore(tmp_path / "states"), files(tmp_path, ("one", 5)), 0
    names = [f"c{number}" for number in range(1, width + 1)]
    for number, kinds in enumerate(itertools.product(KINDS, repeat=width)):
        before = None
        for at, count in ((1, 40), (2, 3)):
            rows = pa.table([*(drawn(chance, kind, count) for kind in kinds), range(count)], [*names, "n"])
            store.write(str(number), at, rows, same, before, lambda rows: rows, names)
            before = store.totals(str(number), at, same)
        assert before is not None and len(before.parts) == 2
        keys = pa.table([drawn(chance, kind, 2) for kind in kinds], names)
        wanted = among(before.rows, keys, names)
        assert sorted(map(repr, before.among(keys, names).to_pylist())) == sorted(map(repr, wanted.to_pylist()))
        assert before.among(keys.slice(0, 0), names).num_rows == 0
        found += wanted.num_rows
    assert found > 20


def test_keys_without_a_hash_have_no_order(tmp_path: Path) -> None:
    store, same = StateStore(tmp_path / "states"), files(tmp_path, ("one", 5))
    rows = pa.table({"c1": pa.array([["a"], ["b"]], pa.list_(pa.string())), "n": pa.array([1, 2], pa.int64())})
    store.write("s", 1, rows, same, None, lambda rows: rows, ["c1"])
    found = store.totals("s", 1, same)
    assert found is not None and found.among(rows.slice(1), ["c1"]).to_pylist() == [{"c1": ["b"], "n": 2}]


def test_totals_of_the_version_before_are_read_and_get_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their parts have no order, as those that another version of DuckDB ordered."""
    same = files(tmp_path, ("one", 5))
    for harm in ("version 3", "other hashes"):
        store = StateStore(tmp_path / harm)
        store.write("s", 100, ROWS, same, None, added_up, ["c1"])
        if harm == "version 3":
            store.write("s", 100, ROWS, same, None, added_up)
            manifest = tmp_path / harm / "s/100.json"
            described = json.loads(manifest.read_text())
            described["parts"] = [
                {name: part[name] for name in ("data", "rows", "digest")} for part in described["parts"]
            ]
            manifest.write_text(json.dumps({**described, "format": 3}))
        else:
            monkeypatch.setattr(state_store, "hash_version", lambda: "another")
        before = store.totals("s", 100, same)
        assert values(before) == {"a": 1, None: 2, "b": 3}
        assert before is not None and before.among(OTHER, ["c1"]).to_pylist() == [{"c1": "a", "n": 1}]
        store.write("s", 200, OTHER, same, before, added_up, ["c1"])
        after = store.totals("s", 200, same)
        assert values(after) == {"a": 10, None: 2, "b": 3}
        assert after is not None and [part["order"] for part in after.manifest] == [["c1", state_store.hash_version()]]


def test_changes_become_parts(tmp_path: Path) -> None:
    """What a tick adds is a part of its own, and parts of about equal size become one. Earlier totals remain."""
    store, same, wanted = (
        StateStore(tmp_path / "states"),
        files(tmp_path, ("one", 5)),
        dict.fromkeys(map(str, range(99)), 1),
    )
    write(store, 0, pa.table({"c1": list(wanted), "n": pa.array(list(wanted.values()), pa.int64())}), same)
    sizes = []
    for at in range(1, 40):
        before = store.totals("s", at, same)
        names = [str(at), str(100 + at)]
        write(store, at, pa.table({"c1": names, "n": pa.array([at, -at], pa.int64())}), same, before)
        earlier, wanted = dict(wanted), {**wanted, names[0]: wanted[names[0]] + at, names[1]: -at}
        found = store.totals("s", at, same)
        assert found is not None
        assert (values(found), values(store.totals("s", at - 1, same))) == (wanted, earlier)
        sizes.append([part.num_rows for part in found.parts])
    assert sizes[0] == [99, 2] and max(map(len, sizes)) <= 3 and min(map(len, sizes)) == 1
    stored_files = {path.name for path in (tmp_path / "states" / "s").glob("*.arrow")}
    assert len(stored_files) <= 6
