"""Split conjunctions of formulas into conjuncts, and decide when a test can be applied.

A *test* is a comparison or a match.  An equality and a match also bind variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from weft.algebra import formula as algebra


def compares(formula: algebra.Formula) -> bool:
    """Return whether a formula is a test or the negation of a test."""
    return is_test(formula.formula if isinstance(formula, algebra.Not) else formula)


def applicable(test: algebra.Formula, known: Collection[algebra.Variable]) -> bool:
    """Return whether the known variables suffice to decide a test, or to bind its other variables."""
    there = set(known)
    if isinstance(test, algebra.Matches):
        computed = (group for group in test.groups if group is not None and not isinstance(group, algebra.Variable))
        return all(set(algebra.variables_of(term)) <= there for term in (test.text, *computed))
    return set(algebra.free_variables(test)) <= there or binding(test, there) is not None


def conjuncts(
    formula: algebra.Formula, *, counts: bool = False, differences: bool = False
) -> Iterator[algebra.Formula]:
    """Yield the conjuncts of a formula that may be evaluated in any order.

    A difference is one conjunct.  If ``counts`` is true, duplicates matter, and AND NOT of a test is a difference too.
    If ``differences`` is true, the two sides of a difference are conjuncts too.
    """
    if isinstance(formula, algebra.And) and (differences or not _takes_away(formula.right, counts=counts)):
        for side in (formula.left, formula.right):
            yield from conjuncts(side, counts=counts, differences=differences)
    else:
        yield formula


def _takes_away(formula: algebra.Formula, *, counts: bool) -> bool:
    return isinstance(formula, algebra.Not) and (counts or not is_test(formula.formula))


def is_test(formula: algebra.Formula) -> bool:
    """Return whether a formula is a comparison or a match."""
    return isinstance(formula, (algebra.Comparison, algebra.Matches))


def binding(test: algebra.Formula, known: Iterable[algebra.Variable]) -> algebra.Comparison | None:
    """Return ``x = t`` if the test binds an unknown variable x to a term t of known variables, otherwise None."""
    there = set(known)
    if not isinstance(test, algebra.Comparison) or test.operator != "=":
        return None
    for one, other in ((test.left, test.right), (test.right, test.left)):
        if isinstance(one, algebra.Variable) and one not in there and set(algebra.variables_of(other)) <= there:
            return algebra.Comparison("=", one, other)
    return None


def group_variables(test: algebra.Formula, known: Iterable[algebra.Variable]) -> dict[algebra.Variable, int]:
    """Map each unknown variable of a match to the number of the group that binds the variable."""
    there = set(known)
    if not isinstance(test, algebra.Matches) or not set(algebra.variables_of(test.text)) <= there:
        return {}
    numbers: dict[algebra.Variable, int] = {}
    for number, group in enumerate(test.groups, 1):
        if isinstance(group, algebra.Variable) and group not in there:
            numbers.setdefault(group, number)
    return numbers
