from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_tables import newest_data_file, write_ledger
from weft.algebra.schema import BIGINT, STRING
from weft.catalog import layout
from weft.catalog.records import QueryRecord
from weft.errors import StorageError
from weft.storage import ledger as ledger_module
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DataFile
from weft.storage.ledger import (
    Added,
    ResultRow,
    added_by_query,
    read_latest,
    read_rows,
    read_stored,
    require_ledger,
)
from weft.store import store_of

QUERY = QueryRecord(
    query_id=1, name="q", user="u", sql="", plan_id=1, parameters=(), columns=(("n", BIGINT), ("s", STRING)),
    every_us=None, from_mode="start", from_instant=None, tau=None, next_ordinal=1, state="active", reason=None,
    installed_at=0, next_due=None,
)  # fmt: skip


def rows_of(query_id: int, first: int, last: int, at: int) -> list[tuple[int, int, int, list[str | None]]]:
    return [(query_id, n, at + n, [str(n), None if n % 3 else "x"]) for n in range(first, last + 1)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ledger = tmp_path / layout.LEDGER
    write_ledger(ledger, 1, rows_of(1, 1, 4, 100) + rows_of(2, 1, 2, 100))
    write_ledger(ledger, 2, rows_of(2, 3, 5, 200))
    write_ledger(ledger, 3, rows_of(1, 5, 9, 300) + rows_of(3, 1, 1, 300))
    return tmp_path


def test_rows_come_by_their_ordinal(home: Path) -> None:
    query = replace(QUERY, next_ordinal=10)
    rows = list(read_rows(store_of(home), query))
    assert [row.ordinal for row in rows] == list(range(1, 10))
    assert rows[0] == ResultRow(1, 101, 1, (1, None))
    assert rows[8] == ResultRow(9, 309, 3, (9, "x"))
    assert [row.ordinal for row in read_rows(store_of(home), query, after=4)] == [5, 6, 7, 8, 9]
    assert [row.ordinal for row in read_rows(store_of(home), query, after=3, limit=3)] == [4, 5, 6]
    assert list(read_rows(store_of(home), query, after=9)) == []
    assert list(read_rows(store_of(home), query, limit=0)) == []


def test_the_latest_of_several_queries_are_those_of_each(home: Path) -> None:
    data, counts = store_of(home), {1: 9, 2: 5, 3: 1, 4: 0}
    queries = [replace(QUERY, query_id=key, next_ordinal=count + 1) for key, count in counts.items()]
    for count in (1, 3, 20):
        expected = {
            each.query_id: tuple(read_rows(data, each, max(each.rows - count, 0))) for each in queries if each.rows
        }
        assert read_latest(data, queries, count) == expected
    assert read_latest(data, queries[3:], 3) == {}
    with pytest.raises(StorageError, match="the answer 2 of q is not in the ledger"):
        read_latest(data, [replace(queries[2], next_ordinal=3)], 3)


def test_only_files_of_the_ticks_that_found_the_answers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick has answers of the queries 1 and 3, so only the ticks tell that the query 2 has answers in three."""
    read: list[str] = []

    def counted(file: DataFile, *given: Any) -> Iterator[pa.RecordBatch]:
        read.append(file.name)
        return file_batches(file, *given)

    found = {2: 1, 15: 2, 30: 3}
    for tick in range(1, 31):
        own = rows_of(2, found[tick], found[tick], tick) if tick in found else []
        write_ledger(tmp_path / layout.LEDGER, tick, [*rows_of(1, tick, tick, tick), *own, *rows_of(3, 1, 1, tick)])
    monkeypatch.setattr(ledger_module, "file_batches", counted)
    data, query = store_of(tmp_path), replace(QUERY, query_id=2, next_ordinal=4)

    def ticks(_query: int, first: int, last: int) -> Sequence[int]:
        return [tick for tick, ordinal in found.items() if first <= ordinal <= last]

    for wanted, few in (
        (lambda: list(read_rows(data, query, ticks=ticks)), 3),
        (lambda: list(read_rows(data, query, after=1, limit=1, ticks=ticks)), 1),
        (lambda: list(read_latest(data, [query], 2, ticks)[2]), 2),
        (lambda: [read_stored(data, query, 2, ticks)], 1),
    ):
        read.clear()
        assert len(wanted()) == len(read) == few


def test_a_page_decodes_a_small_row_group(tmp_path: Path) -> None:
    ledger = require_ledger(store_of(tmp_path))
    count = 2 * 8_192 + 5
    ordinals = pa.array(range(1, count + 1), pa.int64())
    new = ledger.write(pa.table({"query_id": pa.array([1] * count, pa.int64()), "ordinal": ordinals}))
    (file,) = (tmp_path / layout.LEDGER).rglob(Path(new.location.path).name)
    read = pq.ParquetFile(file).metadata
    assert [read.row_group(n).num_rows for n in range(read.num_row_groups)] == [8_192, 8_192, 5]


def test_only_what_the_catalog_counted_is_read(home: Path) -> None:
    assert [row.ordinal for row in read_rows(store_of(home), replace(QUERY, next_ordinal=5))] == [1, 2, 3, 4]
    assert list(read_rows(store_of(home), QUERY)) == []


def test_rows_out_of_order_within_a_tick_are_put_in_order(tmp_path: Path) -> None:
    rows = rows_of(1, 1, 10_000, 0) + rows_of(2, 1, 100, 0)
    random.Random(7).shuffle(rows)
    write_ledger(tmp_path / layout.LEDGER, 1, rows)
    assert [row.ordinal for row in read_rows(store_of(tmp_path), replace(QUERY, next_ordinal=10_001))] == list(
        range(1, 10_001)
    )


def test_a_row_that_is_gone_is_noticed(home: Path) -> None:
    with pytest.raises(StorageError, match="answer 10 of q is not in the ledger"):
        list(read_rows(store_of(home), replace(QUERY, next_ordinal=11)))


def test_a_row_that_is_there_twice_is_noticed(home: Path) -> None:
    write_ledger(home / layout.LEDGER, 4, rows_of(1, 9, 9, 300))
    with pytest.raises(StorageError, match="twice"):
        list(read_rows(store_of(home), replace(QUERY, next_ordinal=10)))


def test_a_ledger_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        list(read_rows(store_of(tmp_path), replace(QUERY, next_ordinal=2)))
    assert list(read_rows(store_of(tmp_path), QUERY)) == []


def test_content_that_was_overwritten_is_reported(home: Path) -> None:
    file = newest_data_file(home / layout.LEDGER)
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(len(content) - 8) + content[-4:])
    with pytest.raises(StorageError) as reported:
        list(read_rows(store_of(home), replace(QUERY, next_ordinal=10)))
    assert reported.value.where == str(file)
    assert reported.value.hint


def test_what_one_commit_added(home: Path) -> None:
    assert added_by_query(store_of(home), 0) == {1: Added(4, 104), 2: Added(2, 102)}
    assert added_by_query(store_of(home), 2) == {1: Added(5, 309), 3: Added(1, 301)}
    with pytest.raises(StorageError):
        added_by_query(store_of(home), 7)
