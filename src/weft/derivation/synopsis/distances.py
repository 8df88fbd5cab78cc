"""The linear orders of several instants that conditions on their distances allow (Toman 2007, lemma 4.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Order: TypeAlias = "tuple[tuple[str, ...], ...]"
"""Names in groups of equal instants, the latest group first."""
MICROSECOND: Final = 1
"""The least distance between two instants that differ."""


@dataclass(frozen=True)
class Distance:
    """How far an instant may lie after another, microseconds; None: no bound."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Distance) -> Distance:
        """What both allow."""
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        return Distance(max(lows, default=None), min(highs, default=None))

    @property
    def reversed(self) -> Distance:
        """The same of the other instant after this one."""
        return Distance(None if self.high is None else -self.high, None if self.low is None else -self.low)

    @property
    def possible(self) -> bool:
        """Whether there is such a distance."""
        return self.low is None or self.high is None or self.low <= self.high

    def allows(self, distance: int) -> bool:
        """Whether it may be this one."""
        return (self.low is None or self.low <= distance) and (self.high is None or distance <= self.high)


LATER: Final = Distance(MICROSECOND, None)


@dataclass
class Distances:
    """What is demanded of the distances between instants, which have names."""

    bounds: dict[tuple[str, str], Distance] = field(default_factory=dict)
    apart: set[frozenset[str]] = field(default_factory=set)
    """Pairs that differ."""

    def demand(self, later: str, earlier: str, distance: Distance) -> None:
        """``later`` − ``earlier`` has to be within ``distance``."""
        for pair, bound in (((later, earlier), distance), ((earlier, later), distance.reversed)):
            self.bounds[pair] = self.bounds.get(pair, Distance()).within(bound)

    def between(self, later: str, earlier: str) -> Distance:
        """What is demanded of ``later`` − ``earlier``."""
        return self.bounds.get((later, earlier), Distance())

    def of_groups(self, later: Sequence[str], earlier: Sequence[str], least: Distance = LATER) -> Distance:
        """What is demanded of the distance between two groups of equal instants, the first being later.

        ``least``: what is so of any two of them.
        """
        found = least
        for one in later:
            for other in earlier:
                found = found.within(self.between(one, other))
        return found

    def implied(self, order: Order, number: int, place: int, least: Distance = LATER) -> bool:
        """Whether what is demanded of the neighbours between two groups of an order brings about what is of the two.

        ``least``: as for ``of_groups``.
        """
        bound = self.of_groups(order[number], order[place], least)
        steps = [self.of_groups(order[at], order[at + 1], least) for at in range(number, place)]
        low = sum(step.low or 0 for step in steps)
        high = None if any(step.high is None for step in steps) else sum(step.high or 0 for step in steps)
        return (bound.low or 0) <= low and (bound.high is None or (high is not None and high <= bound.high))

    def allow(self, order: Order) -> bool:
        """Whether some instants in this order are as demanded pair by pair."""
        for number, group in enumerate(order):
            pairs = [(one, other) for one in group for other in group if one < other]
            if any(frozenset(pair) in self.apart or not self.between(*pair).allows(0) for pair in pairs):
                return False
            if not all(self.of_groups(group, earlier).possible for earlier in order[number + 1 :]):
                return False
        return True


def orders(names: Sequence[str]) -> Iterator[Order]:
    """Every linear order of instants, some of which may be equal: 1, 3, 13, 75, 541 … of them.

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
    """The orders that the demanded distances allow; no two of them hold of the same instants."""
    return tuple(order for order in orders(names) if distances.allow(order))
