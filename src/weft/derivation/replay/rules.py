"""Define ``at``, ``starts`` and ``ends``, the three functions of the incremental engine.

- ``at(E, s)`` has the rows of E at the instant s.  At s, NOW is s, and a table has the rows whose period contains s.
- ``starts(E)`` has the pairs (row, s) where the row is in E at s and some witness of the row began at s.
- ``ends(E)`` has the pairs (row, s) where the row was in E just before s and some witness of the row ended at s.

A witness of a row is a combination of input rows that puts the row into E.  Each operator has its rules in one file of
this package.  No rule depends on a window.  The instant s of an event is an expression, and ``derivation.incremental``
adds the condition τ <= s < t.

Law: ``starts`` returns a row at s only if E contains the row at s.  Each entry into E is among ``starts``, and each
exit from E is among ``ends`` (design section 2).  Tests compare the functions with the rows of E at every instant.

Proof: proofs/Query.v: every_query_is_lawful.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from weft.algebra.event import Event, Instant
from weft.errors import DerivationError


@singledispatch
def at(node: Any, instant: Instant) -> Any:
    """Return the relation or predicate ``node`` at the instant.

    The result does not mention NOW.  For the instant s⁻ just before s, ``start <= s - 1 µs`` is written as ``start <
    s``, because time is discrete.
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
