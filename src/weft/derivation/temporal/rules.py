"""``changed`` and ``passed``: what a change of its inputs, and what the passing of time, does to an operator.

- ``changed(E, deltas, log)``: E's delta where each input of E is in its old state and has that delta (section 4.2).
- ``passed(E, log)``: E's delta by the passing of time alone, from t to t_now, where the inputs of E are as they were
  at t (section 4.3): the result judged at t, brought to that judged at t_now.

The cases stand in the files of this package, one an operator.  Several inputs that change at once are taken one after
the other, the later ones seeing the earlier in their new state; of an input first what is deleted, then what is
inserted (``stepwise``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, TypeAlias

from weft.algebra.scalar import Scalar
from weft.algebra.temporal import Aggregation, Extension, Temporal, inputs, over
from weft.derivation.temporal.delta import NOTHING, Delta, applied, followed_by
from weft.errors import DerivationError


@dataclass(frozen=True)
class Step:
    """One equation that was used: its number in the paper, on which operator, given what, and what came of it."""

    rule: str
    operator: Temporal
    given: Temporal | None
    gave: Delta


@dataclass(frozen=True)
class Dropped:
    """What a refresh need not compute, since no tuple can satisfy it, and what contradicts what.

    ``predicate`` is the case that cannot be: p turns by its part ``part``.  ``whole`` where the term has no other case,
    so that there is nothing to take out (or to put in) at all.
    """

    rule: str
    operator: Temporal
    term: str
    part: Scalar
    predicate: Scalar
    why: tuple[Scalar | str, ...]
    whole: bool


@dataclass
class Log:
    """What a derivation used, in order, and what it dropped."""

    steps: list[Step] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def note(self, rule: str, operator: Temporal, given: Temporal | None, gave: Delta) -> Delta:
        """Writes a step down, and gives its delta."""
        self.steps.append(Step(rule, operator, given, gave))
        return gave


@singledispatch
def changed(operator: Any, deltas: tuple[Delta, ...], log: Log) -> Delta:
    """The delta of an operator whose inputs, in their old state below it, have these deltas (one an operand)."""
    raise DerivationError(f"a temporal view cannot have a {type(operator).__name__} in it: no rule maintains it")


@singledispatch
def passed(operator: Any, log: Log) -> Delta:
    """The delta of an operator by the passing of time, over inputs as they were at t."""
    raise DerivationError(f"a temporal view cannot have a {type(operator).__name__} in it: no rule maintains it")


Rule: TypeAlias = Callable[[Any, int, Temporal, Temporal], Delta]
"""(operator over the current states, position of the input, its ∇ or Δ, the operator's own current state) -> delta."""


def stepwise(
    operator: Temporal,
    deltas: tuple[Delta, ...],
    rules: tuple[tuple[str, Rule], tuple[str, Rule]],
    log: Log,
    *,
    pure: bool = False,
) -> Delta:
    """Applies one rule to what is deleted and one to what is inserted, of one operand after the other.

    ``rules`` has, for ∇ and for Δ, the rule's number and the rule; ``pure`` says that what they give is pure.
    """
    total, now = NOTHING, operator
    for position, delta in enumerate(deltas):
        old = operands(now)[position]
        for part, (number, rule) in zip((delta.deleted, delta.inserted), rules, strict=True):
            if part is None:
                continue
            given = _named(number, position)
            gave = replace(rule(now, position, part, applied(operator, total)), pure=pure)
            total = followed_by(total, log.note(given, now, part, gave))
            single = Delta(part, None) if rule is rules[0][1] else Delta(None, part)
            old = applied(old, single)
            now = with_operand(now, position, old)
    return total


def _named(number: str, position: int) -> str:
    """The number of the rule; where the operator has two sides, those of left and right are given as "left|right"."""
    sides = number.split("|")
    return sides[min(position, len(sides) - 1)]


def operands(operator: Temporal) -> tuple[Temporal, ...]:
    """An operator's inputs; a moving window is one operator, Π_w over the input of its EX_w."""
    if isinstance(operator, Aggregation) and isinstance(operator.input, Extension):
        return (operator.input.input,)
    return inputs(operator)


def with_operand(operator: Temporal, position: int, operand: Temporal) -> Temporal:
    """The operator with another operand at a position."""
    if isinstance(operator, Aggregation) and isinstance(operator.input, Extension):
        return over(operator, (over(operator.input, (operand,)),))
    parts = inputs(operator)
    return over(operator, (*parts[:position], operand, *parts[position + 1 :]))
