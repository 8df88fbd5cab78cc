"""The commands about temporal views, as a person types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.cli.conftest import Told
from weft.api import Weft
from weft.catalog.records import TableRecord
from weft.errors import ExecutionError
from weft.execution.temporal.computing import ViewChange, view_change
from weft.planning.view_plan import ViewPlan


@pytest.fixture
def staff(weft: Callable[..., Told], home: Path) -> Callable[..., Told]:
    """A replay home with a source that has been polled once."""
    write("id,name,dept", "1,Ann,Dev", "2,Ben,Ops")
    assert weft("init", "--clock", "replay").code == 0
    assert weft("source", "add", "staff", "--kind", "csv", "--at", "staff.csv", "--key", "id").code == 0
    assert weft("source", "poll", "--now", "1997-01-01").code == 0
    return weft


def write(*lines: str) -> None:
    Path("staff.csv").write_text("".join(f"{line}\n" for line in lines))


def test_a_view_is_added_maintained_shown_and_removed(staff: Callable[..., Told]) -> None:
    assert "No views yet" in staff("views").out
    added = staff("view", "add", "devs", "SELECT id, name FROM staff WHERE dept = 'Dev'")
    assert added.code == 0 and "id BIGINT, name STRING" in added.out and "a poll changes" in added.out
    assert staff("view", "add", "sizes", "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept", "--batched").code == 0
    first = staff("view", "refresh").out
    assert "devs: 1 period new" in first and "sizes: 2 periods new" in first
    assert "Every view is current" in staff("view", "refresh").out
    write("id,name,dept", "1,Ann,Ops", "2,Ben,Ops")
    polled = staff("source", "poll", "--now", "1997-02-01").out
    assert "devs: 1 period new or with a new end, at 1997-02-01" in polled and "sizes" not in polled
    past = staff("view", "refresh", "devs", "--now", "1990-01-01")
    assert past.code == 2 and "devs was refreshed at 1997-02-01" in past.err and "FOR SYSTEM_TIME AS OF" in past.err
    assert "sizes: 3 periods" in staff("view", "refresh", "sizes", "--now", "1997-03-01").out
    devs, sizes = staff("views", "--json").json
    assert (devs["maintained_at"], sizes["maintained_at"]) == ("1997-02-01T00:00:00Z", "1997-03-01T00:00:00Z")
    shown = staff("view", "show", "DEVS")
    assert "reads staff" in shown.out and "1 period, 0 of them open; 2 changes" in shown.out
    assert "is from 1997-01-01 00:00:00 UTC to 1997-03-01 00:00:00 UTC" in staff("history", "sizes").out
    assert "Removed the view devs" in staff("view", "remove", "devs").out
    assert [each["name"] for each in staff("views", "--json").json] == ["sizes"]
    assert staff("view", "add", "devs", "SELECT id FROM staff").code == 0


def test_a_poll_tells_programs_of_views_too(staff: Callable[..., Told]) -> None:
    staff("view", "add", "devs", "SELECT id, name FROM staff WHERE dept = 'Dev'")
    write("id,name,dept", "1,Ann,Ops", "2,Ben,Ops")
    told = staff("source", "poll", "--now", "1997-02-01", "--json").json
    assert [(each["name"], each["ended"]) for each in told["sources"]] == [("staff", 1)]
    assert [(each["name"], each["changed"]) for each in told["views"]] == [("devs", 1)]


def test_the_auxiliary_views_of_a_view_are_told(staff: Callable[..., Told]) -> None:
    text = "SELECT name FROM staff WHERE dept = 'Dev'"
    for name in ("devs", "same"):
        assert staff("view", "add", name, text).code == 0
    staff("view", "refresh")
    shown = staff("view", "show", "devs").out
    assert "auxiliary view of staff: SELECT staff.id, staff.`name`, staff.dept FROM staff WHERE" in shown
    assert "1 period, 1 of them open; 1 change in" in shown and "shared with same" in shown
    (part,) = staff("view", "show", "same", "--json").json["auxiliaries"]
    assert (part["of"], part["shared_with"], part["periods"]) == ("staff", ["devs"], 1)
    assert "It reads staff.\nIt can change when a row of staff begins or ends." in staff("view", "explain", "devs").out
    explained = staff("view", "explain", "devs", "--full")
    assert (
        f"{part['name']} is the auxiliary view {part['sql']}" in explained.out and "deleted from staff" in explained.out
    )
    assert [each["name"] for each in staff("views", "--json").json] == ["devs", "same"]
    assert part["name"] not in staff("tables").out
    assert f"tables: {len(staff('tables', '--json').json)}, all intact" in staff("doctor").out
    staff("view", "remove", "same")
    assert "shared with no other view" in staff("view", "show", "devs").out


def test_a_view_that_is_read_stays(staff: Callable[..., Told]) -> None:
    staff("view", "add", "devs", "SELECT id, name FROM staff WHERE dept = 'Dev'")
    Path("named.sql").write_text("SELECT name FROM devs WHERE PERIOD_END(devs) >= NOW()\n")
    staff("view", "add", "named", "-f", "named.sql")
    assert "NOW()\n  reads devs" in staff("view", "show", "named").out
    refused = staff("view", "remove", "devs")
    assert refused.code == 2 and "devs is read by named" in refused.err
    assert "read by named" in staff("view", "show", "devs").out
    assert staff("view", "remove", "named").code == 0
    assert staff("view", "remove", "devs").code == 0


def test_what_is_no_view_is_refused_with_what_to_do(staff: Callable[..., Told]) -> None:
    assert "there is no table 'stuff'" in staff("view", "add", "v", "SELECT id FROM stuff").err
    assert "there is a table 'staff'" in staff("view", "add", "staff", "SELECT id FROM staff").err
    refused = staff("view", "add", "v", "SELECT id FROM staff WHERE dept = 'Dev' AND MD5(LOWER(name)) = 'x'").err
    assert "a view cannot use MD5()" in refused and "MD5(LOWER(staff.`name`))" in refused
    refused = staff("view", "add", "v", "SELECT CAST(SQRT(id) AS STRING) AS c FROM staff").err
    assert "a view cannot use SQRT()" in refused
    refused = staff("view", "add", "v", "SELECT CAST(id / 2 AS STRING) AS c FROM staff").err
    assert "a view cannot use a conversion of DOUBLE to STRING" in refused
    refused = staff("view", "add", "v", "SELECT COUNT(*) AS n FROM staff GROUP BY dept WINDOW INTERVAL 7 DAYS").err
    assert "MOVING_WINDOW(INTERVAL 7 DAYS)" in refused
    assert "(VALUES (1, 'a'))" in staff("view", "add", "v", "SELECT id FROM staff UNION SELECT 9 AS id").err
    assert staff("view", "add", "v", "SELECT id FROM staff UNION SELECT * FROM (VALUES (9)) AS v(id)").code == 0
    assert staff("view", "remove", "v").code == 0
    assert "Did you mean devs?" not in staff("view", "refresh", "dev").err
    assert staff("view", "add", "v", "SELECT id AS valid_from FROM staff").code == 2
    assert staff("views", "--json").json == []


def test_a_view_that_fails_says_so_and_stops_no_other(
    staff: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(view_plan: ViewPlan, view: TableRecord, *rest: Any, **options: Any) -> ViewChange:
        if view.name == "sums":
            raise ExecutionError("the view cannot be computed: out of memory")
        return view_change(view_plan, view, *rest, **options)

    monkeypatch.setattr("weft.execution.temporal.refresh_views.view_change", failing)
    staff("view", "add", "sums", "SELECT SUM(id) AS n FROM staff")
    staff("view", "add", "over", "SELECT n FROM sums")
    staff("view", "add", "devs", "SELECT id FROM staff")
    done = staff("view", "refresh")
    assert done.code == 1 and "devs: 2 periods" in done.out
    assert "over: sums, which the view reads, could not be refreshed" in done.out
    assert "cannot be computed" in staff("view", "show", "sums").out


def test_how_a_view_is_maintained_is_told(staff: Callable[..., Told]) -> None:
    staff("view", "add", "left", "SELECT name FROM staff WHERE PERIOD_END(staff) < NOW() - INTERVAL 1 DAY")
    brief = staff("view", "explain", "left").out
    assert brief == staff("explain", "LEFT").out and len(brief.splitlines()) <= 10
    assert "Time alone can change it, too: PERIOD_END(staff) < (NOW() - INTERVAL '1' DAY)" in brief
    told = staff("view", "explain", "left", "--full")
    assert told.code == 0 and "deleted from staff" in told.out and "by (c.13)" in told.out
    explained = staff("view", "explain", "left", "--json").json
    assert explained["reads"] == [{"as": "staff", "table": "staff"}]
    deleted, inserted, time = explained["events"]
    assert explained["view"] == ["p1 is PERIOD_END(staff) < (NOW() - INTERVAL '1' DAY)", "V = π_{name}(σ_{p1}(staff))"]
    assert any("∇staff" in line for line in deleted["lines"]) and any("Δstaff" in line for line in inserted["lines"])
    assert "∇V = ∅" in time["lines"] and any(line.startswith("dropped: (r.6)") for line in time["lines"])


def test_a_view_is_drawn_as_of_now(staff: Callable[..., Told]) -> None:
    staff("view", "add", "devs", "SELECT name FROM staff WHERE dept = 'Dev'", "--batched")
    drawn = staff("history", "devs")
    assert drawn.code == 0 and "Ann" in drawn.out and "Ben" not in drawn.out


def test_a_poll_is_told_though_its_views_must_wait(staff: Callable[..., Told], home: Path) -> None:
    staff("view", "add", "devs", "SELECT name FROM staff WHERE dept = 'Dev'")
    write("id,name,dept", "2,Ben,Dev")
    with Weft.open(home, create=True) as opened:
        load = opened.catalog.loads.begin(1, "held", "test", None, opened.clock())
        with opened.writing("hold") as writer:
            writer.loads.activate(load, opened.clock(), hold=True)
        polled = staff("source", "poll", "--now", "1997-02-01")
    assert polled.code == 2
    assert "1 began, 2 ended" in polled.out and "a running load may add rows" in polled.err


def test_parts_of_nested_columns_are_refused_however_they_stand(weft: Callable[..., Told]) -> None:
    Path("staff.jsonl").write_text('{"id": 1, "who": {"name": "ann", "at": {"city": "Graz", "\\u001b[31mred": 1}}}\n')
    assert weft("init", "--clock", "replay").code == 0
    added = weft("source", "add", "staff", "--kind", "jsonl", "--at", "staff.jsonl", "--key", "id")
    assert weft("source", "poll", "--now", "1997-01-01").code == 0
    for text in (
        "SELECT who.at AS at FROM staff",
        "SELECT who.at AS at, COUNT(*) AS n FROM staff GROUP BY who.at",
        "SELECT id, MAX(who.at) AS at FROM staff GROUP BY id",
    ):
        refused = weft("view", "add", "v", text)
        assert (
            refused.code == 2
            and "a view cannot use a part of a nested column" in refused.err
            and "MAP" not in refused.err
        )
    told = [added, weft("view", "add", "v", "SELECT id, who FROM staff")]
    told += [weft(*each) for each in (("describe", "staff"), ("view", "show", "v"), ("source", "show", "staff"))]
    told += [weft("table", "create", "t", "a STRUCT<`\x1b[31mred`: INT>"), weft("install", "q", "SELECT a FROM t")]
    told += [weft("show", "q"), weft("append", "t", "a=5")]
    assert not [each for each in told if "\x1b" in each.out + each.err]
    assert all("\\x1b[31mred" in each.out + each.err for each in told if each is not told[-3])


@pytest.fixture
def events(weft: Callable[..., Told], home: Path) -> Callable[..., Told]:
    """A replay home with a source of events: its rows stay."""
    assert weft("init", "--clock", "replay").code == 0
    Path("events.csv").write_text("id,kind,at\n1,a,1997-01-01 08:00:00\n2,a,1997-01-01 09:00:00\n")
    assert weft("source", "add", "events", "--kind", "csv", "--at", "events.csv", "--key", "id").code == 0
    return weft


COUNTED = "SELECT kind, COUNT(*) AS n FROM events GROUP BY kind"


def test_a_moving_window_over_rows_that_stay_is_warned_of(events: Callable[..., Told]) -> None:
    moving = f"{COUNTED}, MOVING_WINDOW(INTERVAL 7 DAYS)"
    assert "WARNING" not in events("view", "add", "before", moving).out  # nothing is known of rows yet
    assert events("source", "poll", "--now", "1997-01-02").code == 0
    added = events("view", "add", "moving", f"SELECT n FROM ({moving}) AS m").out
    assert "MOVING_WINDOW(INTERVAL '7' DAY) is a running total as long as no row of events ends" in added
    assert "WHERE `at` > NOW() - INTERVAL '7' DAY" in added
    (warning,) = events("view", "add", "part", f"{moving} HAVING COUNT(*) > 1", "--json").json["warnings"]
    assert warning in " ".join(added.split())
    for name in ("before", "part"):
        assert "is a running total" in events("view", "explain", name).out
    instead = COUNTED.replace(" GROUP", " WHERE at > NOW() - INTERVAL '7' DAY GROUP")
    assert "WARNING" not in events("view", "add", "recent", instead).out
    assert "running total" not in events("view", "explain", "recent").out


def test_the_warning_of_a_table_without_an_instant_says_what_it_needs(events: Callable[..., Told]) -> None:
    Path("kinds.csv").write_text("id,kind\n1,a\n")
    assert events("source", "add", "kinds", "--kind", "csv", "--at", "kinds.csv", "--key", "id").code == 0
    assert events("source", "poll", "kinds", "--now", "1997-01-02").code == 0
    text = "SELECT COUNT(*) AS n FROM kinds GROUP BY MOVING_WINDOW(INTERVAL 7 DAYS)"
    told = " ".join(events("view", "add", "moving", text).out.split())
    assert "write WHERE `at` > NOW() - INTERVAL '7' DAY (kinds needs a TIMESTAMP column `at`" in told


def test_a_moving_window_over_rows_that_end_is_not_warned_of(events: Callable[..., Told]) -> None:
    moving = f"{COUNTED}, MOVING_WINDOW(INTERVAL 7 DAYS)"
    assert events("source", "poll", "--now", "1997-01-02").code == 0
    twice = f"SELECT n, COUNT(*) AS m FROM ({COUNTED}) AS c GROUP BY n, MOVING_WINDOW(INTERVAL 1 DAY)"
    assert "WARNING" not in events("view", "add", "twice", twice).out  # a count ends when another row comes
    Path("events.csv").write_text("id,kind,at\n2,a,1997-01-01 09:00:00\n")
    assert events("source", "poll", "--now", "1997-01-03").code == 0
    assert "WARNING" not in events("view", "add", "moving", moving).out


def test_a_view_that_is_computed_when_it_is_read_is_listed_so(events: Callable[..., Told]) -> None:
    events("view", "add", "kinds", COUNTED, "--batched")
    listed = " ".join(events("views").out.split())
    assert "never" not in listed and "not yet (when it is read)" in listed
    assert events("views", "--json").json[0]["maintained_at"] is None
