"""Decide how often a fixpoint uses its previous count (Toman 2007, section 4, with one correction).

The paper allows the relation X of a fixpoint anywhere in a disjunction.  In a conjunction, the paper allows X if the
other conjuncts have no duplicates.  The paper therefore allows µX.εq ∨ ▽X ∨ ▽X.  But the count of this fixpoint doubles
at every time point (the query of theorem 3.4).

Therefore this module computes the *coefficient* of X.  ∨ adds the coefficients of its sides.  If one side of ∧ has no
duplicates, ∧ has the coefficient of the other side.  ε has the coefficient 0.  The module refuses ∃ and ◇1 over X,
because these operators add many counts of X.  With a coefficient of at most 1, a count grows by at most a constant at
each time point (definition 4.5).
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
    """A part of a fixpoint that multiplies counts, with the reason."""

    formula: Formula
    why: str


def multiplied(formula: Fixpoint) -> Multiplied | None:
    """Return the part that multiplies the counts of a fixpoint, or None.

    >>> from weft.algebra.formula import ALWAYS
    >>> q, x = Atom("q", ()), Defined("x", ())
    >>> multiplied(Fixpoint((Definition("x", (), Or(Distinct(q), Previous(ALWAYS, x))),), "x", ()))
    >>> multiplied(Fixpoint((Definition("x", (), Previous(ALWAYS, Or(x, x))),), "x", ())).why
    'OR adds the counts of its sides, and both sides contain the defined relation'
    """
    return next((each for each in _coefficients(formula) if isinstance(each, Multiplied)), None)


def accumulates(formula: Fixpoint) -> bool:
    """Return whether the fixpoint adds previous counts to the new count at each time point."""
    return any(_coefficients(formula))


def _coefficients(formula: Fixpoint) -> list[int | Multiplied]:
    definitions = list(_definitions(formula))
    names = frozenset(definition.name for definition in definitions)
    return [_coefficient(definition.body, names) for definition in definitions]


def duplicate_free(formula: Formula) -> bool:
    """Return whether each answer of the formula has the count 1 for all data."""
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
    """Return whether a formula refers to one of the relations ``names``."""
    return any(isinstance(part, Defined) and part.name in names for part in subformulas(formula))


def _definitions(formula: Fixpoint) -> Iterator[Definition]:
    """Include the definitions of inner fixpoints that refer to the fixpoint, because their counts grow together."""
    own = frozenset(definition.name for definition in formula.definitions)
    for definition in formula.definitions:
        yield definition
        for part in subformulas(definition.body):
            if isinstance(part, Fixpoint) and speaks(part, own):
                yield from part.definitions


def _coefficient(formula: Formula, names: Names) -> int | Multiplied:
    """Return the coefficient 0 or 1, or the part that makes the coefficient larger than 1."""
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
    return isinstance(formula, Fixpoint) and any(definition.name in names for definition in formula.definitions)


def _added(formula: Or, names: Names) -> int | Multiplied:
    left, right = _coefficient(formula.left, names), _coefficient(formula.right, names)
    if isinstance(left, Multiplied) or isinstance(right, Multiplied):
        return left if isinstance(left, Multiplied) else right
    if left + right > 1:
        return Multiplied(formula, "OR adds the counts of its sides, and both sides contain the defined relation")
    return left + right


def _product(formula: And, names: Names) -> int | Multiplied:
    left = _coefficient(formula.left, names)
    if isinstance(left, Multiplied) or isinstance(formula.right, Not):
        return left  # a negated part does not increase a count
    right = _coefficient(formula.right, names)
    if isinstance(right, Multiplied):
        return right
    for own, other in ((left, formula.right), (right, formula.left)):
        if own and not duplicate_free(other):
            return Multiplied(
                formula, "AND multiplies the count of the defined relation by another count that may exceed 1"
            )
    return max(left, right)


def _over_time(formula: Once | Since, names: Names) -> int | Multiplied:
    """◇ and ``since`` add the counts of one operand over all time points."""
    match formula:
        case Once(counting="first", formula=counted) | Since(counting="first", right=counted):
            below = _coefficient(counted, names)
        case Since(counting="second", left=counted):
            below = _coefficient(counted, names)
        case _:
            return 0
    if below == 0 or isinstance(below, Multiplied):
        return below
    return Multiplied(formula, "the formula adds the counts of the defined relation at all time points")
