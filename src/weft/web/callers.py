"""Find on whose behalf a request works: the owner of a home without users, or a user with a session, a token or a
proxy's header.
"""

from __future__ import annotations

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


def principal_of(site: Site, request: Request) -> Principal | None:
    """Return the principal of a request, or None if she must sign in first.

    A home without users belongs to everybody who reaches its page from this machine.
    """
    accounts, peer = site.weft.accounts, peer_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return accounts.of_token(token.strip(), door="api", address=peer)
    if not accounts.in_use():
        return OWNER if site.is_local else None
    session = request.cookies.get(session_cookie(site))
    found = accounts.of_session(session, door="page", address=peer) if session else None
    return found or _of_proxy(site, request, peer)


def _of_proxy(site: Site, request: Request, peer: str | None) -> Principal | None:
    chosen = configuration(site.weft.home)
    named = request.headers.get(chosen.web_proxy_header) if chosen.web_proxy and peer else None
    return site.weft.accounts.of_proxy(named, peer) if named and peer else None
