"""Prepare a formula for a semantics: parts that differ in a way that the semantics ignores get the same form."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.formula import (
    And,
    Distinct,
    Fixpoint,
    Formula,
    Interval,
    Not,
    Once,
    Previous,
    Since,
    Truth,
    rewritten,
)
from weft.derivation.synopsis.fixpoints import recognised

Semantics: TypeAlias = OneOf["set", "bag", "minmax"]
"""The semantics of answers: each answer counts once; or counts follow figure 2 of the paper; or they are the minimum
(∧) and the maximum (∨, ∃) of the operands' counts (section 5 of the paper).
"""
LONGEST: Final = 2**61
"""A length of time in microseconds that is longer than any log; instants are at most about 2^60 away from 1970."""


def prepared(formula: Formula, semantics: Semantics) -> Formula:
    """Return an equivalent formula without the distinctions that the semantics ignores.

    Under set semantics, and under minimum and maximum, since1, since2, ◇1 and ◇2 have the count 1, so they become a
    plain ◇ or a plain since over the conjunction with Q1.  A lower bound longer than any log is shortened to
    ``LONGEST``; an upper bound longer than any log is removed.
    """
    return rewritten(formula, lambda part: _prepared(part, semantics))


def _prepared(formula: Formula, semantics: Semantics) -> Formula:
    match formula:
        case Once(interval=interval) | Since(interval=interval) | Previous(interval=interval) if interval != _within(
            interval
        ):
            return _prepared(replace(formula, interval=_within(interval)), semantics)
        case Distinct(formula=inner) if semantics == "set":
            return inner
        case Once(counting="first" | "second") if semantics != "bag":
            return replace(formula, counting="any")
        case Since(left=left, right=right, counting="first" | "second") if semantics != "bag":
            return Since(formula.interval, left, _both(left, right, semantics), "any")
        case Since(left=Truth(value=True), right=right, counting=counting):
            return Once(formula.interval, right, counting)
        case Fixpoint():
            found = recognised(formula, sets=semantics == "set")
            if found is None or (semantics == "minmax" and isinstance(found, Once)):
                return formula  # µX.Q ∨ ▽X has the greatest count of Q, but ◇1 Q = (ε true) since1 Q counts at most 1
            return _prepared(found, semantics)
        case Not(formula=Not(formula=inner)) if semantics == "set":
            return inner
        case _:
            return formula


def _both(left: Formula, right: Formula, semantics: Semantics) -> Formula:
    """Return Q2 ∧ Q1 with each answer of Q2 once, so that ¬Q1 removes the answer instead of one of its duplicates."""
    return And(right if semantics == "set" else Distinct(right), left)


def _within(interval: Interval) -> Interval:
    high = interval.high
    return Interval(min(interval.low, LONGEST), None if high is None or high >= LONGEST else high)
