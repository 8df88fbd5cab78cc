"""How often a fixpoint uses its previous count: the restriction of Toman 2007, section 4, with one repair.

The paper lets X stand beside parts without duplicates in conjunctions, and anywhere in disjunctions.  This admits
µX.εq ∨ ▽X ∨ ▽X, whose count doubles at every time point (the query of theorem 3.4).  So this module computes the
*coefficient* of X: ∨ adds; ∧ takes the coefficient of one side if the other has no duplicates; ε makes it 0; ∃ and ◇1
over X are refused, as they sum many counts of X.  If it is at most 1, a count grows by a constant at each time point
(definition 4.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Defined,
    Definition,
    Distinct,
    Exists,
    Fixpoint,
    Formula,
    Matches,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
    subformulas,
)

Names = frozenset[str]


@dataclass(frozen=True)
class Multiplied:
    """The part of a fixpoint that multiplies counts, and the reason."""

    formula: Formula
    why: str


def multiplied(formula: Fixpoint) -> Multiplied | None:
    """Return the part that lets a fixpoint's counts grow by more than a constant at each time point; None if there is
    none.

    >>> from weft.algebra.formula import ALWAYS
    >>> q, x = Atom("q", ()), Defined("x", ())
    >>> multiplied(Fixpoint((Definition("x", (), Or(Distinct(q), Previous(ALWAYS, x))),), "x", ()))
    >>> multiplied(Fixpoint((Definition("x", (), Previous(ALWAYS, Or(x, x))),), "x", ())).why
    'OR adds the counts of its sides, and both contain the defined relation'
    """
    return next((each for each in _coefficients(formula) if isinstance(each, Multiplied)), None)


def accumulates(formula: Fixpoint) -> bool:
    """Return whether previous counts are counted again at each time point."""
    return any(_coefficients(formula))


def _coefficients(formula: Fixpoint) -> list[int | Multiplied]:
    """Return the coefficient of each of the fixpoint's bodies."""
    definitions = list(_definitions(formula))
    names = frozenset(definition.name for definition in definitions)
    return [_coefficient(definition.body, names) for definition in definitions]


def duplicate_free(formula: Formula) -> bool:
    """Return whether the formula gives each answer once, for all rows."""
    match formula:
        case Truth() | Comparison() | Matches() | Not() | Distinct() | Aggregate():
            return True
        case And(left=left, right=Not()):
            return duplicate_free(left)
        case And(left=left, right=right):
            return duplicate_free(left) and duplicate_free(right)
        case Previous(formula=inner):
            return duplicate_free(inner)
        case Once(counting=counting) | Since(counting=counting):
            return counting == "any"
        case _:
            return False


def speaks(formula: Formula, names: Names) -> bool:
    """Return whether a formula refers to one of these relations."""
    return any(isinstance(part, Defined) and part.name in names for part in subformulas(formula))


def _definitions(formula: Fixpoint) -> Iterator[Definition]:
    """Yield the definitions of the fixpoint, and of inner fixpoints that refer to it: all of them grow together."""
    own = frozenset(definition.name for definition in formula.definitions)
    for definition in formula.definitions:
        yield definition
        for part in subformulas(definition.body):
            if isinstance(part, Fixpoint) and speaks(part, own):
                yield from part.definitions


def _coefficient(formula: Formula, names: Names) -> int | Multiplied:
    """Return the coefficient of the defined relations in a formula's count: 0 or 1, or the part that makes it
    larger.
    """
    if not speaks(formula, names) and not _among(formula, names):
        return 0
    match formula:
        case Defined() | Fixpoint():
            return 1
        case Distinct() | Not() | Aggregate():
            return 0
        case Previous(formula=inner):
            return _coefficient(inner, names)
        case Or():
            return _added(formula, names)
        case And():
            return _product(formula, names)
        case Exists(formula=inner, variables=variables):
            below = _coefficient(inner, names)
            if below == 0 or isinstance(below, Multiplied):
                return below
            bound = ", ".join(variable.name for variable in variables)
            return Multiplied(formula, f"EXISTS adds the counts of the defined relation for all values of {bound}")
        case Once() | Since():
            return _over_time(formula, names)
        case Truth() | Atom() | Comparison() | Matches():
            return 0


def _among(formula: Formula, names: Names) -> bool:
    """Return whether a formula is a fixpoint whose relations grow together with the others."""
    return isinstance(formula, Fixpoint) and any(definition.name in names for definition in formula.definitions)


def _added(formula: Or, names: Names) -> int | Multiplied:
    left, right = _coefficient(formula.left, names), _coefficient(formula.right, names)
    if isinstance(left, Multiplied) or isinstance(right, Multiplied):
        return left if isinstance(left, Multiplied) else right
    if left + right > 1:
        return Multiplied(formula, "OR adds the counts of its sides, and both contain the defined relation")
    return left + right


def _product(formula: And, names: Names) -> int | Multiplied:
    left = _coefficient(formula.left, names)
    if isinstance(left, Multiplied) or isinstance(formula.right, Not):
        return left  # a negated part makes no count greater
    right = _coefficient(formula.right, names)
    if isinstance(right, Multiplied):
        return right
    for own, other in ((left, formula.right), (right, formula.left)):
        if own and not duplicate_free(other):
            return Multiplied(formula, "AND multiplies the count of the defined relation by one that may exceed 1")
    return max(left, right)


def _over_time(formula: Once | Since, names: Names) -> int | Multiplied:
    """Return the coefficient of ◇ and since: they sum counts over all time points, except of a side that only has to
    hold.
    """
    match formula:
        case Once(counting="first", formula=counted) | Since(counting="first", right=counted):
            below = _coefficient(counted, names)
        case Since(counting="second", left=counted):
            below = _coefficient(counted, names)
        case _:
            return 0
    if below == 0 or isinstance(below, Multiplied):
        return below
    return Multiplied(formula, "it adds the counts of the defined relation at all time points")
