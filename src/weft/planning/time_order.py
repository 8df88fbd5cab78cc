"""Decide whether conditions on instants contradict each other, for example o.ts > e.ts + 90 days and o.ts <= e.ts.

A comparison of two instants bounds their difference.  Bounds contradict each other exactly if they form a cycle with a
negative sum (difference constraints: Bellman 1958, Pratt 1977).  Time is in whole microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from weft.algebra.relation import Plain, Predicate
from weft.algebra.scalar import Call, Literal, Scalar, shifted
from weft.algebra.schema import TIMESTAMP

_Bound: TypeAlias = "tuple[Scalar | None, Scalar | None, int]"
"""A bound on two instants: the first is at most the given number of microseconds after the second.

None stands for the beginning of 1970.
"""
_NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def exclude_each_other(predicates: Iterable[Predicate]) -> bool:
    """Return whether the comparisons of instants in ``predicates`` can never all be true.

    >>> from shown import M, R
    >>> from weft.algebra.scalar import call
    >>> m, r = M.ref("ts"), R.ref("ts")
    >>> exclude_each_other([Plain(call("<", m, r)), Plain(call("<=", r, m))])
    True
    >>> exclude_each_other([Plain(call("<", m, r)), Plain(call("<=", m, r))])
    False
    """
    bounds = [bound for each in predicates for bound in _bounds(each)]
    nodes = {node for later, earlier, _ in bounds for node in (later, earlier)}
    distance = dict.fromkeys(nodes, 0)
    for _ in nodes:
        changed = False
        for later, earlier, most in bounds:
            if distance[earlier] + most < distance[later]:
                distance[later] = distance[earlier] + most
                changed = True
        if not changed:
            return False
    return bool(nodes)


def _bounds(predicate: Predicate) -> Iterator[_Bound]:
    if isinstance(predicate, Plain):
        yield from _of_scalar(predicate.condition)


def _of_scalar(condition: Scalar) -> Iterator[_Bound]:
    match condition:
        case Call(name="and", args=parts):
            for part in parts:
                yield from _of_scalar(part)
        case Call(name="not", args=(Call(name=name, args=args, type=type),)) if name in _NEGATED:
            yield from _of_scalar(Call(_NEGATED[name], args, type))
        case Call(name=name, args=args):
            yield from _of_comparison(name, args)
        case _:
            pass


def _of_comparison(name: str, args: tuple[Scalar, ...]) -> Iterator[_Bound]:
    if name not in ("<", "<=", ">", ">=", "=") or any(arg.type != TIMESTAMP for arg in args):
        return
    parts = [_place(arg) for arg in args]
    if parts[0] is None or parts[1] is None:
        return
    pairs = [(parts[0], parts[1])] if name[0] in "<=" else []
    pairs += [(parts[1], parts[0])] if name[0] in ">=" else []
    for (low, low_by), (high, high_by) in pairs:
        yield low, high, high_by - low_by - (name in ("<", ">"))


def _place(instant: Scalar) -> tuple[Scalar | None, int] | None:
    """Return a base and a distance in microseconds.  None as the base stands for the beginning of 1970."""
    parts = shifted(instant)
    if parts.intervals:
        return None
    if isinstance(parts.base, Literal):
        return (None, parts.base.value + parts.micros) if isinstance(parts.base.value, int) else None
    return parts.base, parts.micros
