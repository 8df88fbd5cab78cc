"""Find the weak orders of instants that satisfy conditions on their distances (Toman 2007, lemma 4.10).

``nested`` translates an order to the nest G1 ∧ ▽◇(G2 ∧ ▽◇(G3 ∧ …)), where G1 is the latest group (lemma 4.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Final, TypeAlias

from weft.algebra.formula import And, Exists, Formula, Variable, free_variables
from weft.derivation.order import Order as Constraints

Order: TypeAlias = "tuple[tuple[str, ...], ...]"
"""A weak order of named instants: a tuple of groups of equal instants, with the latest group first."""
MICROSECOND: Final = 1
"""The least distance between two different instants, in microseconds."""


@dataclass(frozen=True)
class Distance:
    """A range of distances between two instants, in microseconds.  A bound of None means no limit."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Distance) -> Distance:
        """Return the intersection of the two ranges."""
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        return Distance(max(lows, default=None), min(highs, default=None))

    @property
    def reversed(self) -> Distance:
        """The range after the two instants are exchanged."""
        return Distance(None if self.high is None else -self.high, None if self.low is None else -self.low)


LATER: Final = Distance(MICROSECOND, None)


@dataclass
class Distances:
    """The conditions on the distances between named instants."""

    bounds: dict[tuple[str, str], Distance] = field(default_factory=dict)
    apart: set[frozenset[str]] = field(default_factory=set)
    """Pairs of instants that must be different."""

    def demand(self, later: str, earlier: str, distance: Distance) -> None:
        """Add the condition that ``later`` − ``earlier`` is in the range ``distance``."""
        for pair, bound in (((later, earlier), distance), ((earlier, later), distance.reversed)):
            self.bounds[pair] = self.bounds.get(pair, Distance()).within(bound)

    def of_groups(self, later: Sequence[str], earlier: Sequence[str], least: Distance = LATER) -> Distance:
        """Return the allowed distances between two groups of equal instants, limited to the range ``least``."""
        distance = least
        for one in later:
            for other in earlier:
                distance = distance.within(self.bounds.get((one, other), Distance()))
        return distance

    def implied(self, order: Order, number: int, place: int, least: Distance = LATER) -> bool:
        """Return whether the distances between neighbours imply the distance between groups ``number`` and ``place``.

        The distance between any two groups lies in the range ``least``.
        """
        bound = self.of_groups(order[number], order[place], least)
        steps = [self.of_groups(order[at], order[at + 1], least) for at in range(number, place)]
        low = sum(step.low or 0 for step in steps)
        high = None if any(step.high is None for step in steps) else sum(step.high or 0 for step in steps)
        return (bound.low or 0) <= low and (bound.high is None or (high is not None and high <= bound.high))

    def allow(self, order: Order, least: int = MICROSECOND) -> bool:
        """Return whether instants in this order, with at least this distance between groups, satisfy all conditions."""
        if any(pair <= {*group} for pair in self.apart for group in order):
            return False
        constraints = Constraints[None]()
        for (later, earlier), distance in self.bounds.items():
            if distance.high is not None:
                constraints.at_most(later, earlier, distance.high, None)
        for group in order:
            for name in group[1:]:
                constraints.at_most(name, group[0], 0, None)
                constraints.at_most(group[0], name, 0, None)
        for after, before in pairwise(order):
            constraints.at_most(before[0], after[0], -least, None)
        return constraints.cycle() is None


def orders(names: Sequence[str]) -> Iterator[Order]:
    """Yield every order of the instants, with and without equal instants.

    For one to five names, there are 1, 3, 13, 75 and 541 orders.

    >>> [order for order in orders(["r", "s"])]
    [(('r', 's'),), (('r',), ('s',)), (('s',), ('r',))]
    """
    if not names:
        yield ()
        return
    first, rest = names[0], names[1:]
    for order in orders(rest):
        for place, group in enumerate(order):
            yield (*order[:place], (first, *group), *order[place + 1 :])
        for place in range(len(order) + 1):
            yield (*order[:place], (first,), *order[place:])


def allowed_orders(names: Sequence[str], distances: Distances) -> tuple[Order, ...]:
    """Return the orders that the distances allow."""
    return tuple(order for order in orders(names) if distances.allow(order))


def nested(
    order: Order,
    group: Callable[[tuple[str, ...]], Formula],
    tests: Sequence[Formula],
    wanted: set[Variable],
    before: Callable[[int, Formula], Formula],
) -> Formula:
    """Return the nest of an order.

    ``group`` returns the formula of a group of equal instants.  ``before`` receives the position of a group and the
    formula of all earlier groups.  ``before`` returns the condition that the earlier groups hold before the group at
    this position.  Each level of the nest has only the variables that outer levels or the answer (``wanted``) use.
    Each formula of ``tests`` is added at a level that has all variables of the formula.
    """
    groups = [group(names) for names in order]
    left = list(tests)
    written: Formula | None = None
    for number in reversed(range(len(order))):
        written = groups[number] if written is None else And(groups[number], before(number, written))
        seen = set(free_variables(written))
        # At the outermost level, the remaining tests bind the variables that no group has.
        ready = [each for each in left if set(free_variables(each)) <= seen or not number]
        left = [each for each in left if each not in ready]
        written = reduce(And, ready, written)
        outside = {variable for names in groups[:number] for variable in free_variables(names)}
        outside |= {variable for each in left for variable in free_variables(each)} | wanted
        gone = tuple(variable for variable in free_variables(written) if variable not in outside)
        written = Exists(gone, written) if gone else written
    assert written is not None
    return written
