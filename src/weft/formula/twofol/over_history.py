"""Rewrite a two-sorted formula to a formula over the stored history, if the formula has no synopsis.

Let Q be the body of a quantifier over a time point t.  Let T be the relation of the existing time points.  The module
replaces Q by T(t) ∧ Q.  This replacement changes no count.  In T(t) ∧ Q, the time point t is an ordinary column of
numbers.

P(x) AT t reads the rows of P at all time points so far, together with the time points.  The translation of P(x) AT t is
◇ of a dated predicate, whose synopsis is the history itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import count

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import compares
from weft.algebra.formula import (
    ALWAYS,
    NOW,
    POINTS,
    TIME,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Exists,
    Formula,
    Not,
    Once,
    Term,
    Variable,
    dated,
    distance,
    free_variables,
    with_terms,
    with_variables,
)
from weft.algebra.schema import BIGINT
from weft.formula.bound_propagation import negations_inwards
from weft.formula.monitorable import answerable, monitorable
from weft.formula.twofol.written import two_sorted_text


def over_history(formula: Formula, *, counts: bool) -> Formula:
    """Return the formula over dated predicates.  Raise FormulaError if the formula has infinitely many answers.

    With ``counts``, duplicates matter, so ``monitorable`` does not rewrite the formula.
    """
    given = formula if counts else negations_inwards(formula)
    ranged = _of_now(_ranged(given), given)
    safe = answerable(monitorable(ranged, counts=counts, text_of=two_sorted_text))
    return _Evaluated(counts=counts).formula(safe)


def _of_now(formula: Formula, given: Formula) -> Formula:
    return Exists((NOW,), _within(NOW, formula)) if NOW in free_variables(given) else formula


def _ranged(formula: Formula) -> Formula:
    below = algebra.with_parts(formula, tuple(map(_ranged, algebra.parts(formula))))
    match below:
        case Exists(variables=variables, formula=inner):
            for variable in variables:
                inner = _within(variable, inner) if variable.type == TIME else inner
            return Exists(variables, inner)
        case algebra.Aggregate(formula=inner):
            return algebra.with_parts(below, (_of_now(inner, inner),))
        case _:
            return below


def _within(time: Variable, formula: Formula) -> Formula:
    """Return T(t) ∧ Q.  If necessary, insert T(t) before a comparison, in each side of an OR, or inside EXISTS."""
    point = Atom(POINTS, (time,))
    if time not in free_variables(formula):
        return And(point, formula)
    match formula:
        case Atom():
            return formula
        case And(left=left, right=right):
            return _conjunction(time, left, right)
        case algebra.Or(left=left, right=right):
            return algebra.Or(_within(time, left), _within(time, right))
        case Not(formula=inner):
            return And(point, Not(_inside(time, inner)))
        case Exists() | algebra.Distinct() | algebra.Aggregate():
            return algebra.with_parts(formula, tuple(_within(time, part) for part in algebra.parts(formula)))
        case _:
            return And(point, formula)


def _conjunction(time: Variable, left: Formula, right: Formula) -> Formula:
    if time not in free_variables(right):
        return And(_within(time, left), right)
    if isinstance(right, Not):
        return And(_within(time, left), Not(_inside(time, right.formula)))
    if compares(right):
        return And(_within(time, left), right)
    return And(_within(time, left) if time in free_variables(left) else left, _within(time, right))


def _inside(time: Variable, formula: Formula) -> Formula:
    """Return T(t) ∧ Q, but return a comparison or a match unchanged."""
    return formula if compares(formula) or time not in free_variables(formula) else _within(time, formula)


class _Evaluated:
    def __init__(self, *, counts: bool) -> None:
        self.counts = counts
        self.fresh = count(1)

    def formula(self, formula: Formula) -> Formula:
        """Return the formula with numbers in place of time points."""
        match formula:
            case Atom(predicate=predicate, terms=terms):
                return self._atom(predicate, terms)
            case And(left=left, right=Comparison() as test) if _timed(test):
                return self._timed(self.formula(left), test)
            case And(left=left, right=Not(formula=Comparison() as test)) if _timed(test):
                rows = self.formula(left)
                points = (self.formula(Atom(POINTS, (each,))) for each in free_variables(test))
                return And(rows, Not(self._timed(reduce(And, points), test)))
            case Comparison():
                return with_terms(formula, _term)
            case Exists(variables=variables, formula=inner):
                return Exists(tuple(map(_number, variables)), self.formula(inner))
            case algebra.Aggregate(output=output, function=function, item=item, groups=groups, formula=inner):
                by = tuple(map(_number, groups))
                return algebra.Aggregate(output, function, _term(item), by, self.formula(inner))
            case _:
                return algebra.with_parts(formula, tuple(map(self.formula, algebra.parts(formula))))

    def _atom(self, predicate: str, terms: Sequence[Term]) -> Formula:
        *values, point = terms
        assert isinstance(point, Variable)
        if predicate == POINTS:
            at = self._new()
            return Exists((at,), self._instant(point, at))
        return self._so_far(Atom(dated(predicate), (*values, _number(point))), point)

    def _instant(self, point: Variable, at: Variable) -> Formula:
        return self._so_far(Atom(POINTS, (_number(point), at)), point)

    def _so_far(self, atom: Atom, point: Variable) -> Formula:
        return atom if point == NOW else Once(ALWAYS, atom, "first" if self.counts else "any")

    def _timed(self, left: Formula, test: Comparison) -> Formula:
        """Join ``left`` with the instants of the compared time points, and apply the comparison."""
        instants = {each: self._new() for each in free_variables(test)}
        for point, at in instants.items():
            left = And(left, self._instant(point, at))
        numbers = {side: _length(side, instants) for side in (test.left, test.right)}
        compared = Comparison(test.operator, numbers[test.left], numbers[test.right])
        return Exists(tuple(instants.values()), And(left, compared))

    def _new(self) -> Variable:
        return Variable(f"@{next(self.fresh)}", BIGINT)


def _timed(test: Comparison) -> bool:
    """Return whether a comparison limits the time between two time points."""
    return distance(test.left) is not None or distance(test.right) is not None


def _length(term: Term, instants: dict[Variable, Variable]) -> Term:
    match distance(term), term:
        case (later, earlier), _:
            return Computed("-", (instants[later], instants[earlier]), BIGINT)
        case _, Constant(value=value):
            return Constant(value, BIGINT)
        case _:
            raise AssertionError(term)


def _number(variable: Variable) -> Variable:
    return Variable(variable.name, BIGINT) if variable.type == TIME else variable


def _term(term: Term) -> Term:
    return with_variables(term, _number)
