"""Auxiliary views: stored, shared, hidden, removed with the last view that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from weft.api import Weft
from weft.catalog.views import ViewRecord
from weft.errors import Conflict, NotFound, SqlError
from weft.execution.history_log import log_of
from weft.storage.periods import periods
from weft.storage.verify import verify

DEVS = "SELECT name FROM staff WHERE dept = 'Dev'"
STATES = (
    ("1,Ann,Dev,a", "2,Ben,Ops,b"),
    ("1,Ann,Dev,c", "2,Ben,Ops,b", "3,Cleo,Dev,a"),
    ("1,Ann,Ops,c", "2,Ben,Dev,b", "3,Cleo,Dev,a"),
    ("2,Ben,Dev,d",),
)


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    """A replay home with a source that was polled at 100."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        write(tmp_path, STATES[0])
        opened.add_source("staff", "csv", str(tmp_path / "staff.csv"), ["id"])
        opened.poll_source("staff", now=100)
        yield opened


def write(folder: Path, rows: tuple[str, ...]) -> None:
    (folder / "staff.csv").write_text("".join(f"{line}\n" for line in ("id,name,dept,room", *rows)))


def parts(weft: Weft) -> list[ViewRecord]:
    return [view for view in weft.catalog.views.all() if view.auxiliary]


def kept(weft: Weft, table_id: int) -> set[tuple[object, ...]]:
    found = periods(log_of(weft.catalog, weft.catalog.tables.by_id(table_id)))
    plain = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in found.schema]
    return {tuple(row.values()) for row in found.cast(pa.schema(plain)).to_pylist()}


def test_what_a_view_needs_of_a_table_is_kept_and_maintained_with_it(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("devs", DEVS)
    (part,) = parts(weft)
    assert part.sql == "SELECT staff.id, staff.`name`, staff.dept FROM staff WHERE staff.dept = 'Dev'"
    for number, state in enumerate(STATES):
        write(tmp_path, state)
        now = 100 * (number + 1)
        weft.poll_source("staff", now=now)
        (done,) = weft.refresh_views(now=now)
        assert (done.name, done.trouble) == ("devs", None)
    ann, ben = (1, "Ann", "Dev", 100, 300), (2, "Ben", "Dev", 300, None)
    assert kept(weft, part.table_id) == {ann, ben, (3, "Cleo", "Dev", 200, 400)}
    devs = weft.catalog.views.named("devs")
    assert kept(weft, devs.table_id) == {("Ann", 100, 300), ("Ben", 300, None), ("Cleo", 200, 400)}
    assert devs.reads.keys() == {part.table_id}


def test_changes_that_a_view_does_not_need_never_come_into_what_it_reads(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("devs", DEVS)
    weft.refresh_views(now=100)
    (part,) = parts(weft)
    recorded = weft.catalog.tables.by_id(part.table_id).rows
    write(tmp_path, ("1,Ann,Dev,z", "2,Benjamin,Ops,z"))
    weft.poll_source("staff", now=200)
    weft.refresh_views(now=200)
    assert weft.catalog.tables.by_id(part.table_id).rows == recorded == 1
    assert weft.catalog.views.named("devs").tau == 200


def test_equal_and_contained_ones_are_shared_and_go_with_the_last_view(weft: Weft) -> None:
    weft.add_view("devs", DEVS)
    (part,) = parts(weft)
    weft.add_view("again", DEVS, batched=True)
    weft.add_view("some", "SELECT name FROM staff WHERE dept = 'Dev' AND id > 1")
    weft.add_view("rooms", "SELECT room FROM staff WHERE dept = 'Dev'")
    first, second = parts(weft)
    assert first == part and "staff.room" in second.sql
    weft.refresh_views()
    assert weft.show_view("again").auxiliaries[0].shared == ("devs", "some")
    assert [each.shared for each in weft.show_view("rooms").auxiliaries] == [()]
    paths = [weft.catalog.data / weft.catalog.tables.by_id(each.table_id).path for each in (first, second)]
    weft.remove_view("devs")
    weft.remove_view("again")
    assert {part.table_id for part in parts(weft)} == {first.table_id, second.table_id}
    assert all(path.exists() for path in paths)
    weft.remove_view("some")
    assert [view.table_id for view in parts(weft)] == [second.table_id]
    weft.remove_view("rooms")
    assert parts(weft) == [] and not any(path.exists() for path in paths)
    assert verify(weft.catalog) == []


def test_a_view_that_is_added_late_is_what_it_had_been(weft: Weft, tmp_path: Path) -> None:
    """Over an auxiliary view that others have kept all along, and over one that is made with it."""
    own = "SELECT name, room FROM staff WHERE dept = 'Dev'"
    for name, text in (("first", DEVS), ("own_first", own)):
        weft.add_view(name, text)
    weft.remove_view("own_first")
    weft.add_view("own_first", own)
    weft.refresh_views(now=100)
    for number, state in enumerate(STATES[1:], 2):
        if number == 4:
            weft.remove_view("own_first")
            for name, text in (("late", DEVS), ("own_late", own)):
                weft.add_view(name, text)
            weft.add_view("own_again", own)
        write(tmp_path, state)
        weft.poll_source("staff", now=100 * number)
        weft.refresh_views(now=100 * number)
    views = {view.name: kept(weft, view.table_id) for view in weft.views()}
    assert views["first"] == views["late"]
    assert views["own_late"] == views["own_again"]
    assert {row[0] for row in views["own_late"]} == {row[0] for row in views["late"]}
    assert len(parts(weft)) == 2


def test_where_all_of_a_table_is_needed_its_own_log_is_read(weft: Weft) -> None:
    weft.add_view("heads", "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept")
    weft.add_view("names", "SELECT name FROM staff")
    weft.add_view("long", "SELECT name FROM staff WHERE PERIOD_LENGTH(staff) > INTERVAL 1 DAY")
    assert parts(weft) == []
    weft.add_view("pairs", "SELECT a.name FROM staff a JOIN staff b ON a.id = b.id WHERE a.dept = 'Dev'")
    assert parts(weft) == []  # of the other one all rows are needed
    weft.add_view("both", "SELECT a.name FROM staff a JOIN staff b ON a.room = b.room WHERE a.id > 1 AND b.id > 1")
    assert [part.sql for part in parts(weft)] == [
        "SELECT staff.id, staff.`name`, staff.room FROM staff WHERE staff.id > 1"
    ]


def test_a_part_of_a_view_is_kept_too(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("named", "SELECT name, dept FROM staff")
    weft.add_view("devs", "SELECT name FROM named WHERE dept = 'Dev'")
    assert len(parts(weft)) == 1
    write(tmp_path, STATES[2])
    weft.poll_source("staff", now=200)
    weft.refresh_views("devs", now=200)
    assert kept(weft, weft.catalog.views.named("devs").table_id) == {
        ("Ann", 100, 200),
        ("Ben", 200, None),
        ("Cleo", 200, None),
    }
    assert weft.show_view("named").readers == ("devs",) and weft.show_view("devs").reads == ("named",)
    with pytest.raises(Conflict, match=r"named is read by devs\s"):
        weft.remove_view("named")
    weft.remove_view("devs")
    weft.remove_view("named")


def test_nobody_meets_one_by_name(weft: Weft) -> None:
    weft.add_view("devs", DEVS)
    weft.refresh_views(now=100)
    (part,) = parts(weft)
    assert [view.name for view in weft.views()] == ["devs"]
    assert [table.name for table in weft.tables()] == ["staff", "devs"]
    assert set(weft.schemas()) == {"staff", "devs"}
    for ask in (weft.describe, weft.show_view, weft.remove_view, weft.refresh_views):
        with pytest.raises(NotFound):
            ask(part.name)
    for text in (f"SELECT name FROM {part.name}", f"SELECT name FROM `{part.name}`"):
        with pytest.raises(SqlError):
            weft.add_view("over", text)
        with pytest.raises(SqlError):
            weft.explain(text)


def test_a_failure_is_reported_for_the_views_that_read_the_failed_one(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("devs", DEVS)
    weft.refresh_views(now=100)
    (part,) = parts(weft)
    weft.add_view("again", "SELECT id FROM staff WHERE dept = 'Dev'")
    weft.add_view("names", "SELECT name FROM staff")
    write(tmp_path, STATES[2])
    weft.poll_source("staff", now=200)
    for file in (weft.home / weft.catalog.tables.by_id(part.table_id).path).glob("*.parquet"):
        file.unlink()
    devs, again, names = weft.refresh_views(now=200)
    assert names.trouble is None and devs.trouble is not None and again.trouble is not None
    assert part.sql in again.trouble.message and "missing" in again.trouble.message
    assert weft.catalog.views.named("devs").trouble == devs.trouble.message
    assert weft.catalog.views.named("devs").tau == 100


def test_a_correction_of_the_past_comes_through_one(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("devs", DEVS)
    for number, state in enumerate(STATES[:3], 1):
        write(tmp_path, state)
        weft.poll_source("staff", now=100 * number)
        weft.refresh_views(now=100 * number)
    weft.correct_source("staff", {"id": 2}, 150, 250, {"dept": "Dev"}, now=400)
    weft.correct_source("staff", {"id": 1}, 100, 200, {"name": "Anna"}, now=500)
    weft.add_view("late", DEVS)
    weft.refresh_views(now=500)
    found = {("Anna", 100, 200), ("Ann", 200, 300), ("Ben", 150, 250), ("Ben", 300, None), ("Cleo", 200, None)}
    assert [kept(weft, view.table_id) for view in weft.views()] == [found, found]
    (part,) = parts(weft)
    assert {row[1:] for row in kept(weft, part.table_id)} == {(name, "Dev", *rest) for name, *rest in found}
