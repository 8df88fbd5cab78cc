"""Loads that are taken back and tables that are dropped or renamed, while nothing stands on them; killed in between."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import forked
from small_batches import small_batches
from weft.api import Weft
from weft.errors import Conflict, NotFound, Refused
from weft.execution import driver_reader
from weft.instants import MIN_INSTANT
from weft.storage import compaction
from weft.storage.columns import stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.table import Table
from weft.storage.verify import verify

SOURCE = Path(__file__).resolve().parents[3] / "src" / "weft"
POINTS = ("undo.marked", "undo.written", "undo.recorded", "table.forgotten")


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    """A replay home with two loads into ``t``, the second with a record in quarantine."""
    (tmp_path / "1.csv").write_text("id,at\n1,2024-01-01\n2,2024-01-05\n")
    (tmp_path / "2.csv").write_text("id,at\n3,2024-01-03\n4,2024-01-09\nbad,2024-01-03\n")
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.ingest_file(tmp_path / "1.csv", "t", ts_from="at")
        weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at")
        yield weft


def ids(weft: Weft, table: str = "t") -> list[int]:
    record = weft.catalog.tables.named(table)
    files = Table(weft.catalog.data / record.path).snapshot().files
    found = read_data_files(files, stored_schema(record.schema)).column("id").to_pylist()
    assert record.rows == len(found)
    return sorted(found)


def states(weft: Weft) -> dict[int, str]:
    return {each.load.load_id: each.state for each in weft.loads()}


def test_a_load_is_taken_back_whole_and_its_file_can_be_loaded_again(weft: Weft, tmp_path: Path) -> None:
    bytes_kept = list((weft.home / "quarantine").iterdir())
    assert (len(bytes_kept), len(weft.quarantined())) == (1, 1)
    done = weft.undo_load(2)
    assert (done.load.rows, done.again) == (2, ())
    assert ids(weft) == [1, 2]
    assert states(weft) == {2: "undone", 1: "done"}
    assert weft.quarantined() == ()
    assert list((weft.home / "quarantine").iterdir()) == []
    table, home = weft.catalog.tables.named("t"), weft.catalog.home()
    bounds = next(each for each in weft.loads() if each.load.load_id == 1)
    assert (table.first_ts, table.last_ts) == (bounds.first_ts, bounds.last_ts) == (home.t0, home.last_ts)
    assert verify(weft.catalog) == []
    assert weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at").stored == 2
    assert ids(weft) == [1, 2, 3, 4]
    for load_id in (1, 3):
        weft.undo_load(load_id)
    assert ids(weft) == []
    table, home = weft.catalog.tables.named("t"), weft.catalog.home()
    assert (table.first_ts, table.last_ts, home.last_ts, home.t0) == (None, None, MIN_INSTANT, None)
    assert verify(weft.catalog) == []


def test_the_log_lists_the_removed_files(weft: Weft) -> None:
    weft.undo_load(1)
    place = weft.catalog.data / weft.catalog.tables.named("t").path
    entries = list(Table(place).entries())
    removed = [action["remove"] for entry in entries for action in entry.actions if "remove" in action]
    assert [each["dataChange"] for each in removed] == [True]
    assert (Path(place.path) / removed[0]["path"]).exists()
    assert Table(place).metadata().configuration["delta.appendOnly"] == "true"


def test_rows_that_were_known_by_it_can_be_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where keys are looked up in an arrangement, which then has to forget the rows."""
    monkeypatch.setattr(driver_reader, "BOUNDS", replace(driver_reader.BOUNDS, loaded=0))
    (tmp_path / "1.csv").write_text("id,at\n1,2024-01-01\n2,2024-01-05\n")
    (tmp_path / "2.csv").write_text("id,at\n2,2024-01-05\n3,2024-01-05\n")
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.ingest_file(tmp_path / "1.csv", "t", ts_from="at", keys=["id"])
        assert weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at").known == 1
        assert weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at").already_loaded
        (again,) = weft.undo_load(1).again
        assert (again.load.load_id, again.load.known) == (2, 1)
        assert ids(weft) == [3]
        assert weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at").stored == 1
        assert weft.ingest_file(tmp_path / "1.csv", "t", ts_from="at").stored == 1
        assert ids(weft) == [1, 2, 3]


def test_a_load_that_cannot_be_undone_has_a_reason(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="there is no load 99"):
        weft.undo_load(99)
    weft.undo_load(2)
    with pytest.raises(Conflict, match="already undone"):
        weft.undo_load(2)
    reasons: list[str] = []

    def undo(_read: int) -> None:
        with pytest.raises(Conflict) as refused:
            weft.undo_load(3)
        reasons.append(str(refused.value))

    weft.ingest_file(tmp_path / "2.csv", "t", ts_from="at", progress=undo)
    assert "the load 3 is still running" in reasons[0]
    (tmp_path / "staff.csv").write_text("id,name\n1,Ann\n")
    weft.add_source("staff", "csv", tmp_path / "staff.csv", ["id"])
    weft.poll_source("staff", now="2024-01-04T00:00:00Z")
    with pytest.raises(Conflict, match="a tracked table"):
        weft.undo_load(4)
    monkeypatch.setattr(compaction, "BOUNDS", replace(compaction.BOUNDS, fewest=2))
    list(weft.maintain())
    with pytest.raises(Conflict, match="cannot be separated from them"):
        weft.undo_load(3)
    weft.install("seen", "SELECT id FROM t", start="now")
    with pytest.raises(
        Conflict, match=r"has delivered answers up to 2024-01-09.*the rows of the load begin at 2024-01-01"
    ):
        weft.undo_load(1)
    assert ids(weft) == [1, 2, 3, 4]


def test_every_failpoint_is_killed_at() -> None:
    text = "".join((SOURCE / name).read_text() for name in ("execution/undoing.py", "writing/removals.py"))
    assert sorted(re.findall(r'failpoint\("((?:undo|table)\.[^"]+)"\)', text)) == sorted(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_writer_finishes(weft: Weft, tmp_path: Path, point: str) -> None:
    result = ["table", "drop", "t"] if point == "table.forgotten" else ["loads", "undo", "2"]
    command = [sys.executable, "-m", "weft", *result, "--home", str(weft.home)]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert verify(weft.catalog) == []
    if point == "table.forgotten":
        assert weft.tables() == ()
        assert len(list((weft.home / "tables").iterdir())) == 1
        list(weft.maintain())
        assert list((weft.home / "tables").iterdir()) == []
        return
    (tmp_path / "3.csv").write_text("id,at\n5,2024-01-02\n")
    weft.ingest_file(tmp_path / "3.csv", "t", ts_from="at")
    assert ids(weft) == [1, 2, 5]
    assert states(weft) == {3: "done", 2: "undone", 1: "done"}
    assert weft.quarantined() == ()
    assert verify(weft.catalog) == []


def test_an_interrupted_load_is_reported_and_can_be_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch, 1)
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"id,at\n{ord(name)},2024-01-01\n{ord(name) + 10},2024-01-05\n")

    class Killed(BaseException):
        pass

    def kill(read: int) -> None:
        raise Killed

    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        with pytest.raises(Killed):
            weft.ingest_file(tmp_path / "a.csv", "t", ts_from="at", progress=kill)
        assert states(weft) == {1: "ended in the middle"}
        with pytest.raises(Conflict, match="into t is unfinished") as refused:
            weft.ingest_file([tmp_path / "a.csv", tmp_path / "b.csv"], "t", ts_from="at")
        assert "weft loads undo 1" in (refused.value.hint or "")
        assert weft.undo_load(1).load.rows == 1
        weft.ingest_file([tmp_path / "a.csv", tmp_path / "b.csv"], "t", ts_from="at")
        assert ids(weft) == [97, 98, 107, 108]


def test_a_table_that_something_stands_on_keeps_its_name_and_stays(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text("id,name\n1,Ann\n")
    weft.add_source("staff", "csv", tmp_path / "staff.csv", ["id"])
    weft.install("seen", "SELECT id FROM t")
    weft.install("kept", "SELECT id FROM t WHERE id > 3", keep="synopsis")
    weft.add_view("names", "SELECT name FROM staff")
    changes = (lambda name: weft.drop_table(name), lambda name: weft.rename_table(name, "other"))
    for change in changes:
        with pytest.raises(Conflict, match="the query seen, the query kept read it"):
            change("T")
        with pytest.raises(Conflict, match="staff is the table of a source"):
            change("staff")
        with pytest.raises(Conflict, match="names is a view"):
            change("names")
        with pytest.raises(NotFound, match="there is no table 'tt'"):
            change("tt")
    weft.remove_source("staff")
    with pytest.raises(Conflict, match="the view names reads it"):
        weft.drop_table("staff")
    for name in ("seen", "kept"):
        weft.remove(name)
    for new, words in (("staff", "is already a table 'staff'"), ("a b", "is not a valid name of a table")):
        with pytest.raises(Refused, match=words):
            weft.rename_table("t", new)
    assert weft.rename_table("t", "T").name == "T"
    assert weft.rename_table("T", "orders").name == "orders"
    assert ids(weft, "orders") == [1, 2, 3, 4]
    assert {each.table for each in weft.loads("orders")} == {"orders"}
    assert weft.retry_quarantine().kept == 1
    assert weft.drop_table("orders").rows == 4
    assert [each.name for each in weft.tables()] == ["staff", "names"]
    assert weft.quarantined() == ()
    assert list((weft.home / "quarantine").iterdir()) == []
    assert not [each for each in (weft.home / "tables").iterdir() if each.name.endswith("-t")]
    assert verify(weft.catalog) == []
    assert weft.ingest_file(tmp_path / "1.csv", "orders", ts_from="at").stored == 2


def test_the_commands_print_the_result(weft: Weft, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.cli.app import run

    home = ("--home", str(weft.home))
    assert run(["loads", "t", "--json", *home]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["rows"], each["quarantined"], each["state"]) for each in result] == [
        (2, 2, 1, "done"), (1, 2, 0, "done"),
    ]  # fmt: skip
    assert run(["loads", "undo", "2", *home]) == 0
    assert "t: load 2 is undone, 2 rows removed." in capsys.readouterr().out
    assert run(["loads", "--limit", "1", *home]) == 0
    assert "undone" in capsys.readouterr().out
    assert run(["table", "rename", "t", "u", *home]) == 0
    assert "Renamed t to u." in capsys.readouterr().out
    assert run(["table", "drop", "u", *home]) == 0
    assert "Dropped u with 2 rows." in capsys.readouterr().out
    assert run(["loads", *home]) == 0
    assert "No loads yet." in capsys.readouterr().out


def test_bytes_that_another_load_puts_in_quarantine_meanwhile_stay(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.extraction import quarantine

    (tmp_path / "3.csv").write_text("id,at\n5,2024-01-10\nbad,2024-01-03\n")
    written, undone = threading.Event(), threading.Event()

    def stop(point: str) -> None:
        if point == "ingest.quarantined":  # the bytes were there; no record of this load names them yet
            written.set()
            undone.wait(3)

    monkeypatch.setattr(quarantine, "failpoint", stop)
    load = threading.Thread(target=lambda: weft.ingest_file(tmp_path / "3.csv", "t", ts_from="at"))
    load.start()
    assert written.wait(60)
    undo = threading.Thread(target=lambda: (weft.undo_load(2), undone.set()))
    undo.start()
    for thread in (load, undo):
        thread.join(60)
    assert undone.is_set()
    (record,) = weft.quarantined()
    assert quarantine.quarantined_bytes(weft.catalog.data, record) == b"bad,2024-01-03\n"
