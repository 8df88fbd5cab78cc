"""Find integer divisions whose divisor may be 0, and the conjuncts that exclude the divisor 0.

A conjunction applies its tests with a division (``dividing``) after all other conjuncts.  A conjunct that excludes the
divisor 0 therefore prevents a division by 0.  If no conjunct excludes the divisor 0, a divisor of 0 raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.algebra.conjuncts import compares, conjuncts, is_test
from weft.algebra.formula import (
    And,
    Comparison,
    Computed,
    Constant,
    Formula,
    Not,
    Term,
    parts,
)
from weft.algebra.schema import DOUBLE
from weft.derivation.synopsis.prepared import Semantics

_DIVIDES: Final = ("/", "MOD")


def divisions(term: Term) -> Iterator[Computed]:
    """Yield the integer divisions in a term, innermost first, except divisions by a constant other than 0."""
    if not isinstance(term, Computed):
        return
    for argument in term.arguments:
        yield from divisions(argument)
    if term.operation in _DIVIDES and term.type != DOUBLE:
        divisor = term.arguments[1]
        if not isinstance(divisor, Constant) or divisor.value == 0:
            yield term


def dividing(formula: Formula) -> tuple[Computed, ...]:
    """Return the divisions in a comparison or in NOT of a comparison.  For any other formula, the result is empty."""
    match formula:
        case Not(formula=Comparison() as test) | (Comparison() as test):
            return (*divisions(test.left), *divisions(test.right))
        case _:
            return ()


def unguarded(formula: Formula, semantics: Semantics) -> Computed | None:
    """Return the first division whose divisor may be 0, or None if conjuncts exclude 0 for every divisor."""
    return next(_unguarded(formula, semantics), None)


def _unguarded(formula: Formula, semantics: Semantics) -> Iterator[Computed]:
    if not isinstance(formula, And):
        if is_test(formula):
            yield from dividing(formula)
        for part in parts(formula):
            yield from _unguarded(part, semantics)
        return
    every = list(conjuncts(formula, counts=semantics != "set"))
    if len(every) == 1:  # in a difference, the test applies to the rows of the left side
        every = [formula.left, formula.right]
    safe = set(_kept_from_0(formula, semantics))
    for part in every:
        if compares(part):
            yield from (division for division in dividing(part) if division.arguments[1] not in safe)
        else:
            yield from _unguarded(part, semantics)


def _kept_from_0(formula: Formula, semantics: Semantics) -> Iterator[Term]:
    """Yield the terms that are not 0 in any answer of the formula."""
    match formula:
        case And(left=left, right=right):
            yield from _kept_from_0(left, semantics)
            yield from _kept_from_0(right, semantics)
        case Not(formula=Comparison(operator="=", left=left, right=right)) if semantics == "set":
            yield from _nonzero(left, right)
        case Comparison() if not dividing(formula):
            yield from _compared(formula)
        case _:
            return


def _compared(test: Comparison) -> Iterator[Term]:
    left, right = test.left, test.right
    match test.operator:
        case "<>":
            yield from _nonzero(left, right)
        case "<" | "<=":
            least = 0 if test.operator == "<" else 1
            if isinstance(left, Constant) and isinstance(left.value, int) and left.value >= least:
                yield right
            if isinstance(right, Constant) and isinstance(right.value, int) and right.value <= -least:
                yield left
        case _:
            return


def _nonzero(left: Term, right: Term) -> Iterator[Term]:
    """Yield the side of an inequality that differs from 0."""
    for one, other in ((left, right), (right, left)):
        if isinstance(other, Constant) and other.value == 0:
            yield one
