"""Real tables that changed over years, as changes and as snapshots: the same tracked tables where both speak."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from weft.api import Weft
from weft.execution.history_log import log_of
from weft.instants import parse_instant
from weft.storage.columns import INSTANT
from weft.storage.periods import open_periods, periods
from weft.storage.verify import verify

TABLES = [
    pytest.param("kubernetes-org", "team_member", ["org", "team", "login"], 3_615),
    pytest.param("congress", "legislator", ["bioguide"], 537, marks=pytest.mark.slow),
    pytest.param("congress", "committee_member", ["committee", "bioguide"], 3_879, marks=pytest.mark.slow),
    pytest.param("congress", "committee", ["committee"], 230),
    pytest.param("kubernetes-org", "org_member", ["org", "login"], 2_666, marks=pytest.mark.slow),
    pytest.param("kubernetes-org", "team", ["org", "team"], 766, marks=pytest.mark.slow),
    pytest.param("ca-fires", "incident", ["id"], 0, marks=pytest.mark.slow),
]
"""Folder, table, key, rows at the end."""


@pytest.fixture
def directory(data: Path) -> Path:
    folder = data / "directory"
    if not folder.is_dir():
        pytest.skip(f"NO REAL DIRECTORIES: {folder} is not there; set WEFT_DATA to the folder that has directory/")
    return folder


def rows_at(found: pa.Table, instant: int) -> set[tuple[object, ...]]:
    """The rows of the periods that hold an instant, distinguished as values of Python."""
    at = pa.scalar(instant, INSTANT)
    begun = pc.less_equal(found.column("valid_from"), at)
    here = found.filter(pc.and_(begun, pc.fill_null(pc.greater(found.column("valid_to"), at), True)))
    shown = here.drop_columns(["valid_from", "valid_to"])
    rows = list(zip(*(column.to_pylist() for column in shown.columns), strict=True))
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.data
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("folder", "table", "key", "rows"), TABLES)
def test_changes_and_snapshots_give_the_same(
    directory: Path, tmp_path: Path, folder: str, table: str, key: list[str], rows: int
) -> None:
    place = directory / folder
    with (place / "versions.csv").open() as file:
        times = {int(each["v"]): parse_instant(each["time"]) for each in csv.DictReader(file)}
    snapshots = {
        int(match[1]): path
        for path in sorted((place / "snapshots").glob(f"{table}.v*.jsonl.gz"))
        if (match := re.search(r"\.v(\d+)\.", path.name))
    }
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.add_source("fed", "changes", str(place / "changes.jsonl.gz"), key, table=table)
        polled = weft.poll_source("fed", now=max(times.values()) + 1)
        assert (polled.open_rows, polled.late) == (rows, 0)
        record = weft.catalog.tables.named("fed")
        fed = periods(log_of(weft.catalog, record))
        columns = [(c.name, c.type) for c in record.schema.columns if not c.name.startswith("valid_")]
        current = tmp_path / "current.jsonl.gz"
        seen: list[tuple[int, set[tuple[object, ...]]]] = []
        for version, path in snapshots.items():
            current.write_bytes(path.read_bytes())
            if not seen:
                weft.add_source("looked", "jsonl", str(current), key, columns=columns)
            weft.poll_source("looked", now=times[version], allow_empty=True)
            seen.append((times[version], rows_at(fed, times[version])))
        looked = periods(log_of(weft.catalog, weft.catalog.tables.named("looked")))
        assert len(seen) >= 5
        for instant, there in seen:
            assert rows_at(looked, instant) == there
        states = [there for _, there in seen]
        assert looked.num_rows == sum(len(now - before) for before, now in zip([set(), *states], states, strict=False))
        assert open_periods(log_of(weft.catalog, record)).num_rows == rows
        assert verify(weft.catalog) == []
