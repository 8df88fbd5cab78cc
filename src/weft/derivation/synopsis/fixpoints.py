"""Replace a fixpoint by an equivalent ◇ or ``since`` if one exists.

    µX.Q ∨ ▽X                                                          ◇1 Q
    µX.(εQ1) ∧ (Q2 ∨ ▽X)                                               Q1 since1 Q2
    µX.(Q1 ∧ εQ2) ∨ (Q1 ∧ (ε▽X ∧ ¬Q2)) ∨ (▽X ∧ (εQ1 ∧ ¬Q2))            Q1 since2 Q2
    µX.Q2 ∨ (Q1 ∧ ▽X), with sets                                       Q1 since Q2

All other fixpoints are evaluated state by state.  An example is a fixpoint whose Q1 is only a filter, such as v < 2.
This fixpoint has no equivalent ``since``, because ▽X binds the variables of Q1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.algebra.formula import (
    ALWAYS,
    And,
    Defined,
    Definition,
    Distinct,
    Fixpoint,
    Formula,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Variable,
    parts,
    subformulas,
    with_parts,
)
from weft.algebra.renaming import substituted
from weft.algebra.safe_range import EVALUATED, violation


def stepped(formula: Formula) -> bool:
    """Return whether a formula contains or refers to a fixpoint, and must therefore be evaluated state by state."""
    return any(isinstance(part, (Fixpoint, Defined)) for part in subformulas(formula))


def closures(formula: Formula, around: Mapping[str, Fixpoint] | None = None) -> Iterator[tuple[Formula, Formula]]:
    """Yield every part of the formula, each with its closure (definition 4.2).

    The closure replaces references to enclosing fixpoints by the fixpoints themselves.
    """
    within = dict(around or {})
    if isinstance(formula, Fixpoint):
        outer = closed(formula, within)
        assert isinstance(outer, Fixpoint)
        within |= {definition.name: outer for definition in formula.definitions}
    yield formula, closed(formula, within)
    for part in parts(formula):
        yield from closures(part, within)


def closed(formula: Formula, around: Mapping[str, Fixpoint]) -> Formula:
    """Replace each reference to a fixpoint by the closed fixpoint in ``around``."""
    if isinstance(formula, Defined):
        fixpoint = around.get(formula.name)
        return formula if fixpoint is None else replace(fixpoint, name=formula.name, arguments=formula.arguments)
    if isinstance(formula, Fixpoint):
        inside = {definition.name for definition in formula.definitions}
        around = {name: each for name, each in around.items() if name not in inside}
    return with_parts(formula, tuple(closed(part, around) for part in parts(formula)))


def recognised(formula: Fixpoint, *, sets: bool) -> Formula | None:
    """Return an equivalent ◇ or ``since``, or None if the module has no rule for the fixpoint.

    If ``sets`` is true, each answer counts once.
    """
    arguments = [each for each in formula.arguments if isinstance(each, Variable)]
    if len(formula.definitions) != 1 or len(set(arguments)) < len(formula.arguments):
        return None
    definition = formula.definitions[0]
    connective = _connective(definition, sets=sets)
    if connective is None or _speaks(connective, definition.name):
        return None
    if violation(connective, EVALUATED) is not None:  # without ▽X, the left side of ``since`` lacks a binding
        return None
    return substituted(connective, dict(zip(definition.parameters, arguments, strict=True)))


def _speaks(formula: Formula, name: str) -> bool:
    return any(isinstance(part, Defined) and part.name == name for part in subformulas(formula))


def _connective(definition: Definition, *, sets: bool) -> Once | Since | None:
    body, before = definition.body, Previous(ALWAYS, Defined(definition.name, definition.parameters))
    if (other := _beside(body, before)) is not None:
        return Once(ALWAYS, other, "first")
    if isinstance(body, And):
        for one, either in ((body.left, body.right), (body.right, body.left)):
            held = one if sets else one.formula if isinstance(one, Distinct) else None
            if held is not None and (other := _beside(either, before)) is not None:
                return Since(ALWAYS, held, other, "first")
    if sets and isinstance(body, Or):
        for one, held in ((body.left, body.right), (body.right, body.left)):
            if isinstance(held, And) and before in (held.left, held.right):
                return Since(ALWAYS, held.right if held.left == before else held.left, one, "any")
    return _since2(body, before, sets=sets)


def _beside(formula: Formula, before: Formula) -> Formula | None:
    """Return Q if the formula is Q ∨ ▽X, where ``before`` is ▽X, otherwise None."""
    if isinstance(formula, Or) and before in (formula.left, formula.right):
        return formula.right if formula.left == before else formula.left
    return None


def _since2(body: Formula, before: Formula, *, sets: bool) -> Since | None:
    def once(formula: Formula) -> Formula:
        return formula if sets else Distinct(formula)

    if not (isinstance(body, Or) and isinstance(body.left, Or) and isinstance(body.left.left, And)):
        return None
    q1, second = body.left.left.left, body.left.left.right
    q2 = second if sets else second.formula if isinstance(second, Distinct) else None
    if q2 is None:
        return None
    again = And(q1, And(once(before), Not(q2)))
    still = And(before, And(once(q1), Not(q2)))
    return Since(ALWAYS, q1, q2, "second") if body == Or(Or(And(q1, once(q2)), again), still) else None
