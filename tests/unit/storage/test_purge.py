"""Answers of removed queries, taken out while others read. Their files go later, or at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from delta_tables import write_ledger
from weft.algebra.schema import BIGINT
from weft.catalog.records import QueryRecord
from weft.errors import StorageError
from weft.schedule.clock import now_us
from weft.storage.cleaning import deletable_files, delete
from weft.storage.ledger import read_rows
from weft.storage.removing import remove_rows
from weft.storage.table import Table
from weft.store import store_of

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


def purge(home: Path, query_id: int) -> Table:
    ledger, gone = Table(store_of(home / "ledger")), pc.field("query_id") == query_id
    doing = "a test was running"
    assert remove_rows(ledger, gone, lambda file: file.may_hold("query_id", query_id, query_id), 1, now_us(), doing)
    return ledger


@pytest.mark.parametrize("at_once", [False, True])
def test_a_reader_goes_on_though_its_files_are_removed(home: Path, at_once: bool) -> None:
    reader = read_rows(store_of(home), QUERY)
    assert next(reader).ordinal == 1
    held = files(home)
    ledger = purge(home, 2)
    assert (ledger.snapshot().version, ledger.snapshot().rows) == (3, 6)
    assert files(home) == 2 * held
    if at_once:
        delete(ledger, deletable_files(ledger, 0, now_us()), 1, lambda: None)
        assert files(home) == held
    assert [row.ordinal for row in reader] == [2, 3, 4, 5, 6]
    assert [row.ordinal for row in read_rows(store_of(home), QUERY)] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(StorageError):
        list(read_rows(store_of(home), replace(QUERY, query_id=2)))


def test_a_purge_touches_only_files_with_such_answers(home: Path) -> None:
    before = Table(store_of(home / "ledger")).files()
    write_ledger(home / "ledger", 4, [(3, 1, 4, ["x"])])
    after = purge(home, 3).files()
    assert {file.name for file in after} == {file.name for file in before}
