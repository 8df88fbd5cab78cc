"""Queries that share the tau of their plan have the tau, the answers and the ticks that they would have alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from definitions import definition, statements
from weft.algebra.schema import BIGINT
from weft.catalog import Catalog, Writer
from weft.catalog.records import Choice, Count, SharedPlan
from weft.instants import MIN_INSTANT

Opened = Callable[..., Catalog]
Outcome = tuple[int, int, int | None, int, str | None]


@pytest.fixture
def writer(tmp_path: Path, opened: Opened) -> Writer:
    catalog = opened(tmp_path, create=True, clock="replay", at=0)
    catalog.tables.create("t", [("a", BIGINT)])
    return catalog.writer("tests", "tests", 0)


@dataclass
class Alone:
    """What one query has, kept for itself: (tick, t, tau, rows, reason) for each tick with an outcome."""

    plan: str
    every: int | None
    tau: int | None = None
    rows: int = 0
    due: int | None = None
    state: str = "active"
    ticks: list[Outcome] = field(default_factory=list)

    @property
    def run(self) -> int | None:
        return None if self.every is None or self.tau is None else self.tau + self.every


class Model:
    """Random actions on a catalog and on queries that are kept one by one."""

    def __init__(self, writer: Writer, chance: Random) -> None:
        self.writer, self.chance, self.t = writer, chance, 100
        self.queries: dict[int, Alone] = {}
        self.shared: list[SharedPlan] = []

    def live(self, *states: str) -> list[int]:
        return [key for key, each in self.queries.items() if each.state in states]

    def name(self, query_id: int) -> str:
        return self.writer.queries.by_id(query_id).name

    def install(self) -> None:
        number = len(self.queries)
        plan, every = self.chance.choice("abc"), 60 if self.chance.random() < 0.15 else None
        given = [definition(f"q{number + n}", signature=plan, every_us=every) for n in range(self.chance.randint(1, 6))]
        for query in self.writer.queries.install_all(given, self.t):
            self.queries[query.query_id] = Alone(plan, every)

    def change_state(self) -> None:
        for key in self.chance.sample(self.live("active", "paused", "failed"), k=1):
            query = self.queries[key]
            if query.state == "active":
                query.state = self.chance.choice(["paused", "removed"])
                if query.state == "paused":
                    self.writer.queries.set_state(self.name(key), "paused")
                else:
                    self.writer.queries.remove(self.name(key), self.t)
            elif self.chance.random() < 0.3:
                self.t += 1
                self.writer.queries.skip_to(self.name(key), self.t, f"{query.plan} from now", "body")
                query.tau, query.due, query.plan = self.t, None, f"{query.plan} from now"
            else:
                self.writer.queries.set_state(self.name(key), "active")
                query.state = "active"

    def choice(self) -> tuple[Choice, list[int]]:
        active = self.live("active")
        draw = self.chance.random()
        if draw < 0.6:
            return Choice(), active
        if draw < 0.8:
            run = {key: self.queries[key].run for key in active}
            return Choice(due_at=self.t), [key for key in active if (at := run[key]) is None or at <= self.t]
        some = self.chance.sample(active, k=min(len(active), 2))
        return Choice(tuple(some)), some

    def tick(self) -> None:
        self.t += self.chance.randint(1, 50)
        choice, chosen = self.choice()
        planned = self.writer.ticks.plan(self.t, choice, 0)
        taus = {key: self.queries[key].tau for key in chosen}
        if self.chance.random() < 0.3:
            for key in self.chance.sample(chosen, k=min(1, len(chosen))):  # the owner loses a right, say
                self.writer.queries.set_state(self.name(key), "paused")
                self.queries[key].state = "paused"
        if self.chance.random() < 0.3:
            failed = self.chance.sample(chosen, k=min(2, len(chosen)))
            self.writer.ticks.set_aside(planned.tick_id, dict.fromkeys(failed, "fault"))
            for key in failed:
                self.queries[key].state = "failed"
                del taus[key]
        found = self.writer.ticks.members(planned.tick_id)
        assert {query.query_id: tau for query, tau in found} == taus
        if self.chance.random() < 0.1:
            self.writer.ticks.abandon(planned.tick_id)
            return
        self.commit(planned.tick_id, taus)

    def commit(self, tick_id: int, taus: dict[int, int | None]) -> None:
        shared = self.writer.ticks.shared(tick_id)
        self.shared += shared
        whole = {each.plan_id for each in shared if self.chance.random() < 0.5}
        records = {query.query_id: query.plan_id for query, _ in self.writer.ticks.members(tick_id)}
        apart = {query.query_id for query, _ in self.writer.ticks.members(tick_id, whole)}
        reasons = {plan_id: self.chance.choice(["none", "nothing came"]) for plan_id in records.values()}
        counts, outcomes = {}, {}
        for key, tau in taus.items():
            outcome = self.outcome(tau, reasons[records[key]])
            if key not in apart and not outcome.rows:
                outcome = Count(0, reasons[records[key]], None, self.t)
            elif self.chance.random() < 0.05 and key in apart:
                continue  # it keeps its tau
            if key in apart or outcome.rows:
                counts[key] = outcome
            outcomes[key] = outcome
        together = {plan_id: reasons.get(plan_id) for plan_id in whole}
        plans = [record.plan_id for record in self.writer.queries.plans() if self.chance.random() < 0.9]
        self.writer.ticks.commit(tick_id, counts, [], 0, together=together, alike=plans)
        for key, each in outcomes.items():
            query = self.queries[key]
            assert each.until is not None
            query.ticks.append((tick_id, each.until, taus[key], each.rows, each.reason))
            query.tau, query.rows, query.due = each.until, query.rows + each.rows, each.next_due

    def outcome(self, tau: int | None, reason: str) -> Count:
        draw = self.chance.random()
        if draw < 0.2:
            return Count(self.chance.randint(1, 3), None, None, self.t, self.t - 1)
        if draw < 0.22:
            return Count(0, "another reason", None, self.t)
        if draw < 0.24:
            return Count(0, reason, self.t + 5, self.t)
        if draw < 0.26:
            return Count(0, "waits", None, max(self.t - 1, tau or 0))
        return Count(0, reason, None, self.t)

    def check(self) -> None:
        for query in self.writer.queries.all():
            alone = self.queries[query.query_id]
            found = (query.tau, query.rows, query.next_due, query.state)
            assert found == (alone.tau, alone.rows, alone.due, alone.state), query.name
        for key in self.chance.sample(self.live("active", "paused", "failed"), k=min(3, len(self.live("active")))):
            ticks = [each for each in self.writer.ticks.of_query(key, 1_000) if each.rows is not None]
            found_ticks = [(each.tick_id, each.t, each.tau, each.rows, each.reason) for each in reversed(ticks)]
            assert found_ticks == self.queries[key].ticks
        active = [self.queries[key] for key in self.live("active")]
        due = [each for each in active if (each.run is None or each.run <= self.t + 9) and (each.tau or 0) < self.t + 9]
        plans = {record.plan_id: record.signature for record in self.writer.queries.plans()}
        for plan in self.writer.queries.due_plans(self.t + 9):
            own = [each for each in due if each.plan == plans[plan.plan_id]]
            begun = [each.tau for each in own if each.tau is not None]
            assert plan.unbounded == len(own) - len(begun) and plan.since == min(begun, default=None)
        assert len(self.writer.queries.due_plans(self.t + 9)) == len({each.plan for each in due})
        wake = [MIN_INSTANT if each.tau is None else each.run or each.tau + 10 for each in active]
        assert self.writer.queries.next_wake(10) == min(wake, default=None)
        ready = [self.t if each.tau is None else each.run or each.tau for each in active]
        waiting = self.writer.queries.waiting_since(self.t)[0]
        assert (waiting is None) == (not ready) and (waiting is None or waiting <= min(ready))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions(writer: Writer, seed: int) -> None:
    model = Model(writer, Random(seed))
    for _ in range(50):
        action = model.chance.choices([model.install, model.tick, model.change_state], [2, 6, 2])[0]
        if action == model.install or model.live("active", "paused", "failed"):
            action()
        model.check()
    assert sum(each.queries for each in model.shared) > 40, "queries share a tau"


def test_a_tick_of_queries_that_share_writes_one_row(writer: Writer) -> None:
    queries = writer.queries.install_all([definition(f"q{number}") for number in range(500)], 0)
    everything = dict.fromkeys((query.query_id for query in queries), Count(0, "none", None, 100))
    planned = writer.ticks.plan(100, Choice(), 0)
    writer.ticks.commit(planned.tick_id, everything, [], 0, alike=[queries[0].plan_id])
    with statements() as seen:
        planned = writer.ticks.plan(200, Choice(), 0)
        (shared,) = writer.ticks.shared(planned.tick_id)
        assert (shared.tau, shared.queries) == (100, 500)
        assert writer.ticks.members(planned.tick_id, [shared.plan_id]) == ()
        ids, constants = writer.ticks.constants(shared.plan_id)
        assert ids == tuple(everything) and set(constants) == {()}
        news = {ids[7]: Count(3, None, None, 200, 199)}
        writer.ticks.commit(planned.tick_id, news, [], 0, together={shared.plan_id: "none"})
    assert sum("tick_queries" in each and each.startswith("INSERT") for each in seen) == 2, "the chosen, and the news"
    found = writer.queries.all()
    assert {query.tau for query in found} == {200}
    assert [query.query_id for query in found if query.rows] == [ids[7]] and found[7].last_first_at == 199
    of_others, of_news = writer.ticks.of_query(ids[0]), writer.ticks.of_query(ids[7])
    assert [(each.t, each.rows, each.reason) for each in of_others] == [(200, 0, "none"), (100, 0, "none")]
    assert [(each.t, each.rows, each.reason) for each in of_news] == [(200, 3, None), (100, 0, "none")]
