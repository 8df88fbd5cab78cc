"""Limits on the size of a query: the derived queries grow with its parts, each of which may begin an answer.

The limits lie far above what practical questions need.  They bound the time of an explanation to seconds, and keep a
malicious text from reaching Spark as megabytes (design section 8).
"""

from __future__ import annotations

from typing import Final

from weft.algebra.relation import Project, Query, Union, Values, attributes
from weft.algebra.scalar import ColumnRef, Scalar, children
from weft.algebra.traverse import scalars, scans, thresholds, walk
from weft.errors import SqlError

MOST_DRIVERS: Final = 64
"""The most tables and time thresholds.  Each is a branch, and occurs in every other branch."""
_APART: Final = "Split it into several queries. NOT IN counts its subquery up to three times, NOT EXISTS once."
DEEPEST: Final = 64
"""The most nested operators of one expression."""
LARGEST: Final = 2_000
"""The most operators and columns of one expression.  Each level of derived tables may double the number."""


def within_limits(query: Query) -> None:
    """Raise SqlError if a query exceeds any limit."""
    constants = sum(1 for part in walk(query) if isinstance(part, Values))
    drivers = constants + sum(1 for _ in scans(query)) + sum(1 for _ in thresholds(query))
    _at_most(drivers, MOST_DRIVERS, "tables and comparisons with NOW() (=, <> and BETWEEN are two)")
    _at_most(max(map(_depth, scalars(query)), default=0), DEEPEST, "nested operators in one expression")
    _at_most(_written_out(query), LARGEST, "operators and columns in one expression after derived tables are expanded")


def _written_out(query: Query) -> int:
    """Return the size of the largest expression after the columns of derived relations are expanded."""
    parts: dict[ColumnRef, int] = {}

    def count(scalar: Scalar) -> int:
        if isinstance(scalar, ColumnRef):
            return parts.get(scalar, 1)
        return 1 + sum(map(count, children(scalar)))

    most = 0
    for node in reversed(
        list(walk(query))
    ):  # inputs come after their relation in the list, so reversed they come first
        match node:
            case Project(outputs=outputs):
                parts |= {ref: count(out.value) for ref, out in zip(attributes(node), outputs, strict=True)}
                most = max(most, *(parts[ref] for ref in attributes(node)))
            case Union(inputs=inputs):
                by_place = zip(*(map(count, attributes(part)) for part in inputs), strict=True)
                parts |= {ref: max(same) for ref, same in zip(attributes(node), by_place, strict=True)}
            case _:
                continue
    return max([most, *map(count, scalars(query))], default=0)


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise SqlError(f"the query has {count} {what}, more than {most}", hint=_APART)


def _depth(scalar: Scalar) -> int:
    return 1 + max(map(_depth, children(scalar)), default=0)
