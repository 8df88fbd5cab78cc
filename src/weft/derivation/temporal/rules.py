"""Define ``propagate`` and ``refresh``, which return the delta of one operator.

- ``propagate(E, deltas, trace)`` returns the delta of E for deltas of the inputs (section 4.2). ``propagate`` reads the
  old states of E and its inputs.
- ``refresh(E, trace)`` returns the delta of E for the passing of time from t to t_now, over the inputs as of t (section
  4.3).  The delta leads from the result at t to the result at t_now.

Each operator has its cases in one file of this package.  If several inputs change at once, the rules process one input
after the other (``stepwise``).  A later input sees the new state of the earlier inputs.  For each input, deletions come
before insertions.

If the predicate of an operator mentions period sets, the deltas of its inputs are made pure first (Theorem 4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, TypeAlias

from weft.algebra.relation import Grouped
from weft.algebra.scalar import Scalar
from weft.algebra.temporal import Extension, Temporal, inputs, over
from weft.derivation.temporal.delta import NOTHING, Delta, applied, followed_by, plus, pure
from weft.errors import DerivationError


@dataclass(frozen=True)
class DerivationStep:
    """One use of an equation: its number in the paper, the operator, the change of the input, and the result."""

    rule: str
    operator: Temporal
    change: Temporal | None
    delta: Delta


@dataclass(frozen=True)
class Dropped:
    """A case that the refresh does not compute, because its conditions ``why`` contradict each other.

    ``predicate`` is the unsatisfiable predicate of the case.  ``part`` is the conjunct that changes.  If ``whole`` is
    true, no case of the term is satisfiable, and the term is empty.
    """

    rule: str
    operator: Temporal
    term: str
    part: Scalar
    predicate: Scalar
    why: tuple[Scalar | str, ...]
    whole: bool


@dataclass
class DerivationTrace:
    """The steps of a derivation, in order, and the cases that the derivation dropped."""

    steps: list[DerivationStep] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def record(self, rule: str, operator: Temporal, change: Temporal | None, delta: Delta) -> Delta:
        """Record a step and return its delta."""
        self.steps.append(DerivationStep(rule, operator, change, delta))
        return delta


@singledispatch
def propagate(operator: Any, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Return the delta of an operator for the deltas of its inputs.  The operator reads the old states of its
    inputs.
    """
    raise DerivationError(f"a temporal view cannot contain {type(operator).__name__}: no rule maintains it")


@singledispatch
def refresh(operator: Any, trace: DerivationTrace) -> Delta:
    """Return the delta of an operator for the passing of time, over its inputs as of t."""
    raise DerivationError(f"a temporal view cannot contain {type(operator).__name__}: no rule maintains it")


Rule: TypeAlias = Callable[[Any, int, Temporal, Temporal], Delta]
"""A function that returns an operator's delta for the change of one input.  The arguments are the operator over its
current inputs, the position of the changed input, the ∇ or Δ of that input, and the operator's current result.
"""


def stepwise(
    operator: Temporal,
    deltas: tuple[Delta, ...],
    rules: tuple[tuple[str, Rule], tuple[str, Rule]],
    trace: DerivationTrace,
) -> Delta:
    """Apply the rules to the deletions of all inputs, then to the insertions of all inputs.

    In this order, no input has a part of the result deleted that another input has inserted before.  ``rules`` has a
    pair (number, rule) for ∇, and a pair for Δ.
    """
    total, now = NOTHING, operator
    for number, rule in rules:
        for position, delta in enumerate(deltas):
            deleting = rule is rules[0][1]
            part = delta.deleted if deleting else delta.inserted
            if part is None:
                continue
            result = rule(now, position, part, applied(operator, total))
            total = followed_by(total, trace.record(_named(number, position), now, part, result))
            single = Delta(part, None) if deleting else Delta(None, part)
            now = with_operand(now, position, applied(operands(now)[position], single))
    return total


def _named(number: str, position: int) -> str:
    """If ``number`` has the form "left|right", each input of the operator has its own number."""
    sides = number.split("|")
    return sides[min(position, len(sides) - 1)]


def operands(operator: Temporal) -> tuple[Temporal, ...]:
    """Return the operator's inputs.  For an aggregate over a moving window, return the input of EX_w."""
    if isinstance(operator, Grouped) and isinstance(operator.input, Extension):
        return (operator.input.input,)
    return inputs(operator)


def with_operand(operator: Temporal, position: int, operand: Temporal) -> Temporal:
    """Return the operator with ``operand`` at ``position``."""
    if isinstance(operator, Grouped) and isinstance(operator.input, Extension):
        return over(operator, (over(operator.input, (operand,)),))
    parts = inputs(operator)
    return over(operator, (*parts[:position], operand, *parts[position + 1 :]))


def purified(operator: Temporal, deltas: tuple[Delta, ...], trace: DerivationTrace) -> tuple[Delta, ...]:
    """Make the deltas of an operator's inputs pure.  Record a step for each delta that was not pure."""
    made = []
    for old, delta in zip(operands(operator), deltas, strict=True):
        better = pure(old, delta)
        if better is not delta:
            trace.record("4.3", old, plus(delta.deleted, delta.inserted), better)
        made.append(better)
    return tuple(made)
