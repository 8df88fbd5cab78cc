"""Feeds of changes and files of the past: what is recorded, and what is recorded once only."""

from __future__ import annotations

import gzip
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forked
from coalesced import coalesced
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.errors import ExtractionError, Refused, WeftError
from weft.storage.verify import verify


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


def simple(op: str, key: int, time: int | None, **row: Any) -> str:
    change = {"op": op, "table": "staff", "key": {"id": key}, "row": row, "time": time}
    return json.dumps(change if row else {name: value for name, value in change.items() if name != "row"})


def envelope(op: str, time_ms: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    source = {"table": "staff", "ts_ms": time_ms}
    return json.dumps({"schema": {}, "payload": {"op": op, "before": before, "after": after, "source": source}})


def add(path: Path, *lines: str) -> Path:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


ONE = simple("I", 1, 10, name="Ann", dept=None)
TWO = simple("I", 2, 10, name="Ben", dept="Dev")
MOVED = simple("U", 1, 20, name="Ann", dept="Ops")
GONE = simple("D", 2, 30)
AFTER = {
    (("1", "Ann", "None"), 10, 20),
    (("1", "Ann", "Ops"), 20, None),
    (("2", "Ben", "Dev"), 10, 30),
}


def test_a_feed_is_followed_from_poll_to_poll(weft: Weft, tmp_path: Path) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, TWO)
    weft.add_source("staff", "changes", str(feed), ["id"], table="staff")
    first = weft.poll_source("staff", now=100)
    assert (first.began, first.ended, first.open_rows, first.at, first.late) == (2, 0, 2, 10, 0)
    assert weft.poll_source("staff", now=100).at is None
    other = json.dumps({"op": "I", "table": "other", "key": {"id": 9}, "row": {"x": 1}, "time": 15})
    add(feed, MOVED, other)
    with feed.open("a") as file:
        file.write(GONE[:20])  # its writer is in the middle of it
    assert weft.poll_source("staff", now=100).at == 20
    with feed.open("a") as file:
        file.write(GONE[20:] + "\n")
    assert weft.poll_source("staff", now=100).at == 30
    assert history(weft) == AFTER
    assert weft.catalog.tables.named("staff").rows == 5
    add(feed, ONE, TWO, MOVED, GONE)  # once more
    assert weft.poll_source("staff", now=100).at is None
    assert verify(weft.catalog) == []


def test_a_feed_that_is_given_again_changes_nothing(weft: Weft, tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl.gz"
    feed.write_bytes(gzip.compress(f"{ONE}\n{TWO}\n".encode()))
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    feed.write_bytes(gzip.compress(f"{ONE}\n{TWO}\n{MOVED}\n{GONE}\n".encode()))
    weft.poll_source("staff", now=100)
    assert history(weft) == AFTER
    feed.unlink()
    add(tmp_path / "feed.jsonl.gz", TWO, ONE, MOVED)  # another file in its place
    assert weft.poll_source("staff", now=100).at is None
    assert history(weft) == AFTER


def test_debezium_envelopes_say_the_same(weft: Weft, tmp_path: Path) -> None:
    ann, moved = {"id": 1, "name": "Ann"}, {"id": 1, "name": "Anna"}
    feed = add(tmp_path / "feed.jsonl", envelope("r", 10, None, ann), envelope("u", 20, ann, moved))
    add(feed, envelope("d", 30, moved, None), "null", envelope("c", 30, None, {"id": 2, "name": "Ben"}))
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=1_000_000)
    assert history(weft) == {
        (("1", "Ann"), 10_000, 20_000),
        (("1", "Anna"), 20_000, 30_000),
        (("2", "Ben"), 30_000, None),
    }


def test_a_change_that_comes_too_late_is_said_to_be(weft: Weft, tmp_path: Path) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, MOVED)
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    add(feed, simple("I", 2, 15, name="Ben", dept="Dev"))
    late = weft.poll_source("staff", now=100)
    assert (late.at, late.late) == (21, 1)


def test_without_their_times_changes_are_of_the_poll(weft: Weft, tmp_path: Path) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, MOVED)
    weft.add_source("staff", "changes", str(feed), ["id"], ts="clock")
    assert weft.poll_source("staff", now=100).at == 100
    assert history(weft) == {(("1", "Ann", "Ops"), 100, None)}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "invalid JSON"),
        ('{"id": 1}', "the object has no op"),
        (simple("X", 1, 20, name="Ann", dept=None), "are required"),
        ('{"op": "I", "key": {"id": 1}, "row": {}, "time": "soon"}', "not an instant"),
        ('{"op": "t", "source": {"ts_ms": 20}}', "truncate"),
        (simple("I", 3, 20, name="Coy", dept=None, pay=7), "columns that staff lacks: pay"),
        ('{"op": "I", "key": {"id": "x"}, "row": {}, "time": 20}', "not of the column's type: id"),
        ('{"op": ["I"], "key": {"id": 3}, "row": {}, "time": 20}', "are required"),
        ('{"op": "c", "after": {"id": 3}, "source": "shop"}', "are required"),
        ('{"op": "c", "after": {"id": 3}, "source": {"ts_ms": [20]}}', "not an instant"),
        ('{"op": "c", "after": {"id": 3}, "source": {"ts_ms": 9007199254740993000}}', "not an instant"),
        (simple("I", 3, 2**63 - 1, name="Coy", dept=None), "not an instant"),
        ('{"op": "D", "key": {"name": "Ann"}, "time": 20}', "the key columns id are missing"),
        ('{"op": "d", "before": {}, "source": {"ts_ms": 20}}', "the key columns id are missing"),
    ],
)
def test_an_invalid_change_stops_the_feed(weft: Weft, tmp_path: Path, line: str, why: str) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, TWO)
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    read = feed.stat().st_size
    add(feed, MOVED, line)
    with pytest.raises(WeftError, match=why) as refused:
        weft.poll_source("staff", now=100)
    if "columns" not in why:
        assert f"after byte {read}" in refused.value.message
        assert "--bad-lines quarantine" in str(refused.value.hint)
    assert weft.catalog.tables.named("staff").rows == 2
    assert weft.sources()[0].trouble is not None


def test_lines_that_are_no_changes_may_go_to_quarantine(weft: Weft, tmp_path: Path) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, TWO)
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    torn = '{"op": "I", "key": {"id": "x"}, "row": {}, "time": 20}'
    add(feed, MOVED, "{", torn, GONE)
    done = weft.poll_source("staff", now=100, bad_lines=True)
    assert (done.quarantined, history(weft)) == (2, AFTER)
    kept = [(record.position, record.reason[:14]) for record in weft.quarantined()]
    place = len(f"{ONE}\n{TWO}\n")
    assert kept == [
        (f"line 2 after byte {place}", "invalid JSON: "),
        (f"line 3 after byte {place}", "not of the col"),
    ]
    folder = weft.home / "quarantine"
    assert {file.read_text() for file in folder.iterdir()} == {"{\n", f"{torn}\n"}
    assert weft.poll_source("staff", now=100).quarantined == 0
    retried = weft.retry_quarantine(None)
    assert (retried.read, retried.kept, history(weft)) == (0, 2, AFTER)


def test_new_columns_of_a_feed_are_taken_where_asked_for(weft: Weft, tmp_path: Path) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE)
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    add(feed, simple("U", 1, 20, name="Ann", dept=None, pay=7))
    weft.poll_source("staff", now=100, evolve=True)
    assert history(weft) == {(("1", "Ann", "None", "None"), 10, 20), (("1", "Ann", "None", "7"), 20, None)}


@pytest.mark.parametrize("point", ["source.reserved", "source.written", "source.committed"])
def test_a_feed_whose_poll_was_killed_goes_on(weft: Weft, tmp_path: Path, point: str) -> None:
    feed = add(tmp_path / "feed.jsonl", ONE, TWO)
    weft.add_source("staff", "changes", str(feed), ["id"])
    weft.poll_source("staff", now=100)
    add(feed, MOVED)
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", str(weft.home), "--now", "1970-01-02"]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    add(feed, GONE)
    weft.poll_source("staff", now=100)
    assert history(weft) == AFTER
    assert weft.sources()[0].open_rows == 1
    assert verify(weft.catalog) == []


def states_file(path: Path) -> Path:
    lines = ["day, id, name", "2026-01-01,1,Ann", "2026-01-01,2,Ben", "2026-01-02,1,Ann", "2026-01-03,2,Ben"]
    path.write_text("\n".join([*lines, "2026-01-03,1,Anna"]) + "\n")
    return path


def day(number: int) -> int:
    return 1_767_225_600_000_000 + (number - 1) * 86_400_000_000


def test_dated_states_are_the_beginning_of_a_history(weft: Weft, tmp_path: Path) -> None:
    now = tmp_path / "staff.csv"
    now.write_text("id,name\n1,Anna\n3,Coy\n")
    weft.add_source("staff", "csv", str(now), ["id"])
    past = states_file(tmp_path / "past.csv")
    result = weft.load_past("staff", past, "day")
    assert (result.began, result.ended, result.first, result.last) == (4, 2, day(1), day(3))
    assert weft.load_past("staff", past, "day").already
    weft.poll_source("staff", now=day(9))
    at = [(1, ["1,Ann", "2,Ben"]), (2, ["1,Ann"]), (3, ["1,Anna", "2,Ben"]), (9, ["1,Anna", "3,Coy"])]
    assert history(weft) == coalesced([(day(n), [tuple(line.split(",")) for line in lines]) for n, lines in at])
    past.write_text("day,id,name\n2026-01-02,1,Ann\n")
    assert weft.load_past("staff", past, "day").first is None  # it is known
    past.write_text("day,id,name\n2026-01-02,1,Ann\n2026-01-02,2,Ben\n")
    with pytest.raises(Refused, match="too early"):
        weft.load_past("staff", past, "day")
    assert weft.sources()[0].open_rows == 2


def test_dated_changes_are_loaded_too(weft: Weft, tmp_path: Path) -> None:
    now = tmp_path / "staff.csv"
    now.write_text("id,name\n1,Anna\n")
    weft.add_source("staff", "csv", str(now), ["id"])
    past = tmp_path / "past.csv"
    past.write_text("at,what,id,name\n2026-01-02,delete,2,\n2026-01-01,i,1,Ann\n2026-01-01,i,2,Ben\n")
    weft.load_past("staff", past, "at", op="what")
    assert history(weft) == {(("1", "Ann"), day(1), None), (("2", "Ben"), day(1), day(2))}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("day,id,name\n2026-01-01,1,Ann\n,2,Ben\n", "day is empty in 1 row"),
        ("day,id,name\n2026-01-01,1,Ann\n2026-01-01,1,Ben\n", "2 rows with the key 1"),
        ("day,id,name\n", "the file has no rows"),
        ("day,id\n2026-01-01,1\n", "no column 'name'"),
        ("day,id,name\nMonday,1,Ann\n", "not of the column's type: day"),
    ],
)
def test_a_past_that_cannot_be_right_is_refused(weft: Weft, tmp_path: Path, text: str, why: str) -> None:
    now = tmp_path / "staff.csv"
    now.write_text("id,name\n1,Anna\n")
    weft.add_source("staff", "csv", str(now), ["id"])
    past = tmp_path / "past.csv"
    past.write_text("day,id,name\n2025-01-01,1,Ann\n")
    weft.load_past("staff", past, "day")
    past.write_text(text)
    with pytest.raises((Refused, ExtractionError), match=why):
        weft.load_past("staff", past, "day")
    assert history(weft) == {(("1", "Ann"), 1_735_689_600_000_000, None)}
