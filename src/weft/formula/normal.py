"""Push negations inwards past AND and OR, and remove double negations."""

from __future__ import annotations

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula


def negations_inwards(formula: Formula) -> Formula:
    """Rewrite NOT of an AND or OR to OR or AND of NOTs; the answers are the same if duplicates do not count.

    >>> from weft.formula.written import written
    >>> one, other = algebra.Atom("P", ()), algebra.Atom("Q", ())
    >>> written(negations_inwards(algebra.Not(algebra.And(one, algebra.Not(other)))))
    '(NOT P()) OR Q()'
    """
    return algebra.rewritten(_pushed(formula), _single)


def _pushed(formula: Formula) -> Formula:
    match formula:
        case algebra.Not(formula=algebra.And(left=left, right=right)):
            return algebra.Or(_pushed(algebra.Not(left)), _pushed(algebra.Not(right)))
        case algebra.Not(formula=algebra.Or(left=left, right=right)):
            return algebra.And(_pushed(algebra.Not(left)), _pushed(algebra.Not(right)))
        case _:
            return algebra.with_parts(formula, tuple(map(_pushed, algebra.parts(formula))))


def _single(formula: Formula) -> Formula:
    match formula:
        case algebra.Not(formula=algebra.Not(formula=inner)):
            return inner
        case _:
            return formula
