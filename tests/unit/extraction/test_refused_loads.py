"""A load that is refused changes nothing: no table, no column, no row, no record in quarantine, no load."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from letters import letter
from small_batches import small_batches
from weft.api import Weft
from weft.errors import Conflict, Refused

KEPT = ("tables", "columns", "loads", "load_files", "active_loads", "quarantine", "reservations", "sources", "views")


def state(weft: Weft) -> tuple[object, ...]:
    """Everything of a home that a load may change: what the catalog has of loads and tables, and all files of data."""
    with closing(sqlite3.connect(weft.home / "catalog.sqlite")) as connection:
        rows = [connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in KEPT]
        home = connection.execute("SELECT watermark, last_ts, now, t0 FROM home").fetchall()
    files = sorted(
        path for name in ("tables", "quarantine") for path in (weft.home / name).rglob("*") if path.is_file()
    )
    return rows, home, [(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]


@pytest.fixture(scope="module")
def weft(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A replay home with an unkeyed and a keyed table, mail, a log, a tracked table, ticked once."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "day1.csv").write_text("id,at,n\n1,2024-01-01,5\n2,2024-01-01,6\n")
    (folder / "letters").write_bytes(b"From x\n" + letter())
    (folder / "staff.csv").write_text("id,name\n1,Ann\n")
    (folder / "log").write_text("@1704067200 p(1)\n")
    (folder / "sig").write_text("p(x:int)\n")
    with Weft.open(folder / "home", clock="replay", create=True) as weft:
        weft.ingest_file(folder / "day1.csv", "plain", ts_from="at")
        weft.ingest_file(folder / "day1.csv", "keyed", ts_from="at", keys=["id"])
        weft.ingest_mail(folder / "letters", ts_from="date")
        weft.ingest_log(folder / "log", folder / "sig")
        weft.add_source("staff", "csv", folder / "staff.csv", ["id"])
        weft.poll_source("staff", now="2024-01-02T00:00:00Z")
        weft.install("seen", "SELECT id FROM plain", start="now")  # F goes on to the home's clock
        yield weft


LETTER = b"From x\n" + letter(Message_ID="<b@x>")
LATE = "id,at,n\n3,2024-01-03,1\n4,2024-01-01,2\n"
NEW = "id,at,n\n3,2024-01-03,1\n"
Load = Callable[[Weft, Path], object]


def csv(text: str, table: str, **how: Any) -> Load:
    def load(weft: Weft, folder: Path) -> object:
        path = folder / "x.csv"
        path.write_text(text)
        return weft.ingest_file(path, table, **{"ts_from": "at", **how})

    return load


def mail(content: bytes, **how: Any) -> Load:
    def load(weft: Weft, folder: Path) -> object:
        path = folder / "x.jsonl"
        path.write_bytes(content)
        return weft.ingest_mail(path, **how)

    return load


def log(text: str, signature: str) -> Load:
    def load(weft: Weft, folder: Path) -> object:
        (folder / "l").write_text(text)
        (folder / "s").write_text(signature)
        return weft.ingest_log(folder / "l", folder / "s")

    return load


def past(text: str) -> Load:
    def load(weft: Weft, folder: Path) -> object:
        (folder / "past.csv").write_text(text)
        return weft.load_past("staff", folder / "past.csv", "at")

    return load


REFUSED: dict[str, tuple[Load, str]] = {
    "late, behind what cannot be read": (csv("id,at,n\nx\n" + LATE[8:], "plain", late="refuse"), "be late"),
    "late, to a new table": (csv(LATE, "fresh", late="refuse"), "would be late"),
    "late, to a new column": (csv("id,at,n,m\n3,2024-01-01,1,2\n", "plain", late="refuse", evolve=True), "1 row for"),
    "late, a keyed table": (csv(LATE, "keyed", late="refuse"), "1 row for keyed would be late"),
    "other columns": (csv("id,at\n3,2024-01-03\n", "plain"), "lacks n"),
    "another type than the table's": (csv(NEW, "plain", types="n DOUBLE"), "n is DOUBLE in --types"),
    "other keys": (csv(NEW, "keyed", keys=["n"]), "key of keyed cannot change"),
    "other keys and new columns": (csv("id,at,n,m\n3,2024-01-03,1,2\n", "keyed", keys=["n"], evolve=True), "cannot"),
    "keys that are not there": (csv(NEW, "fresh", keys=["nothing"]), "no column 'nothing'"),
    "a name that no table has": (csv(NEW, "a b"), "not a valid name of a table"),
    "no such column for ts": (csv(NEW, "fresh", ts_from="when"), "no column 'when'"),
    "no instant": (csv("id,at\n1,soon\n", "fresh"), "not an instant"),
    "an unknown encoding": (csv(NEW, "fresh", encoding="nothing"), "not a text encoding"),
    "no column to rename": (csv(NEW, "fresh", rename="x=y"), "no column 'x' to rename"),
    "no form of instants": (csv(NEW, "fresh", ts_format="yyyy"), "is not a valid format"),
    "a view's or a source's table": (csv(NEW, "staff"), "is a tracked table"),
    "nothing in the file": (csv("", "fresh"), "no header line"),
    "no message": (mail(b'{"id": 1}\n', table="fresh"), "no message could be read"),
    "no message, to a table of mail": (mail(b"\x89PNG\r\n\0\0"), "no message could be read"),
    "mail into another table": (mail(LETTER, table="plain"), "not a mail table"),
    "late mail": (mail(LETTER, ts_from="date", late="refuse"), "would be late"),
    "late mail to a new table": (
        mail(LETTER, ts_from="date", late="refuse", table="fresh"), "would be late",
    ),
    "mail's ts from another column": (mail(LETTER, ts_from="sent"), "no column 'sent'"),
    "a log that breaks off": (log("@1704326400 p(2)\n@1704326401 q(\n", "p(x:int)\nq(x:int)\n"), ""),
    "a log with another table's columns": (log("@1704326400 p(2)\n", "p(x:string)\n"), "has the columns"),
    "a log with a name that no table has": (log("@1704326400 q__r(2)\n", "q__r(x:int)\n"), "not a valid name of a"),
    "a past that is too late to tell": (past("id,name,at\n1,Ann,2023-01-01\n"), "too early"),
    "a past without its key's column": (past("name,at\nAnn,2025-01-01\n"), "no column"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_load_changes_nothing(weft: Weft, tmp_path: Path, kind: str) -> None:
    load, words = REFUSED[kind]
    before = state(weft)
    with pytest.raises(Refused) as refused:
        load(weft, tmp_path)
    assert words in str(refused.value)
    assert state(weft) == before


def test_rows_without_a_time_on_a_home_without_a_clock(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,at\nbad line,1,2\n1,\n2,2024-01-01\n")
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        before = state(weft)
        for how in ({}, {"ts_from": "at", "ts_order": "arrival"}):
            with pytest.raises(Refused, match="clock of this replay home is not set yet"):
                weft.ingest_file(tmp_path / "x.csv", "t", **how)
            assert state(weft) == before


def test_a_file_that_is_being_loaded_is_refused_before_its_columns_are_added(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, 1)
    (tmp_path / "x.csv").write_text("id,at,n\n8,2024-01-05,1\n9,2024-01-05,2\n")
    seen: list[object] = []

    def again(_read: int) -> None:
        before = state(weft)
        with pytest.raises(Conflict, match=r"another process is already loading .* into plain"):
            weft.ingest_file(tmp_path / "x.csv", "plain", ts_from="at", types="id BIGINT", evolve=True)
        seen.append(state(weft) == before)

    weft.ingest_file(tmp_path / "x.csv", "plain", ts_from="at", progress=again)
    assert seen == [True, True]


def test_known_rows_with_other_values_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch, 3)
    (tmp_path / "1.csv").write_text("id,at,n,x\n1,2024-01-01,5,a\n2,2024-01-01,,b\n3,2024-01-01,7,\n")
    (tmp_path / "2.csv").write_text(
        "id,at,n,x\n1,2024-01-01,5,a\n2,2024-01-01,1,b\n3,2024-01-01,7,\n"
        "4,2024-01-02,1,x\n4,2024-01-02,1,x\n4,2024-01-02,2,x\n4,2024-01-02,2,x\n,2024-01-03,1,x\n,2024-01-03,2,x\n"
    )
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        assert weft.ingest_file(tmp_path / "1.csv", "t", ts_from="at", keys=["id"]).differ == 0
        done = weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at", keys=["id"])
        assert (done.stored, done.known, done.differ) == (2, 7, 4)
        (tmp_path / "3.csv").write_text("id,at,n,x,more\n1,2024-01-01,5,a,\n2,2024-01-01,,b,new\n")
        done = weft.ingest_file(tmp_path / "3.csv", "t", ts_from="at", evolve=True)
        assert (done.stored, done.known, done.differ) == (0, 2, 1)


def test_the_retry_of_a_late_record_leaves_no_load(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,at,n\n20,2024-01-01,1\n21,2024-01-06,1\n")
    assert weft.ingest_file(tmp_path / "x.csv", "plain", ts_from="at", late="quarantine").quarantined == 1
    before = state(weft)
    assert weft.retry_quarantine().kept == 1
    assert state(weft) == before


def test_the_batches_that_are_looked_through_are_those_that_are_stored(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F that moves on between the look and the load makes it look again."""
    from weft.extraction import ingest

    looks: list[int | None] = []
    own = ingest.check_row_times

    def look(*given: Any) -> int | None:
        found = own(*given)
        looks.append(None if found is None else found - (len(looks) == 0))
        return looks[-1]

    monkeypatch.setattr(ingest, "check_row_times", look)
    (tmp_path / "x.csv").write_text("id,at,n\n30,2024-01-07,1\n")
    assert weft.ingest_file(tmp_path / "x.csv", "plain", ts_from="at", late="refuse").stored == 1
    assert len(looks) == 2
    assert looks[1] == weft.catalog.home().watermark
