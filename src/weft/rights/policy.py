"""Decide whether a principal has a right to an object of a home."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal

from weft.rights.principal import Principal, Right, Role

ThingKind = Literal["table", "query", "channel", "saved"]
ADMIN_CHANNELS: Final = frozenset({"exec", "file", "delta", "imap", "imaps"})
"""The kinds of channels that run programs, write files of the server, or send the value of an environment variable.
Only administrators add them.
"""
GRANTABLE: Final[dict[Right, tuple[ThingKind, ...]]] = {
    Right.READ: ("table", "query", "saved"),
    Right.LOAD: ("table",),
    Right.CHANNEL: ("channel",),
}
"""The rights that can be granted, and the kinds of their objects."""


@dataclass(frozen=True)
class Thing:
    """An object of rights.  A view is a table, and ``saved`` is a saved query.

    ``key`` is the ID of the object, or the kind of a channel such as ``email``.  ``owner`` is the owner of a query or a
    saved query.  ``barred`` is true if the query is paused because its owner has lost a right.
    """

    kind: ThingKind
    key: str
    owner: str | None = None
    barred: bool = False


Grant = tuple[Right, ThingKind, str]
"""A right, with the kind and the key of its object."""


@dataclass(frozen=True)
class Rights:
    """The rights of a principal at one instant.

    ``role`` is None for somebody who is not a user any more.

    >>> anna = Rights(Principal("anna", 1), "author", frozenset({(Right.READ, "table", "3")}))
    >>> anna.may(Right.READ, Thing("table", "3")), anna.may(Right.LOAD, Thing("table", "3"))
    (True, False)
    >>> anna.may(Right.OWN, Thing("query", "7", owner="anna"))
    True
    """

    principal: Principal
    role: Role | None
    grants: Collection[Grant] = field(default_factory=frozenset)

    def reaches_all(self, right: Right) -> bool:
        """Return whether the principal has a right to all objects."""
        return self.role == "admin" and self.principal.in_scope(right)

    def may(self, right: Right, thing: Thing | None = None) -> bool:
        """Return whether the principal has the right.  Without a ``thing``, the right to an object is not decided."""
        if right is Right.ANY:
            return True
        if not self.principal.in_scope(right):
            return False
        if self.role == "admin":
            return True
        match right:
            case Right.ADMIN:
                return False
            case Right.SELF:
                return self.role is not None
            case Right.INSTALL:
                return self.role == "author"
            case Right.OWN:
                return self.role is not None and (thing is None or self._owns(thing))
            case Right.CHANNEL:
                return self.role is not None and (thing is None or self._may_send(thing))
            case _:
                return thing is None or self._may_reach(right, thing)

    def _owns(self, thing: Thing) -> bool:
        return thing.owner is not None and thing.owner == self.principal.name

    def _may_send(self, thing: Thing) -> bool:
        return thing.key not in ADMIN_CHANNELS and (Right.CHANNEL, thing.kind, thing.key) in self.grants

    def _may_reach(self, right: Right, thing: Thing) -> bool:
        owns = right is Right.READ and self._owns(thing)
        return owns or (right, thing.kind, thing.key) in self.grants

    def ids(self, right: Right, kind: ThingKind) -> frozenset[int]:
        """Return the IDs of the tables or queries to which the right was granted."""
        if not self.principal.in_scope(right):
            return frozenset()
        return frozenset(int(key) for granted, of, key in self.grants if (granted, of) == (right, kind))


@dataclass(frozen=True)
class Reach:
    """What a principal may read at one instant, whatever her token.

    ``version`` is the number of changes of rights in the home.  ``since`` is the instant at which she became a user
    (microseconds UTC).  ``queries`` and ``saved`` are the IDs of the live queries and saved queries that she owns.
    ``barred`` are the IDs of the queries that are hers or that she was granted, and that are paused because their owner
    has lost a right.  An administrator reads all objects, so these sets and ``grants`` are empty for her.
    """

    version: int
    role: Role | None
    since: int | None
    grants: frozenset[Grant] = frozenset()
    queries: frozenset[int] = frozenset()
    saved: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()

    def is_kept_by(self, later: Reach) -> bool:
        """Return whether the same user has the same role later, and may still read all that she may read now."""
        return (
            (self.role, self.since) == (later.role, later.since)
            and self.grants <= later.grants
            and self.queries <= later.queries
            and self.saved <= later.saved
            and self.barred >= later.barred
        )
