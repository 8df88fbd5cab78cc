"""What the refresh of a view runs and reads after a batch of changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from weft.algebra.schema import TableSchema
from weft.api import Weft
from weft.bench.directory import BEGIN, DAY
from weft.bench.view_refreshes import VIEWS, record_days, record_history
from weft.execution import current_rows_cache, driver_reader
from weft.execution.current_rows_cache import cached_open_rows
from weft.execution.driver_reader import ReadBounds
from weft.execution.history_log import log_of
from weft.execution.look_ups import LookUpResult, LookUps
from weft.execution.temporal import logs
from weft.storage.data_files import dataset_of
from weft.storage.delta_log import DataFile
from weft.storage.periods import open_periods, periods
from weft.storage.slices import Slice
from weft.storage.temporal_sql import TemporalSql

EMPLOYEES = 1_000
LOOKED_UP = ReadBounds(loaded=-1)
MOST_POOLED = 4_000
"""More than the first look-up of a batch finds, and less than all look-ups find."""


@dataclass
class Seen:
    """What a refresh did: the SQL of its tables, the rows of its views over files, and the rows of look-ups by key."""

    tables: list[str] = field(default_factory=list)
    scanned: dict[str, list[int]] = field(default_factory=dict)
    found: dict[str, list[int]] = field(default_factory=dict)


class Directory:
    """A directory with one view and a batch of changes a day."""

    def __init__(self, weft: Weft, view: str) -> None:
        self.weft, self.view = weft, view
        self.days = record_history(weft, 13_000, EMPLOYEES)
        weft.add_view(view, VIEWS[view], batched=True)
        self.refresh()

    def batch(self) -> None:
        self.days += 1
        record_days(self.weft, EMPLOYEES, self.days, self.days + 1)

    def refresh(self) -> None:
        for each in self.weft.refresh_views(self.view, now=BEGIN + (self.days + 1) * DAY - 1):
            assert each.trouble is None

    def watched_batch(self, monkeypatch: pytest.MonkeyPatch) -> Seen:
        """Record a batch, and return what the refresh after it did."""
        self.batch()
        seen = watched(monkeypatch)
        self.refresh()
        return seen


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


def watched(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    created, stored, rows = TemporalSql.created, TemporalSql.stored, LookUps.rows

    def create(self: TemporalSql, name: str, sql: str) -> int:
        seen.tables.append(sql)
        return created(self, name, sql)

    def store(
        self: TemporalSql, name: str, files: Sequence[DataFile], table: TableSchema, part: Slice | None = None
    ) -> None:
        seen.scanned.setdefault(table.name, []).append(dataset_of(files, ROWS, part).count_rows() if files else 0)
        stored(self, name, files, table, part)

    def look_up(self: LookUps, table: TableSchema, *given: Any) -> LookUpResult:
        result = rows(self, table, *given)
        seen.found.setdefault(table.name, []).append(0 if result.rows is None else result.rows.num_rows)
        return result

    monkeypatch.setattr(TemporalSql, "created", create)
    monkeypatch.setattr(TemporalSql, "stored", store)
    monkeypatch.setattr(LookUps, "rows", look_up)
    return seen


ROWS = pa.schema([(name, pa.timestamp("us", "UTC")) for name in ("valid_from", "valid_to", "ts")])


def test_a_batch_of_a_join_runs_few_statements(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", LOOKED_UP)
    directory = Directory(weft, "join_of_four")
    seen = directory.watched_batch(monkeypatch)
    assert len(seen.tables) <= 130


def test_a_batch_reads_a_small_log_once(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory(weft, "join_of_four")
    seen = directory.watched_batch(monkeypatch)
    reads = Counter(name for sql in seen.tables for name in re.findall(r"FROM (log_\d+) ", sql))
    assert len(reads) == 5 and set(reads.values()) == {1}


def test_a_window_reads_what_is_recorded_since_it_began(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", LOOKED_UP)
    directory = Directory(weft, "seven_days")
    seen = directory.watched_batch(monkeypatch)
    of_a_day = seen.scanned["employees"][0]
    assert max(seen.scanned["employees"]) == 7 * of_a_day


def test_a_view_with_few_open_rows_is_not_looked_up(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up by dept finds the whole history of a group. The open rows of the view are cached."""
    monkeypatch.setattr(driver_reader, "BOUNDS", LOOKED_UP)
    monkeypatch.setattr(logs, "MOST_SINCE", 1)
    monkeypatch.setattr(current_rows_cache, "FEWEST", 0)
    directory = Directory(weft, "seven_days")
    for _ in range(2):
        seen = directory.watched_batch(monkeypatch)
        assert set(seen.found["seven_days"]) == {0}
    table = weft.catalog.tables.named("seven_days")
    cached = cached_open_rows(weft.home, table)
    assert cached is not None
    there = open_periods(log_of(weft.catalog, table)).select(cached.column_names)
    assert there.num_rows and cached.sort_by("dept") == there.sort_by("dept")


def test_look_ups_beside_a_full_pool_find_the_same_periods(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[str] = []
    both = logs.Logs._both

    def watch(self: logs.Logs, *names: str) -> str:
        beside.extend(names)
        return both(self, *names)

    monkeypatch.setattr(driver_reader, "BOUNDS", LOOKED_UP)
    monkeypatch.setattr(logs.Logs, "_both", watch)
    directory = Directory(weft, "join_of_four")
    directory.batch()
    monkeypatch.setattr(logs, "MOST_POOLED", MOST_POOLED)
    directory.refresh()
    weft.add_view("again", VIEWS["join_of_four"], batched=True)
    (done,) = weft.refresh_views("again", now=BEGIN + (directory.days + 1) * DAY - 1)
    assert done.trouble is None and beside
    first, again = (log_of(weft.catalog, weft.catalog.tables.named(name)) for name in ("join_of_four", "again"))
    every = [(name, "ascending") for name in again.column_names if name != "ts"]
    assert periods(first).sort_by(every) == periods(again).sort_by(every)


def test_a_null_in_the_column_of_a_look_up_reads_no_whole_log(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", LOOKED_UP)
    file, rows = tmp_path / "staff.jsonl", [{"id": number, "dept": "a" if number % 2 else None} for number in range(9)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    weft.add_source("staff", "jsonl", str(file), ["id"])
    weft.poll_source("staff", now=1)
    weft.add_view("sizes", "SELECT dept, COUNT(*) AS size FROM staff GROUP BY dept", batched=True)
    weft.refresh_views("sizes", now=2)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows[1:]))
    weft.poll_source("staff", now=3)
    seen = watched(monkeypatch)
    (done,) = weft.refresh_views("sizes", now=4)
    assert (done.trouble, done.changed) == (None, 2)
    assert seen.scanned == {"staff": [1]} and max(seen.found["sizes"]) == 1
    open_rows = open_periods(log_of(weft.catalog, weft.catalog.tables.named("sizes")))
    assert sorted(open_rows.column("size").to_pylist()) == [4, 4]
