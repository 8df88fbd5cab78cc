"""``at``, ``starts`` and ``ends``: the three functions of the incremental engine, with one case per operator.

- ``at(E, s)``: E's rows at the instant s; every table restricted to the rows alive at s, NOW := s.
- ``starts(E)``: the pairs (row, s) where the row is in E at s and some witness of it began at s.
- ``ends(E)``: the pairs (row, s) where the row was in E just before s and some witness of it ended at s.

Each operator has its cases in one file of this package.  No case looks at a window: an event carries its instant, and
``derivation.incremental`` demands τ <= s < t.

Law (tested against brute force, E evaluated at every instant): ``starts`` never gives a row that does not hold at s,
and every true entry into E and exit from E is among ``starts`` and ``ends`` (design section 2).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from weft.algebra.event import Event, Instant
from weft.errors import DerivationError


@singledispatch
def at(node: Any, instant: Instant) -> Any:
    """Return the rows of a relation at an instant, as a relation; or the truth of a predicate, as a predicate.

    The result does not mention NOW.  Just before s (s⁻): time is discrete, so ``start <= s - 1 µs`` is ``start < s``.
    """
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def starts(node: Any) -> tuple[Event, ...]:
    """Return the events at which rows of a relation begin, or at which a predicate becomes true by itself."""
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def ends(node: Any) -> tuple[Event, ...]:
    """Return the events at which rows of a relation end, or at which a predicate becomes false by itself."""
    raise DerivationError(f"no rule for {type(node).__name__}")
