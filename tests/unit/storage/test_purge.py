"""Answers of removed queries, taken out while others read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from delta_tables import write_ledger
from weft.algebra.schema import BIGINT
from weft.catalog.records import QueryRecord
from weft.errors import StorageError
from weft.location import Location
from weft.schedule.clock import now_us
from weft.storage import purge as purging
from weft.storage.ledger import read_rows
from weft.storage.purge import purge
from weft.storage.removing import Remover

QUERY = QueryRecord(
    query_id=1, name="q", user="u", sql="", plan_id=1, parameters=(), columns=(("n", BIGINT),), every_us=None,
    from_mode="start", from_instant=None, tau=None, next_ordinal=7, state="active", reason=None, installed_at=0,
    next_due=None,
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Six answers each of two queries, in three files."""
    for tick in (1, 2, 3):
        rows = [(query, 2 * tick - 1 + n, tick, [str(tick)]) for query in (1, 2) for n in (0, 1)]
        write_ledger(tmp_path / "ledger", tick, rows)
    return tmp_path


def files(home: Path) -> int:
    return len(list((home / "ledger").glob("*.parquet")))


def test_a_purge_leaves_a_reader_what_it_reads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "WAIT_FOR_READERS_SECONDS", 0.0)
    reader = read_rows(Location.of(home), QUERY)
    assert next(reader).ordinal == 1
    begun = purge(Location.of(home), [2], Remover(1, lambda: None), now_us())
    assert not begun.complete
    assert begun.version is not None
    assert begun.version[2] == 6
    assert [row.ordinal for row in reader] == [2, 3, 4, 5, 6]
    held = files(home)
    done = purge(Location.of(home), [2], Remover(2, lambda: None), now_us())
    assert done.complete
    assert files(home) < held
    assert [row.ordinal for row in read_rows(Location.of(home), QUERY)] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(StorageError):
        list(read_rows(Location.of(home), replace(QUERY, query_id=2)))


def test_a_purge_of_nothing(tmp_path: Path) -> None:
    assert purge(Location.of(tmp_path), [1], Remover(1, lambda: None), now_us()).complete
