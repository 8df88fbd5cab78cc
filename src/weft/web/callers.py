"""Find on whose behalf a request works: the owner of a home without users, or a user with a session, a token or a
proxy's header.
"""

from __future__ import annotations

import base64
from typing import Final

from starlette.requests import Request

from weft.configuration import configuration
from weft.rights.principal import OWNER, Principal
from weft.web.site import Site

_SESSION: Final = "weft_session"


def session_cookie(site: Site) -> str:
    """Return the name of the cookie with a session.  Over TLS, no other host can set a cookie of this name."""
    return f"__Host-{_SESSION}" if site.tls else _SESSION


def peer_of(request: Request) -> str | None:
    """Return the address of the machine that sent the request."""
    return None if request.client is None else request.client.host


def principal_of(site: Site, request: Request, door: str = "page") -> Principal | None:
    """Return the principal of a request, or None if she must sign in first.  The log tells the ``door``.

    A home without users belongs to everybody who reaches its page from this machine.
    """
    accounts, peer = site.weft.accounts, peer_of(request)
    if not accounts.in_use():
        return OWNER if site.is_local else None
    token = _token(request)
    if token is not None:
        return accounts.of_token(token, door=door, address=peer)
    session = request.cookies.get(session_cookie(site))
    found = accounts.of_session(session, door=door, address=peer) if session else None
    return found or _of_proxy(site, request, peer)


def _token(request: Request) -> str | None:
    """Return the token of a request.  Feed readers and calendars send it as the password of basic authentication."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return given.strip()
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return None


def _of_proxy(site: Site, request: Request, peer: str | None) -> Principal | None:
    chosen = configuration(site.weft.home)
    named = request.headers.get(chosen.web_proxy_header) if chosen.web_proxy and peer else None
    return site.weft.accounts.of_proxy(named, peer) if named and peer else None
