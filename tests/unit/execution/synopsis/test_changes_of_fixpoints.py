"""Fixpoints computed from their changes: the same answers as from the definitions, at a cost for the changes alone."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from oracle.past_logic import Log, Row, evaluated
from weft.algebra.formula import (
    ALWAYS,
    And,
    Atom,
    Defined,
    Definition,
    Exists,
    Fixpoint,
    Formula,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Variable,
    free_variables,
)
from weft.algebra.schema import BIGINT
from weft.derivation.synopsis.prepared import Semantics
from weft.execution.monitoring import monitor
from weft.execution.synopsis.changing_rows import ChangingRows
from weft.formula.signature import TimePoint

X, Y, Z = (Variable(name, BIGINT) for name in "xyz")


def closure(name: str, *, ends: bool) -> Fixpoint:
    """The pairs of a task and another that it spawned, itself or by others; with ``ends`` until the other ends."""
    longer = And(Previous(ALWAYS, Defined(name, (X, Z))), Atom("spawn", (Z, Y)))
    body: Formula = Or(Or(Previous(ALWAYS, Defined(name, (X, Y))), Atom("spawn", (X, Y))), Exists((Z,), longer))
    body = And(body, Not(Atom("end", (Y,)))) if ends else body
    return Fixpoint((Definition(name, (X, Y), body),), name, (X, Y))


EVER, ALIVE = closure("ever", ends=False), closure("alive", ends=True)
FORMULAS = {
    "a closure that grows": EVER,
    "a closure from which rows are taken": ALIVE,
    "once in a closure": Once(ALWAYS, ALIVE),
    "once in a closure, with an interval": Once(Interval(1, 4), ALIVE),
    "since, left and right from a closure": Since(ALWAYS, Exists((X,), ALIVE), EVER),
    "since not": And(EVER, Since(ALWAYS, Not(ALIVE), EVER)),
    "strictly since": Since(Interval(0, 3), ALIVE, EVER, strict=True),
    "a closure without a closure": And(EVER, Not(ALIVE)),
}


def log(chance: random.Random, states: int) -> Log:
    """Tasks that spawn others, also in a cycle, and end; some states have several events, some none."""
    at, time = [], 0
    rows: list[dict[str, list[Row]]] = []
    for _ in range(states):
        time += chance.randint(0, 2)
        at.append(time)
        spawn = [(chance.randrange(6), chance.randrange(6)) for _ in range(chance.choice((0, 1, 1, 2)))]
        end = [(chance.randrange(6),)] if chance.random() < 0.3 else []
        rows.append({"spawn": list(dict.fromkeys(spawn)), "end": end})
    return Log(tuple(at), tuple(rows))


def monitored(formula: Formula, log: Log, size: int, semantics: Semantics) -> list[Counter[Row]]:
    points = (TimePoint(tp, at, dict(rows)) for tp, (at, rows) in enumerate(zip(log.at, log.states, strict=True)))
    found = []
    for answered in monitor(formula, free_variables(formula), points, size, semantics):
        counts = answered.counts or [1] * len(answered.rows)
        found.append(Counter(dict(zip(map(tuple, answered.rows), counts, strict=True))))
    return found


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("semantics", ["set", "bag", "minmax"])
def test_a_fixpoint_answers_as_its_definition_says(name: str, semantics: Semantics) -> None:
    chance = random.Random(f"{name} {semantics}")
    answers = 0
    for states in (12, 21):
        given = log(chance, states)
        wanted = evaluated(FORMULAS[name], given, semantics)
        for size in (1000,) if states == 12 else (8,):
            assert monitored(FORMULAS[name], given, size, semantics) == wanted, given
        answers += sum(rows.total() for rows in wanted)
    assert answers


def test_the_work_of_an_event_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has a parent among those before it: a task adds as many rows as it has ancestors."""
    calls = 0
    put = ChangingRows.put

    def counted(self: ChangingRows, row: Row, count: int) -> None:
        nonlocal calls
        calls += 1
        put(self, row, count)

    monkeypatch.setattr(ChangingRows, "put", counted)
    formula = And(EVER, Atom("report", (X, Y)))
    per_row = []
    for tasks in (200, 800):
        chance, calls = random.Random(tasks), 0
        parents = [chance.randrange(task) for task in range(1, tasks)]
        ancestors = [0]
        for parent in parents:
            ancestors.append(ancestors[parent] + 1)
        states = tuple({"spawn": [(parent, task)]} for task, parent in enumerate(parents, 1))
        monitored(formula, Log(tuple(range(len(states))), states), 10_000, "set")
        per_row.append(calls / sum(ancestors))
    assert per_row[1] < 1.2 * per_row[0], per_row
