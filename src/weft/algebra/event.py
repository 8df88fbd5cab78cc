"""Instants and events, the vocabulary of ``at``, ``starts`` and ``ends`` (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.relation import Output, Predicate, Project, Relation, Scan, Select
from weft.algebra.scalar import Scalar

INSTANT: Final = "_instant"
"""The column of a derived relation with an event's instant.  No user column begins with _."""


@dataclass(frozen=True)
class Instant:
    """The instant s, or the instant just before it (s⁻) with ``before``."""

    s: Scalar
    before: bool = False


DriverKind: TypeAlias = OneOf["arrival", "departure", "beginning", "now_from", "now_before", "greatest"]


@dataclass(frozen=True)
class Driver:
    """The cause of an event: a row that begins or ends, or a threshold of time that is reached.

    ``scan`` is the range variable that began or ended (None for a threshold), ``instant`` is its instant, and
    ``inside`` names the enclosing subqueries, outermost first (``NOT EXISTS``, ``EXISTS``).  The kind ``beginning`` is
    the beginning of time, when constant rows begin.  The kind ``greatest`` belongs to the closed form of Q^M: the
    latest of several starts.
    """

    kind: DriverKind
    instant: Scalar
    scan: Scan | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One branch of ``starts`` or ``ends``: the pairs (row of ``relation``, ``instant``).

    The instant is an expression over the columns of the relation.  NOW does not occur in it.
    """

    driver: Driver
    relation: Relation

    @property
    def instant(self) -> Scalar:
        """s, as an expression over the columns of the relation."""
        return self.driver.instant

    def over(self, relation: Relation) -> Event:
        """Return the event of the same driver over another relation."""
        return replace(self, relation=relation)

    def where(self, predicate: Predicate) -> Event:
        """Return the event restricted to the rows for which a predicate is true."""
        return self.over(Select(self.relation, predicate))

    @property
    def projection(self) -> Project:
        """The relation of a branch, which is a projection of a block (``derivation.merge``)."""
        assert isinstance(self.relation, Project)
        return self.relation

    @property
    def block(self) -> Relation:
        """The input of the branch's projection: sources and a condition."""
        return self.projection.input

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The answer's columns, without the column of the instant."""
        return tuple(output for output in self.projection.outputs if output.name != INSTANT)

    def with_block(self, block: Relation) -> Event:
        """Return the same branch over another block."""
        return self.over(replace(self.projection, input=block))
