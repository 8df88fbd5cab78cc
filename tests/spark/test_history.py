"""Load a history table after table in any order. The times of the rows determine the answers."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replayed import AT, DAY, HOUR, START, answers, first_instants, replay_home
from small_batches import small_batches
from weft.api import Weft
from weft.errors import ClockError
from weft.extraction.batches import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = 120
UNSHIPPED = (
    "SELECT o.id FROM orders o WHERE NOW() >= o.ts + INTERVAL 48 HOURS AND NOT EXISTS ("
    "SELECT 1 FROM shipments s WHERE s.id = o.id AND s.ts < o.ts + INTERVAL 48 HOURS)"
)


def placed(number: int) -> int:
    return START + number * HOUR


def shipped(number: int) -> int | None:
    """Return the instant of an order's shipment, 5 to 90 hours after the order, or None."""
    return None if number % 7 == 0 else placed(number) + (5 + number * 37 % 86) * HOUR


def due(number: int) -> int | None:
    """Return the instant 48 hours after the order if the order was not shipped before, otherwise None."""
    when = shipped(number)
    return None if when is not None and when < placed(number) + 48 * HOUR else placed(number) + 48 * HOUR


def text(instant: int) -> str:
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=instant)).isoformat(sep=" ")


def written(path: Path, rows: list[tuple[int, int]]) -> Path:
    random.Random(path.name).shuffle(rows)
    path.write_text("id,at\n" + "".join(f"{number},{text(at)}\n" for number, at in rows))
    return path


def orders(low: int = 0, high: int = ORDERS) -> list[tuple[int, int]]:
    return [(number, placed(number)) for number in range(low, high)]


def shipments(low: int, high: int) -> list[tuple[int, int]]:
    """Return the shipments between two instants."""
    found = ((number, shipped(number)) for number in range(ORDERS))
    return [(number, at) for number, at in found if at is not None and low <= at < high]


@pytest.fixture
def weft(spark: SparkSession, tmp_path: Path) -> Weft:
    return replay_home(tmp_path / "home")


END = START + (ORDERS + 100) * HOUR


def test_orders_and_then_shipments_give_the_late_orders(weft: Weft, tmp_path: Path) -> None:
    done = weft.ingest_file(written(tmp_path / "orders.csv", orders()), "orders", ts_from="at")
    assert (done.stored, done.late, done.first_ts, done.last_ts) == (ORDERS, 0, placed(0), placed(ORDERS - 1))
    done = weft.ingest_file(written(tmp_path / "shipments.csv", shipments(0, END)), "shipments", ts_from="at")
    assert done.late == 0
    weft.install("unshipped", UNSHIPPED)
    weft.tick(now=END)
    expected = {(number,): when for number in range(ORDERS) if (when := due(number)) is not None}
    assert 20 < len(expected) < ORDERS
    assert first_instants(weft, "unshipped") == expected


def test_several_windows_and_what_comes_late(weft: Weft, tmp_path: Path) -> None:
    half = START + 100 * HOUR
    late = 14  # in the history, the order is not shipped; a shipment in time arrives after the tick
    weft.ingest_file(written(tmp_path / "s1.csv", shipments(0, half)), "shipments", ts_from="at")
    weft.ingest_file(written(tmp_path / "o2.csv", orders(60)), "orders", ts_from="at")
    weft.ingest_file(written(tmp_path / "o1.csv", orders(0, 60)), "orders", ts_from="at")
    weft.install("unshipped", UNSHIPPED)
    weft.tick(now=half)
    first = {(number,): when for number in range(ORDERS) if (when := due(number)) is not None and when < half}
    assert first_instants(weft, "unshipped") == first
    result = answers(weft, "unshipped")
    rows = [*shipments(half, END), (late, placed(late) + HOUR), (100, placed(100) + 1)]
    done = weft.ingest_file(written(tmp_path / "s2.csv", rows), "shipments", ts_from="at")
    # Order 100 has the time F. Rows directly after F are not late.
    assert (done.late, done.first_ts) == (1, half)
    weft.tick(now=half + 50 * HOUR)
    weft.tick(now=END)
    expected = {(number,): when for number in range(ORDERS) if (when := due(number)) is not None and number != 100}
    assert (late,) in expected
    assert first_instants(weft, "unshipped") == expected
    assert answers(weft, "unshipped")[: len(result)] == result


def test_a_load_that_holds_is_passed_by_no_tick(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch, 50)
    weft.ingest_file(written(tmp_path / "s.csv", shipments(0, END)), "shipments", ts_from="at")
    path = written(tmp_path / "o.csv", orders())
    found: list[int | str] = []

    def ticking(_read: int) -> None:
        with replay_home(weft.home) as other:
            try:
                found.append(other.tick(now=END).reports[-1].t)
            except ClockError as refused:
                found.append(str(refused))

    def load(folder: str, hold: bool, progress: Progress | None) -> int:
        return weft.ingest_file(path, folder, ts_from="at", hold=hold, progress=progress).late

    assert load("orders", True, ticking) == 0
    assert len(found) == 3
    assert all("a load with --hold is running" in str(each) for each in found)
    weft.tick(now=START)
    found.clear()
    assert load("again", True, ticking) == 0
    assert found == [START] * 3
    found.clear()
    assert load("late", False, ticking) > 0
    assert found[0] == END


def test_on_a_wall_home_a_row_ahead_of_the_clock_arrives_at_its_time(spark: SparkSession, tmp_path: Path) -> None:
    clock = [AT]
    weft = Weft.open(tmp_path / "home", clock="wall", wall=lambda: clock[0], create=True)
    weft.ingest_file(written(tmp_path / "a.csv", [(1, AT - DAY)]), "t", ts_from="at")
    weft.install("all", "SELECT id FROM t")
    rows = [(2, AT + DAY), (3, AT + DAY + 1), (4, AT + 400 * DAY)]
    done = weft.ingest_file(written(tmp_path / "b.csv", rows), "t", ts_from="at")
    assert (done.stored, done.quarantined, done.late, done.last_ts) == (1, 2, 0, AT + DAY)
    assert {record.reason for record in weft.quarantined()} == {"at is more than 1d ahead of the clock"}
    clock[0] += 1
    weft.tick()
    assert first_instants(weft, "all") == {(1,): AT - DAY}
    clock[0] = AT + DAY + 2
    assert weft.retry_quarantine().stored == 1
    weft.tick()
    assert first_instants(weft, "all") == {(1,): AT - DAY, (2,): AT + DAY, (3,): AT + DAY + 1}
    assert weft.retry_quarantine(future="52w").kept == 1
    assert weft.retry_quarantine(future="400d").stored == 1
