"""Decide whether a formula is safe-range, a syntactic condition for finitely many answers.

A predicate or an equality must *bind* each variable before the variable is negated or compared.  At a time point,
``P(x) AND NOT Q(x)`` has finitely many answers, but ``NOT Q(x)`` has infinitely many.

There is one analysis, and a set of ``Rules`` for each use.  ``MONPOLY`` judges formulas as users write them in MonPoly,
µTL and 2-FOL.  ``EVALUATED`` judges the formulas that Weft evaluates, among them those of DejaVu after their rewriting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import applicable, compares, conjuncts, is_test
from weft.algebra.formula import And, Formula, Not, Variable, free_variables, variables_of

_PREDICATE: Final = "the terms of a predicate must be variables or constants; compute other terms with x = …"
_EQUALITY: Final = "an equality that stands alone must compare a variable with a constant"
_ORDER: Final = "<, <=, SUBSTRING and MATCHES need values that another formula binds; write … AND x < y"
_UNEQUAL: Final = "an inequality holds for infinitely many values; write … AND NOT x = y, where … binds both"
_NEGATION: Final = (
    "NOT holds for infinitely many values, unless NOT follows AND or the negated formula has no free variable"
)
_COMPARED: Final = (
    "a comparison after AND must use only variables of the left side, or have the form x = t with all "
    "variables of t on the left side"
)
_SUBSET: Final = "the free variables after AND NOT, or left of SINCE, must also be free on the other side"
_DISJUNCTION: Final = "both sides of OR must have the same free variables"
_UNUSED: Final = "a variable of EXISTS, of an aggregation or of a definition must be free in the formula there"
HINT: Final = "Bind each variable by a predicate before you negate or compare the variable."


@dataclass(frozen=True)
class Rules:
    """The rules that differ between uses.

    With ``in_order``, a conjunct may only use variables of the conjuncts on its left.  With ``plain``, a predicate has
    no computed terms, and a comparison outside a conjunction is an equality with a constant.
    """

    in_order: bool
    plain: bool


MONPOLY: Final = Rules(in_order=True, plain=True)
EVALUATED: Final = Rules(in_order=False, plain=False)


@dataclass(frozen=True)
class Violation:
    """A subformula that is not safe-range, together with the broken rule as a sentence."""

    formula: Formula
    rule: str

    @property
    def unbound(self) -> tuple[Variable, ...]:
        """The free variables of the subformula that nothing binds, in the order of their names."""
        return tuple(sorted(set(free_variables(self.formula)) - bound_variables(self.formula)))


def violation(formula: Formula, rules: Rules) -> Violation | None:
    """Return the first violation in the formula.  Return None if the formula is safe-range."""
    match formula:
        case And(left=left, right=right) if rules.in_order or _is_difference(right):
            return violation(left, rules) or _following(formula, set(free_variables(left)), right, rules)
        case And():
            chain, waiting = ordered(list(conjuncts(formula)), rules)
            known = {variable for part in chain for variable in free_variables(part)}
            return _following(formula, known, waiting[0], rules) if waiting else None
        case algebra.Since(left=left, right=right):
            held = left.formula if isinstance(left, Not) else left
            return violation(right, rules) or broken(formula, rules) or violation(held, rules)
        case Not(formula=algebra.Comparison(operator="=")) if rules.plain:
            return broken(formula, rules)
        case _:
            reasons = (violation(part, rules) for part in algebra.parts(formula))
            return broken(formula, rules) or next((each for each in reasons if each is not None), None)


def broken(formula: Formula, rules: Rules) -> Violation | None:
    """Return the violation of the outermost operator.  Return None if the operator breaks no rule.

    The function does not check the subformulas, and it accepts every conjunction.
    """
    rule = _broken(formula, rules)
    return Violation(formula, rule) if rule is not None else None


def _broken(formula: Formula, rules: Rules) -> str | None:
    match formula:
        case algebra.Comparison() | algebra.Matches():
            return _alone(formula, rules)
        case Not(formula=algebra.Comparison(operator="=") as equality) if rules.plain:
            constants = isinstance(equality.left, algebra.Constant) and isinstance(equality.right, algebra.Constant)
            same = isinstance(equality.left, Variable) and equality.left == equality.right
            return None if same or constants else _UNEQUAL
        case Not(formula=inner):
            return _NEGATION if free_variables(inner) else None
        case algebra.Or(left=left, right=right):
            return _DISJUNCTION if set(free_variables(left)) != set(free_variables(right)) else None
        case algebra.Since(left=left, right=right):
            return None if set(free_variables(left)) <= set(free_variables(right)) else _SUBSET
        case algebra.Exists(variables=names, formula=inner):
            return None if set(names) <= set(free_variables(inner)) else _UNUSED
        case algebra.Aggregate(groups=groups, item=item, formula=inner):
            return None if {*groups, *variables_of(item)} <= set(free_variables(inner)) else _UNUSED
        case algebra.Fixpoint(definitions=definitions) if any(
            set(each.parameters) != set(free_variables(each.body)) for each in definitions
        ):
            return _UNUSED
        case algebra.Atom(terms=terms) | algebra.Fixpoint(arguments=terms) | algebra.Defined(arguments=terms):
            computed = any(isinstance(term, algebra.Computed) for term in terms)
            return _PREDICATE if computed and (rules.plain or not _binds_all(formula)) else None
        case _:
            return None


def _alone(test: Formula, rules: Rules) -> str | None:
    """Check a test outside a conjunction."""
    equality = isinstance(test, algebra.Comparison) and test.operator == "="
    rule = _EQUALITY if equality else _ORDER
    if not rules.plain:
        return None if applicable(test, ()) else rule
    if not isinstance(test, algebra.Comparison) or not equality:
        return rule
    sides = ((test.left, test.right), (test.right, test.left))
    simple = (isinstance(one, algebra.Constant) and not isinstance(other, algebra.Computed) for one, other in sides)
    return None if any(simple) else rule


def _binds_all(formula: Formula) -> bool:
    return set(free_variables(formula)) <= bound_variables(formula)


def _is_difference(right: Formula) -> bool:
    return isinstance(right, Not) and not is_test(right.formula)


def _following(whole: Formula, known: Collection[Variable], part: Formula, rules: Rules) -> Violation | None:
    """Check a conjunct of ``whole`` that follows conjuncts with the variables ``known``."""
    if compares(part):
        return None if applicable(part, known) else Violation(whole, _COMPARED)
    if isinstance(part, Not):
        return violation(part.formula, rules) if set(free_variables(part)) <= set(known) else Violation(whole, _SUBSET)
    return violation(part, rules)


def ordered(parts: Iterable[Formula], rules: Rules) -> tuple[list[Formula], list[Formula]]:
    """Sort conjuncts so that each variable is bound before its use.

    Return the sorted conjuncts, and the conjuncts that cannot follow them.
    """
    chain: list[Formula] = []
    waiting = list(parts)
    known: set[Variable] = set()

    def may_follow(part: Formula) -> bool:
        return (_following(part, known, part, rules) if chain else violation(part, rules)) is None

    while (part := next(filter(may_follow, waiting), None)) is not None:
        waiting.remove(part)
        chain.append(part)
        known |= set(free_variables(part))
    return chain, waiting


def bound_variables(formula: Formula) -> set[Variable]:
    """Return the free variables that have finitely many values in the answers of the formula."""
    match formula:
        case algebra.Comparison(operator="=", left=Variable() as variable, right=algebra.Constant()):
            return {variable}
        case algebra.Comparison(operator="=", left=algebra.Constant(), right=Variable() as variable):
            return {variable}
        case algebra.Comparison() | algebra.Not() | algebra.Truth():
            return set()
        case algebra.Matches(groups=terms) | algebra.Atom(terms=terms):
            return {term for term in terms if isinstance(term, Variable)}
        case algebra.Fixpoint(arguments=terms) | algebra.Defined(arguments=terms):
            return {term for term in terms if isinstance(term, Variable)}
        case And(left=left, right=right):
            return _bound_by_both(left, right)
        case algebra.Or(left=left, right=right):
            return bound_variables(left) & bound_variables(right)
        case algebra.Since(right=right):
            return bound_variables(right)
        case algebra.Exists(variables=variables, formula=inner):
            return bound_variables(inner) - set(variables)
        case algebra.Aggregate(output=output, groups=groups, formula=inner):
            return {output} | (bound_variables(inner) & set(groups))
        case algebra.Distinct(formula=inner) | algebra.Previous(formula=inner) | algebra.Once(formula=inner):
            return bound_variables(inner)


def _bound_by_both(left: Formula, right: Formula) -> set[Variable]:
    bound = bound_variables(left) | bound_variables(right)
    match right:
        case algebra.Comparison(operator="=", left=Variable() as one, right=Variable() as other) if {
            one,
            other,
        } & bound:
            return bound | {one, other}
        case _:
            return bound
