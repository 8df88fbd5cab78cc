"""Law 3 of the design, for the derivation alone: a view that is kept by ∇ and Δ is what its definition gives.

Random views (nested to three), random changes of several tables at one instant, the past corrected now and then, and
time passing between: after each step the kept rows are those of the definition evaluated again.  At every step of every
derivation the conditions of Theorems 4.3, 5.1 and 5.2 are held, and what reads only what is touched gives the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from temporal_drawn import TABLES, Drawn
from temporal_evaluator import Database, Rows, later, less, shared, union
from weft.algebra.relation import Select
from weft.algebra.temporal import Temporal
from weft.derivation.temporal import change_delta, refresh_delta
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.judging import state_at_refresh
from weft.derivation.temporal.measures import maintainable_form
from weft.derivation.temporal.rules import DerivationStep, DerivationTrace
from weft.derivation.temporal.semijoin_reduction import reduce_by_semijoins
from weft.derivation.temporal.timeslice_pushdown import push_timeslices

SEQUENCES, PARTS = 2_000, 4
RULES = (*(f"c.{n}" for n in range(1, 21)), "4.3", "EX −", "EX ∪", "r.EX", "r.6", "r.7", "r.9")
CHANGED = ("R", "S", "U")


class Sequence:
    """One view over one history."""

    def __init__(self, seed: int, counted: Counter[str]) -> None:
        self.restricting = seed // PARTS % 4 == 0  # the expressions are many times as long
        self.drawn, self.counted = Drawn(seed), counted
        self.now = self.drawn.chance.randint(0, 6)
        self.tables: dict[str, Rows] = {name: self.drawn.rows(self.now) for name in CHANGED}
        self.view = maintainable_form(self.drawn.view(self.drawn.chance.choice((1, 2, 2, 3, 3))))
        self.kept = Database(self.now, self.tables).value(self.view)
        self.smaller: dict[Temporal, Temporal] = {}
        self.refresh_log = DerivationTrace()
        self.refresh = refresh_delta(self.view, self.refresh_log)

    def pass_time(self) -> None:
        then, self.now = self.now, self.now + self.drawn.chance.randint(1, 5)
        self.tables = {name: later(rows, then, self.now) for name, rows in self.tables.items()}
        data = Database(self.now, self.tables, params={"refreshed": then})
        kept = later(self.kept, then, self.now)
        assert data.value(state_at_refresh(self.view)) == kept
        self.apply(data, kept, self.refresh, self.refresh_log)
        for dropped in self.refresh_log.dropped:
            assert isinstance(dropped.operator, Select)
            assert data.value(replace(dropped.operator, predicate=dropped.predicate)) == {}, dropped
            self.counted[f"dropped {dropped.rule}"] += 1

    def change(self) -> None:
        first = self.now if self.drawn.chance.random() < 0.7 else self.drawn.chance.randint(0, self.now)
        names = self.drawn.chance.sample(CHANGED, self.drawn.chance.randint(1, 3))
        deltas = {name: self.drawn.change(self.tables[name], self.now, first) for name in names}
        gone, came = ({name: pair[side] for name, pair in deltas.items()} for side in (0, 1))
        log = DerivationTrace()
        delta = change_delta(self.view, [table for table in TABLES if table.name in names], log)
        data = Database(self.now, self.tables, gone, came, {"changed_from": first})
        self.apply(data, self.kept, delta, log)
        self.tables = {
            name: union(less(rows, gone.get(name, {})), came.get(name, {})) for name, rows in self.tables.items()
        }

    def apply(self, data: Database, kept: Rows, delta: Delta, log: DerivationTrace) -> None:
        gone, came = data.value(delta.deleted), data.value(delta.inserted)
        for whole, value in ((delta.deleted, gone), (delta.inserted, came)):
            if whole is not None and self.restricting:
                less_read = self.smaller.setdefault(whole, push_timeslices(reduce_by_semijoins(whole)))
                assert data.value(less_read) == value
                self.counted["restricted"] += less_read != whole
        for step in log.steps:
            conditions(data, step)
            self.counted[step.rule] += bool(data.value(step.delta.deleted) or data.value(step.delta.inserted))
        self.kept = union(less(kept, gone), came)
        self.counted["steps"] += 1
        self.counted["changed"] += self.kept != kept

    def check(self) -> None:
        assert self.kept == Database(self.now, self.tables).value(self.view)


def conditions(data: Database, step: DerivationStep) -> None:
    """∇E − E = ∅ and ΔE ∩ (E − ∇E) = ∅; of pure ones, whole tuples go and rows that are not there come."""
    gone, came = data.value(step.delta.deleted), data.value(step.delta.inserted)
    old = data.value(state_at_refresh(step.operator)) if step.change is None else data.value(step.operator)
    assert not less(gone, old), step.rule
    left = less(old, gone)
    assert not shared(came, left), step.rule
    if step.delta.pure:
        assert all(old[row] == at for row, at in gone.items()), step.rule
        assert not came.keys() & left.keys(), step.rule


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_the_stored_view_equals_its_definition(part: int) -> None:
    counted: Counter[str] = Counter()
    views = set()
    for seed in range(part, SEQUENCES, PARTS):
        sequence = Sequence(seed, counted)
        views.add(sequence.view)
        for _ in range(2):
            if sequence.drawn.chance.random() < 0.6:
                sequence.pass_time()
                sequence.check()
            sequence.change()
            sequence.check()
        sequence.pass_time()
        sequence.check()
    of_part = SEQUENCES // PARTS
    assert len(views) > 0.9 * of_part
    assert counted["changed"] > 0.8 * of_part and counted["restricted"] > 0.5 * of_part
    assert {rule for rule in RULES if counted[rule] < 10} == set(), counted
    assert counted["dropped r.6"] > 20 < counted["dropped r.7"]
