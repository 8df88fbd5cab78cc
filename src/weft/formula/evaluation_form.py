"""Rewrite a formula for evaluation: comparisons stand only on the right of an AND.

There an equality may bind a variable, and all other comparisons filter (``weft.algebra.formula.And``).
"""

from __future__ import annotations

from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.formula import And, Constant, Formula, Variable
from weft.algebra.schema import DOUBLE, STRING

_TRUE: Final = algebra.Truth(True)


def answerable(formula: Formula) -> Formula:
    """Return a formula that passed ``monitorable`` in the form for evaluation."""
    match formula:
        case algebra.Comparison() | algebra.Not(formula=algebra.Comparison()):
            return _alone(formula)
        case And(left=left, right=algebra.Comparison() | algebra.Matches() as right):
            return And(answerable(left), right)
        case And(left=left, right=algebra.Not(formula=algebra.Comparison() | algebra.Matches()) as right):
            return And(answerable(left), right)
        case algebra.Since(left=algebra.Not(formula=excluded), right=right):
            # NOT of an equality stands alone only if both sides are the same variable.
            return algebra.with_parts(formula, (algebra.Not(answerable(excluded)), answerable(right)))
        case _:
            return algebra.with_parts(formula, tuple(map(answerable, algebra.parts(formula))))


def _alone(formula: Formula) -> Formula:
    """Rewrite a comparison that stands alone: a variable has one value, or the comparison is true or false."""
    negated = isinstance(formula, algebra.Not)
    inner = formula.formula if isinstance(formula, algebra.Not) else formula
    if not isinstance(inner, algebra.Comparison):
        return formula
    left, right = inner.left, inner.right
    if isinstance(left, Constant) and isinstance(right, Constant):
        return algebra.Truth((left.value == right.value) != negated)
    if negated and isinstance(left, Variable):
        one = And(_TRUE, algebra.Comparison("=", left, _some(left)))
        return And(one, algebra.Not(one))
    return And(_TRUE, inner)


def _some(variable: Variable) -> Constant:
    """Return some value of the variable's type."""
    return Constant("" if variable.type == STRING else 0.0 if variable.type == DOUBLE else 0, variable.type)
