"""Ticks on real tables: the rows in a window, omitted rows, failures, and dead ticks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replayed import AT, DAY, HOUR, START, answers, commits, first_instants, load, replay_home
from weft.api import Weft
from weft.catalog import layout
from weft.errors import ClockError, LeaseLost
from weft.execution.ticks import tick as tick_module
from weft.execution.ticks import tick_report as counting_module
from weft.schedule.ticking import Ticked
from weft.sql.lower import calls as lower_calls
from weft.storage.verify import verify
from weft.writing import outputs as outputs_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPACE = "SELECT msgid FROM msgs WHERE newsgroup = 'sci.space'"
GROUPS = "SELECT newsgroup FROM msgs"
WAITING = (
    "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 2 DAYS "
    "AND NOT EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)"
)


def message(name: str, day: float, parent: str | None = None, group: str = "sci.space") -> tuple[Any, ...]:
    return (name, group, parent, START + int(day * DAY))


def day(number: float) -> int:
    return START + int(number * DAY)


@pytest.fixture
def weft(tmp_path: Path, spark: SparkSession) -> Weft:
    """A home with the messages a to d on the days 1 to 4. The message b answers a."""
    made = replay_home(tmp_path / "home")
    load(made, spark, "msgs", [message("a", 1), message("b", 2, "a"), message("c", 3), message("d", 4, group="rec.x")])
    return made


def rows(done: Ticked) -> dict[str, int]:
    """Return the number of new rows of each query in the tick."""
    return {outcome.query.name: outcome.rows for outcome in done.reports[-1].outcomes}


def taus(done: Ticked) -> dict[str, int | None]:
    return {outcome.query.name: outcome.tau for outcome in done.reports[-1].outcomes}


def test_a_query_from_now_gives_what_enters_from_then_on(weft: Weft, spark: SparkSession) -> None:
    weft.tick(now=day(4.5))
    weft.install("all", WAITING)
    from_now = weft.install("later", WAITING, start="now")
    assert from_now.from_instant == day(4.5)
    weft.tick(now=day(7))
    # The message a has an answer since day 2. The messages b and c became two days old at 4 and 5, and d at 6. The
    # message b was in the result before.
    assert first_instants(weft, "all") == {("b",): day(4) + 1, ("c",): day(5) + 1, ("d",): day(6) + 1}
    assert first_instants(weft, "later") == {("c",): day(5) + 1, ("d",): day(6) + 1}
    load(weft, spark, "msgs", [message("e", 7.5, "d"), message("f", 8)])
    weft.tick(now=day(11))
    assert first_instants(weft, "later").keys() == {("c",), ("d",), ("e",), ("f",)}
    assert first_instants(weft, "later")[("e",)] == day(9.5) + 1


def test_a_paused_query_catches_up_or_skips(weft: Weft, spark: SparkSession) -> None:
    for name in ("running", "caught-up", "skipped"):
        weft.install(name, SPACE)
    assert rows(weft.tick(now=day(2.5))) == {"running": 2, "caught-up": 2, "skipped": 2}
    weft.pause("caught-up")
    weft.pause("skipped")
    assert rows(weft.tick(now=day(5))) == {"running": 1}
    load(weft, spark, "msgs", [message("e", 5)])
    weft.tick(now=day(5.5))
    weft.resume("caught-up")
    weft.resume("skipped", skip=True)
    load(weft, spark, "msgs", [message("f", 6)])
    done = weft.tick(now=day(7))
    # In one tick, the windows of the queries have different lengths.
    assert taus(done) == {"running": day(5.5), "caught-up": day(2.5), "skipped": day(5.5)}
    assert rows(done) == {"running": 1, "caught-up": 3, "skipped": 1}
    assert answers(weft, "caught-up") == answers(weft, "running")
    assert [values for _, _, values in answers(weft, "skipped")] == [("a",), ("b",), ("f",)]


def test_windows_of_different_ages_and_shapes_in_one_tick(weft: Weft, spark: SparkSession) -> None:
    texts = {
        "space": SPACE,
        "rec": SPACE.replace("sci.space", "rec.x"),
        "waiting": WAITING,
        "replies": "SELECT m.msgid, r.ts FROM msgs m JOIN msgs r ON r.inreplyto = m.msgid",
    }
    alone = replay_home(weft.home.parent / "alone")
    more = [message("e", 6, "c"), message("f", 6.5, "d", "rec.x"), message("g", 6.5)]
    load(alone, spark, "msgs", [message("a", 1), message("b", 2, "a"), message("c", 3), message("d", 4, group="rec.x")])
    load(alone, spark, "msgs", more)
    for name, text in texts.items():
        alone.install(name, text)
    alone.tick(now=day(10))
    weft.install("space", texts["space"])
    weft.tick(now=day(1.5))
    weft.install("waiting", texts["waiting"])
    weft.tick(["waiting"], now=day(5))
    weft.install("rec", texts["rec"])
    weft.tick(["rec"], now=day(5))
    load(weft, spark, "msgs", more)
    weft.install("replies", texts["replies"])
    done = weft.tick(now=day(10))
    assert taus(done) == {"space": day(1.5), "waiting": day(5), "rec": day(5), "replies": None}
    for name in texts:
        assert answers(weft, name) == answers(alone, name), name


def test_a_query_that_spark_refuses_is_set_aside_and_the_others_go_on(
    weft: Weft, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft.install("good", SPACE)
    with monkeypatch.context() as patch:  # as in a home of a Weft version that did not check patterns
        patch.setattr(lower_calls, "check_pattern", lambda *_: 0)
        weft.install("bad", "SELECT msgid FROM msgs WHERE REGEXP_LIKE(newsgroup, '(')")
    weft.install("fine", "SELECT msgid FROM msgs WHERE REGEXP_LIKE(newsgroup, 'rec')")
    done = weft.tick(now=day(5))
    assert rows(done) == {"good": 3, "bad": 0, "fine": 1}
    failed = weft.catalog.queries.named("bad")
    assert failed.state == "failed" and failed.reason and failed.tau is None
    assert "\n" not in failed.reason and "Exception" not in failed.reason
    assert (weft.catalog.queries.named("good").tau, weft.catalog.queries.named("fine").tau) == (day(5), day(5))
    load(weft, spark, "msgs", [message("e", 6)])
    assert rows(weft.tick(now=day(7))) == {"good": 1, "fine": 0}


def test_a_tick_that_died_is_done_again_with_its_own_clock(
    weft: Weft, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die_at(wanted: str) -> Any:
        def failpoint(name: str) -> None:
            if name == wanted:
                raise Killed

        return failpoint

    weft.install("space", SPACE)
    for point, until in (("tick.planned", 1.5), ("tick.computed", 2.5), ("tick.counting", 3.5)):
        with monkeypatch.context() as patch:
            for module in (tick_module, outputs_module, counting_module):
                patch.setattr(module, "failpoint", die_at(point))
            with pytest.raises(Killed):
                weft.tick(now=day(until))
        # New rows belong to a later window, because a row must not have a ts before the t of the dead tick.
        load(weft, spark, "msgs", [message(f"late for {until}", 0.5)])
        done = weft.tick(now=day(until) + HOUR)
        assert [report.t for report in done.reports] == [day(until), day(until) + HOUR]
    found = answers(weft, "space")
    assert [ordinal for ordinal, _, _ in found] == list(range(1, len(found) + 1))
    # A late row gets the t of the dead tick, and is an answer in the next window.
    late = [(f"late for {t}", day(t)) for t in (1.5, 2.5, 3.5)]
    on_time = [(name, day(n)) for n, name in enumerate("abc", 1)]
    assert [(values[0], at) for _, at, values in found] == sorted([*on_time, *late], key=lambda each: each[1])


def test_a_skip_gives_what_from_now_would(weft: Weft, spark: SparkSession) -> None:
    weft.install("groups", GROUPS)
    weft.tick(now=day(1.5))
    assert first_instants(weft, "groups") == {("sci.space",): day(1)}
    weft.pause("groups")
    weft.tick(now=day(4.5))
    weft.resume("groups", skip=True)
    weft.install("later", GROUPS, start="now")
    load(weft, spark, "msgs", [message("e", 5), message("f", 5.5, group="rec.x"), message("g", 6, group="comp.x")])
    weft.tick(now=day(7))
    # The group rec.x entered the result in the gap, and sci.space was delivered before the gap. Further messages in
    # these groups add no answers.
    assert first_instants(weft, "later") == {("comp.x",): day(6)}
    assert first_instants(weft, "groups") == {("sci.space",): day(1), ("comp.x",): day(6)}


def test_quiet_ticks_need_no_spark_and_say_why(weft: Weft) -> None:
    weft.install("space", SPACE)
    weft.install("waiting", WAITING)
    weft.tick(now=day(5))
    before = commits(weft.home / layout.LEDGER)

    def no_spark() -> Any:
        raise AssertionError("Spark was asked for")

    weft.opened.session = no_spark  # type: ignore[method-assign]
    again = weft.tick(now=day(5)).reports[-1].outcomes
    assert [o.reason for o in again] == ["the query was already ticked at this instant"] * 2
    del weft.opened.session  # type: ignore[attr-defined]
    done = weft.tick(now=day(5) + HOUR).reports[-1].outcomes
    assert {o.query.name: o.rows for o in done} == {"space": 0, "waiting": 1}
    assert "nothing arrived in msgs since the last tick" in str(done[0].reason)
    empty = weft.tick(now=day(5) + 2 * HOUR).reports[-1].outcomes
    assert [o.next_due for o in empty] == [None, day(6) + 1]
    weft.opened.session = no_spark  # type: ignore[method-assign]
    quiet = weft.tick(now=day(6) + 1).reports[-1].outcomes
    assert [(o.rows, o.next_due) for o in quiet] == [(0, None), (0, day(6) + 1)]
    assert commits(weft.home / layout.LEDGER) == before + 1
    del weft.opened.session  # type: ignore[attr-defined]
    assert rows(weft.tick(now=day(6) + 2)) == {"space": 0, "waiting": 1}


def test_a_clock_never_goes_back(weft: Weft) -> None:
    weft.install("space", SPACE)
    weft.tick(now=day(3))
    with pytest.raises(ClockError, match="the home's last tick"):
        weft.tick(now=day(2))
    wall = Weft.open(weft.home.parent / "wall", wall=lambda: AT, create=True)
    with pytest.raises(ClockError, match="future"):
        wall.tick(now=AT + 1)


def test_every_type_of_value_survives(weft: Weft, spark: SparkSession) -> None:
    text = (
        "SELECT msgid, ts, ts - INTERVAL 1 DAY AS before, LENGTH(msgid) AS n, TO_DATE(ts) AS d, inreplyto, "
        "newsgroup = 'rec.x' AS rec, 1.50 AS price, -SQRT(0 - 1.0) AS nan, UNHEX('00ff') AS raw, 0.0 * -1 AS zero "
        "FROM msgs"
    )
    weft.install("values", text)
    weft.tick(now=day(2.5))
    tried = weft.try_query(text, now=day(2.5))
    delivered = [row.values for row in weft.results("values")]
    assert [list(map(repr, values)) for values in delivered] == [list(map(repr, values)) for values in tried.rows]
    assert rows(weft.tick(now=day(3.5))) == {"values": 1}


def test_a_late_writer_cannot_begin_the_ledger_with_a_tick_that_was_given_up(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first tick of the home was thought dead just before its commit, but continues."""
    weft.install("space", SPACE)
    weft.install("groups", GROUPS)

    def taken_over(point: str) -> None:
        if point == "tick.computed":
            other = weft.catalog.writer("settle", "another", AT + 10**12)
            assert tick_module.settle_tick(other, AT, weft.opened.session) is None
            other.release()

    with monkeypatch.context() as patch, pytest.raises(LeaseLost, match="another writer"):
        patch.setattr(outputs_module, "failpoint", taken_over)
        weft.tick(now=day(5))
    assert [tick.state for tick in weft.catalog.ticks.latest()] == ["abandoned"]
    assert verify(weft.catalog) == []
    assert rows(weft.tick(now=day(5))) == {"space": 3, "groups": 2}
    assert verify(weft.catalog) == []
    assert [row[2] for row in answers(weft, "groups")] == [("sci.space",), ("rec.x",)]
