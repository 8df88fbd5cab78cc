from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from definitions import definition
from delta_tables import commit_file, newest_data_file, write_ledger, write_table
from weft.algebra.schema import BIGINT
from weft.catalog import Writer, open_catalog
from weft.catalog.records import Choice, Count
from weft.errors import StorageError
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.samples import sample_rows
from weft.storage.table import Table
from weft.storage.verify import require_undamaged, verify


def ingest(writer: Writer, home: Path, instants: list[int]) -> None:
    reservation = writer.reservations.reserve(1, 1)
    write_table(home / "tables/1-t", instants, number=reservation.reservation_id)
    version = reservation.reservation_id - 1
    writer.reservations.commit(reservation.reservation_id, version, len(instants), instants[0], instants[-1])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_catalog(tmp_path, create=True, clock="replay", at=0) as catalog:
        writer = catalog.writer("test", "test", 0)
        catalog.tables.create("t", [("a", BIGINT)])
        catalog.loads.begin(1, "s", "file", None, 0)
        ingest(writer, tmp_path, [1, 2, 3])
        ingest(writer, tmp_path, [4, 5])
        query = writer.queries.install(definition(), 0)
        tick = writer.ticks.plan(10, Choice((query.query_id,)), 0)
        write_ledger(tmp_path / "ledger", tick.tick_id, [(1, 1, 5, ["1"])])
        writer.ticks.commit(tick.tick_id, {1: Count(1, None, None, 10)}, [("ledger", 0, 1)], 0)
        writer.release()
    return tmp_path


def test_a_whole_store_has_no_findings(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        assert verify(catalog) == []
        require_undamaged(catalog)


def test_a_home_with_nothing_in_it_is_whole(tmp_path: Path) -> None:
    with open_catalog(tmp_path, create=True, at=0) as catalog:
        catalog.tables.create("t", [("a", BIGINT)])
        assert verify(catalog) == []


T = "tables/1-t"
DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "table gone": (lambda h: shutil.rmtree(h / T), T, "missing, but 5 rows were recorded"),
    "log gone": (lambda h: shutil.rmtree(h / T / "_delta_log"), T, "missing"),
    "ledger gone": (lambda h: shutil.rmtree(h / "ledger"), "ledger", "missing, but 1 row was recorded"),
    "last commit gone": (lambda h: commit_file(h / T, 1).unlink(), T, "ends at version 0, but version 1"),
    "last commit empty": (lambda h: os.truncate(commit_file(h / T, 1), 0), T, "commit is empty"),
    "last commit torn": (lambda h: os.truncate(commit_file(h / T, 1), 300), T, "truncated"),
    "first commit gone": (lambda h: commit_file(h / T, 0).unlink(), T, "does not begin"),
    "data file gone": (lambda h: newest_data_file(h / T).unlink(), T, "missing"),
    "data file cut": (lambda h: os.truncate(newest_data_file(h / T), 99), T, "has 99 bytes"),
    "ledger file cut": (lambda h: os.truncate(newest_data_file(h / "ledger"), 99), "ledger", "has 99 bytes"),
    "a foreign commit": (lambda h: write_table(h / T, [99], "someone", 1), T, "has 6 rows at version 2, but 5 were"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found_with_a_remedy(home: Path, damage: str) -> None:
    harm, path, problem = DAMAGES[damage]
    harm(home)
    with open_catalog(home, at=0) as catalog:
        (finding,) = verify(catalog)
        assert finding.path == path
        assert problem in finding.problem
        assert finding.remedy
        with pytest.raises(StorageError, match=path):
            require_undamaged(catalog)


def test_a_commit_whose_writer_died_is_no_damage(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        writer = catalog.writer("test", "test", 0)
        reservation = writer.reservations.reserve(1, 1)
        write_table(home / T, [20], number=reservation.reservation_id)
        assert verify(catalog) == []
        writer.reservations.abandon(reservation.reservation_id)
        assert len(verify(catalog)) == 1


def test_a_ledger_commit_whose_tick_died_is_no_damage(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        writer = catalog.writer("test", "test", 0)
        tick = writer.ticks.plan(20, Choice((1,)), 0)
        writer.ticks.open_outputs(tick.tick_id, [("ledger", "ledger")])
        write_ledger(home / "ledger", tick.tick_id, [(1, 2, 15, ["2"])])
        assert verify(catalog) == []
        writer.ticks.abandon(tick.tick_id)
        assert [each.path for each in verify(catalog)] == ["ledger"]


def test_a_torn_commit_that_was_never_recorded_may_go(home: Path) -> None:
    write_table(home / T, [20], number=3)
    torn = commit_file(home / T, 2)
    os.truncate(torn, 50)
    with open_catalog(home, at=0) as catalog:
        (finding,) = verify(catalog)
        assert f"Move {torn}" in finding.remedy
        torn.unlink()
        assert verify(catalog) == []


def test_samples(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        catalog.tables.evolve("t", [("b", BIGINT)])
        table = catalog.tables.named("t")
        rows = sample_rows(catalog.data, table, 1)
        assert len(rows) == 1
        assert rows[0][0] == 0
        assert rows[0][2] is None
        for file in (home / T).glob("*.parquet"):
            file.unlink()
        with pytest.raises(StorageError):
            sample_rows(catalog.data, table)
        catalog.tables.create("empty", [("a", BIGINT)])
        assert sample_rows(catalog.data, catalog.tables.named("empty")) == []


def test_a_process_looks_at_a_file_once_and_doctor_at_all(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        require_undamaged(catalog)
        writer = catalog.writer("test", "test", 0)
        old = newest_data_file(home / T)
        ingest(writer, home, [30, 31])
        new = newest_data_file(home / T)
        size = new.stat().st_size
        os.truncate(new, size - 1)
        with pytest.raises(StorageError, match=new.name):
            require_undamaged(catalog)
        with pytest.raises(StorageError, match=new.name):
            require_undamaged(catalog)  # what is damaged is never taken for looked at
        assert [each.path for each in verify(catalog)] == [T]
        os.truncate(old, 3)
        assert {old.name, new.name} == {
            name for each in verify(catalog) for name in (old.name, new.name) if name in str(each)
        }


def test_a_copy_that_is_put_back_is_looked_at_anew(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("copy") / "home"
    shutil.copytree(home, copy)
    with open_catalog(home, at=0) as catalog:
        require_undamaged(catalog)
        damaged = newest_data_file(copy / T)
        os.truncate(damaged, 3)
        shutil.rmtree(home / T)
        shutil.copytree(copy / T, home / T)
        with pytest.raises(StorageError, match=damaged.name):
            require_undamaged(catalog)


def test_what_another_writes_meanwhile_is_no_damage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Table.snapshot

    def late(table: Table) -> DeltaSnapshot:
        monkeypatch.setattr(Table, "snapshot", snapshot)
        with open_catalog(home, at=0) as other:
            writer = other.writer("test", "other", 0)
            ingest(writer, home, [11, 12])
            writer.release()
        return table.snapshot()

    monkeypatch.setattr(Table, "snapshot", late)
    with open_catalog(home, at=0) as catalog:
        assert verify(catalog) == []
        assert Table.snapshot is snapshot
