"""Systems of order constraints x − y ≤ c, and their satisfiability (Blakeley, Coburn, Larson 1989, section 4).

A system is unsatisfiable iff the graph with an edge y → x of length c per constraint has a cycle of negative length
(Bellman and Ford).  A strict constraint has length c minus an infinitesimal, so lengths are pairs in lexicographic
order.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

L = TypeVar("L")


@dataclass(frozen=True)
class Bound(Generic[L]):
    """``left`` − ``right`` ≤ ``limit``, or < if ``strict``; ``reason`` is the condition that it comes from."""

    left: Hashable
    right: Hashable
    limit: Any
    strict: bool
    said: L


@dataclass
class Order(Generic[L]):
    """A system of constraints on any number of terms."""

    bounds: list[Bound[L]] = field(default_factory=list)

    def at_most(self, left: Hashable, right: Hashable, limit: Any, said: L, *, strict: bool = False) -> None:
        """Add left ≤ right + limit, or < if ``strict``."""
        self.bounds.append(Bound(left, right, limit, strict, said))

    def cycle(self) -> tuple[L, ...] | None:
        """Return the reasons along a cycle of negative length, which cannot all hold; None if the system is
        satisfiable.

        >>> order = Order[str]()
        >>> order.at_most("x", "y", 0, "x <= y"); order.at_most("y", "x", -1, "y < x")
        >>> sorted(order.cycle())
        ['x <= y', 'y < x']
        """
        distance: dict[Hashable, tuple[Any, int]] = {}
        came: dict[Hashable, Bound[L]] = {}
        for bound in self.bounds:
            distance[bound.left] = distance[bound.right] = (0, 0)
        last: Hashable | None = None
        for _ in range(len(distance) + 1):
            last = None
            for bound in self.bounds:
                far, less = distance[bound.right]
                reached = (far + bound.limit, less - bound.strict)
                if reached < distance[bound.left]:
                    distance[bound.left], came[bound.left], last = reached, bound, bound.left
            if last is None:
                return None
        for _ in range(len(distance)):  # go back far enough to be on the cycle
            last = came[last].right
        return self._around(last, came)

    def _around(self, start: Hashable, came: dict[Hashable, Bound[L]]) -> tuple[L, ...]:
        said, node = [], start
        while True:
            bound = came[node]
            said.append(bound.said)
            node = bound.right
            if node == start:
                return tuple(dict.fromkeys(said))
