"""How large a query may be: what is derived from it grows with its parts, each of which may begin an answer.

The limits lie far above what questions need.  They keep explaining a matter of seconds, and a text that was written to
break things from reaching Spark as megabytes (design section 8).
"""

from __future__ import annotations

from typing import Final

from weft.algebra.relation import Query, Values
from weft.algebra.scalar import Scalar, children
from weft.algebra.traverse import scalars, scans, thresholds, walk
from weft.errors import SqlError

MOST_DRIVERS: Final = 64
"""Tables and thresholds of time: every one of them is a branch, and is judged in every other's."""
_APART: Final = "Take it apart into several queries. NOT IN counts its subquery up to three times, NOT EXISTS once."
DEEPEST: Final = 64
"""Operators within operators of one expression."""


def within_limits(query: Query) -> None:
    """Raises SqlError for a query that is larger than any of the limits."""
    constants = sum(1 for part in walk(query) if isinstance(part, Values))
    drivers = constants + sum(1 for _ in scans(query)) + sum(1 for _ in thresholds(query))
    _at_most(drivers, MOST_DRIVERS, "tables and comparisons with NOW() (=, <> and BETWEEN are two)")
    _at_most(max(map(_depth, scalars(query))), DEEPEST, "operators within one another in one expression")


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise SqlError(f"the query has {count} {what}, more than {most}", hint=_APART)


def _depth(scalar: Scalar) -> int:
    return 1 + max(map(_depth, children(scalar)), default=0)
