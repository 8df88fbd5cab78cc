"""Decide whether order constraints x − y ≤ c can all hold (Blakeley, Coburn, Larson 1989, section 4).

The constraints form a graph: each constraint is an edge y → x of length c.  The constraints contradict each other if
and only if the graph has a cycle of negative length (Bellman and Ford).  A strict constraint has the length c minus an
infinitesimal.  Lengths are therefore pairs in lexicographic order.

Proof: proofs/Rewrites.v: contradiction_rule.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.algebra.relation import Plain, Predicate
from weft.algebra.scalar import NEGATED, Call, Literal, Scalar, conjuncts, shifted
from weft.algebra.schema import TIMESTAMP

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


def exclude_each_other(predicates: Iterable[Predicate]) -> bool:
    """Return whether the comparisons in ``predicates`` can never all be true, for example o.ts > e.ts + 90 days and
    o.ts <= e.ts.

    >>> from shown import M, R
    >>> from weft.algebra.scalar import call
    >>> m, r = M.ref("ts"), R.ref("ts")
    >>> exclude_each_other([Plain(call("<", m, r)), Plain(call("<=", r, m))])
    True
    >>> exclude_each_other([Plain(call("<", m, r)), Plain(call("<=", m, r))])
    False
    """
    order = Order[None]()
    for each in predicates:
        if isinstance(each, Plain):
            for condition in conjuncts(each.condition):
                _add(order, condition)
    return order.cycle() is not None


def _add(order: Order[None], condition: Scalar) -> None:
    match condition:
        case Call(name="not", args=(Call(name=name, args=args, type=type),)) if name in NEGATED:
            _add(order, Call(NEGATED[name], args, type))
        case Call(name="<" | "<=" | ">" | ">=" | "=" as name, args=(left, right)):
            (low, low_by), (high, high_by) = _place(left), _place(right)
            whole = left.type == TIMESTAMP
            step, strict = int(whole and name in "<>"), not whole and name in "<>"
            if name[0] in "<=":
                order.at_most(low, high, high_by - low_by - step, None, strict=strict)
            if name[0] in ">=":
                order.at_most(high, low, low_by - high_by - step, None, strict=strict)
        case _:
            pass


def _place(value: Scalar) -> tuple[Scalar | None, int]:
    """Return a base and a distance in microseconds.  None as the base stands for the beginning of 1970."""
    parts = shifted(value)
    if value.type != TIMESTAMP or parts.intervals:
        return value, 0
    if isinstance(parts.base, Literal) and isinstance(parts.base.value, int):
        return None, parts.base.value + parts.micros
    return parts.base, parts.micros
