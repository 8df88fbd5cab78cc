"""Which engine a refresh takes, and whether it recomputes the view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from weft.execution.engines import choosing
from weft.execution.engines.choosing import Choice, EngineBounds
from weft.execution.temporal.running import refresh_choice
from weft.storage.columns import INSTANT
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.store import store_of

BOUNDS = EngineBounds(history=100, changes=10, again=4, share=8)
TAU = 1_000


class View:
    """What the choice needs of a view."""

    def __init__(self, tau: int | None, *reads: int) -> None:
        self.tau, self.reads = tau, frozenset(reads)


def log(folder: Path, old: int, new: int) -> DataFile:
    """A log in one file."""
    instants = pa.array([TAU] * old + [TAU + 1] * new, pa.int64()).cast(INSTANT)
    schema = pa.schema([("ts", INSTANT)])
    place = store_of(folder)
    place.make()
    written = FileForm(place, schema, ()).write([pa.table({"ts": instants}, schema)])
    return DataFile(written.location, written.size, old + new, {"ts": TAU}, {"ts": TAU + 1})


def chosen(folder: Path, old: int, new: int, *, first: bool = False) -> Choice:
    """The choice for a log with so many rows before the last refresh and after it."""
    file = log(folder, old, new)
    view: Any = View(None if first else TAU, 1)
    return refresh_choice(view, {1: "staff"}, {1: (file,)})


def test_the_rows_are_counted_if_the_upper_limits_exceed_the_bound_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has three rows, which is within the bound, but one of them is new."""
    monkeypatch.setattr(choosing, "BOUNDS", BOUNDS)
    names = {1: "staff", 2: "rooms", 3: "visits"}
    files = {key: (log(tmp_path / name, 2, 1),) for key, name in names.items()}
    view: Any = View(TAU, *names)
    choice = refresh_choice(view, names, files)
    assert (choice.by, choice.from_scratch) == ("driver", False)
    assert choice.why == "staff, rooms and visits have 3 new log rows, at most 10"


@pytest.mark.parametrize(
    ("old", "new", "by", "from_scratch"),
    [
        (0, 4, "driver", False),  # few rows are always maintained
        (30, 5, "driver", True),
        (40, 5, "driver", False),
        (80, 11, "driver", True),  # the driver recomputes a short history instead of maintaining on Spark
        (300, 11, "Spark", False),
        (90, 12, "Spark", False),
        (80, 21, "Spark", True),
    ],
)
def test_a_refresh_computes_anew_what_costs_less_anew(
    old: int, new: int, by: str, from_scratch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "BOUNDS", BOUNDS)
    choice = chosen(tmp_path, old, new)
    assert (choice.by, choice.from_scratch) == (by, from_scratch)
    assert ("is recomputed" in choice.why) == from_scratch


def test_the_first_refresh_is_bounded_by_the_whole_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "BOUNDS", BOUNDS)
    assert [chosen(tmp_path, rows, 0, first=True).by for rows in (100, 101)] == ["driver", "Spark"]
