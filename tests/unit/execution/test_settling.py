"""What a dead writer left is settled while it turns out to live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.api.weft import Weft
from weft.storage.columns import stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.table import Fence, Table
from weft.writing.reserved import settle, table_app_id


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
