"""Check that a formula is monitorable: safe-range by MonPoly's rules (``weft.algebra.safe_range``).

The check tries the formula as written, then with negations pushed inwards, and then with copied bounds (Müller, Theory
and practice of runtime monitoring, section 5.3).  Bounds are copied only within a state.  A copy to another time would
make MonPoly look ahead.

For evaluation, the module rewrites a formula so that each comparison is on the right side of an AND.  On the right side
of an AND, an equality may bind a variable, and all other comparisons filter rows (``weft.algebra.formula.And``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import conjuncts
from weft.algebra.formula import And, Constant, Formula, Variable
from weft.algebra.safe_range import HINT, MONPOLY, Violation, ordered, violation
from weft.algebra.schema import DOUBLE, STRING
from weft.errors import FormulaError
from weft.formula.bound_propagation import negations_inwards, propagate_bounds
from weft.formula.written import written


def monitorable(formula: Formula, *, counts: bool = False, text_of: Callable[[Formula], str] = written) -> Formula:
    """Return an equivalent formula that passes the check.

    Raise FormulaError with the reason if no equivalent formula passes.  With ``counts``, duplicates matter, and the
    function does not rewrite a formula that fails the check.  ``text_of`` prints the faulty subformula for the error.
    """
    refused = violation(formula, MONPOLY)
    if refused is None:
        return formula
    if counts:
        raise _error(refused, text_of)
    inwards = negations_inwards(formula)
    again = violation(inwards, MONPOLY)
    if again is None:
        return inwards
    rewritten = algebra.rewritten(propagate_bounds(inwards), _ordered)
    last = violation(rewritten, MONPOLY)
    if last is None:
        return rewritten
    raise _error(last, text_of)


def _ordered(formula: Formula) -> Formula:
    """Sort the conjuncts so that each variable is bound before its use, if such an order exists."""
    if not isinstance(formula, And) or violation(formula, MONPOLY) is None:
        return formula
    chain, waiting = ordered(conjuncts(formula, differences=True), MONPOLY)
    return formula if waiting else reduce(And, chain)


def _error(refused: Violation, text_of: Callable[[Formula], str]) -> FormulaError:
    return FormulaError(
        f"the formula cannot be monitored: {refused.rule}", excerpt=f"    {text_of(refused.formula)}", hint=HINT
    )


_TRUE: Final = algebra.Truth(True)


def answerable(formula: Formula) -> Formula:
    """Convert a formula that passed ``monitorable`` to the form for evaluation."""
    match formula:
        case algebra.Comparison() | algebra.Not(formula=algebra.Comparison()):
            return _alone(formula)
        case And(left=left, right=algebra.Comparison() | algebra.Matches() as right):
            return And(answerable(left), right)
        case And(left=left, right=algebra.Not(formula=algebra.Comparison() | algebra.Matches()) as right):
            return And(answerable(left), right)
        case algebra.Since(left=algebra.Not(formula=excluded), right=right):
            # Here, an equality under NOT has the same variable on both sides.
            return algebra.with_parts(formula, (algebra.Not(answerable(excluded)), answerable(right)))
        case _:
            return algebra.with_parts(formula, tuple(map(answerable, algebra.parts(formula))))


def _alone(formula: Formula) -> Formula:
    """Outside an AND, a comparison binds one variable or is always true or false."""
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
    return Constant("" if variable.type == STRING else 0.0 if variable.type == DOUBLE else 0, variable.type)
