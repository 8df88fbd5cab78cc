"""Stored totals are read only while they are those of the tables, and cost only time where they are not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from weft.arrangement import state_store
from weft.arrangement.state_store import Files, StateStore, among, replaced
from weft.storage.delta_log import DataFile
from weft.store import local_store

ROWS = pa.table({"c1": ["a", None, "b"], "n": pa.array([1, 2, 3], pa.int64())})
OTHER = pa.table({"c1": ["a"], "n": pa.array([9], pa.int64())})


def files(folder: Path, *least: tuple[str, int | None]) -> Files:
    """The files of the table ``msgs``, each with the least ts according to the log, or without it."""
    made = [DataFile(local_store(folder) / name, 1, 1, {} if ts is None else {"ts": ts}, {}) for name, ts in least]
    return {"msgs": ("ts", made)}


def stored(folder: Path) -> StateStore:
    store = StateStore(folder / "states")
    store.write("s", 100, ROWS, files(folder, ("one", 5)))
    return store


def test_the_latest_totals_up_to_an_instant(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.write("s", 200, OTHER, files(tmp_path, ("one", 5)))
    same = files(tmp_path, ("one", 5))
    assert store.totals("s", 99, same) is None
    for asked, at, rows in ((100, 100, ROWS), (199, 100, ROWS), (200, 200, OTHER), (999, 200, OTHER)):
        found = store.totals("s", asked, same)
        assert found is not None
        assert (found.at, found.rows) == (at, rows)
    store.write("s", 300, OTHER, same)
    assert store.totals("s", 199, same) is None  # two instants are kept
    assert store.totals("other", 999, same) is None


@pytest.mark.parametrize(
    ("least", "valid"),
    [
        ([("one", 5)], True),
        ([("one", 5), ("two", 100)], True),  # a later row
        ([("one", 5), ("two", 99)], False),  # a late row
        ([("one", 5), ("two", None)], False),  # nobody knows
        ([("two", 5)], False),  # compacted, undone or purged
        ([], False),
    ],
)
def test_totals_of_other_files(tmp_path: Path, least: list[tuple[str, int | None]], valid: bool) -> None:
    assert (stored(tmp_path).totals("s", 100, files(tmp_path, *least)) is not None) == valid


def test_totals_advance_without_being_written_again(tmp_path: Path) -> None:
    store, now = stored(tmp_path), files(tmp_path, ("one", 5), ("two", 150))
    before = store.totals("s", 100, now)
    assert before is not None
    for at in (200, 300, 400):
        store.advance("s", before, at, now)
        before = store.totals("s", at, now)
        assert before is not None
        assert (before.at, before.rows) == (at, ROWS)
    assert [path.name for path in (tmp_path / "states" / "s").glob("*.parquet")] == ["100.parquet"]
    assert store.totals("s", 400, files(tmp_path, ("one", 5), ("two", 150), ("three", 250))) is None


def test_damage_is_noticed(tmp_path: Path) -> None:
    same = files(tmp_path, ("one", 5))
    for harm in ("data", "short", "manifest", "format"):
        store = stored(tmp_path)
        data, manifest = tmp_path / "states/s/100.parquet", tmp_path / "states/s/100.json"
        if harm == "data":
            data.write_bytes(data.read_bytes()[:-1] + b"?")
        elif harm == "short":
            data.write_bytes(data.read_bytes()[:40])
        elif harm == "manifest":
            manifest.write_text("{")
        else:
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
        assert store.totals("s", 100, same) is None, harm


def test_states_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path / "states")
    assert not store.is_refused("s")
    monkeypatch.setattr(state_store, "_MOST_BYTES", 10)
    store.write("s", 100, ROWS, files(tmp_path, ("one", 5)))
    assert store.is_refused("s")
    assert store.totals("s", 100, files(tmp_path, ("one", 5))) is None


def test_unused_states_go_after_a_month(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.write("t", 100, ROWS, files(tmp_path, ("one", 5)))
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
    assert sorted(replaced(ROWS, keys, OTHER, ["c1"]).column("n").to_pylist()) == [3, 9]
    assert replaced(ROWS, keys, OTHER, []).equals(OTHER)
