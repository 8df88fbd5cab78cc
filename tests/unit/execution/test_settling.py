"""What a dead writer left is settled while it turns out to live."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import forked
from weft.api.weft import Weft
from weft.storage.columns import stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.table import Fence, Table
from weft.store import local_store
from weft.writing.reserved import files_at_the_ends, settle, table_app_id


def heads(weft: Weft) -> dict[str, tuple[int, int]]:
    """Return the recorded version and rows of each table, after a check that they are those of its log."""
    recorded = {each.path: (each.version, each.rows) for each in weft.catalog.tables.versions()}
    for path, head in recorded.items():
        now = Table(weft.catalog.data / path).snapshot()
        assert (now.version, now.rows) == head, path
    return recorded


def test_rows_that_come_while_their_reservation_is_given_up_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": "m1", "at": "1993-04-01T00:00:00Z"}\n')
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.ingest_file(file, "t", ts_from="at")
        table = weft.catalog.tables.named("t")
        place = weft.catalog.data / table.path
        files = Table(place).snapshot().files
        rows = read_data_files(files, stored_schema(table.schema))
        spend = Table.spend

        def late(*given: Any) -> None:
            Table(place).append(rows, Fence(table_app_id(table.table_id), reservation.reservation_id))
            spend(*given)

        monkeypatch.setattr(Table, "spend", late)
        with weft.opened.writing("ingest") as writer:
            load_id = writer.loads.begin(table.table_id, "again", "file", None, 1)
            reservation = writer.reservations.reserve(table.table_id, load_id, 1)
            (settled,) = settle(writer)
            assert settled.rows == 1
            assert not settle(writer)
        assert weft.catalog.tables.named("t").rows == 2 == Table(place).snapshot().rows


def test_versions_are_recorded_after_the_number_of_a_dead_writer_is_used_up(tmp_path: Path) -> None:
    """Another machine trusts its last reading of a log until the recorded version changes."""
    file, home = tmp_path / "rows.jsonl", tmp_path / "home"
    file.write_text('{"a": "m1", "at": "1993-04-01T00:00:00Z"}\n')
    with Weft.open(home, clock="replay", create=True) as weft:
        weft.ingest_file(file, "t", ts_from="at")
        weft.install("q", "SELECT t.a FROM t WHERE t.a = 'm1'", keep="synopsis")
        weft.tick(now="1993-04-02")
        before = heads(weft)
        file.write_text('{"a": "m1", "at": "1993-04-03T00:00:00Z"}\n')
        for point, act in (
            ("ingest.reserved", f"ingest_file({str(file)!r}, 't', ts_from='at')"),
            ("tick.computed", "tick(now='1993-04-05')"),
        ):
            died = forked.run(
                [sys.executable, "-c", f"from weft.api import Weft; Weft.open({str(home)!r}).{act}"], point
            )
            assert died.returncode == -signal.SIGKILL, died.stderr
            with weft.opened.writing("settle"):  # which settles first what the dead process left
                pass
            after = heads(weft)
            assert after != before, point
            before = after
            weft.ingest_file(file, "t", ts_from="at")
            before = heads(weft)
        for _ in range(20):
            weft.append("t", [{"a": "m2"}])
        list(weft.maintain(retain=0))
        heads(weft)


def test_only_files_with_the_least_and_the_greatest_instants_are_read() -> None:
    def file(name: str, *bounds: int) -> DataFile:
        least, greatest = ({"ts": bound} for bound in bounds) if bounds else ({}, {})
        return DataFile(local_store(f"/{name}"), 1, 1, least, greatest)

    files = [file("a", 1, 9), file("b", 2, 3), file("c", 4, 12), file("d", 1, 2), file("e")]
    assert [each.name for each in files_at_the_ends(files, "ts")] == ["a", "c", "d", "e"]
    assert files_at_the_ends(files[4:], "ts") == files[4:]
