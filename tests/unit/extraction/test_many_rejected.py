"""Many records that cannot be read: kept set at a time, none lost and none twice after a kill at any point."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import forked
from weft.api.weft import Weft
from weft.store import LocalStore

LOAD = """
import sys
from weft.api.weft import Weft
with Weft.open(sys.argv[1], create=True) as weft:
    weft.ingest_file(sys.argv[2], "t", types="v BIGINT")
"""
COUNT = 2_500


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bad.csv"
    path.write_text("id,v\n" + "".join(f"{n},{n if n % 5 == 0 else f'bad {n}'}\n" for n in range(COUNT)))
    return path


def test_a_set_of_records_is_one_transaction(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.catalog.database import Database

    changes = []
    changing = Database.changing

    def counted(self: Database):  # type: ignore[no-untyped-def]
        changes.append(1)
        return changing(self)

    monkeypatch.setattr(Database, "changing", counted)
    with Weft.open(tmp_path / "home", create=True) as weft:
        done = weft.ingest_file(file, "t", types="v BIGINT")
        assert (done.stored, done.quarantined) == (COUNT // 5, COUNT - COUNT // 5)
    assert len(changes) < 50


@pytest.mark.parametrize("point", ["store.drafted", "ingest.quarantined", "ingest.reserved", "ingest.written"])
def test_a_killed_load_loses_none_and_keeps_none_twice(tmp_path: Path, file: Path, point: str) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-c", LOAD, str(home), str(file)]
    killed = forked.run(command, point)
    assert killed.returncode != 0
    for _ in range(2):
        assert forked.run(command).returncode == 0
    with Weft.open(home) as weft:
        records = weft.quarantined()
        assert len({each.position for each in records}) == len(records) == COUNT - COUNT // 5
        assert weft.catalog.tables.named("t").rows == COUNT // 5
        folder = weft.catalog.data / "quarantine"
        assert set(folder.names()) == {each.sha256 for each in records}


def test_drafts_of_a_writer_at_work_are_left_alone(tmp_path: Path) -> None:
    folder = LocalStore(str(tmp_path))
    draft = tmp_path / ".a.1.2"
    draft.write_bytes(b"1")
    with folder.shared():
        folder.put_all({"b": b"2"})
        assert draft.exists()
    folder.put_all({"c": b"3"})
    assert sorted(folder.names()) == ["b", "c"]


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LocalStore(str(tmp_path / "new"))
    order: list[str] = []
    force, replace = LocalStore.force, os.replace
    monkeypatch.setattr(LocalStore, "force", lambda self: (order.append("force"), force(self))[1])
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("name"), replace(*paths))[1])
    folder.put_all({"a": b"1", "b": b"2"})
    assert order == ["force", "force", "force", "name", "name"]  # the folder above, then each file, then their names
    folder.put_all({"a": b"other", "c": b"3"})
    assert {name: (folder / name).read() for name in folder.names()} == {"a": b"1", "b": b"2", "c": b"3"}
