"""Check that a formula is monitorable, which is MonPoly's syntactic condition for finitely many answers.

A predicate or an equality must bind each variable before the variable is negated or compared.  At a time point, ``P(x)
AND NOT Q(x)`` has finitely many answers, but ``NOT Q(x)`` has infinitely many answers.

The check tries the formula as written, then with negations pushed inwards, and then with copied bounds (Müller, Theory
and practice of runtime monitoring, section 5.3).  Bounds are copied only within a state.  A copy to another time would
make MonPoly look ahead.

For evaluation, the module rewrites a formula so that each comparison is on the right side of an AND.  On the right side
of an AND, an equality may bind a variable, and all other comparisons filter rows (``weft.algebra.formula.And``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import applicable, compares
from weft.algebra.formula import And, Constant, Formula, Variable, free_variables
from weft.algebra.schema import DOUBLE, STRING
from weft.errors import FormulaError
from weft.formula.bound_propagation import negations_inwards, propagate_bounds
from weft.formula.written import written

_PREDICATE = "the terms of a predicate must be variables or constants; compute other terms with x = …"
_EQUALITY = "an equality that stands alone must compare a variable with a constant"
_ORDER = "<, <=, SUBSTRING and MATCHES need values that another formula binds; write … AND x < y"
_UNEQUAL = "an inequality holds for infinitely many values; write … AND NOT x = y, where … binds both"
_NEGATION = "NOT holds for infinitely many values, unless NOT follows AND or the negated formula has no free variable"
_COMPARED = (
    "a comparison after AND must use only variables of the left side, or have the form x = t with all "
    "variables of t on the left side"
)
_SUBSET = "the free variables after AND NOT, or left of SINCE, must also be free on the other side"
_DISJUNCTION = "both sides of OR must have the same free variables"


@dataclass(frozen=True)
class SafeRangeViolation:
    """A subformula that fails the check, together with the broken rule."""

    formula: Formula
    rule: str

    def error(self, text_of: Callable[[Formula], str] = written) -> FormulaError:
        """Return the error for the formula.  ``text_of`` prints the faulty subformula."""
        return FormulaError(
            f"the formula cannot be monitored: {self.rule}",
            excerpt=f"    {text_of(self.formula)}",
            hint="Bind each variable by a predicate before you negate or compare the variable.",
        )


def monitorable(formula: Formula, *, counts: bool = False, text_of: Callable[[Formula], str] = written) -> Formula:
    """Return an equivalent formula that passes the check.

    Raise FormulaError with the reason if no equivalent formula passes.  With ``counts``, duplicates matter, and the
    function does not rewrite a formula that fails the check.  ``text_of`` prints the faulty subformula for the error.
    """
    refused = safe_range_violation(formula)
    if refused is None:
        return formula
    if counts:
        raise refused.error(text_of)
    inwards = negations_inwards(formula)
    again = safe_range_violation(inwards)
    if again is None:
        return inwards
    rewritten = algebra.rewritten(propagate_bounds(inwards), _ordered)
    last = safe_range_violation(rewritten)
    if last is None:
        return rewritten
    raise last.error(text_of)


def _ordered(formula: Formula) -> Formula:
    """Sort the conjuncts so that each variable is bound before its use, if such an order exists."""
    if not isinstance(formula, And) or safe_range_violation(formula) is None:
        return formula
    waiting = conjuncts(formula)
    chain: Formula | None = None
    while waiting:
        following = next((part for part in waiting if _may_follow(chain, part)), None)
        if following is None:
            return formula
        waiting.remove(following)
        chain = following if chain is None else And(chain, following)
    return chain or formula


def _may_follow(chain: Formula | None, part: Formula) -> bool:
    if chain is None:
        return safe_range_violation(part) is None
    return _conjunct(part, chain, part) is None


def conjuncts(formula: Formula) -> list[Formula]:
    """Return the conjuncts of nested ANDs, from left to right."""
    if isinstance(formula, And):
        return [*conjuncts(formula.left), *conjuncts(formula.right)]
    return [formula]


def safe_range_violation(formula: Formula) -> SafeRangeViolation | None:
    """Return the first violation in the formula.  Return None if the formula passes the check."""
    match formula:
        case algebra.Truth():
            return None
        case algebra.Atom(terms=terms) | algebra.Fixpoint(arguments=terms) | algebra.Defined(arguments=terms) if any(
            isinstance(term, algebra.Computed) for term in terms
        ):
            return SafeRangeViolation(formula, _PREDICATE)
        case algebra.Comparison(operator="=", left=left, right=right):
            simple = isinstance(left, algebra.Constant) and not isinstance(right, algebra.Computed)
            turned = isinstance(right, algebra.Constant) and not isinstance(left, algebra.Computed)
            return None if simple or turned else SafeRangeViolation(formula, _EQUALITY)
        case algebra.Comparison() | algebra.Matches():
            return SafeRangeViolation(formula, _ORDER)
        case algebra.Not(formula=inner):
            return _negation(formula, inner)
        case algebra.And(left=left, right=right):
            return safe_range_violation(left) or _conjunct(formula, left, right)
        case algebra.Or(left=left, right=right):
            if set(free_variables(left)) != set(free_variables(right)):
                return SafeRangeViolation(formula, _DISJUNCTION)
            return safe_range_violation(left) or safe_range_violation(right)
        case algebra.Since(left=left, right=right):
            if (reason := safe_range_violation(right)) is not None:
                return reason
            if not set(free_variables(left)) <= set(free_variables(right)):
                return SafeRangeViolation(formula, _SUBSET)
            return safe_range_violation(left.formula if isinstance(left, algebra.Not) else left)
        case _:
            return next((reason for part in algebra.parts(formula) if (reason := safe_range_violation(part))), None)


def _negation(formula: algebra.Not, inner: Formula) -> SafeRangeViolation | None:
    if isinstance(inner, algebra.Comparison) and inner.operator == "=":
        same = isinstance(inner.left, Variable) and inner.left == inner.right
        closed = isinstance(inner.left, algebra.Constant) and isinstance(inner.right, algebra.Constant)
        return None if same or closed else SafeRangeViolation(formula, _UNEQUAL)
    return SafeRangeViolation(formula, _NEGATION) if free_variables(inner) else safe_range_violation(inner)


def _conjunct(formula: Formula, left: Formula, right: Formula) -> SafeRangeViolation | None:
    given = set(free_variables(left))
    if compares(right):
        return None if applicable(right, given) else SafeRangeViolation(formula, _COMPARED)
    if isinstance(right, algebra.Not):
        if not set(free_variables(right)) <= given:
            return SafeRangeViolation(formula, _SUBSET)
        return safe_range_violation(right.formula)
    return safe_range_violation(right)


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
