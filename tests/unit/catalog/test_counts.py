"""What indexes and a column count equals what a look at each row counts, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from definitions import definition
from weft.catalog import Catalog, Writer, ddl
from weft.catalog.query_list import QueryFilter
from weft.catalog.records import Choice, Count

Opened = Callable[..., Catalog]
OWNERS = ("anna", "bo")


@pytest.fixture
def catalog(tmp_path: Path, opened: Opened) -> Catalog:
    return opened(tmp_path, create=True, clock="replay", at=0)


class Course:
    """Random acts on a catalog, with a record of the ordinals that each tick added."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.catalog, self.random = catalog, Random(seed)
        self.writer: Writer = catalog.writer("tests", "tests", 0)
        self.sender: Writer = catalog.sender("tests", 0)
        self.found: dict[int, list[tuple[int, int]]] = {}
        self.t = 10

    def install(self) -> None:
        name, owner = f"q{len(self.found)}", self.random.choice(OWNERS)
        channels = tuple(f"email:{number}@example.org" for number in range(self.random.randrange(3)))
        query = self.writer.queries.install(definition(name, user=owner, channels=channels), 5)
        self.found[query.query_id] = []

    def tick(self) -> None:
        self.t += 10
        tick, counts = self.writer.ticks.plan(self.t, Choice(), 0), {}
        for query, _ in self.writer.ticks.members(tick.tick_id):
            rows = self.random.choice((0, 0, 1, 3))
            counts[query.query_id] = Count(rows, None if rows else "none", self.t if rows else None, self.t)
            if rows:
                self.found[query.query_id].append((tick.tick_id, rows))
        self.writer.ticks.commit(
            tick.tick_id, counts, [], 0, alike=[each.plan_id for each in self.catalog.queries.all()]
        )

    def deliver(self) -> None:
        for subscription, query in self.catalog.subscriptions.waiting(0, self.t):
            if self.random.random() < 0.5:
                unsent = {each.sub_id: each.last_ordinal for each in self.sender.outbox.unsent()}
                last = unsent.get(subscription.sub_id, query.rows)
                entry = self.sender.outbox.open(subscription, last, None, "{}")
                if self.random.random() < 0.6:
                    self.sender.outbox.mark_failed(entry.entry_id, "it failed", self.random.choice((None, 1)))
                else:
                    self.sender.outbox.mark_sent(entry.entry_id, 0)

    def change(self) -> None:
        live = self.catalog.queries.all()
        query = self.random.choice(live)
        match self.random.randrange(4):
            case 0:
                self.writer.queries.set_state(query.name, self.random.choice(("active", "paused", "failed")))
            case 1 if len(live) > 4:
                self.writer.queries.remove(query.name, 9)
            case 2:
                after = self.random.randrange(query.rows + 1)
                self.writer.subscriptions.add(query.query_id, f"email:{self.random.random()}@example.org", after)
            case _:
                for each in self.catalog.subscriptions.all(query.query_id)[:1]:
                    act = self.random.choice((self.writer.subscriptions.end, self.mute))
                    act(each.sub_id)

    def mute(self, sub_id: int) -> None:
        self.writer.subscriptions.set_muted(sub_id, self.random.random() < 0.7)


@pytest.mark.parametrize("seed", range(2))
def test_the_counts_are_right(catalog: Catalog, seed: int) -> None:
    course, waited, failed = Course(catalog, seed), 0, 0
    acts = (course.install, course.tick, course.tick, course.deliver, course.deliver, course.change)
    first = (course.install, course.install, course.install, *(course.tick, course.deliver) * 3)
    for act in (*first, *course.random.choices(acts, k=24)):
        act()
        waited += assert_waiting(course)
        if act in (course.tick, course.deliver):
            failed += assert_figures(course)
            assert_listed(course)
            assert_ticks(course)
    assert waited and failed, "the course never had what it is about"


def assert_waiting(course: Course) -> int:
    queries = {query.query_id: query for query in course.catalog.queries.all()}
    expected = [
        each.sub_id
        for each in course.catalog.subscriptions.all()
        if each.query_id in queries and each.is_served and each.delivered < queries[each.query_id].rows
        if each.next_attempt_at is None
    ]
    every = course.catalog.subscriptions.all()
    late = {each.sub_id for each in every if each.query_id in queries and each.delivered < queries[each.query_id].rows}
    assert behind(course.catalog) == late
    waiting = course.catalog.subscriptions.waiting(0, course.t)
    assert [each.sub_id for each, _ in waiting] == expected
    assert course.catalog.subscriptions.count_waiting(0, course.t) == len(expected)
    return len(expected)


def behind(catalog: Catalog) -> set[int]:
    with catalog._database.reading() as connection:
        return set(connection.execute(select(ddl.subscriptions.c.sub_id).where(ddl.BEHIND)).scalars())


def assert_figures(course: Course) -> int:
    live = {query.query_id: query for query in course.catalog.queries.all()}
    channels = [each for each in course.catalog.subscriptions.all() if each.query_id in live]
    states = Counter(
        "parked" if each.state == "parked" else "muted" if each.muted else "failing" if each.attempts else "active"
        for each in channels
    )
    figures = course.catalog.figures(0, None)
    assert Counter(figures.channels) == states
    assert figures.queries == Counter(query.state for query in live.values())
    assert figures.answers == sum(query.rows for query in live.values())
    assert figures.unsent == len(course.catalog.outbox.unsent())
    muted = sum(1 for each in channels if each.muted)  # also of those that are parked
    assert course.catalog.subscriptions.troubles() == (states["failing"], states["parked"], muted)
    return states["failing"] + states["parked"]


def assert_listed(course: Course) -> None:
    """A user sees her own queries and those of others that she may read, each once and in order."""
    queries, some = course.catalog.queries.all(), course.catalog.query_list
    others = frozenset(query.query_id for query in queries if query.query_id % 3 == 0)
    for owner in (*OWNERS, None):
        seen = QueryFilter(seen_by=(owner, others))
        mine = [query for query in queries if query.user == owner or query.query_id in others]
        names = sorted(query.name for query in mine)
        assert [each.query.name for each in some.page(seen, None, 100)] == names
        for after in names[:1]:
            assert [each.query.name for each in some.page(seen, after, 2)] == names[1:3]
        news = [query for query in mine if query.last_first_at is not None]
        news.sort(key=lambda query: (-(query.last_first_at or 0), -query.query_id))
        assert list(some.latest(seen, None, 3)) == news[:3]
        troubled = {each.query_id for each in course.catalog.subscriptions.all() if each.last_error}
        expected = Counter(query.state for query in mine)
        expected["troubled"] = sum(1 for each in mine if each.state == "failed" or each.query_id in troubled)
        assert Counter(some.counts(seen)) == expected
        barred = {query.query_id for query in mine if query.state == "paused" and query.reason}
        assert course.catalog.queries.ids_read_by(owner, others) == {each.query_id for each in news} - barred


def assert_ticks(course: Course) -> None:
    for query_id, found in course.found.items():
        ticks = [tick for tick, rows in found for _ in range(rows)]
        for first in {course.random.randint(1, len(ticks)) for _ in range(2) if ticks}:
            last = course.random.randint(first, len(ticks))
            expected = tuple(sorted(set(ticks[first - 1 : last])))
            assert course.catalog.ticks.with_answers(query_id, first, last) == expected
        assert course.catalog.ticks.with_answers(query_id, len(ticks) + 1, len(ticks) + 1) is None
