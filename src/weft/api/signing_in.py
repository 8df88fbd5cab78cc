"""Passwords, sessions and tokens: how somebody becomes a principal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from weft.api.arguments import length
from weft.api.requirements import requires
from weft.catalog.secrets import SecretKind, SecretRecord
from weft.catalog.users import UserRecord
from weft.configuration import configuration
from weft.errors import NotAllowed, Refused
from weft.execution.home import OpenHome
from weft.printable import Brief
from weft.rights.principal import SCOPES, Principal, Right, Scope
from weft.rights.secrets import digest_of, fits, new_secret, password_hash

_LINK_US: Final = 7 * 86_400_000_000
"""How long a link for setting a password is valid."""
_SESSION_US: Final = 30 * 86_400_000_000
_TOKEN: Final = "weft_"
"""The beginning of a token, by which a person or a scanner recognizes it."""


@dataclass(frozen=True, repr=False)
class Issued(Brief):
    """A new secret.  Weft shows ``secret`` once, and stores only its digest."""

    secret: str = field(repr=False)
    record: SecretRecord

    def _brief(self) -> str:
        return self.record._brief()


def _used() -> NotAllowed:
    return NotAllowed("this link is not valid any more", hint="Ask an administrator for a new link.")


class AccountMethods:
    """The methods over the accounts of an open home."""

    def __init__(self, opened: OpenHome) -> None:
        self.opened = opened
        """The open home, on behalf of its principal."""

    def _own_id(self) -> int:
        user_id = self.opened.principal.user_id
        if user_id is None:
            raise Refused("the owner of the home's folder has no account", hint="Name a user, or sign in as a user.")
        return user_id

    def _issue(
        self,
        kind: SecretKind,
        *,
        user_id: int | None = None,
        query_id: int | None = None,
        label: str | None = None,
        scopes: frozenset[Scope] | None = None,
        lasting_us: int | None = None,
    ) -> Issued:
        secret, at = (_TOKEN if kind == "token" else "") + new_secret(), self.opened.clock()
        expires = None if lasting_us is None else at + lasting_us
        add = self.opened.catalog.secrets.add
        owner = {"user_id": user_id, "query_id": query_id}
        return Issued(secret, add(kind, digest_of(secret), at, label=label, scopes=scopes, expires_at=expires, **owner))

    def _found(self, kind: SecretKind, secret: str) -> SecretRecord | None:
        return self.opened.catalog.secrets.find(kind, digest_of(secret), self.opened.clock())


class SigningIn(AccountMethods):
    """The methods of ``Accounts`` that find the principal of a password, a session, a token or a proxy's header."""

    @requires(Right.ANY)
    def me(self) -> UserRecord:
        """Return the user on whose behalf the home is open.

        Raise Refused for the owner of the folder, and NotAllowed for somebody who is not a user any more.
        """
        user = self.opened.catalog.users.by_id(self._own_id())
        if user.state != "active":
            raise NotAllowed(f"{user.name} is not a user any more", hint="Ask an administrator.")
        return user

    @requires(Right.ADMIN)
    def password_link(self, user: str) -> Issued:
        """Return a secret with which a user sets a password once, within seven days.  Raise NotFound."""
        return self._issue("password", user_id=self.opened.catalog.users.named(user).user_id, lasting_us=_LINK_US)

    @requires(Right.ANY)
    def set_password(
        self, link: str, password: str, *, withdraw_tokens: bool = False, address: str | None = None
    ) -> UserRecord:
        """Set the password of the user to whom ``password_link`` gave this secret.  Her sessions end.

        With ``withdraw_tokens``, her tokens end, too.  Raise NotAllowed or Refused.
        """
        found, users = self._found("password", link), self.opened.catalog.users
        if found is None or found.user_id is None:
            raise _used()
        hashed, user = password_hash(password), users.by_id(found.user_id)
        visitor = Principal(user.name, user.user_id, door="page", address=address)
        audit = self.opened.catalog.audit
        key = audit.begin(visitor, user.name, "set_password", None, self.opened.clock())
        if not users.set_password(user.user_id, hashed, link_id=found.secret_id, tokens=withdraw_tokens):
            audit.end(key, "refused")
            raise _used()
        audit.end(key, "done")
        return user

    @requires(Right.SELF, logged=True)
    def change_password(self, old: str, new: str, *, withdraw_tokens: bool = False) -> None:
        """Change the own password.  All sessions of the user end, including this one.

        With ``withdraw_tokens``, her tokens end, too.  Raise NotAllowed or Refused.
        """
        user = self.me()
        known = self.opened.catalog.users.password(user.name)
        if not fits(old, None if known is None else known[1]):
            raise NotAllowed("the present password is wrong", hint="Try again, or ask for a link for a new one.")
        self.opened.catalog.users.set_password(user.user_id, password_hash(new), tokens=withdraw_tokens)

    @requires(Right.ANY)
    def sign_in(self, name: str, password: str, *, door: str = "page", address: str | None = None) -> Issued:
        """Return the secret of a new session.  It is valid for 30 days, or until the password changes.

        Raise NotAllowed if the name or the password is wrong.  An unknown name takes as long as a wrong password.
        """
        known = self.opened.catalog.users.password(name)
        right = fits(password, None if known is None else known[1])
        audit = self.opened.catalog.audit
        visitor = Principal(name, None if known is None else known[0], door=door, address=address)
        key = audit.begin(visitor, name[:100], "sign_in", None, self.opened.clock())
        if known is None or not right:
            audit.end(key, "refused")
            raise NotAllowed("the name or the password is wrong", hint="Try again, or ask an administrator.")
        issued = self._issue("session", user_id=known[0], lasting_us=_SESSION_US)
        audit.end(key, "done")
        return issued

    @requires(Right.ANY)
    def sign_out(self, session: str) -> None:
        """End a session.  An unknown secret has no effect."""
        found = self._found("session", session)
        if found is not None:
            self.opened.catalog.secrets.withdraw("session", found.secret_id)

    @requires(Right.ANY)
    def of_session(self, secret: str, *, door: str = "page", address: str | None = None) -> Principal | None:
        """Return the principal of a session, or None if it has ended."""
        return self._principal("session", secret, door, address)

    @requires(Right.ANY)
    def of_token(self, secret: str, *, door: str = "api", address: str | None = None) -> Principal | None:
        """Return the principal of a token, or None if it is unknown, withdrawn or expired."""
        return self._principal("token", secret, door, address)

    def _principal(self, kind: SecretKind, secret: str, door: str, address: str | None) -> Principal | None:
        found = self._found(kind, secret)
        if found is None or found.user_id is None:
            return None
        user = self.opened.catalog.users.by_id(found.user_id)
        if user.state != "active":
            return None
        return Principal(user.name, user.user_id, scopes=found.scopes, door=door, address=address)

    @requires(Right.ADMIN, logged=False)
    def of_proxy(self, name: str, peer: str, *, address: str | None = None) -> Principal | None:
        """Return the principal whom a proxy names in its header, or None.

        ``peer`` is the address of the proxy, and ``address`` that of the browser, by default the same.  Only the
        proxy of the settings (``web.proxy``) is trusted, and only for the names of users.
        """
        if peer not in configuration(self.opened.folder).web_proxy:
            return None
        user = self.opened.catalog.users.find(name)
        if user is None or user.name != name:
            return None
        return Principal(user.name, user.user_id, door="proxy", address=address or peer)

    @requires(Right.SELF, logged=True)
    def create_token(
        self,
        user: str | None = None,
        *,
        scopes: Iterable[Scope] = ("read",),
        expires: str | int | None = "90d",
        label: str | None = None,
    ) -> Issued:
        """Create a token for programs and the command line, and return its secret.

        ``user`` is the user on whose behalf the token works, by default the principal.  Only an administrator creates
        tokens of others.  ``expires`` is a length of time (None: it does not expire).  Raise Refused for an unknown
        scope, NotFound, or NotAllowed.
        """
        chosen = frozenset(scopes)
        unknown = sorted(chosen - set(SCOPES))
        if unknown or not chosen:
            named = repr(unknown[0]) if unknown else "nothing"
            raise Refused(f"{named} is not a scope of a token", hint=f"Choose from {', '.join(SCOPES)}.")
        lasting = None if expires is None else length(expires)
        if lasting is not None and lasting <= 0:
            raise Refused("a token must be valid for some time", hint="Choose a length such as 90d.")
        return self._issue("token", user_id=self._of(user), label=label, scopes=chosen, lasting_us=lasting)

    @requires(Right.SELF)
    def tokens(self, user: str | None = None) -> tuple[SecretRecord, ...]:
        """Return the valid tokens of a user, by default of the principal, or of all for the owner of the folder."""
        every = user is None and self.opened.principal.is_owner
        user_id = None if every else self._of(user)
        return self.opened.catalog.secrets.all("token", self.opened.clock(), user_id=user_id)

    @requires(Right.SELF, logged=True)
    def withdraw_token(self, token_id: int) -> SecretRecord:
        """Withdraw a token: an own one, or any for an administrator.  Raise NotFound."""
        every = self.opened.seen().rights.may(Right.ADMIN)
        return self.opened.catalog.secrets.withdraw("token", token_id, user_id=None if every else self._own_id())

    def _of(self, user: str | None) -> int:
        if user is None or user == self.opened.principal.name:
            return self._own_id()
        self.opened.seen().require(Right.ADMIN)
        return self.opened.catalog.users.named(user).user_id
