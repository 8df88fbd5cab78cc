"""Find on whose behalf a request works: the owner of a home without users, or a user with a session, a token or a
proxy's header.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from typing import Final

from starlette.requests import Request

from weft.configuration import configuration
from weft.rights.principal import OWNER, Principal
from weft.web.security import cookie_name
from weft.web.site import Site

_SESSION: Final = "weft_session"
_KEY: Final = "weft_key"
_HOP: Final = re.compile(r"\[([^]]*)](?::[0-9]{1,5})?|([^:]*):[0-9]{1,5}|([^]\[]*)")
"""An address in ``X-Forwarded-For``: in brackets, or with a port, or alone."""


def session_cookie(site: Site) -> str:
    """Return the name of the cookie with a session."""
    return cookie_name(_SESSION, site)


def key_cookie(site: Site, request: Request) -> str:
    """Return the name of the cookie with the key of the page.  Ports share their cookies, but not their homes."""
    return cookie_name(f"{_KEY}_{request.url.port or 'default'}", site)


def address_of(site: Site, request: Request) -> str | None:
    """Return the address of the machine that sent the request.

    Behind a proxy of the settings, it is the last address in ``X-Forwarded-For`` that is not a proxy of the settings.
    The header of any other sender is ignored.
    """
    found = _peer(request)
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    if found is None or hops == [""]:
        return found
    chosen = configuration(site.weft.home)
    proxies = {*chosen.web_proxy, *chosen.web_forwarded_by}
    for hop in reversed(hops):
        named = _ip(hop)
        if found not in proxies or named is None:
            break
        found = named
    return found


def _peer(request: Request) -> str | None:
    return None if request.client is None else _ip(request.client.host) or request.client.host


def _ip(text: str) -> str | None:
    """Return an address in its usual form, without its port.

    A page at ``[::]`` also sees addresses of IPv4, in the form of IPv6.

    >>> _ip(" ::FFFF:192.0.2.7"), _ip("[2001:db8::1]:443"), _ip("192.0.2.7:80"), _ip("unknown")
    ('192.0.2.7', '2001:db8::1', '192.0.2.7', None)
    """
    named = _HOP.fullmatch(text.strip())
    try:
        found = ipaddress.ip_address(next(filter(None, named.groups()), "") if named else "")
    except ValueError:
        return None
    return str((found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found)


def principal_of(site: Site, request: Request, door: str = "page") -> Principal | None:
    """Return the principal of a request, or None if she must sign in first.  The log names the ``door``.

    A home without users asks for its key, because other accounts of the machine can reach the page.
    """
    accounts, token = site.weft.accounts, _token(request)
    if not accounts.in_use():
        key = request.cookies.get(key_cookie(site, request), "") if token is None else token
        return OWNER if site.is_local and site.is_key(key) else None
    address = address_of(site, request)
    if token is not None:
        return accounts.of_token(token, door=door, address=address)
    session = request.cookies.get(session_cookie(site))
    found = accounts.of_session(session, door=door, address=address) if session else None
    return found or _of_proxy(site, request, address)


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


def _of_proxy(site: Site, request: Request, address: str | None) -> Principal | None:
    """Return the principal whom the trusted proxy names in UTF-8, or None.

    A proxy that adds its header to that of a browser sends both, and the first is the one of the browser.
    """
    chosen, peer = configuration(site.weft.home), _peer(request)
    named = request.headers.getlist(chosen.web_proxy_header) if chosen.web_proxy else []
    if not peer or len(named) != 1:
        return None
    try:
        name = named[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        return None
    return site.weft.accounts.of_proxy(name, peer, address=address)
