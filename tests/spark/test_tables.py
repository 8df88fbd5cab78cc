"""Rows in tables: their columns, the recognition of repeated rows, and the recovery after a dead writer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replayed import table_frame
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, DataType
from weft.catalog import Catalog, Writer, open_catalog
from weft.catalog.records import Choice, TableRecord
from weft.errors import ClockError, LeaseLost
from weft.execution import append_rows
from weft.execution.append_rows import Appended, append
from weft.storage.table import Table
from weft.writing.reserved import commit, settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
COLUMNS = [("msgid", STRING), ("newsgroup", STRING), ("size", BIGINT)]


class Died(BaseException):
    """The error that simulates the end of the process at a failpoint."""


class Store:
    """A home with one table, and a short way to append to the table."""

    def __init__(self, home: Path, spark: SparkSession, clock: str = "wall") -> None:
        self.home, self.spark = home, spark
        self.catalog: Catalog = open_catalog(home, create=True, clock=clock, at=NOW)  # type: ignore[arg-type]
        self.writer: Writer = self.catalog.writer("ingest", "one", NOW)
        self.catalog.tables.create("msgs", COLUMNS, ["msgid", "newsgroup"])
        self.load = self.catalog.loads.begin(self.table.table_id, "test", "mail", None, NOW)

    @property
    def table(self) -> TableRecord:
        return self.catalog.tables.named("msgs")

    def batch(self, *rows: tuple[Any, ...]) -> pa.Table:
        """Return a batch of rows (msgid, newsgroup, size, event time in seconds or None)."""
        return pa.table(
            {
                "msgid": pa.array([r[0] for r in rows], pa.string()),
                "newsgroup": pa.array([r[1] for r in rows], pa.string()),
                "size": pa.array([r[2] for r in rows], pa.int64()),
                "_own_time": pa.array([None if r[3] is None else int(r[3] * SECOND) for r in rows], pa.int64()),
                "_seq": pa.array(range(len(rows)), pa.int64()),
            }
        )

    def append(self, *rows: tuple[Any, ...], at: int = NOW, key: bool = True) -> Appended:
        distinct_on = ("msgid", "newsgroup") if key else None
        done = append(
            self.writer,
            self.table,
            self.load,
            self.batch(*rows),
            at,
            distinct_on,
        )
        return replace(done, first_ts=None, last_ts=None)

    def tick(self, t: int) -> None:
        """Advance the frontier F without computing anything."""
        self.writer.ticks.commit(self.writer.ticks.plan(t, Choice(()), t).tick_id, {}, [], t)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows (msgid, newsgroup, ts in microseconds), sorted by ts and msgid."""
        found = table_frame(self.spark, self.writer.data, self.table).selectExpr(
            "msgid", "newsgroup", "unix_micros(ts) AS us"
        )
        return sorted(((r.msgid, r.newsgroup, r.us) for r in found.collect()), key=lambda row: (row[2], str(row)))

    def take_over(self) -> None:
        """Let another writer take the lease, as if the first writer were dead."""
        self.writer = self.catalog.writer("ingest", "two", NOW + 10**12)


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> Iterator[Store]:
    made = Store(tmp_path / "home", spark)
    yield made
    made.catalog.close()


@pytest.fixture
def replay(tmp_path: Path, spark: SparkSession) -> Iterator[Store]:
    made = Store(tmp_path / "home", spark, "replay")
    yield made
    made.catalog.close()


@pytest.fixture
def die_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def arrange(name: str) -> None:
        def die(point: str) -> None:
            if point == name:
                raise Died

        monkeypatch.setattr(append_rows, "failpoint", die)

    return arrange


def test_own_times_become_ts_in_any_order_and_f_is_the_least(replay: Store) -> None:
    assert replay.append(("a", "g", 1, 10), ("b", "g", 2, 10), ("c", "g", 3, 30.000001)) == Appended(3, 0, 0, 1)
    assert replay.append(("d", "g", 4, 5), ("e", "g", 5, 29)) == Appended(2, 0, 0, 2)
    replay.tick(20 * SECOND)
    assert replay.append(("f", "g", 4, 7), ("g", "g", 4, 20), ("h", "g", 5, 21)) == Appended(3, 0, 1, 3)
    assert replay.rows() == [
        ("d", "g", 5 * SECOND),
        ("a", "g", 10 * SECOND),
        ("b", "g", 10 * SECOND),
        ("f", "g", 20 * SECOND),
        ("g", "g", 20 * SECOND),
        ("h", "g", 21 * SECOND),
        ("e", "g", 29 * SECOND),
        ("c", "g", 30 * SECOND + 1),
    ]
    table = replay.table
    assert (table.rows, table.version, table.first_ts, table.last_ts) == (8, 3, 5 * SECOND, 30 * SECOND + 1)
    assert replay.catalog.home().t0 == 5 * SECOND
    assert replay.catalog.home().last_ts == 30 * SECOND + 1
    assert replay.catalog.reservations.still_open() == ()


def test_a_batch_is_one_file_in_order_of_ts(replay: Store) -> None:
    replay.append(("c", "g", 1, 30), ("a", "g", 2, 10), ("b", "g", 3, 20))
    (file,) = Table(replay.writer.data / replay.table.path).snapshot().files
    stored = pq.read_table(file.location.uri)
    assert stored.column("msgid").to_pylist() == ["a", "b", "c"]
    assert file.rows == 3
    assert set(file.least) == {"ts"}


def test_a_row_that_is_there_is_known_and_nulls_are_the_same(replay: Store) -> None:
    assert replay.append(("a", "g", 1, 1), ("a", "h", 1, 1), ("a", None, 1, 1), ("a", "g", 9, 2)) == Appended(
        3, 1, 0, 1, differ=1
    )
    assert replay.append(("a", None, 1, 3), ("a", "g", 1, 3), (None, None, 1, 3)) == Appended(1, 2, 0, 2)
    assert [row[:2] for row in replay.rows()] == [("a", "g"), ("a", "h"), ("a", None), (None, None)]


def test_without_keys_every_row_is_new(replay: Store) -> None:
    assert replay.append(("a", "g", 1, 1), ("a", "g", 1, 1), key=False) == Appended(2, 0, 0, 1)
    assert replay.append(("a", "g", 1, 1), key=False).stored == 1


def test_where_nothing_is_new_nothing_is_committed(replay: Store) -> None:
    replay.append(("a", "g", 1, 1))
    assert replay.append(("a", "g", 2, 5)) == Appended(0, 1, 0, None, differ=1)
    assert (replay.table.version, replay.table.rows) == (1, 1)
    assert replay.catalog.reservations.still_open() == ()


def test_on_a_wall_home_rows_get_the_clock(store: Store) -> None:
    store.append(("a", "g", 1, None), ("b", "g", 1, None))
    assert [row[2] for row in store.rows()] == [NOW, NOW]
    store.tick(NOW)
    store.append(("c", "g", 1, None), at=NOW - 5)  # the wall clock went back, but the past of the tick remains closed
    assert store.rows()[-1][2] == NOW


def test_on_a_wall_home_too_a_row_has_its_own_time_exactly(store: Store) -> None:
    result = store.append(("a", "g", 1, 5), ("b", "g", 1, NOW // SECOND + 99), ("c", "g", 1, None))
    assert result == Appended(3, 0, 0, 1)
    assert store.rows() == [("a", "g", 5 * SECOND), ("c", "g", NOW), ("b", "g", NOW + 99 * SECOND)]


def test_a_replay_home_without_a_clock_refuses_rows_without_time(replay: Store) -> None:
    with pytest.raises(ClockError, match="clock of this replay home is not set yet"):
        replay.append(("a", "g", 1, None))
    assert replay.catalog.reservations.still_open() == ()
    replay.append(("a", "g", 1, 7))
    replay.append(("b", "g", 1, None))  # the clock now returns the last ts
    assert [row[2] for row in replay.rows()] == [7 * SECOND, 7 * SECOND]


def test_dead_after_reserving_nothing_is_there_and_the_late_writer_is_fenced(
    replay: Store, die_at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay.append(("a", "g", 1, 1))
    die_at("ingest.reserved")
    with pytest.raises(Died):
        replay.append(("b", "g", 1, 2))
    (left,) = replay.catalog.reservations.still_open()
    old = replay.writer
    replay.take_over()
    (settled,) = settle(replay.writer)
    assert (settled.reservation, settled.rows) == (left, 0)
    assert replay.catalog.reservations.still_open() == ()
    # The writer that was thought dead checks its lease too early and continues to write.
    monkeypatch.setattr(old, "check", lambda: None)
    stamped = append_rows.stamp(replay.batch(("b", "g", 1, 2)), replay.table.schema, left.floor, NOW)
    with pytest.raises(LeaseLost, match="another writer"):
        commit(old, replay.table, stamped, left)
    assert [row[0] for row in replay.rows()] == ["a"]


def test_dead_after_writing_its_rows_are_taken_over_exactly(replay: Store, die_at: Callable[[str], None]) -> None:
    die_at("ingest.written")
    with pytest.raises(Died):
        replay.append(("a", "g", 1, 1.000007), ("b", "g", 1, 2.000009))
    assert replay.table.rows == 0
    replay.take_over()
    (settled,) = settle(replay.writer)
    assert settled.rows == 2
    table = replay.table
    assert (table.rows, table.first_ts, table.last_ts) == (2, SECOND + 7, 2 * SECOND + 9)
    assert settle(replay.writer) == ()
    die_at("nowhere")
    assert replay.append(("a", "g", 1, 1), ("b", "g", 1, 2), ("c", "g", 1, 3)) == Appended(1, 2, 0, 2)


def test_a_writer_whose_lease_is_lost_stores_nothing(replay: Store) -> None:
    replay.append(("a", "g", 1, 1))
    old = replay.writer
    replay.take_over()
    replay.writer = old
    with pytest.raises(LeaseLost):
        replay.append(("b", "g", 1, 2))
    assert len(replay.rows()) == 1


def test_a_column_that_came_later_is_null_before(replay: Store) -> None:
    assert table_frame(replay.spark, replay.writer.data, replay.table).count() == 0
    replay.append(("a", "g", 1, 1))
    replay.catalog.tables.evolve("msgs", [("price", DataType("DECIMAL", 10, 0)), ("seen", TIMESTAMP)])
    frame = table_frame(replay.spark, replay.writer.data, replay.table)
    assert [(r.msgid, r.price, r.seen) for r in frame.collect()] == [("a", None, None)]
    seen = dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)
    batch = replay.batch(("b", "g", 1, 2))
    batch = batch.append_column("price", pa.array([None], pa.decimal128(10, 0)))
    batch = batch.append_column("seen", pa.array([seen], pa.timestamp("us", "UTC")))
    result = append(replay.writer, replay.table, replay.load, batch, NOW, ("msgid",))
    assert result.stored == 1
    found = table_frame(replay.spark, replay.writer.data, replay.table).selectExpr("msgid", "unix_micros(seen) AS us")
    assert sorted((r.msgid, r.us) for r in found.collect()) == [("a", None), ("b", 1577934245000006)]
