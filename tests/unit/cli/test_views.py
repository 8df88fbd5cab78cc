"""The commands about temporal views, as a person types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.cli.conftest import Output
from weft.api import Weft
from weft.catalog.records import TableRecord
from weft.errors import ExecutionError
from weft.execution.engines.engine import Engine
from weft.execution.temporal.computing import view_change
from weft.planning.view_plan import ViewPlan


@pytest.fixture
def staff(weft: Callable[..., Output], home: Path) -> Callable[..., Output]:
    """A replay home with a source that has been polled once."""
    write("id, name, dept", "1,Ann,Dev", "2,Ben,Ops")
    assert weft("init", "--clock", "replay").code == 0
    assert weft("source", "add", "staff", "--kind", "csv", "--at", "staff.csv", "--key", "id").code == 0
    assert weft("source", "poll", "--now", "1997-01-01").code == 0
    return weft


def write(*lines: str) -> None:
    Path("staff.csv").write_text("".join(f"{line}\n" for line in lines))


def test_a_view_that_fails_says_so_and_stops_no_other(
    staff: Callable[..., Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(engine: Engine, view_plan: ViewPlan, view: TableRecord, *rest: Any, **options: Any) -> Any:
        if view.name == "sums":
            raise ExecutionError("the rows cannot be computed: out of memory")
        return view_change(engine, view_plan, view, *rest, **options)

    monkeypatch.setattr("weft.execution.temporal.running.view_change", failing)
    staff("view", "add", "sums", "SELECT SUM(id) AS n FROM staff")
    staff("view", "add", "over", "SELECT n FROM sums")
    staff("view", "add", "devs", "SELECT id FROM staff")
    done = staff("view", "refresh")
    assert done.code == 1 and "devs: 2 periods" in done.out
    assert "over: the view sums, which this view reads, could not be refreshed" in done.out
    assert "cannot be computed" in staff("view", "show", "sums").out


def test_a_poll_is_reported_although_its_views_must_wait(staff: Callable[..., Output], home: Path) -> None:
    staff("view", "add", "devs", "SELECT name FROM staff WHERE dept = 'Dev'")
    write("id, name, dept", "2,Ben,Dev")
    with Weft.open(home, create=True) as opened:
        load = opened.catalog.loads.begin(1, "held", "test", None, opened.clock())
        with opened.writing("hold") as writer:
            writer.loads.activate(load, opened.clock(), hold=True)
        polled = staff("source", "poll", "--now", "1997-02-01")
    assert polled.code == 2
    assert "1 began, 2 ended" in polled.out and "a running load may add rows" in polled.err


def test_a_control_character_in_the_name_of_a_part_is_escaped(weft: Callable[..., Output]) -> None:
    typed = (
        ("table", "create", "t", "a STRUCT<`\x1b[31mred`: INT>"),
        ("install", "q", "SELECT a FROM t"),
        ("show", "q"),
        ("append", "t", "a=5"),
    )
    shown = [output.out + output.err for output in (weft(*each) for each in typed)]
    assert "\x1b" not in "".join(shown)
    assert all("\\x1b[31mred" in shown[number] for number in (0, 2, 3))
