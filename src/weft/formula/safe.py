"""Rewrite a formula over an infinite domain so that each of its parts has finitely many answers.

DejaVu quantifies over all values, including values that no event has shown.  A formula is *finite* if it has finitely
many answers at each time point.  For example, the atom of an event is finite.  For each operator, this module writes an
equivalent formula with finite parts:

- The module pushes ¬ inwards.  In a conjunction, the finite parts come first, and the other parts filter their answers.
- ∃x is true if each part with x is the negation of a finite formula, because some value of x satisfies none of the
  finite formulas.
- A SINCE needs a rewrite if its left side has a variable that its right side does not have.  The new formula states
  that the right side held at some time, and that the left side has held since then.
- All other formulas are split by x (``unseen_values``).  The value of x has either been seen before, or behaves like
  all unseen values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import compares
from weft.algebra.formula import (
    ALWAYS,
    And,
    Constant,
    Exists,
    Formula,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
    Variable,
)
from weft.algebra.formula import free_variables as free
from weft.algebra.renaming import substituted
from weft.algebra.safe_range import EVALUATED, broken
from weft.formula.bound_propagation import de_morgan
from weft.formula.unseen_values import Occurrences, split

FALSE = Truth(False)
TRUE = Truth(True)
FIRST = Not(Previous(ALWAYS, TRUE))
"""A formula that is true only at the first time point."""


class Safe:
    """A rewriter that makes all parts finite.  ``occurrences`` contains the event atoms of each variable."""

    def __init__(self, occurrences: Occurrences) -> None:
        self.occurrences = occurrences
        self._known: dict[Formula, Formula | None] = {}

    def finite(self, formula: Formula) -> Formula | None:
        """Return an equivalent formula with finite parts.  Return None if Weft finds no equivalent formula.

        A variable that does not affect the answers may be missing in the result.
        """
        if formula not in self._known:
            self._known[formula] = None
            self._known[formula] = _simple(self._finite(formula))
        return self._known[formula]

    def culprit(self, formulas: Sequence[Formula]) -> Formula:
        """Return an innermost part of the formulas such that neither the part nor its negation is finite.

        Return the first formula if there is no such part.
        """
        parts = [part for formula in formulas for part in algebra.subformulas(formula)]
        neither = [part for part in parts if self.finite(part) is None and self.finite(Not(part)) is None]
        return min(neither, key=lambda part: len(list(algebra.subformulas(part))), default=formulas[0])

    def _finite(self, formula: Formula) -> Formula | None:
        match formula:
            case Truth() | algebra.Atom() | algebra.Defined():
                return formula
            case algebra.Comparison():
                return self._compared(formula)
            case Not(formula=inner):
                return self._negated(inner)
            case And():
                return self._conjunction([formula])
            case Or(left=left, right=right):
                return _either(self.finite(left), self.finite(right))
            case Exists(variables=variables, formula=inner):
                return self._exists(variables, inner)
            case Previous(interval=interval, formula=inner):
                operand = self.finite(inner)
                return Previous(interval, operand) if operand is not None else None
            case Once(interval=interval, formula=inner):
                return self._once(interval, inner)
            case Since():
                return self._since(formula)
            case _:
                return None

    def _compared(self, formula: algebra.Comparison) -> Formula | None:
        """Restrict the variables of the comparison to seen values."""
        chain: Formula | None = None
        for variable in free(formula):
            seen = self.occurrences.seen(variable)
            chain = seen if chain is None else And(chain, seen)
        return And(chain, formula) if chain is not None else formula

    def _negated(self, inner: Formula) -> Formula | None:
        if not free(inner) and (closed := self.finite(inner)) is not None:
            return Not(closed)
        onward = self.inwards(inner)
        return self.finite(onward) if onward is not None else None

    def inwards(self, inner: Formula) -> Formula | None:
        """Push the negation in ¬inner one level inwards.  Return None if this is impossible."""
        match inner:
            case Truth(value=value):
                return Truth(not value)
            case Not(formula=formula):
                return formula
            case And() | Or():
                return de_morgan(inner)
            case Previous(formula=formula) if inner.interval.everything and formula != TRUE:
                return Or(FIRST, Previous(ALWAYS, Not(formula)))
            case Once(interval=interval, formula=formula) if interval.everything:
                return self._always(formula)
            case Since(interval=interval, left=left, right=right) if interval.everything:
                return self._never_since(left, right)
            case _:
                return None

    def _always(self, formula: Formula) -> Formula | None:
        """Rewrite ¬ONCE Q to "¬Q since the first time point".  Return None if ¬Q is not finite."""
        other = self.finite(Not(formula))
        return Since(ALWAYS, other, And(other, FIRST)) if other is not None else None

    def _never_since(self, left: Formula, right: Formula) -> Formula | None:
        """Rewrite ¬(P SINCE Q) to "¬Q since the first time point, or since a time point without P"."""
        other = self.finite(Not(right))
        if other is None:
            return None
        return Or(Since(ALWAYS, other, And(other, FIRST)), Since(ALWAYS, other, And(other, Not(left))))

    def _conjunction(self, parts: Sequence[Formula]) -> Formula | None:
        """Put the finite parts of a conjunction first, or distribute the conjunction over an OR."""
        waiting = [part for one in parts for part in self._flat(one)]
        if any(Not(part) in waiting or part == FALSE for part in waiting):
            return FALSE
        chain: Formula | None = None
        while waiting:
            following = self._following(chain, waiting)
            if following is None:
                return self._distributed(waiting, chain)
            part, chain = following
            waiting.remove(part)
        return chain if chain is not None else TRUE

    def _flat(self, formula: Formula) -> list[Formula]:
        match formula:
            case And(left=left, right=right):
                return [*self._flat(left), *self._flat(right)]
            case Not(formula=Not(formula=inner)):
                return self._flat(inner)
            case Not(formula=Or() as inner):
                return self._flat(de_morgan(inner))
            case Not(formula=And() as inner):
                return [de_morgan(inner)]
            case Not(formula=Previous(formula=Not(formula=inner)) as previous) if previous.interval.everything:
                return [Or(FIRST, Previous(ALWAYS, inner))]
            case Truth(value=True):
                return []
            case _:
                return [formula]

    def _following(self, chain: Formula | None, waiting: Sequence[Formula]) -> tuple[Formula, Formula] | None:
        """Add the next conjunct to the chain.  Filters of the chain come before finite conjuncts."""
        if chain is not None:
            for part in waiting:
                if set(free(part)) <= set(free(chain)) and (longer := self.filtered(chain, part)) is not None:
                    return part, longer
        finite = [(part, equivalent) for part in waiting if (equivalent := self.finite(part)) is not None]
        if not finite:
            return None
        there = set(free(chain) if chain is not None else ())
        part, equivalent = max(finite, key=lambda each: (not self._is_seen(each[0]), len(set(free(each[0])) & there)))
        return part, equivalent if chain is None else And(chain, equivalent)

    def _is_seen(self, part: Formula) -> bool:
        """Return whether a part only states that the value of a variable was seen, and therefore filters nothing."""
        return any(part == self.occurrences.seen(variable) for variable in free(part))

    def _distributed(self, waiting: Sequence[Formula], chain: Formula | None) -> Formula | None:
        """Distribute the conjunction over one of its ORs, so that each side of the OR can bound the other conjuncts."""
        for part in waiting:
            if isinstance(part, Or):
                rest = [other for other in waiting if other is not part]
                given = [] if chain is None else [chain]
                sides = [self._conjunction([*given, side, *rest]) for side in (part.left, part.right)]
                if sides[0] is not None and sides[1] is not None:
                    return _either(_simple(sides[0]), _simple(sides[1]))
        return None

    def filtered(self, chain: Formula, part: Formula) -> Formula | None:
        """Return the answers of ``chain`` that satisfy ``part``.  Return None if the filter is not finite.

        ``chain`` must be finite and must bind all variables of ``part``.
        """
        match part:
            case algebra.Comparison() | Not(formula=algebra.Comparison()):
                return And(chain, part)
            case Once() if self._is_seen(part):
                return chain
            case And(left=left, right=right):
                first = self.filtered(chain, left)
                return self.filtered(first, right) if first is not None else None
            case Or(left=left, right=right) if compares(left) or compares(right) or set(free(left)) != set(free(right)):
                # Filter by each side separately, because the complement of the OR would be a product.
                return _both(Or, self.filtered(chain, left), self.filtered(chain, right))
            case _:
                return self._filtered(chain, part)

    def _filtered(self, chain: Formula, part: Formula) -> Formula | None:
        finite = self.finite(part)
        if finite is not None:
            return _conjoined(chain, finite)
        other = self.finite(Not(part))
        if other is not None:
            return chain if other == FALSE else And(chain, Not(other))
        return self._filtered_otherwise(chain, part)

    def _filtered_otherwise(self, chain: Formula, part: Formula) -> Formula | None:
        match part:
            case Or(left=left, right=right):
                return _both(Or, self.filtered(chain, left), self.filtered(chain, right))
            case Not(formula=Exists(variables=variables, formula=inner)):
                joined = self.finite(Exists(variables, And(chain, inner)))
                return And(chain, Not(joined)) if joined is not None else None
            case Exists(variables=variables, formula=inner):
                return self.finite(Exists(variables, And(chain, inner)))
            case Previous(interval=interval, formula=inner):
                other = self.finite(Not(inner))
                there = And(chain, Previous(interval, TRUE))
                return And(there, Not(Previous(interval, other))) if other is not None else None
            case Since() if (broken := self._broken(part)) is not None:
                return self.filtered(chain, broken)
            case Not(formula=Since() as since) if (broken := self._broken(since)) is not None:
                return self.filtered(chain, Not(broken))
            case Not(formula=inner) if (onward := self.inwards(inner)) is not None:
                return self.filtered(chain, onward)
            case _:
                return None

    def _broken(self, formula: Since) -> Formula | None:
        """Rewrite a SINCE whose left side has more variables than its right side.

        The result states that the right side held at some time, and that the left side has held since then.
        """
        right = self.finite(formula.right)
        if right is None or formula.strict or formula.interval.low > 0 or _allowed(replace(formula, right=right)):
            return None
        held = And(Once(ALWAYS, right), Not(right))
        broken = self.finite(And(held, Not(formula.left)))
        if broken is None:
            return None
        return And(Once(formula.interval, right), Not(Since(ALWAYS, Not(right), broken)))

    def _once(self, interval: Interval, inner: Formula) -> Formula | None:
        operand = self.finite(inner)
        if operand is not None:
            return Once(interval, operand)
        if isinstance(inner, Or):
            return self.finite(Or(Once(interval, inner.left), Once(interval, inner.right)))
        return None

    def _since(self, formula: Since) -> Formula | None:
        right = self.finite(formula.right)
        left = formula.left
        if right is None or not _allowed(replace(formula, right=right)):
            return None
        finite = self.finite(left)
        if finite is not None:
            return replace(formula, left=finite, right=right)
        other = self.finite(Not(left))
        if other is not None:
            return replace(formula, left=Not(other), right=right)
        given = Once(Interval(0, formula.interval.high), right)
        bounded = self.filtered(given, left)
        return replace(formula, left=bounded, right=right) if bounded is not None else None

    def _exists(self, variables: Sequence[Variable], inner: Formula) -> Formula | None:
        if not variables:
            return self.finite(inner)
        if len(variables) > 1:
            return self._exists(variables[:1], Exists(tuple(variables[1:]), inner))
        variable = variables[0]
        if variable not in free(inner):
            return self.finite(inner)
        if (substituted_constants := self._of_constants(variable, inner)) is not None:
            return self.finite(substituted_constants)
        if (body := self.finite(inner)) is not None:
            return Exists((variable,), body) if variable in free(body) else body
        match inner:
            case Or(left=left, right=right):
                return self.finite(Or(Exists((variable,), left), Exists((variable,), right)))
            case Not(formula=And(left=left, right=right)):
                return self.finite(Or(Exists((variable,), Not(left)), Exists((variable,), Not(right))))
            case _:
                return self._exists_among(variable, inner)

    def _of_constants(self, variable: Variable, inner: Formula) -> Formula | None:
        """If x must equal one of several constants, replace ∃x by one formula for each constant that was seen."""
        body: Formula = inner
        binders: list[Variable] = []
        while isinstance(body := _simple(body) or FALSE, Exists):
            binders += body.variables
            body = body.formula
        parts = self._flat(body)
        for equal in parts:
            constants = _constants(equal, variable)
            if constants:
                rest = [self.occurrences.seen(variable), *(part for part in parts if part is not equal)]
                sides = [
                    reduce(And, [substituted(part, {variable: constant}) for part in rest]) for constant in constants
                ]
                return reduce(Or, [Exists(tuple(binders), side) if binders else side for side in sides])
        return None

    def _exists_among(self, variable: Variable, inner: Formula) -> Formula | None:
        parts = self._flat(inner)
        within = [part for part in parts if variable in free(part)]
        excluded = [self.finite(Not(part)) for part in within]
        if None in excluded:
            return self._split(variable, inner)
        # A part without the variable excludes either all values of the variable or no value.
        whole = [Not(each) for each in excluded if each is not None and variable not in free(each)]
        return self._conjunction([*(part for part in parts if part not in within), *whole])

    def _split(self, variable: Variable, inner: Formula) -> Formula | None:
        """Rewrite ∃x to an OR of two formulas: one for the seen values, and one for a single unseen value."""
        halves = split(inner, variable, self.occurrences)
        if halves is None:
            return None
        among = self.finite(And(self.occurrences.seen(variable), halves.seen))
        other = self.finite(_simple(halves.fresh) or FALSE)
        if among is None or other is None:
            return None
        return _either(_simple(Exists((variable,), among)), other)


def _constants(formula: Formula, variable: Variable) -> list[Constant]:
    """Return [c1, …, cn] for the formula ``variable = c1 OR … OR variable = cn``, and [] for other formulas."""
    match formula:
        case algebra.Comparison(operator="=", left=left, right=Constant() as right) if left == variable:
            return [right]
        case Or(left=left, right=right):
            one, other = _constants(left, variable), _constants(right, variable)
            return [*one, *other] if one and other else []
        case _:
            return []


def _both(joining: type[Or], left: Formula | None, right: Formula | None) -> Formula | None:
    return None if left is None or right is None else joining(left, right)


def _conjoined(chain: Formula, conjunct: Formula) -> Formula:
    return chain if conjunct == TRUE else FALSE if conjunct == FALSE else And(chain, conjunct)


def _either(left: Formula | None, right: Formula | None) -> Formula | None:
    """Return the OR of two finite formulas with equal free variables.  Return None for other formulas."""
    if left is None or right is None:
        return None
    if left == FALSE or right == TRUE:
        return right
    if right == FALSE or left == TRUE:
        return left
    return Or(left, right) if _allowed(Or(left, right)) else None


def _allowed(formula: Formula) -> bool:
    """Return whether an operator over finite formulas is finite."""
    return broken(formula, EVALUATED) is None


def _simple(formula: Formula | None) -> Formula | None:
    return None if formula is None else algebra.rewritten(formula, _simpler)


def _simpler(formula: Formula) -> Formula:
    match formula:
        case Not(formula=Truth(value=value)):
            return Truth(not value)
        case Not(formula=Not(formula=inner)):
            return inner
        case And(left=Truth(value=True), right=other) if not isinstance(other, (algebra.Comparison, Not)):
            return other
        case And(left=other, right=Truth(value=True)) | Or(left=other, right=Truth(value=False)):
            return other
        case Or(left=Truth(value=False), right=other):
            return other
        case And(left=Truth(value=False)) | And(right=Truth(value=False)):
            return FALSE
        case Or(left=Truth(value=True)) | Or(right=Truth(value=True)):
            return TRUE
        case Exists(formula=Truth() as inner) | Once(formula=Truth(value=False) as inner):
            return inner
        case Previous(formula=Truth(value=False) as inner) | Since(right=Truth(value=False) as inner):
            return inner
        case Exists(variables=variables, formula=inner):
            used = tuple(variable for variable in variables if variable in free(inner))
            return Exists(used, inner) if used else inner
        case _:
            return formula
