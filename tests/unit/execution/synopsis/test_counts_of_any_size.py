"""Counts of fixpoints: as large as they come (those of theorem 3.4), and the smaller of two."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from weft.algebra.formula import ALWAYS, And, Atom, Defined, Definition, Distinct, Fixpoint, Formula, Or, Previous
from weft.derivation.synopsis.construct import Synopsis, synopsis
from weft.execution.synopsis.batch import EMPTY, State, StateBatch
from weft.execution.synopsis.evaluating import evaluate

STATES = 20_000
BEFORE = Previous(ALWAYS, Defined("x", ()))
BINARY = Fixpoint((Definition("x", (), Or(Distinct(Atom("q", ())), Or(BEFORE, BEFORE))),), "x", ())


def batch(first: int, end: int, **events: list[int]) -> StateBatch:
    tps = pa.array(range(first, end), pa.int64())
    rows = {name: pa.table({"tp": pa.array(each, pa.int64())}) for name, each in events.items()}
    return StateBatch(pa.table({"tp": tps, "at": tps}), rows)


def taken(plan: Synopsis, state: State, given: StateBatch) -> tuple[State, list[str]]:
    after, answers = evaluate(plan, state, given)
    return after, answers["n"].to_pylist()


def test_a_count_of_twenty_thousand_bits_is_stored_and_printed() -> None:
    asked: Formula = And(Atom("asked", ()), BINARY)
    plan = synopsis(asked, "bag")
    every = [tp for tp in range(STATES) if tp % 3 != 2]
    state, none = taken(plan, EMPTY, batch(0, STATES, q=every))
    assert none == []
    _, (result,) = taken(plan, state, batch(STATES, STATES + 1, asked=[STATES]))
    history = "".join("1" if tp % 3 != 2 else "0" for tp in range(STATES)) + "0"
    assert Decimal(result) == Decimal(int(history, 2))


def test_the_smaller_count_of_two_is_that_of_the_parts_alone() -> None:
    """By minimum and maximum: q and what is defined, both there twice."""
    twice = Fixpoint((Definition("x", (), Atom("r", ())),), "x", ())
    plan = synopsis(And(Atom("q", ()), twice), "minmax")
    assert taken(plan, EMPTY, batch(0, 1, q=[0, 0], r=[0, 0]))[1] == ["2"]
