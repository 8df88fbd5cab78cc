"""Bookkeeping set at a time: what it costs in statements does not grow with the number of queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from definitions import definition, statements
from weft.algebra.schema import BIGINT
from weft.catalog import Catalog, Writer
from weft.catalog.records import Choice, Count, DuePlan
from weft.errors import Conflict, NotFound
from weft.instants import MIN_INSTANT

Opened = Callable[..., Catalog]
FEW, MANY = 20, 200


@pytest.fixture
def writer(tmp_path: Path, opened: Opened) -> Writer:
    catalog = opened(tmp_path, create=True, clock="replay", at=0)
    catalog.tables.create("t", [("a", BIGINT)])
    return catalog.writer("tests", "tests", 0)


def fill(writer: Writer, count: int) -> None:
    there = writer.queries.count()
    for number in range(there, there + count):
        every = None if number % 3 else 60
        query = definition(
            f"q{number}", signature=f"shape {number % 2}", every_us=every, channels=(f"file:{number}.csv",)
        )
        writer.queries.install(query, 0)


def a_round(writer: Writer, t: int) -> None:
    """What ``weft run`` asks of the catalog for one tick, and what commands ask."""
    writer.queries.next_wake(10)
    writer.queries.plans([due.plan_id for due in writer.queries.due_plans(t)])
    tick = writer.ticks.plan(t, Choice(due_at=t), t)
    members = writer.ticks.members(tick.tick_id)
    assert members
    counts = {
        query.query_id: Count(query.query_id % 2, None if query.query_id % 2 else "why", t + 100, t, t - 1)
        for query, _ in members
    }
    writer.ticks.commit(tick.tick_id, counts, [], t)
    writer.subscriptions.waiting(t, t)
    writer.queries.purging()
    assert len(writer.queries.all(after=3, limit=5)) == 5
    writer.queries.count(writer.queries.named("q1").plan_id)
    writer.queries.install(definition(f"another-{t}"), t)


def test_a_round_costs_the_same_statements_for_few_and_for_many(writer: Writer) -> None:
    fill(writer, FEW)
    a_round(writer, 500)  # the first sets where time begins
    costs = []
    for count, t in ((FEW, 1000), (MANY, 2000)):
        fill(writer, count)
        with statements() as seen:
            a_round(writer, t)
            a_round(writer, t + 60)
        costs.append(len(seen))
    assert costs[0] == costs[1], costs


def test_queries_are_installed_all_or_none_in_as_many_statements(writer: Writer) -> None:
    costs = []
    for first, count in ((0, FEW), (FEW, MANY)):
        given = [
            definition(f"q{number}", signature=f"shape {number % 2}", channels=(f"file:{number}.csv",))
            for number in range(first, first + count)
        ]
        with statements() as seen:
            found = writer.queries.install_all(given, 7)
        costs.append(len(seen))
        assert [query.name for query in found] == [query.name for query in given]
        assert {query.installed_at for query in found} == {7}
    assert costs[1] <= costs[0]
    assert {s.channel for s in writer.subscriptions.all()} == {f"file:{n}.csv" for n in range(FEW + MANY)}
    assert writer.queries.install_all([], 8) == ()
    for given in (
        [definition("new"), definition("Q3")],
        [definition("new"), definition("NEW")],
        [definition("new", channels=("file:a.csv",)), definition("newer", channels=("file:a.csv",))],
        [definition("new", channels=("file:3.csv",))],
    ):
        with pytest.raises(Conflict):
            writer.queries.install_all(given, 9)
    with pytest.raises(NotFound):
        writer.queries.install_all([definition("new"), definition("newer", reads=(10_000,))], 9)
    assert writer.queries.count() == FEW + MANY


def test_a_tick_moves_each_query_by_its_own_count(writer: Writer) -> None:
    fill(writer, 6)
    ids = [query.query_id for query in writer.queries.all()]
    tick = writer.ticks.plan(100, Choice(), 0)
    counts = {
        ids[0]: Count(3, None, 500, 100, 99),
        ids[1]: Count(0, "none", None, 100),
        ids[2]: Count(0, "none", None, 100),
        ids[3]: Count(0, "none", 7, 100),
        ids[4]: Count(2, "waits", None, 70, 69),
    }
    writer.ticks.commit(tick.tick_id, counts, [], 0)
    found = [(q.tau, q.rows, q.next_due) for q in writer.queries.all()]
    assert found == [(100, 3, 500), (100, 0, None), (100, 0, None), (100, 0, 7), (70, 2, None), (None, 0, None)]
    assert [q.last_first_at for q in writer.queries.all()] == [99, None, None, None, 69, None]
    assert [writer.ticks.of_query(each)[0].rows for each in ids] == [3, 0, 0, 0, 2, None]
    assert [writer.ticks.of_query(each)[0].t for each in ids[3:5]] == [100, 70]


def test_when_a_runner_must_wake(writer: Writer) -> None:
    assert writer.queries.next_wake(10) is None
    slow = writer.queries.install(definition("slow", every_us=1000), 0)
    assert writer.queries.next_wake(10) == MIN_INSTANT  # it was never ticked
    tick_all(writer, 100)
    assert writer.queries.next_wake(10) == 1100
    each = writer.queries.install(definition("each"), 0)
    assert writer.queries.next_wake(10) == MIN_INSTANT
    tick_all(writer, 200)
    assert writer.queries.next_wake(10) == 210
    writer.queries.set_state("each", "paused")
    assert writer.queries.next_wake(10) == 1200
    writer.queries.set_state("slow", "paused")
    assert writer.queries.next_wake(10) is None
    assert slow.query_id != each.query_id


def test_due_is_what_its_timeliness_asks_for(writer: Writer) -> None:
    fast = writer.queries.install(definition("fast", every_us=10), 0).query_id
    slow = writer.queries.install(definition("slow", every_us=1000), 0).query_id
    paused = writer.queries.install(definition("paused"), 0).query_id
    writer.queries.set_state("paused", "paused")
    assert chosen(writer, Choice(due_at=0)) == [fast, slow]
    tick_all(writer, 100)
    each = writer.queries.install(definition("each"), 0).query_id
    assert chosen(writer, Choice(due_at=109)) == [each]
    assert chosen(writer, Choice(due_at=110)) == [fast, each]
    assert chosen(writer, Choice()) == [fast, slow, each]
    assert chosen(writer, Choice((slow, paused))) == [slow]


def test_due_queries_by_plan(writer: Writer) -> None:
    for number, start in enumerate((None, None, 50)):
        writer.queries.install(definition(f"q{number}", from_instant=start), 0)
    (due,) = writer.queries.due_plans(100)
    assert due == DuePlan(due.plan_id, unbounded=2, since=50, undated=1, next_due=None)
    tick_all(writer, 100, due=300)
    writer.queries.install(definition("other", signature="other"), 0)
    assert writer.queries.due_plans(100) == (DuePlan(2, 1, None, 0, None),)
    assert writer.queries.due_plans(200)[0] == DuePlan(1, unbounded=0, since=100, undated=0, next_due=300)


def tick_all(writer: Writer, t: int, due: int | None = None) -> None:
    tick = writer.ticks.plan(t, Choice(), t)
    counts = {query.query_id: Count(0, "none", due, t) for query, _ in writer.ticks.members(tick.tick_id)}
    writer.ticks.commit(tick.tick_id, counts, [], t)


def chosen(writer: Writer, choice: Choice) -> list[int]:
    tick = writer.ticks.plan(writer.home().watermark + 1, choice, 0)
    found = [query.query_id for query, _ in writer.ticks.members(tick.tick_id)]
    writer.ticks.abandon(tick.tick_id)
    return found
