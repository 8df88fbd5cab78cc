"""The generated directory: its history is what recording its changes day by day makes of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, TableSchema
from weft.bench.directory import BEGIN, CHANGES, DAY, DirectoryTable, days_of, tables
from weft.storage.changes import log_of_keys, log_rows, transaction_instants, unknown
from weft.storage.periods import TS, open_periods, periods

EMPLOYEES = 1_000
DAYS = 6
"""More than two turns of the keys of each table."""


def log_of(directory_table: DirectoryTable) -> TableSchema:
    named = [*directory_table.typed, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP), (TS, TIMESTAMP)]
    return TableSchema(1, directory_table.name, tuple(Column(place, *each) for place, each in enumerate(named, 1)), TS)


def in_order(rows: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


@pytest.mark.parametrize("directory_table", tables(EMPLOYEES), ids=lambda directory_table: directory_table.name)
def test_a_history_is_its_days(directory_table: DirectoryTable) -> None:
    schema, keys = log_of(directory_table), [directory_table.key]
    first = log = directory_table.first(schema)
    assert log.num_rows == directory_table.rows
    for day in range(1, DAYS + 1):
        changes = directory_table.changes(day)
        new = unknown(log_of_keys(log, changes, keys), changes, keys)
        assert new.num_rows == directory_table.daily
        instants = transaction_instants([new], 0, None, 0)
        assert list(instants.values()) == [BEGIN + day * DAY]
        added = log_rows(log_of_keys(open_periods(log), new, keys), new, instants, schema, keys)
        log = pa.concat_tables([log, added])
    together = pa.concat_tables([first, directory_table.days(1, 3, schema), directory_table.days(3, DAYS + 1, schema)])
    assert in_order(together) == in_order(log)
    assert open_periods(log).num_rows == directory_table.rows
    assert periods(log).num_rows == directory_table.rows + DAYS * directory_table.daily


def test_days_of_a_history() -> None:
    assert sum(table.daily for table in tables(EMPLOYEES)) == CHANGES
    days = days_of(20_000, EMPLOYEES)
    assert 19_000 < sum(table.rows + days * table.daily for table in tables(EMPLOYEES)) <= 20_000
