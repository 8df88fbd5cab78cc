"""`weft maintain` over arrangements: built for what plans look up, merged, deleted; no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from weft.algebra.access import Key
from weft.api.weft import Weft
from weft.catalog import layout
from weft.cli.app import run
from weft.errors import StorageError
from weft.execution import driver_reader, maintenance
from weft.execution.driver_reader import ReadBounds
from weft.execution.home import OpenHome
from weft.execution.look_ups import LookUps
from weft.execution.maintenance import Done, look_ups_of_plans
from weft.interruption import Stopped
from weft.storage.table import Table

REPLIES = "SELECT m.id, a.word FROM posts m, posts a WHERE a.id = m.parent"


@pytest.fixture
def weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(filtered=4))
    monkeypatch.setattr(maintenance, "BOUNDS", ReadBounds(filtered=4))
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        load(opened, range(6))
        yield opened


def load(weft: Weft, ids: range) -> None:
    file = weft.home.parent / "posts.jsonl"
    rows = [{"id": n, "parent": n - 1, "word": "w", "at": "1993-04-01T00:00:00Z"} for n in ids]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    weft.ingest_file(file, "posts", ts_from="at")


def folders(weft: Weft) -> list[str]:
    place = layout.arrangements_folder(weft.home)
    return sorted(each.name for each in place.iterdir()) if place.exists() else []


def done(weft: Weft, *, dry_run: bool = False) -> list[tuple[str, str]]:
    found = list(weft.maintain(dry_run=dry_run))
    assert not [each for each in found if not isinstance(each, Done) or each.problem]
    return [(each.name, each.action) for each in found]


def test_what_plans_look_up_is_built_once_and_deleted_when_no_plan_does(weft: Weft) -> None:
    assert done(weft) == []
    weft.install("replies", REPLIES)
    assert set(look_ups_of_plans(weft.catalog)) == {("posts", Key("id")), ("posts", Key("parent"))}
    assert done(weft, dry_run=True) == [("1-1", "build"), ("1-2", "build")]
    assert folders(weft) == []
    assert done(weft) == [("1-1", "build"), ("1-2", "build")]
    assert folders(weft) == ["1-1", "1-2"]
    assert done(weft) == []
    weft.remove("replies")
    assert done(weft, dry_run=True) == [("1-1", "delete"), ("1-2", "delete")]
    assert folders(weft) == ["1-1", "1-2"]
    done(weft)
    assert folders(weft) == []


def test_a_tick_finds_the_arrangements_that_were_built(weft: Weft) -> None:
    weft.install("replies", REPLIES)
    done(weft)
    table = weft.catalog.tables.named("posts")
    files = Table(weft.catalog.data / table.path).snapshot().files
    look_ups = LookUps(layout.arrangements_folder(weft.home), catching_up=False, most_read=-1)
    (columns,) = {tuple(sorted(names)) for names in look_ups_of_plans(weft.catalog).values()}
    found = look_ups.rows(table.schema, files, Key("id"), [*columns, "ts"], pa.table({"key": pa.array([2, 3])}))
    assert found.rows is not None
    assert found.rows.num_rows == 2


def test_a_large_load_builds_what_a_tick_asks_for(weft: Weft) -> None:
    weft.install("replies", REPLIES)
    load(weft, range(6, 9))
    assert folders(weft) == []  # the load has few rows
    load(weft, range(10, 20))
    assert folders(weft) == ["1-1", "1-2"]
    assert done(weft) == []
    with weft.opened.catalog.writing("test", weft.clock):
        maintenance.build_ahead(weft.opened, "posts")  # does not wait


@pytest.mark.parametrize("raised", [StorageError("the disk is full"), KeyboardInterrupt(), Stopped()])
def test_a_load_is_stored_whatever_stops_the_building(
    weft: Weft, raised: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> object:
        raise raised

    weft.install("replies", REPLIES)
    monkeypatch.setattr(maintenance, "look_ups_of_plans", fails)
    file = weft.home.parent / "more.jsonl"
    rows = [{"id": n, "parent": n - 1, "word": "w", "at": "1993-04-01T00:00:00Z"} for n in range(20, 30)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["ingest", "file", str(file), "--table", "posts", "--ts-from", "at", "--home", str(weft.home)]
    assert run(given) == 0
    assert "posts: 10 stored" in capsys.readouterr().out


def test_a_load_derives_only_the_plans_that_read_its_table_and_settles_no_tick(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft.make_table("others", "id INT, parent INT")
    weft.install("replies", REPLIES)
    weft.install("other", "SELECT o.id FROM others o, others p WHERE p.id = o.parent")
    derived, real = list[int](), maintenance.shape_of
    monkeypatch.setattr(
        maintenance, "shape_of", lambda record, schemas: (derived.append(record.plan_id), real(record, schemas))[1]
    )
    load(weft, range(6, 9))
    monkeypatch.setattr(OpenHome, "writing", None)  # it settles what a dead writer left
    assert derived == []
    monkeypatch.setattr(maintenance, "BOUNDS", ReadBounds(filtered=2))
    maintenance.build_ahead(weft.opened, "posts")
    assert derived == [weft.catalog.queries.named("replies").plan_id]
    assert folders(weft) == ["1-1", "1-2"]


def test_runs_are_merged_and_hold_the_same_rows(weft: Weft) -> None:
    weft.install("replies", REPLIES)
    done(weft)
    for n in (10, 20):
        load(weft, range(n, n + 6))
        done(weft)
    assert ("1-1", "merge") not in done(weft, dry_run=True)  # done with the last
    folder = layout.arrangements_folder(weft.home) / "1-1"
    assert len(list(folder.glob("*.arrow"))) == 1


def test_it_is_printed(weft: Weft, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(weft.home)]
    assert run(["maintain", *home]) == 0
    assert "Nothing to do." in capsys.readouterr().out
    weft.install("replies", REPLIES)
    assert run(["maintain", "--dry-run", *home]) == 0
    assert "1-1: to build: posts by id, 6 rows" in capsys.readouterr().out
    assert run(["maintain", "--json", *home]) == 0
    assert [each["action"] for each in json.loads(capsys.readouterr().out)] == ["build", "build"]
