"""Define ``at``, ``starts`` and ``ends``, the three functions of the incremental engine.

- ``at(E, s)`` has the rows of E at the instant s: every table has only the rows whose period contains s, and NOW is s.
- ``starts(E)`` has the pairs (row, s) where the row is in E at s and some witness of the row began at s.
- ``ends(E)`` has the pairs (row, s) where the row was in E just before s and some witness of the row ended at s.

Each operator has its rules in one file of this package.  No rule depends on a window: an event has its instant s as an
expression, and ``derivation.incremental`` adds the condition τ <= s < t.

Law: ``starts`` never returns a row that is not in E at s, and each entry into E and exit from E is among ``starts`` and
``ends`` (design section 2).  Tests compare the functions with E evaluated at every instant.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from weft.algebra.event import Event, Instant
from weft.errors import DerivationError


@singledispatch
def at(node: Any, instant: Instant) -> Any:
    """Return the rows of a relation at the instant, as a relation.

    For a predicate, return the condition that the predicate is true at the instant.  The result does not mention NOW.
    For the instant just before s (s⁻), ``start <= s - 1 µs`` is written as ``start < s``, because time is discrete.
    """
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def starts(node: Any) -> tuple[Event, ...]:
    """Return the events at which rows of a relation begin, or at which a predicate becomes true."""
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def ends(node: Any) -> tuple[Event, ...]:
    """Return the events at which rows of a relation end, or at which a predicate becomes false."""
    raise DerivationError(f"no rule for {type(node).__name__}")
