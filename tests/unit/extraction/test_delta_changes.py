"""A Delta table followed by its change data feed."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import forked
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.errors import ExtractionError, Refused
from weft.storage.verify import verify

LATER = 4_000_000_000_000_000


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


@pytest.fixture
def shop(weft: Weft, tmp_path: Path) -> Path:
    """A Delta table with two rows, which is followed; they are recorded."""
    path = tmp_path / "item"
    write_deltalake(path, rows((1, "a"), (2, "b")), configuration={"delta.enableChangeDataFeed": "true"})
    weft.add_source("item", "changes", str(path), ["id"])
    weft.poll_source("item", now=LATER)
    return path


def rows(*given: tuple[Any, ...], **more: Any) -> pa.Table:
    ids, names = zip(*given, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names, **more})


def committed(path: Path, version: int) -> int:
    """When a version was committed (µs UTC)."""
    for line in (path / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        if "commitInfo" in line:
            return int(json.loads(line)["commitInfo"]["timestamp"]) * 1_000
    raise AssertionError(version)


def test_each_version_is_a_transaction(weft: Weft, shop: Path) -> None:
    table = DeltaTable(shop)
    table.update(updates={"name": "'A'"}, predicate="id = 1")
    table.update(updates={"id": "9"}, predicate="id = 2")
    write_deltalake(shop, rows((3, "c")), mode="append")
    table = DeltaTable(shop)
    table.delete("id = 9")
    done = weft.poll_source("item", now=LATER)
    assert (done.began, done.ended, done.open_rows) == (3, 3, 2)
    at = [committed(shop, version) for version in range(5)]
    for earlier in range(4):  # the source's clock has milliseconds
        at[earlier + 1] = max(at[earlier + 1], at[earlier] + 1)
    assert history(weft, "item") == {
        (("1", "a"), at[0], at[1]),
        (("1", "A"), at[1], None),
        (("2", "b"), at[0], at[2]),
        (("9", "b"), at[2], at[4]),
        (("3", "c"), at[3], None),
    }
    assert weft.poll_source("item", now=LATER).at is None
    assert verify(weft.catalog) == []


def test_new_columns_are_taken_where_asked_for(weft: Weft, shop: Path) -> None:
    write_deltalake(shop, rows((3, "c"), pay=[7]), mode="append", schema_mode="merge")
    with pytest.raises(Refused, match="has new columns: pay"):
        weft.poll_source("item", now=LATER)
    weft.poll_source("item", now=LATER, evolve=True)
    assert {row for row, _, _ in history(weft, "item")} == {("1", "a", "None"), ("2", "b", "None"), ("3", "c", "7")}


@pytest.mark.parametrize("point", ["source.reserved", "source.written", "source.committed", "source.recorded"])
def test_a_poll_that_was_killed_is_made_again(weft: Weft, shop: Path, point: str) -> None:
    table = DeltaTable(shop)
    table.update(updates={"name": "'A'"}, predicate="id = 1")
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", str(weft.home), "--now", "2096-01-01"]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    table.update(updates={"name": "'a'"}, predicate="id = 1")
    weft.poll_source("item", now=LATER)
    assert sorted(row[1] for row, _, _ in history(weft, "item") if row[0] == "1") == ["A", "a", "a"]
    assert weft.catalog.tables.named("item").rows == 6


def test_missing_versions_are_reported_and_the_source_may_start_again(weft: Weft, shop: Path) -> None:
    DeltaTable(shop).update(updates={"name": "'A'"}, predicate="id = 1")
    for file in (shop / "_change_data").iterdir():
        file.unlink()  # as VACUUM does
    with pytest.raises(ExtractionError, match="cannot be read") as refused:
        weft.poll_source("item", now=LATER)
    assert "weft source remove item" in (refused.value.hint or "")
    weft.remove_source("item")
    weft.add_source("item", "changes", str(shop), ["id"])
    assert weft.poll_source("item", now=LATER).ended == 1
    assert {row for row, _, end in history(weft, "item") if end is None} == {("1", "A"), ("2", "b")}


def test_a_table_without_a_change_feed_is_refused(weft: Weft, shop: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "silent", rows((1, "a")))
    with pytest.raises(Refused, match="has no change data feed"):
        weft.add_source("silent", "changes", str(tmp_path / "silent"), ["id"])
    shop.rename(tmp_path / "away")
    write_deltalake(shop, rows((1, "a")), configuration={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(Refused, match="the Delta table was replaced"):
        weft.poll_source("item", now=LATER)
