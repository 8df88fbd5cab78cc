"""The triple of a synopsis as formulas over a state and what is stored."""

from __future__ import annotations

from weft.algebra.formula import (
    ALWAYS,
    And,
    Atom,
    Defined,
    Definition,
    Distinct,
    Fixpoint,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Variable,
)
from weft.algebra.schema import BIGINT
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.triple import Triple, triple

X = Variable("x", BIGINT)
FIRST = Variable("x1", BIGINT)
P, Q = Atom("p", (X,)), Atom("q", (X,))
HERE, THERE = Atom("p", (FIRST,)), Atom("q", (FIRST,))
BEFORE, AFTER = Atom("R1", (FIRST,)), Atom("R1_now", (FIRST,))


def made(formula: object, semantics: str = "set") -> Triple:
    plan = synopsis(formula, semantics)  # type: ignore[arg-type]
    return triple(plan, {stored: f"R{number}" for number, stored in enumerate(plan.stored, 1)})


def test_the_past_is_read_from_the_stored_relations() -> None:
    found = made(And(Q, Not(Previous(Interval(0, 5), P))))
    assert found.gamma == (And(Q, Not(Atom("R1", (X,)))),)
    assert [(each.relation, each.formula, each.interval) for each in found.delta] == [(AFTER, HERE, Interval(0, 5))]


def test_once_and_since_are_unfolded_once() -> None:
    assert made(Once(ALWAYS, P)).delta[0].formula == Or(HERE, BEFORE)
    assert made(Once(ALWAYS, P)).gamma == (Atom("R1_now", (X,)),)
    assert made(Since(ALWAYS, Not(P), Q)).delta[0].formula == Or(THERE, And(BEFORE, Not(HERE)))
    assert made(Since(ALWAYS, P, Q, "first"), "bag").delta[0].formula == And(Or(THERE, BEFORE), Distinct(HERE))


def test_one_looks_back_on_another() -> None:
    found = made(Once(ALWAYS, Previous(ALWAYS, P)))
    assert [each.formula for each in found.delta] == [Or(Atom("R2", (FIRST,)), BEFORE), HERE]


def test_a_fixpoint_is_unfolded_and_its_past_read() -> None:
    before = Previous(ALWAYS, Defined("X", (X,)))
    twice = Fixpoint((Definition("X", (X,), Or(Distinct(P), Or(before, before))),), "X", (X,))
    found, stored = made(twice, "bag"), Atom("R1", (X,))
    assert found.gamma == (Or(Distinct(P), Or(stored, stored)),)
    assert found.delta[0].formula == Or(Distinct(HERE), Or(BEFORE, BEFORE))
