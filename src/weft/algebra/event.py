"""Instants, and events on lives: the vocabulary of ``at``, ``starts`` and ``ends`` (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.relation import Output, Predicate, Project, Relation, Scan, Select
from weft.algebra.scalar import Scalar

INSTANT: Final = "_instant"
"""The column of a derived relation that holds an event's instant; no user's column begins with _."""


@dataclass(frozen=True)
class Instant:
    """The instant s, or with ``before`` the instant just before it (s⁻)."""

    s: Scalar
    before: bool = False


DriverKind: TypeAlias = OneOf["arrival", "departure", "beginning", "now_from", "now_before", "greatest"]


@dataclass(frozen=True)
class Driver:
    """The one atom that makes an event: a row that begins or ends, or a threshold of time that is reached.

    ``scan`` is the range variable that began or ended (None for a threshold); ``instant`` its instant; ``inside`` the
    subqueries it lies in, outermost first (``NOT EXISTS``, ``EXISTS``).  ``beginning`` is that of time, when constant
    rows begin; ``greatest`` is the closed form's: the latest of several starts.
    """

    kind: DriverKind
    instant: Scalar
    scan: Scan | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One branch of ``starts`` or ``ends``: the pairs (row of ``relation``, ``instant``).  NOW does not occur in it.

    The instant is an expression over the columns of the relation.
    """

    driver: Driver
    relation: Relation

    @property
    def instant(self) -> Scalar:
        """s, as an expression over the relation's columns."""
        return self.driver.instant

    def over(self, relation: Relation) -> Event:
        """The same driver's event over another relation."""
        return replace(self, relation=relation)

    def where(self, predicate: Predicate) -> Event:
        """Those of the event's rows for which a predicate is true."""
        return self.over(Select(self.relation, predicate))

    @property
    def projection(self) -> Project:
        """The event's relation, of an event that is a projection of a block: a branch (``derivation.merge``)."""
        assert isinstance(self.relation, Project)
        return self.relation

    @property
    def block(self) -> Relation:
        """What a branch projects: sources and a condition."""
        return self.projection.input

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The answer's columns that a branch gives; its instant, which comes after them, left out."""
        return tuple(output for output in self.projection.outputs if output.name != INSTANT)

    def with_block(self, block: Relation) -> Event:
        """The same branch over another block."""
        return self.over(replace(self.projection, input=block))
