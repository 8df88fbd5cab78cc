"""Files are copied between stores of both kinds, and a copy that reads back differently is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from s3_server import lossy, new_bucket
from weft.errors import StorageError
from weft.store import S3Access, Store, local_store
from weft.store.transfer import transfer, walk

LARGE = os.urandom(9 << 20)  # several chunks


@pytest.mark.parametrize("back", [False, True])
def test_a_tree_is_copied_and_its_damage_repaired(store: Store, tmp_path: Path, back: bool) -> None:
    here, there = local_store(tmp_path / "other"), store / "home"
    source, target = (there, here) if back else (here, there)
    files = {"a/_delta_log/0.json": b"{}", "a/part 1%20.parquet": LARGE, "b": b""}
    for name, raw in files.items():
        (source / name).put(raw)
    assert walk(source) == {name: len(raw) for name, raw in files.items()} and walk(target) == {}
    for _ in range(2):
        assert [transfer(source / name, target / name) for name in files] == [len(raw) for raw in files.values()]
        assert {name: (target / name).read() for name in walk(target)} == files
        for name in files:
            (target / name).remove()
            (target / name).put(b"damaged")


def test_an_identical_target_is_kept(store: Store, tmp_path: Path) -> None:
    source, target = local_store(tmp_path / "other") / "a", store / "a"
    source.put(b"x")
    target.put(b"x")
    before = target.mark()
    assert transfer(source, target) == 1 and target.mark() == before


def test_a_refused_upload_is_an_error(s3_access: S3Access, tmp_path: Path) -> None:
    store = new_bucket(s3_access)
    source = local_store(tmp_path / "other") / "a"
    source.put(b"x" * 1000)
    with (
        lossy(store, lambda method, _: "403" if method == "PUT" else None) as refusing,
        pytest.raises(StorageError, match="refuses the access"),
    ):
        transfer(source, refusing / "a")
    assert not (store / "a").exists()
    assert transfer(source, store / "a") == 1000


def test_a_file_that_is_gone_leaves_no_copy(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        transfer(store / "gone", local_store(tmp_path / "other") / "gone")
    assert walk(local_store(tmp_path / "other")) == {}
