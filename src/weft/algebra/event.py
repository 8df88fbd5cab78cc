"""Define instants and events, which the functions ``at``, ``starts`` and ``ends`` use (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.relation import Output, Predicate, Project, Relation, Scan, Select
from weft.algebra.scalar import Scalar

INSTANT: Final = "_instant"
"""The name of the column that contains the instant of an event.  User columns never start with an underscore."""


@dataclass(frozen=True)
class Instant:
    """The instant ``s``, or the instant just before ``s`` (s⁻) if ``before`` is true."""

    s: Scalar
    before: bool = False


DriverKind: TypeAlias = OneOf["arrival", "departure", "beginning", "now_from", "now_before", "greatest"]


@dataclass(frozen=True)
class Driver:
    """The cause of an event: a row starts, a row ends, or NOW reaches a threshold.

    ``scan`` is the scan whose row starts or ends, or None for a threshold.  ``instant`` is the instant of the event.
    ``inside`` names the enclosing subqueries (``EXISTS`` or ``NOT EXISTS``), outermost first.  An event of the kind
    ``beginning`` is the start of constant rows at the beginning of time.  The kind ``greatest`` occurs only in the
    closed form of Q^M.  The instant of a ``greatest`` event is the latest of several start times.
    """

    kind: DriverKind
    instant: Scalar
    scan: Scan | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One branch of ``starts`` or ``ends``: pairs (row of ``relation``, instant).

    The instant is an expression over the columns of the relation.  The expression does not contain ``NOW``.
    """

    driver: Driver
    relation: Relation

    @property
    def instant(self) -> Scalar:
        """The instant of the event, as an expression over the columns of the relation."""
        return self.driver.instant

    def over(self, relation: Relation) -> Event:
        """Return a copy of the event with another relation."""
        return replace(self, relation=relation)

    def where(self, predicate: Predicate) -> Event:
        """Return the event restricted to the rows for which ``predicate`` is true."""
        return self.over(Select(self.relation, predicate))

    @property
    def projection(self) -> Project:
        """The relation of the branch, which must be a projection of a block (``derivation.merge``)."""
        assert isinstance(self.relation, Project)
        return self.relation

    @property
    def block(self) -> Relation:
        """The input of the branch's projection."""
        return self.projection.input

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of the answer, without the column of the instant."""
        return tuple(output for output in self.projection.outputs if output.name != INSTANT)

    def with_block(self, block: Relation) -> Event:
        """Return a copy of the branch whose projection reads ``block``."""
        return self.over(replace(self.projection, input=block))
