"""The users, groups and rights of a home, and the log of what was done."""

from __future__ import annotations

from weft.api.arguments import own_user
from weft.api.requirements import requires
from weft.api.sharing import Sharing
from weft.api.signing_in import SigningIn
from weft.catalog.audit import AuditRecord
from weft.catalog.grants import GrantRecord
from weft.catalog.records import RESULTS, SAVED
from weft.catalog.seen import query_thing, saved_thing
from weft.catalog.users import GroupRecord, LastAdmin, UserLimits, UserRecord
from weft.configuration import configuration
from weft.errors import Refused
from weft.rights.policy import ADMIN_CHANNELS, GRANTABLE, Reach, Thing
from weft.rights.principal import ROLES, Right, Role


class Accounts(SigningIn, Sharing):
    """The accounts of an open home, as its principal may see and change them: ``Weft.accounts``."""

    @requires(Right.ANY)
    def in_use(self) -> bool:
        """Return whether the home has, or had, users.  Without users, everybody who reaches the home is its owner."""
        return self.opened.catalog.users.exist()

    @requires(Right.ANY)
    def reach(self) -> Reach:
        """Return what the principal may read.  If it has changed, earlier results may contain what she may not read."""
        return self.opened.catalog.grants.reach_of(self.opened.principal)

    @requires(Right.ADMIN, logged=False)
    def users(
        self, *, text: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[UserRecord, ...]:
        """Return at most ``limit`` users, ordered by name, whose names contain ``text`` and come after ``after``."""
        return self.opened.catalog.users.all(text=text, after=after, limit=limit)

    @requires(Right.ADMIN, logged=False)
    def user(self, name: str) -> UserRecord:
        """Return the user with this case-insensitive name.  Raise NotFound."""
        return self.opened.catalog.users.named(name)

    @requires(Right.ADMIN)
    def add_user(
        self,
        name: str,
        role: Role = "reader",
        limits: UserLimits | None = None,
        *,
        inherit: bool = False,
        admin_first: bool = False,
    ) -> UserRecord:
        """Add a user.  With ``inherit``, she owns the queries that belong to her name.

        Raise Refused for an invalid name, role or limit.  With ``admin_first``, which the page and the HTTP API set,
        also raise Refused if the first user of the home is no administrator.

        Raise Conflict if the name is taken, or if queries belong to it and she does not inherit them.
        """
        _require_role(role)
        _require_limits(limits)
        if admin_first and role != "admin" and not self.opened.catalog.users.exist():
            raise Refused(
                "the first user must be an administrator, because only an administrator can add further users",
                hint="Choose the role admin.",
            )
        return self.opened.catalog.users.add(name, role, limits or UserLimits(), self.opened.clock(), inherit=inherit)

    @requires(Right.ADMIN)
    def change_user(self, name: str, *, role: Role | None = None, limits: UserLimits | None = None) -> UserRecord:
        """Change the role or all limits of a user.

        Raise NotFound or Refused.  If she loses the role of an administrator, raise Conflict as ``remove_user`` does.
        """
        if role is not None:
            _require_role(role)
        _require_limits(limits)
        return self.opened.catalog.users.change(name, role=role, limits=limits, keep=self._kept_admin)

    @requires(Right.ADMIN)
    def remove_user(self, name: str) -> UserRecord:
        """Remove a user with her rights, tokens and sessions.  Her queries are paused.

        Raise NotFound.  Unless the principal is the folder's owner, raise Conflict for the last administrator and,
        without a proxy in the settings (``web.proxy``), for the last administrator who has a password.
        """
        return self.opened.catalog.users.remove(name, keep=self._kept_admin)

    @property
    def _kept_admin(self) -> LastAdmin | None:
        """The administrator who stays.  The folder's owner can always add one, and a proxy signs people in without
        passwords.
        """
        if self.opened.principal.is_owner:
            return None
        return "any" if configuration(self.opened.folder).web_proxy else "with a password"

    @requires(Right.ADMIN, logged=False)
    def groups(self, *, after: str | None = None, limit: int | None = None) -> tuple[GroupRecord, ...]:
        """Return at most ``limit`` groups, ordered by name, whose names come after ``after``."""
        return self.opened.catalog.users.groups(after=after, limit=limit)

    @requires(Right.ADMIN)
    def add_group(self, name: str) -> GroupRecord:
        """Add a group.  Raise Refused for an invalid name.  Raise Conflict if the name is taken."""
        return self.opened.catalog.users.add_group(name)

    @requires(Right.ADMIN)
    def remove_group(self, name: str) -> GroupRecord:
        """Remove a group with its rights.  Raise NotFound."""
        return self.opened.catalog.users.remove_group(name)

    @requires(Right.ADMIN)
    def add_member(self, name: str, user: str) -> GroupRecord:
        """Add a user to the group ``name``.  Raise NotFound or Conflict."""
        return self.opened.catalog.users.add_member(name, user)

    @requires(Right.ADMIN)
    def remove_member(self, name: str, user: str) -> GroupRecord:
        """Remove a user from the group ``name``.  Raise NotFound."""
        return self.opened.catalog.users.remove_member(name, user)

    @requires(Right.ANY, logged=True)
    def grant(self, name: str, right: str, about: str) -> None:
        """Grant a right to the user or the group ``name``, or to ``everyone``.

        ``read`` is over a table, a view, ``results.`` and the name of a query, or ``saved.`` and the name of a saved
        query; ``load`` is over a table; ``channel`` is over a kind of channels such as ``email``.  The owner of a query
        or a saved query shares it in this way; all else is for administrators.

        Raise NotFound, Conflict, NotAllowed or Refused.
        """
        chosen, thing = self._thing(right, about)
        by = self.opened.principal.name or own_user()
        self.opened.catalog.grants.grant(name, chosen, thing, by, self.opened.clock())

    @requires(Right.ANY, logged=True)
    def revoke(self, name: str, right: str, about: str) -> None:
        """Revoke a right that ``grant`` gave.  The next tick pauses the queries that needed it.  Raise NotFound."""
        chosen, thing = self._thing(right, about)
        self.opened.catalog.grants.revoke(name, chosen, thing)

    @requires(Right.ANY)
    def grants(
        self, name: str | None = None, *, about: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[GrantRecord, ...]:
        """Return the rights of a user or a group (default: of all), or those over one object.

        With ``limit``, return at most so many, which come after the one with the key ``after``.  The owner of a query
        may see those over it; all else is for administrators.  Raise NotFound, NotAllowed or Refused.
        """
        if about is None:
            self.opened.seen().require(Right.ADMIN)
            return self.opened.catalog.grants.all(name, after=after, limit=limit)
        thing = self._object(about, of_channels=about.partition(":")[0] in _KINDS)
        return self.opened.catalog.grants.all(name, thing, after=after, limit=limit)

    def _thing(self, right: str, about: str) -> tuple[Right, Thing]:
        """Return a right and its object.  Raise NotAllowed unless the principal may grant it."""
        if right not in {each.value for each in GRANTABLE}:
            listed = ", ".join(each.value for each in GRANTABLE)
            raise Refused(f"{right!r} is not a right that can be granted", hint=f"Choose from {listed}.")
        chosen = Right(right)
        thing = self._object(about, of_channels=chosen is Right.CHANNEL)
        if thing.kind not in GRANTABLE[chosen]:
            raise Refused(f"nobody loads rows into {about}", hint="Name a table.")
        return chosen, thing

    def _object(self, about: str, *, of_channels: bool) -> Thing:
        seen = self.opened.seen()
        scheme, dot, query = about.partition(".")
        if not of_channels and dot and scheme.lower() == RESULTS:
            return query_thing(seen.query(query, Right.OWN))
        if not of_channels and dot and scheme.lower() == SAVED:
            return saved_thing(seen.saved(query, Right.OWN))
        seen.require(Right.ADMIN)
        if of_channels:
            kind = about.partition(":")[0].lower()
            _require_kind(kind)
            return Thing("channel", kind)
        return Thing("table", str(seen.table(about).table_id))

    @requires(Right.ADMIN, logged=False)
    def audit(
        self, limit: int = 100, *, user: str | None = None, before: int | None = None, since: int | None = None
    ) -> tuple[AuditRecord, ...]:
        """Return the latest actions, the newest first.

        ``user`` selects the actions of one user, ``before`` those with lower IDs, and ``since`` those from an instant
        on (microseconds UTC).
        """
        return self.opened.catalog.audit.latest(limit, user=user, before=before, since=since)


_KINDS = ("email", "feed", "webhook")
"""The kinds of channels that can be granted."""


def _require_kind(kind: str) -> None:
    if kind in ADMIN_CHANNELS:
        raise Refused(
            f"channels of the kind {kind} cannot be granted: they run programs or write files of the server",
            hint="An administrator adds such a channel to a query of her own.",
        )
    if kind not in _KINDS:
        raise Refused(f"{kind!r} is not a kind of channels", hint=f"Choose from {', '.join(_KINDS)}.")


def _require_role(role: str) -> None:
    if role not in ROLES:
        raise Refused(f"{role!r} is not a role", hint=f"Choose from {', '.join(ROLES)}.")


def _require_limits(limits: UserLimits | None) -> None:
    for name in ("queries", "rows", "seconds"):
        limit = None if limits is None else getattr(limits, name)
        if limit is not None and limit < (1 if name == "seconds" else 0):
            raise Refused(f"the limit of {name} is {limit}", hint="Choose a larger number, or omit the limit.")
