"""Transactions that touch several tables: one instant in all of them, whatever dies in between."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forked
from unit.extraction.test_feeds import add
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.catalog import layout
from weft.errors import Refused
from weft.storage.verify import verify

POINTS = ("source.reserved:1", "source.staged", "source.written", "source.written:2", "source.committed")


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


@pytest.fixture
def feed(weft: Weft, tmp_path: Path) -> Path:
    """A feed of two tables, which are both followed; of each something is recorded."""
    path = add(tmp_path / "feed.jsonl", change("staff", 1, 10, name="Ann"), change("dept", 1, 10, title="Dev"))
    for table in ("staff", "dept"):
        weft.add_source(table, "changes", str(path), ["id"], table=table)
    weft.poll_source("staff", now=100)
    return path


def change(table: str, key: int, time: int, tx: int | None = None, **row: Any) -> str:
    result = {"op": "U", "table": table, "key": {"id": key}, "row": row, "time": time}
    return json.dumps(result if tx is None else {**result, "tx": tx})


def test_sources_of_one_feed_are_polled_together(weft: Weft, feed: Path) -> None:
    assert history(weft, "dept") == {(("1", "Dev"), 10, None)}
    add(feed, change("dept", 1, 20, title="Ops"), change("staff", 1, 20, name="Anna"))
    done = weft.poll_feed("dept", now=100)
    assert [(each.name, each.at) for each in done] == [("dept", 20), ("staff", 20)]


def test_a_late_transaction_is_late_in_all_its_tables_alike(weft: Weft, feed: Path) -> None:
    add(feed, change("dept", 2, 90, title="Ops"))
    weft.poll_source("dept", now=100)
    add(feed, change("staff", 2, 50, name="Ben"), change("dept", 3, 50, title="Sales"))
    weft.poll_source("staff", now=100)
    assert (("2", "Ben"), 91, None) in history(weft, "staff")
    assert (("3", "Sales"), 91, None) in history(weft, "dept")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("settled_by", ["a poll", "another writer"])
def test_a_transaction_is_whole_after_a_kill(weft: Weft, feed: Path, point: str, settled_by: str) -> None:
    add(feed, change("staff", 1, 50, name="Anna"), change("dept", 1, 50, title="Ops"))
    home = str(weft.home)
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", home, "--now", "1970-01-02"]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    if settled_by == "another writer":
        with weft.opened.writing("look") as writer:
            known = {writer.tables.named(name).last_ts for name in ("staff", "dept")}
            assert known == ({10} if point in ("source.reserved:1", "source.staged") else {50})
    add(feed, change("staff", 1, 70, name="Anne"))
    weft.poll_source("staff", now=100)
    assert history(weft, "staff") == {(("1", "Ann"), 10, 50), (("1", "Anna"), 50, 70), (("1", "Anne"), 70, None)}
    assert history(weft, "dept") == {(("1", "Dev"), 10, 50), (("1", "Ops"), 50, None)}
    assert [each.open_rows for each in weft.sources()] == [1, 1]
    assert (weft.catalog.reservations.still_open(), verify(weft.catalog)) == ((), [])
    weft.opened.catalog.sources.named("staff")
    add(feed, change("staff", 1, 80, name="A"), change("dept", 1, 80, title="D"))
    weft.poll_source("staff", now=100)
    assert (weft.catalog.data / layout.STAGED).names() == []


def test_a_named_transaction_is_not_split_over_two_polls(weft: Weft, feed: Path) -> None:
    add(feed, change("staff", 1, 20, 7, name="Anna"), change("staff", 1, 30, 8, name="Anne"))
    assert weft.poll_source("staff", now=100).at == 20  # more of transaction 8 may come
    add(feed, change("dept", 1, 31, 8, title="Ops"))
    assert weft.poll_source("staff", now=100).at is None
    assert [each.at for each in weft.poll_feed("staff", now=100)] == [30, 30]  # nothing came
    assert (("1", "Ops"), 30, None) in history(weft, "dept")
    assert (("1", "Anne"), 30, None) in history(weft, "staff")


def test_named_transactions_of_one_time_are_two(weft: Weft, feed: Path) -> None:
    add(feed, change("staff", 1, 20, 7, name="Anna"), change("staff", 1, 20, 8, name="Anne"), "null")
    weft.poll_source("staff", now=100)
    add(feed, change("dept", 1, 20, 8, title="Ops"), change("staff", 1, 20, 9, name="Ann"))
    add(feed, change("staff", 2, 40, 10, name="Ben"))
    weft.poll_source("staff", now=100)
    expected = {(("1", "Ann"), 10, 20), (("1", "Anna"), 20, 21), (("1", "Anne"), 21, 22), (("1", "Ann"), 22, None)}
    assert history(weft, "staff") == expected
    assert (("1", "Ops"), 21, None) in history(weft, "dept")
    feed.write_text(feed.read_text() + feed.read_text())  # all of it again
    weft.poll_source("staff", now=100)
    weft.poll_source("staff", now=100)
    assert history(weft, "staff") == expected | {(("2", "Ben"), 40, None)}


def test_the_rows_that_held_at_an_instant(weft: Weft, feed: Path) -> None:
    add(
        feed,
        change("staff", 1, 50, name="Anna"),
        change("staff", 2, 60, name="Ben"),
        change("staff", 1, 70, name="Anne"),
    )
    weft.poll_source("staff", now=100)
    every = weft.history("staff").stretches
    for at in (9, 10, 49, 50, 60, 69, 70, 500):
        held = tuple(each for each in every if each.begin <= at and (each.end is None or each.end > at))
        found = weft.history("staff", held_at=at, limit=1)
        assert (weft.history("staff", held_at=at).stretches, found.stretches, found.count) == (
            held,
            held[:1],
            len(held),
        )
    with pytest.raises(Refused, match="--where applies"):
        weft.history("staff", where="id = 1", held_at=60)
