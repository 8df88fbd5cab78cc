"""A principal: the person or program on whose behalf Weft works."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Role = Literal["admin", "author", "reader"]
"""``admin`` may do everything.  ``author`` may install queries.

``reader`` may read what is granted, and install a saved query that is granted.
"""
ROLES: Final[tuple[Role, ...]] = ("admin", "author", "reader")


class Right(str, Enum):
    """A right that an operation needs.

    ``read``, ``load`` and ``channel`` are granted.  ``install`` comes with the role, and ``own`` with the ownership of
    a query.  ``self`` belongs to everybody who signed in, for her own account.  ``any`` is no restriction.
    """

    ANY = "any"
    READ = "read"
    LOAD = "load"
    CHANNEL = "channel"
    INSTALL = "install"
    OWN = "own"
    SELF = "self"
    ADMIN = "admin"


Scope = Literal["read", "load", "install", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "load", "install", "admin")
"""What a token may be restricted to."""
_SCOPE_OF: Final[dict[Right, Scope | None]] = {
    Right.READ: "read",
    Right.LOAD: "load",
    Right.CHANNEL: "install",
    Right.INSTALL: "install",
    Right.OWN: "install",
    Right.SELF: None,
    Right.ADMIN: "admin",
}


@dataclass(frozen=True)
class Principal:
    """The person or program on whose behalf Weft works.

    ``user_id`` is the ID of a user.  The owner of the home's folder has no ID, and may do everything.  A principal with
    a ``query_id`` has opened the link of a shared query, and may read this query only.  ``scopes`` are those of a token
    (None: all).  ``door`` and ``address`` say where the request came from.
    """

    name: str | None = None
    user_id: int | None = None
    query_id: int | None = None
    scopes: frozenset[Scope] | None = None
    door: str = "local"
    address: str | None = None

    @property
    def is_owner(self) -> bool:
        """Whether this is the owner of the home's folder."""
        return self.user_id is None and self.query_id is None

    def in_scope(self, right: Right) -> bool:
        """Return whether the scopes include a right.  A token never includes the rights over the account itself."""
        if self.scopes is None or right is Right.ANY:
            return True
        scope = _SCOPE_OF[right]
        return scope is not None and scope in self.scopes


OWNER: Final = Principal()
"""The owner of the home's folder, on this machine."""
