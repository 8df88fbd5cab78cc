"""Define instants and events, the arguments and results of ``at``, ``starts`` and ``ends`` (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.relation import Output, Predicate, Project, Relation, Scan, Select
from weft.algebra.scalar import Scalar

INSTANT: Final = "_instant"
"""The column of a derived relation that contains the instant of each event.

No user column starts with an underscore.
"""


@dataclass(frozen=True)
class Instant:
    """The instant ``s``, or the instant just before ``s`` (s⁻) if ``before`` is true."""

    s: Scalar
    before: bool = False


DriverKind: TypeAlias = OneOf["arrival", "departure", "beginning", "now_from", "now_before", "greatest"]


@dataclass(frozen=True)
class Driver:
    """The cause of an event: a row that begins or ends, or a threshold of time that is reached.

    ``scan`` is the scan whose row begins or ends, or None for a threshold.  ``instant`` is the instant of the event.
    ``inside`` names the enclosing subqueries, outermost first (``NOT EXISTS``, ``EXISTS``).  The kind ``beginning`` is
    the beginning of time, when constant rows begin.  The kind ``greatest`` occurs only in the closed form of Q^M, where
    the instant is the latest of several starts.
    """

    kind: DriverKind
    instant: Scalar
    scan: Scan | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One branch of ``starts`` or ``ends``: the pairs of a row of ``relation`` and an instant.

    The instant is an expression over the columns of the relation.  NOW does not occur in the expression.
    """

    driver: Driver
    relation: Relation

    @property
    def instant(self) -> Scalar:
        """The instant of the event, as an expression over the columns of the relation."""
        return self.driver.instant

    def over(self, relation: Relation) -> Event:
        """Return an event with the same driver and with ``relation`` in place of the event's relation."""
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
        """The input of the branch's projection: the sources and the condition on them."""
        return self.projection.input

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of the answer, without the column of the instant."""
        return tuple(output for output in self.projection.outputs if output.name != INSTANT)

    def with_block(self, block: Relation) -> Event:
        """Return a copy of the branch in which the projection reads ``block``."""
        return self.over(replace(self.projection, input=block))
