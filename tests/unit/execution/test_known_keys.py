"""Loading rows by key into a large table asks an arrangement what the table has: the same rows as by a scan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from weft.api.weft import Weft
from weft.catalog import layout
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds

Row = dict[str, Any]


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


def load(weft: Weft, *rows: Row) -> tuple[int, int]:
    """How many were stored, and how many were known."""
    file = weft.home.parent / "rows.jsonl"
    stamped = [{"a": None, "b": None, "at": "1993-04-01T00:00:00Z", "x": 1.5, **row} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in stamped))
    done = weft.ingest_file(file, "t", keys=["a", "x"], ts_from="at")
    return done.stored, done.known


def runs(weft: Weft) -> list[Path]:
    return sorted(layout.arrangements_folder(weft.home).rglob("*.arrow"))


FIRST: Sequence[Row] = [{"a": "m1"}, {"a": "m2"}, {"a": None}, {"a": "m3", "x": 0.0}, {"a": "m3", "x": None}]
LATER: Sequence[Row] = [
    {"a": "m1"},
    {"a": "m1", "x": 2.5},
    {"a": None},
    {"a": None, "x": None},
    {"a": "m3", "x": -0.0},
    {"a": "m3", "x": None},
    {"a": "m4"},
    {"a": "m4"},
]


@pytest.mark.parametrize("arranged", [True, False])
def test_known_rows_are_omitted_either_way(weft: Weft, monkeypatch: pytest.MonkeyPatch, arranged: bool) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=4 if arranged else 1_000))
    assert load(weft, *FIRST) == (5, 0)
    assert load(weft, *LATER) == (3, 5)
    assert load(weft, *LATER) == (0, 8)
    assert load(weft, {"a": "m5"}, {"a": "m4"}) == (1, 1)
    assert bool(runs(weft)) == arranged


def test_damage_to_the_arrangement_costs_a_scan_and_loses_nothing(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=4))
    load(weft, *FIRST)
    load(weft, *LATER)
    shutil.rmtree(layout.arrangements_folder(weft.home))
    layout.arrangements_folder(weft.home).write_text("no folder")
    assert load(weft, {"a": "m6"}, {"a": "m4"}) == (1, 1)
    layout.arrangements_folder(weft.home).unlink()
    assert load(weft, {"a": "m6"}, {"a": "m7"}) == (1, 1)
    for run in runs(weft):
        run.write_bytes(b"x" * run.stat().st_size)
    assert load(weft, {"a": "m7"}, {"a": "m8"}) == (1, 1)
    assert weft.tables()[0].rows == 11


def test_more_rows_than_are_looked_up_are_compared_by_a_scan(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=4, keys=5))
    load(weft, *FIRST)
    assert load(weft, *LATER) == (3, 5)
    assert not runs(weft)


def test_many_keys_are_looked_up_a_few_at_a_time_in_a_table_that_is_much_larger(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=4, keys=3, passes=0))
    assert load(weft, *FIRST) == (5, 0)
    assert load(weft, *LATER) == (3, 5)
    assert runs(weft)
