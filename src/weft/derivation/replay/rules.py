"""``at``, ``starts`` and ``ends``: the three functions of the incremental engine, each a case an operator.

- ``at(E, s)``: E's rows at the instant s; every table restricted to the rows alive at s, NOW := s.
- ``starts(E)``: the pairs (row, s) where the row is in E at s and some witness of it began at s.
- ``ends(E)``: the pairs (row, s) where the row was in E just before s and some witness of it ended at s.

The cases stand in the files of this package, one an operator.  No case looks at a window: an event carries its instant,
and ``derivation.incremental`` asks for τ <= s < t.

Law (tried against brute force, E evaluated at every instant): ``starts`` never gives a row that does not hold at s,
and every true entry into E and exit from E is among ``starts`` and ``ends`` (design section 2).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from weft.algebra.event import Event, Instant
from weft.errors import DerivationError


@singledispatch
def at(node: Any, instant: Instant) -> Any:
    """A relation's rows at an instant, as a relation; whether a predicate is true then, as a predicate.

    Neither mentions NOW.  Just before s (s⁻): time is discrete, so ``start <= s - 1 µs`` is ``start < s``.
    """
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def starts(node: Any) -> tuple[Event, ...]:
    """The events at which rows of a relation begin, or at which a predicate becomes true by something of its own."""
    raise DerivationError(f"no rule for {type(node).__name__}")


@singledispatch
def ends(node: Any) -> tuple[Event, ...]:
    """The events at which rows of a relation end, or at which a predicate ceases by something of its own."""
    raise DerivationError(f"no rule for {type(node).__name__}")
