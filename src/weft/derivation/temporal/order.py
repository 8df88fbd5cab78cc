"""Decide whether order constraints x − y ≤ c can all hold (Blakeley, Coburn, Larson 1989, section 4).

The constraints form a graph: each constraint is an edge y → x of length c.  The constraints contradict each other if
and only if the graph has a cycle of negative length (Bellman and Ford).  A strict constraint has the length c minus an
infinitesimal.  Lengths are therefore pairs in lexicographic order.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

L = TypeVar("L")


@dataclass(frozen=True)
class Constraint(Generic[L]):
    """The constraint ``left`` − ``right`` ≤ ``limit``, or < if ``strict`` is true.

    ``reason`` is the condition that implies the constraint.
    """

    left: Hashable
    right: Hashable
    limit: Any
    strict: bool
    reason: L


@dataclass
class Order(Generic[L]):
    """A system of order constraints."""

    constraints: list[Constraint[L]] = field(default_factory=list)

    def at_most(self, left: Hashable, right: Hashable, limit: Any, reason: L, *, strict: bool = False) -> None:
        """Add the constraint left ≤ right + limit, or left < right + limit if ``strict`` is true."""
        self.constraints.append(Constraint(left, right, limit, strict, reason))

    def cycle(self) -> tuple[L, ...] | None:
        """Return the reasons along a cycle of negative length, or None if no such cycle exists.

        The reasons of the result contradict each other.

        >>> order = Order[str]()
        >>> order.at_most("x", "y", 0, "x <= y"); order.at_most("y", "x", -1, "y < x")
        >>> sorted(order.cycle())
        ['x <= y', 'y < x']
        """
        distance: dict[Hashable, tuple[Any, int]] = {}
        reached_by: dict[Hashable, Constraint[L]] = {}
        for constraint in self.constraints:
            distance[constraint.left] = distance[constraint.right] = (0, 0)
        last: Hashable | None = None
        for _ in range(len(distance) + 1):
            last = None
            for constraint in self.constraints:
                far, less = distance[constraint.right]
                reached = (far + constraint.limit, less - constraint.strict)
                if reached < distance[constraint.left]:
                    distance[constraint.left], reached_by[constraint.left], last = reached, constraint, constraint.left
            if last is None:
                return None
        for _ in range(len(distance)):  # Go back far enough to be on the cycle.
            last = reached_by[last].right
        return self._around(last, reached_by)

    def _around(self, start: Hashable, reached_by: dict[Hashable, Constraint[L]]) -> tuple[L, ...]:
        reasons, node = [], start
        while True:
            constraint = reached_by[node]
            reasons.append(constraint.reason)
            node = constraint.right
            if node == start:
                return tuple(dict.fromkeys(reasons))
