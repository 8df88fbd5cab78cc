"""The nest G1 ∧ ▽◇(G2 ∧ ▽◇(G3 ∧ …)) of a conjunctive query whose time points are in a linear order (lemma 4.11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from weft.algebra.formula import And, Exists, Formula, Variable, free_variables
from weft.derivation.synopsis.distances import Order


def nested(
    order: Order,
    group: Callable[[tuple[str, ...]], Formula],
    tests: Sequence[Formula],
    wanted: set[Variable],
    before: Callable[[int, Formula], Formula],
) -> Formula:
    """Return the nest of an order.

    ``group`` returns the formula of a group of equal instants.  ``before`` takes the position of the later group and
    the formula of the earlier ones, and says that the latter held before.  Each level has the variables that outer
    levels or the answer (``wanted``) use; each of ``tests`` stands at a level that has all of its variables.
    """
    groups = [group(names) for names in order]
    left = list(tests)
    written: Formula | None = None
    for number in reversed(range(len(order))):
        written = groups[number] if written is None else And(groups[number], before(number, written))
        seen = set(free_variables(written))
        # On the outermost level, the remaining tests give values to variables that no group has.
        ready = [each for each in left if set(free_variables(each)) <= seen or not number]
        left = [each for each in left if each not in ready]
        written = reduce(And, ready, written)
        outside = {variable for names in groups[:number] for variable in free_variables(names)}
        outside |= {variable for each in left for variable in free_variables(each)} | wanted
        gone = tuple(variable for variable in free_variables(written) if variable not in outside)
        written = Exists(gone, written) if gone else written
    assert written is not None
    return written
