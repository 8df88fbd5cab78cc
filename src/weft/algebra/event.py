"""Instants, and events on lives: the vocabulary of ``at``, ``starts`` and ``ends`` (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from weft.algebra.relation import Predicate, Scan, Source
from weft.algebra.scalar import Scalar


@dataclass(frozen=True)
class Instant:
    """The instant s, or with ``before`` the instant just before it (s⁻)."""

    s: Scalar
    before: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A relation at one instant: the combinations of ``sources`` for which ``condition`` is true."""

    sources: tuple[Source, ...]
    condition: Predicate


DriverKind: TypeAlias = OneOf["arrival", "departure", "now_from", "now_before", "greatest"]


@dataclass(frozen=True)
class Driver:
    """The one atom that makes an event: a row that begins or ends, or a threshold of time that is reached.

    ``scan`` is the range variable that began or ended (None for a threshold); ``instant`` its instant; ``inside`` the
    subqueries it lies in, outermost first (``NOT EXISTS``, ``EXISTS``).  ``greatest`` is the closed form's: the latest
    of several starts.
    """

    kind: DriverKind
    instant: Scalar
    scan: Scan | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One branch of ``starts`` or ``ends``: the pairs (combination of ``sources``, ``driver.instant``) for which
    ``condition`` is true.  NOW does not occur in it."""

    driver: Driver
    sources: tuple[Source, ...]
    condition: Predicate

    @property
    def instant(self) -> Scalar:
        """s, as an expression over the sources."""
        return self.driver.instant
