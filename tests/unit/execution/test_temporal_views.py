"""Maintaining views: what stays whatever comes, and maintenances that were killed."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import forked
from weft.algebra.schema import BIGINT, DataType
from weft.api import Weft
from weft.catalog.layout import arrangements_folder
from weft.catalog.views import ViewRecord
from weft.errors import ClockError, Conflict, Refused
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds
from weft.execution.history_log import log_of
from weft.execution.temporal.refresh_views import refresh_queried
from weft.storage.periods import periods
from weft.storage.verify import verify

SOURCES = Path(__file__).resolve().parents[3] / "src" / "weft"
POINTS = ("view.begun", "view.computed", "view.reserved", "view.written", "view.committed")
DEVS = "SELECT name FROM staff WHERE dept = 'Dev'"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "staff.csv", "id,name,dept", "1,Ann,Dev", "2,Ben,Ops")


@pytest.fixture
def weft(tmp_path: Path, file: Path) -> Iterator[Weft]:
    """A replay home with a source that was polled at 100."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        opened.add_source("staff", "csv", str(file), ["id"])
        opened.poll_source("staff", now=100)
        yield opened


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def kept(weft: Weft, name: str) -> set[tuple[object, ...]]:
    found = periods(log_of(weft.catalog, weft.catalog.tables.named(name)))
    plain = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in found.schema]
    return {tuple(row.values()) for row in found.cast(pa.schema(plain)).to_pylist()}


def parts(weft: Weft) -> list[ViewRecord]:
    """The auxiliary views."""
    return [view for view in weft.catalog.views.all() if view.auxiliary]


def test_a_view_begins_with_the_history_that_is_there(weft: Weft, file: Path) -> None:
    write(file, "id,name,dept", "1,Ann,Ops", "2,Ben,Dev")
    weft.poll_source("staff", now=200)
    weft.add_view("devs", DEVS)
    weft.refresh_views(now=300)
    assert kept(weft, "devs") == {("Ann", 100, 200), ("Ben", 200, None)}
    assert weft.refresh_views() == ()


def test_earlier_knowledge_stays_readable(weft: Weft, file: Path) -> None:
    weft.add_view("gone", "SELECT name FROM staff WHERE PERIOD_END(staff) < NOW()")
    weft.add_view("here", "SELECT name FROM staff WHERE PERIOD_END(staff) >= NOW()")
    weft.keep_views(now=100)
    write(file, "id,name,dept", "2,Ben,Ops")
    weft.poll_source("staff", now=200)
    weft.keep_views(now=200)
    assert (kept(weft, "gone"), kept(weft, "here")) == ({("Ann", 100, 200)}, {("Ben", 100, None)})
    log = log_of(weft.catalog, weft.catalog.tables.named("here"))
    assert periods(log.filter(pa.compute.less(log["ts"].cast(pa.int64()), 200))).num_rows == 2


def test_columns_that_come_later_change_no_view(weft: Weft, file: Path) -> None:
    weft.add_view("rows", "SELECT name FROM staff WHERE PERIOD_START(staff) < NOW() - INTERVAL 1 MILLISECOND")
    write(file, "id,name,dept,phone", "1,Ann,Dev,5", "2,Ben,Ops,6")
    weft.poll_source("staff", now=2_000, evolve=True)
    weft.refresh_views(now=2_000)
    assert kept(weft, "rows") == {("Ann", 100, None), ("Ben", 100, None)}
    write(file, "id,name,dept,phone", "1,Ann,Dev,7", "2,Ben,Ops,6")
    weft.poll_source("staff", now=3_000)
    assert weft.keep_views(now=3_000)[0].changed == 0


def test_a_sum_that_went_too_far_comes_back(tmp_path: Path) -> None:
    most, least = 2**63 - 1, -(2**63)
    states = ((f"1,{most},1.50", "2,1,2.00"), (f"1,{most},1.50", "2,1,2.00", f"3,{least},0.01"))
    with Weft.open(tmp_path / "big", clock="replay", create=True) as opened:
        file = write(tmp_path / "big.csv", "id,x,d", *states[0])
        kinds = [("id", DataType.parse("INT")), ("x", BIGINT), ("d", DataType.parse("DECIMAL(4,2)"))]
        opened.add_source("t", "csv", str(file), ["id"], columns=kinds)
        opened.add_view("sums", "SELECT SUM(x) AS s, AVG(x) AS a, AVG(d) AS d FROM t")
        for now, state in zip((100, 200), states, strict=True):
            write(file, "id,x,d", *state)
            opened.poll_source("t", now=now)
            opened.refresh_views(now=now)
        assert kept(opened, "sums") == {(None, 2.0**62, 1.75, 100, 200), (0, 0.0, 1.17, 200, None)}


def test_an_integer_that_goes_too_far_is_null_and_stops_no_view(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "big", clock="replay", create=True) as opened:
        file = write(tmp_path / "big.csv", "id,x,y", f"1,{2**63 - 1},{-(2**63)}", "2,5,7")
        kinds = [("id", DataType.parse("INT")), ("x", BIGINT), ("y", BIGINT)]
        opened.add_source("t", "csv", str(file), ["id"], columns=kinds)
        opened.add_view("more", "SELECT id, x + 1 AS a, y - 1 AS b, -y AS c, x + y AS d FROM t")
        opened.poll_source("t", now=100)
        opened.refresh_views(now=100)
        assert kept(opened, "more") == {(1, None, None, None, -1, 100, None), (2, 6, 6, -7, 12, 100, None)}


def test_a_division_by_0_is_null_and_capitals_are_those_of_spark(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "calls", clock="replay", create=True) as opened:
        file = write(tmp_path / "calls.csv", "id,x,y,name", "1,6,4,Straße 5%", "2,6,0,50", "3,0,0,5")
        opened.add_source("t", "csv", str(file), ["id"])
        text = "SELECT id, x / y AS q, x % y AS r, UPPER(name) AS n, name LIKE '%5\\\\%' AS p FROM t"
        opened.add_view("calls", text)
        opened.poll_source("t", now=100)
        (done,) = opened.refresh_views(now=100)
        assert done.trouble is None
        assert kept(opened, "calls") == {
            (1, 1.5, 2, "STRASSE 5%", True, 100, None),
            (2, None, None, "50", False, 100, None),
            (3, None, None, "5", False, 100, None),
        }


def test_nothing_arrives_before_a_final_instant(weft: Weft, file: Path) -> None:
    weft.add_view("devs", DEVS)
    weft.refresh_views(now=500)
    write(file, "id,name,dept", "2,Ben,Dev")
    with pytest.raises(ClockError, match="this home is already at"):
        weft.poll_source("staff", now=400)
    weft.add_view("names", "SELECT name FROM staff")
    weft.refresh_views("names", now=500)  # several views share an instant
    with pytest.raises(ClockError, match=r"names was already refreshed at .* is later"):
        weft.refresh_views("names", now=499)
    weft.add_view("late", "SELECT id FROM staff")
    with pytest.raises(ClockError, match="the watermark of this home is"):
        weft.refresh_views("late", now=499)
    weft.remove_view("late")
    polled = weft.poll_source("staff", now=501)
    assert polled.at == 501
    assert [each.name for each in weft.keep_views(now=501)] == ["devs", "names"]
    assert kept(weft, "devs") == {("Ann", 100, 501), ("Ben", 501, None)}


def test_a_table_that_is_read_stays(weft: Weft) -> None:
    weft.add_view("devs", DEVS)
    weft.install("news", "SELECT name FROM devs")
    with pytest.raises(Conflict, match="devs is read by news"):
        weft.remove_view("devs")
    weft.remove("news")
    weft.refresh_views()
    path = weft.catalog.data / weft.catalog.tables.named("devs").path
    weft.remove_view("devs")
    assert not path.exists()
    assert verify(weft.catalog) == []
    with pytest.raises(Refused, match="append-only"):
        weft.ingest_file(write(weft.home / "plain.csv", "a", "1"), "plain")
        weft.add_view("plain_view", "SELECT a FROM plain")


def test_every_failpoint_of_a_view_is_killed_at() -> None:
    found = {n for path in SOURCES.rglob("*.py") for n in re.findall(r'failpoint\("(view\.\w+)"\)', path.read_text())}
    assert found == set(POINTS)


@pytest.mark.parametrize("point", [*POINTS, *(f"{each}:2" for each in POINTS if each != "view.begun")])
def test_a_maintenance_that_was_killed_is_made_again(weft: Weft, file: Path, point: str) -> None:
    """Killed at the first pass in its auxiliary view, at the second in the view that reads this."""
    weft.add_view("devs", DEVS)
    weft.add_view("names", "SELECT name FROM devs")
    weft.refresh_views(now=100)
    write(file, "id,name,dept", "2,Ben,Dev")
    weft.poll_source("staff", now=200)
    command = [
        sys.executable,
        "-m",
        "weft",
        "view",
        "refresh",
        "--home",
        str(weft.home),
        "--now",
        "1970-01-01T00:00:01Z",
    ]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    weft.refresh_views(now=2_000_000)
    assert kept(weft, "devs") == kept(weft, "names") == {("Ann", 100, 200), ("Ben", 200, None)}
    (part,) = parts(weft)
    stored = point.startswith(("view.written", "view.committed"))
    of_part, of_view = (1_000_000 if stored or ":" in point else 2_000_000), point.endswith(":2") and stored
    assert weft.catalog.tables.by_id(part.table_id).last_ts == of_part
    assert weft.catalog.tables.named("devs").last_ts == (1_000_000 if of_view else 2_000_000)
    assert [view.tau for view in weft.catalog.views.all()] == [2_000_000] * 3
    assert verify(weft.catalog) == []
    assert weft.catalog.reservations.still_open() == ()


def test_the_views_that_queries_read_are_maintained_before_a_tick(weft: Weft, file: Path) -> None:
    weft.add_view("devs", DEVS, batched=True)
    weft.add_view("sizes", "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept", batched=True)
    weft.add_view("other", "SELECT name FROM staff", batched=True)
    weft.add_view("old", "SELECT name FROM devs WHERE NOW() >= TIMESTAMP '1970-01-01 00:00:01'", batched=True)
    weft.install("new_sizes", "SELECT dept, n FROM sizes")
    weft.install("new_old", "SELECT name FROM old")  # it has the definition, which reads devs
    assert [view.name for view in weft.catalog.views.queried()] == ["devs", "sizes"]
    write(file, "id,name,dept", "2,Ben,Dev")
    weft.poll_source("staff", now=200)
    assert [each.name for each in refresh_queried(weft.opened, 300)] == ["devs", "sizes"]
    assert {view.name: view.tau for view in weft.views()} == {"devs": 299, "sizes": 299, "other": None, "old": None}
    assert kept(weft, "sizes") == {("Dev", 1, 100, None), ("Ops", 1, 100, 200)}
    assert refresh_queried(weft.opened, 400) == ()


def test_a_view_is_not_removed_while_a_query_has_its_definition(weft: Weft) -> None:
    weft.add_view("old", "SELECT name FROM staff WHERE NOW() >= TIMESTAMP '1970-01-01 00:00:01'")
    weft.add_view("old_devs", "SELECT o.name FROM old o JOIN staff s ON s.name = o.name WHERE s.dept = 'Dev'")
    weft.install("one", "SELECT name FROM old")
    weft.install("two", "SELECT name FROM old_devs")
    with pytest.raises(Conflict, match="old is read by old_devs, one, two"):
        weft.remove_view("old")
    with pytest.raises(Conflict, match="old_devs is read by two"):
        weft.remove_view("old_devs")
    weft.install("two", "SELECT name FROM staff", replace=True)
    weft.remove_view("old_devs")
    weft.remove("one")
    weft.remove_view("old")


def test_columns_that_come_later_change_no_definition(weft: Weft, file: Path) -> None:
    """SELECT * is as it was bound, though a part of the table is kept for the view."""
    weft.add_view("old", "SELECT * FROM staff WHERE dept = 'Dev' AND NOW() >= TIMESTAMP '1970-01-01 00:00:01'")
    before = weft.explain("SELECT * FROM old").signature
    assert len(parts(weft)) == 1
    write(file, "id,name,dept,phone", "1,Ann,Dev,5")
    weft.poll_source("staff", now=2_000, evolve=True)
    found = weft.explain("SELECT * FROM old")
    assert (found.signature, [name for name, _ in found.columns]) == (before, ["id", "name", "dept"])


def test_what_views_look_up_outlives_maintain(weft: Weft, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=-1))
    weft.add_view("here", "SELECT name, dept FROM staff")
    for now, names in ((200, "Cid"), (300, "Dan")):
        weft.refresh_views(now=now)
        write(file, "id,name,dept", f"1,{names},Dev")
        weft.poll_source("staff", now=now + 50)
    weft.refresh_views(now=400)
    there = sorted(each.name for each in arrangements_folder(weft.home).iterdir())
    assert "1-1" in there and any("-row-" in name for name in there)
    assert [each for each in weft.maintain() if getattr(each, "action", "") == "delete"] == []
    weft.remove_view("here")
    assert {each.name for each in weft.maintain() if getattr(each, "action", "") == "delete"} == set(there)
