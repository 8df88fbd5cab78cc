"""Copy subformulas from the left side of an AND into the right side to limit the values of the variables there.

A subformula is copied only if the right side needs the bound.  The module also pushes negations inwards past AND and
OR, and removes double negations.
"""

from __future__ import annotations

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import is_test
from weft.algebra.formula import And, Formula, Interval, Variable, free_variables
from weft.algebra.renaming import without_clashes
from weft.algebra.safe_range import bound_variables


def propagate_bounds(formula: Formula) -> Formula:
    """Copy bounds into a formula, from the outermost subformula inwards.  Under set semantics, the answers remain the
    same.

    Bounds from outside a SINCE are not copied into the SINCE, because the formula would then look ahead.  The bounds of
    the left side come from the answers of the right side within the interval.
    """
    match formula:
        case And(left=left, right=right):
            return _conjunction(left, right)
        case algebra.Since(interval=interval, left=left, right=right, counting="any"):
            bounded = propagate_bounds(right)
            lacking = _lacks(left.formula if isinstance(left, algebra.Not) else left)
            if lacking and lacking <= set(free_variables(right)):
                given = algebra.Once(Interval(0, interval.high), bounded)
                return algebra.Since(interval, propagate_bounds(And(given, left)), bounded)
            return algebra.Since(interval, propagate_bounds(left), bounded)
        case _:
            return algebra.with_parts(formula, tuple(map(propagate_bounds, algebra.parts(formula))))


def _conjunction(left: Formula, right: Formula) -> Formula:
    match right:
        case And(left=one, right=other) if _helps(left, one):
            return propagate_bounds(And(propagate_bounds(And(left, one)), propagate_bounds(other)))
        case algebra.Or(left=one, right=other) if _helps(left, one):
            return algebra.Or(propagate_bounds(And(left, one)), propagate_bounds(And(left, other)))
        case algebra.Exists(formula=inner) if _helps(left, inner):
            renamed = without_clashes(right, set(free_variables(left)))
            return And(
                propagate_bounds(left), algebra.Exists(renamed.variables, propagate_bounds(And(left, renamed.formula)))
            )
        case algebra.Not(formula=inner) if _helps(left, inner) and not is_test(inner):
            return And(propagate_bounds(left), algebra.Not(propagate_bounds(And(left, inner))))
        case _:
            return And(propagate_bounds(left), propagate_bounds(right))


def _helps(left: Formula, right: Formula) -> bool:
    return bool(bound_variables(left) & _lacks(right))


def _lacks(formula: Formula) -> set[Variable]:
    return set(free_variables(formula)) - bound_variables(formula)


def negations_inwards(formula: Formula) -> Formula:
    """Push negations inwards past AND and OR.  Under set semantics, the answers remain the same.

    >>> from weft.formula.written import written
    >>> one, other = algebra.Atom("P", ()), algebra.Atom("Q", ())
    >>> written(negations_inwards(algebra.Not(algebra.And(one, algebra.Not(other)))))
    '(NOT P()) OR Q()'
    """
    return algebra.rewritten(_pushed(formula), _single)


def _pushed(formula: Formula) -> Formula:
    match formula:
        case algebra.Not(formula=(And() | algebra.Or()) as inner):
            return _pushed(de_morgan(inner))
        case _:
            return algebra.with_parts(formula, tuple(map(_pushed, algebra.parts(formula))))


def de_morgan(formula: And | algebra.Or) -> Formula:
    """Push the negation of ¬(P ∧ Q) or ¬(P ∨ Q) inwards, where ``formula`` is the formula under the negation."""
    left, right = algebra.Not(formula.left), algebra.Not(formula.right)
    return algebra.Or(left, right) if isinstance(formula, And) else And(left, right)


def _single(formula: Formula) -> Formula:
    match formula:
        case algebra.Not(formula=algebra.Not(formula=inner)):
            return inner
        case _:
            return formula
