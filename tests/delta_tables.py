"""Write small Delta tables with delta-rs, independently of Weft."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from weft.storage.table import Commit, Fence, Table
from weft.store import Store


def write_table(path: Path, instants: list[int], app_id: str = "weft-table-1", number: int = 1) -> None:
    data = pa.table(
        {
            "a": pa.array(range(len(instants)), pa.int64()),
            "ts": pa.array(instants, pa.timestamp("us", "UTC")),
        }
    )
    properties = CommitProperties(app_transactions=[Transaction(app_id, number)])
    write_deltalake(str(path), data, mode="append", commit_properties=properties)


def write_ledger(path: Path, tick: int, rows: list[tuple[int, int, int, list[str | None]]]) -> None:
    """Append rows (query ID, ordinal, first instant, stored row) as one tick."""
    data = pa.table(
        {
            "query_id": pa.array([row[0] for row in rows], pa.int64()),
            "ordinal": pa.array([row[1] for row in rows], pa.int64()),
            "first_at": pa.array([row[2] for row in rows], pa.timestamp("us", "UTC")),
            "tick": pa.array([tick] * len(rows), pa.int64()),
            "row_hash": pa.array([hashlib.md5(repr(row[3]).encode()).digest() for row in rows], pa.binary()),
            "row": pa.array([row[3] for row in rows], pa.list_(pa.string())),
        }
    )
    properties = CommitProperties(app_transactions=[Transaction("weft-ledger", tick)])
    write_deltalake(str(path), data, mode="append", commit_properties=properties)


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def newest_data_file(table: Path) -> Path:
    return max(table.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """``act`` happens once, between the opening of a handle and the commit through it."""
    through = Table._commit

    def late(table: Table, fence: Fence, write: Callable[[Any], None], *given: Any) -> Commit:
        def acted(handle: Any) -> None:
            act()
            write(handle)

        monkeypatch.setattr(Table, "_commit", through)
        return through(table, fence, acted, *given)

    monkeypatch.setattr(Table, "_commit", late)


def opened(table: Store) -> DeltaTable:
    """Open the table with delta-rs, independently of Weft."""
    return DeltaTable(table.uri, storage_options=table.options)
