"""Protect the page: headers, the names of the host, the cookie of a browser, and the origin of forms."""

from __future__ import annotations

import hmac
import json
import math
import secrets
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.errors import Refused
from weft.web.site import Site, host_name

FIELD: Final = "csrf"
"""The name of the field with a form's token."""
_VISITOR: Final = "weft_visitor"
_NOTICE: Final = "weft_notice"
UPLOAD: Final = "/tables/-/upload"
"""The address that takes files."""
API: Final = "/api/v1/"
"""The beginning of the addresses of the HTTP API."""
_LARGEST_FILE: Final = 2 << 30
_LARGEST_FORM: Final = 4 << 20
MONTH_SECONDS: Final = 30 * 24 * 3600
YEAR_SECONDS: Final = 365 * 24 * 3600
_NOTICE_SECONDS: Final = 60
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Middleware that refuses foreign names of the host, knows a browser by a cookie, and sets the headers."""

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self._application, self._site = application, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        visitor, known = _visitor(Request(scope), self._site)
        scope.setdefault("state", {})["visitor"] = visitor

        taken, largest = 0, _largest(scope["path"], Headers(scope=scope).get("content-type", ""))

        async def receive_little() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > largest:
                raise HTTPException(413, "the request is too large")
            return message

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._protect(MutableHeaders(scope=message), scope["path"], None if known else visitor)
            await send(message)

        if not self._is_own_name(Headers(scope=scope).get("host", "")):
            response = PlainTextResponse("This name of the host is not one of the page's.\n", 421)
            await response(scope, receive, send_protected)
            return
        await self._application(scope, receive_little, send_protected)

    def _is_own_name(self, host: str) -> bool:
        """A foreign page could otherwise reach the page through a name that leads to this machine."""
        return not self._site.hosts or host_name(host) in self._site.hosts

    def _protect(self, headers: MutableHeaders, path: str, new_visitor: str | None) -> None:
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        if not path.startswith("/static/"):
            headers.setdefault("cache-control", "no-store")
        if self._site.tls:
            headers.setdefault("strict-transport-security", f"max-age={YEAR_SECONDS}")
        if new_visitor is not None and not path.startswith("/static/"):
            cookie = Response()
            set_cookie(cookie, cookie_name(_VISITOR, self._site), new_visitor, MONTH_SECONDS, self._site)
            headers.append("set-cookie", cookie.headers["set-cookie"])


def _largest(path: str, kind: str) -> float:
    """Return the largest size of a request with a body of this type.

    The HTTP API has limits of its own, after it knows the caller.
    """
    if path.startswith(API):
        return math.inf
    return _LARGEST_FILE if path == UPLOAD and kind.startswith("multipart/form-data") else _LARGEST_FORM


def _visitor(request: Request, site: Site) -> tuple[str, bool]:
    known = request.cookies.get(cookie_name(_VISITOR, site), "")
    if len(known) == 43 and known.isascii() and known.isprintable():
        return known, True
    return secrets.token_urlsafe(32), False


def cookie_name(name: str, site: Site) -> str:
    """Return the name under which a browser keeps a cookie.  Over TLS, no other host can set a cookie of this name."""
    return f"__Host-{name}" if site.tls else name


def set_cookie(response: Response, name: str, value: str, seconds: int, site: Site) -> None:
    """Set a cookie that scripts and other sites cannot read.  ``name`` is a name of ``cookie_name``."""
    response.set_cookie(name, value, max_age=seconds, httponly=True, samesite="lax", secure=site.tls, path="/")


def new_visitor(response: Response, site: Site) -> None:
    """Give the browser a new random name, so that a name that somebody else set before the sign-in is worthless."""
    set_cookie(response, cookie_name(_VISITOR, site), secrets.token_urlsafe(32), MONTH_SECONDS, site)


def form_token(secret: bytes, visitor: str, session: str) -> str:
    """Return the token of the forms of one browser in one session."""
    return hmac.new(secret, json.dumps(["form", visitor, session]).encode(), sha256).hexdigest()


def require_own_form(request: Request, given: str, token: str) -> None:
    """Raise Refused unless a page of this home sent the form."""
    if is_foreign(request) or not hmac.compare_digest(given.encode(), token.encode()):
        raise Refused(
            "this form is not from a page of this server",
            hint="Go back, reload the page, and send the form again. The browser must accept cookies.",
        )


def is_foreign(request: Request) -> bool:
    """Return whether a page of another server sends the request.  Browsers say where a page comes from; programs say
    nothing.
    """
    origin = request.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    except ValueError:  # the origin is no address
        return True


def leave_notice(response: Response, notice: str, site: Site) -> None:
    """Let the next page show a sentence once."""
    set_cookie(response, cookie_name(_NOTICE, site), quote(notice[:500]), _NOTICE_SECONDS, site)


def take_notice(request: Request, response: Response, site: Site) -> None:
    """Forget the sentence that this page shows."""
    name = cookie_name(_NOTICE, site)
    if name in request.cookies:
        drop_cookie(response, name, site)


def drop_cookie(response: Response, name: str, site: Site) -> None:
    """Delete a cookie in the browser."""
    response.delete_cookie(name, path="/", secure=site.tls, httponly=True)


def notice_of(request: Request, site: Site) -> str:
    """Return the sentence that the page must show, or an empty text."""
    return unquote(request.cookies.get(cookie_name(_NOTICE, site), ""))
