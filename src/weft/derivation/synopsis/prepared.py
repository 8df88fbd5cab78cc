"""Give the same form to formulas that a semantics does not distinguish."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra import formula as algebra
from weft.derivation.synopsis.fixpoints import recognised

Semantics: TypeAlias = OneOf["set", "bag", "minmax"]
"""The way to count answers.  With "set", each answer counts once.  With "bag", counts follow figure 2 of the paper.
With "minmax", ∧ has the smallest count of the operands, and ∨ and ∃ have the largest (section 5 of the paper).
"""
LONGEST: Final = 2**61
"""A length of time, in microseconds, that no log reaches.  Instants are at most about 2^60 microseconds from 1970."""


def prepared(formula: algebra.Formula, semantics: Semantics) -> algebra.Formula:
    """Return an equivalent formula without the distinctions that the semantics ignores.

    With "set" and "minmax", since1, since2, ◇1 and ◇2 have the count 1.  ◇1 and ◇2 become a plain ◇.  since1 and since2
    become a plain ``since`` with Q2 ∧ Q1 in place of Q2.  A lower bound of more than ``LONGEST`` becomes ``LONGEST``.
    An upper bound of more than ``LONGEST`` is removed.
    """
    return algebra.rewritten(formula, lambda part: _prepared(part, semantics))


def _prepared(formula: algebra.Formula, semantics: Semantics) -> algebra.Formula:
    match formula:
        case (
            algebra.Once(interval=interval) | algebra.Since(interval=interval) | algebra.Previous(interval=interval)
        ) if interval != _within(interval):
            return _prepared(replace(formula, interval=_within(interval)), semantics)
        case algebra.Distinct(formula=inner) if semantics == "set":
            return inner
        case algebra.Once(counting="first" | "second") if semantics != "bag":
            return replace(formula, counting="any")
        case algebra.Since(left=left, right=right, counting="first" | "second") if semantics != "bag":
            return algebra.Since(formula.interval, left, _both(left, right, semantics), "any")
        case algebra.Since(left=algebra.Truth(value=True), right=right, counting=counting, strict=False):
            return algebra.Once(formula.interval, right, counting)
        case algebra.Fixpoint():
            connective = recognised(formula, sets=semantics == "set")
            if connective is None or (semantics == "minmax" and isinstance(connective, algebra.Once)):
                return formula  # µX.Q ∨ ▽X has the greatest count of Q, but ◇1 Q = (ε true) since1 Q counts at most 1
            return _prepared(connective, semantics)
        case algebra.Not(formula=algebra.Not(formula=inner)) if semantics == "set":
            return inner
        case _:
            return formula


def _both(left: algebra.Formula, right: algebra.Formula, semantics: Semantics) -> algebra.Formula:
    """Return Q2 ∧ Q1 with each answer of Q2 once, because ¬Q1 must remove all duplicates of an answer."""
    return algebra.And(right if semantics == "set" else algebra.Distinct(right), left)


def _within(interval: algebra.Interval) -> algebra.Interval:
    high = interval.high
    return algebra.Interval(min(interval.low, LONGEST), None if high is None or high >= LONGEST else high)
