"""The open rows that are kept beside a tracked table: as good as its log, or not used."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coalesced import coalesced
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.execution import current_rows_cache
from weft.execution.history_log import log_of
from weft.extraction.sources import apply_changes
from weft.storage.periods import open_periods


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_rows_cache, "FEWEST", 0)


def states(count: int) -> list[list[tuple[int, str]]]:
    chance = random.Random(5)
    return [
        [(key, chance.choice("ab")) for key in range(6) if chance.random() < 0.6] or [(9, "z")] for _ in range(count)
    ]


def write(file: Path, rows: list[tuple[int, str]]) -> None:
    file.write_text("".join(f"{line}\n" for line in ("id, x", *(f"{key},{x}" for key, x in rows))))


def spoiled(file: Path, way: str) -> None:
    if way == "gone":
        file.unlink()
    elif way == "torn":
        file.write_bytes(file.read_bytes()[:-30])
    elif way == "flipped":
        found = bytearray(file.read_bytes())
        found[len(found) // 3] ^= 0xFF
        file.write_bytes(bytes(found))
    elif way == "zeros":
        file.write_bytes(bytes(4))
    elif way == "empty":
        file.write_bytes(b"")


@pytest.mark.parametrize("way", ["kept", "gone", "torn", "flipped", "zeros", "empty", "old"])
def test_polls_give_the_same_history_with_any_cache(tmp_path: Path, way: str) -> None:
    file, kept = tmp_path / "staff.csv", tmp_path / "home" / "present" / "1.parquet"
    result = states(7)
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        for at, rows in enumerate(result, 1):
            write(file, rows)
            if at == 1:
                weft.add_source("staff", "csv", str(file), ["id"])
            before = kept.read_bytes() if kept.exists() else None
            weft.poll_source("staff", now=at)
            if way == "old" and before is not None:
                kept.write_bytes(before)
            elif way not in ("kept", "old"):
                spoiled(kept, way)
        expected = [(at, [(str(key), x) for key, x in rows]) for at, rows in enumerate(result, 1)]
        assert history(weft) == coalesced(expected)


def test_a_feed_needs_the_log_only_for_changes_that_may_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = tmp_path / "feed.jsonl"
    line = '{{"op": "U", "key": {{"id": {0}}}, "row": {{"x": "{1}"}}, "time": {2}}}\n'
    feed.write_text(line.format(1, "a", 10) + line.format(2, "a", 10))
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.add_source("staff", "changes", str(feed), ["id"])
        weft.poll_source("staff", now=100)
        reads: list[Any] = []

        def noted(*given: Any) -> pa.Table:
            reads.append(given)
            return log_of(*given)

        monkeypatch.setattr(apply_changes, "log_of", noted)
        monkeypatch.setattr(current_rows_cache, "log_of", noted)
        with feed.open("a") as file:
            file.write(line.format(1, "b", 20))
        assert weft.poll_source("staff", now=100).at == 20
        assert reads == []
        with feed.open("a") as file:
            file.write(line.format(1, "a", 10) + line.format(2, "c", 15))
        assert weft.poll_source("staff", now=100).late == 1
        assert len(reads) == 1
        table = weft.catalog.tables.named("staff")
        with weft.writing("look") as writer:
            kept, logged = current_rows_cache.current_rows(writer, table), open_periods(log_of(writer, table))
        assert sorted(kept.to_pylist(), key=repr) == sorted(logged.to_pylist(), key=repr)


def test_a_removed_view_and_a_dropped_table_leave_no_cache(tmp_path: Path) -> None:
    file, caches = tmp_path / "staff.csv", tmp_path / "home" / "present"
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        write(file, [(1, "a")])
        weft.add_source("staff", "csv", str(file), ["id"])
        weft.poll_source("staff", now=1)
        weft.add_view("texts", "SELECT x FROM staff")
        table, view = (weft.catalog.tables.named(name).table_id for name in ("staff", "texts"))
        (caches / f"{view}.parquet").touch()
        weft.remove_view("texts")
        assert [each.name for each in caches.iterdir()] == [f"{table}.parquet"]
        weft.remove_source("staff")
        weft.drop_table("staff")
        assert not [*caches.iterdir()]
