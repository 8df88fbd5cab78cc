"""Sign in and out, set a password by a link, read a shared query, and end letters by a link."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from weft.errors import NotAllowed, NotFound, Refused
from weft.web import security
from weft.web.attempts import TooManyAttempts
from weft.web.callers import address_of, key_cookie, session_cookie
from weft.web.visits import Visit, page

_LISTED: Final = 50


def form(visit: Visit) -> Response:
    """Show the form for the name and the password."""
    if visit.principal is not None:
        return visit.go(_inside(visit.asked("next")))
    users = visit.site.weft.accounts.in_use()
    return visit.show("sign_in.html", error=None, name="", next=_inside(visit.asked("next")), users=users)


def sign_in(visit: Visit) -> Response:
    """Begin a session."""
    name, address = visit.given("name"), address_of(visit.site, visit.request)
    following = _inside(visit.given("next"))
    try:
        with visit.site.attempts.trying(name, address):
            password = str(visit.form.get("password", ""))
            issued = visit.site.weft.accounts.sign_in(name, password, address=address)
    except (NotAllowed, TooManyAttempts) as error:
        status = 429 if isinstance(error, TooManyAttempts) else 403
        return visit.show("sign_in.html", status, error=error, name=name, next=following, users=True)
    response = visit.go(following)
    security.set_cookie(response, session_cookie(visit.site), issued.secret, security.MONTH_SECONDS, visit.site)
    security.new_visitor(response, visit.site)  # forms of before are not valid any more
    return response


def open_with_key(visit: Visit) -> Response:
    """Sign in the browser of the owner of a home without users.  `weft serve` prints the address."""
    key, site = visit.part("key"), visit.site
    if not site.is_key(key):
        return visit.go("/sign-in")
    response = visit.go("/")
    security.set_cookie(response, key_cookie(site, visit.request), key, security.MONTH_SECONDS, site)
    return response


def _inside(path: str) -> str:
    """Return a path of this host, so that nobody is sent elsewhere after the sign-in.

    >>> _inside("/queries?q=1"), _inside("//evil.example"), _inside("/\\\\evil.example"), _inside("https://evil.example")
    ('/queries?q=1', '/', '/', '/')
    """
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if safe else "/"


def sign_out(visit: Visit) -> Response:
    """End the session."""
    secret = visit.request.cookies.get(session_cookie(visit.site))
    if secret:
        visit.site.weft.accounts.sign_out(secret)
    response = visit.go("/sign-in", "You are signed out.")
    security.drop_cookie(response, session_cookie(visit.site), visit.site)
    return response


def password_form(visit: Visit) -> Response:
    """Show the form for a new password."""
    return visit.show("password.html", error=None, secret=visit.part("secret"))


def set_password(visit: Visit) -> Response:
    """Set the password of the user to whom the link was given."""
    secret, chosen = visit.part("secret"), str(visit.form.get("password", ""))
    try:
        if chosen != str(visit.form.get("again", "")):
            raise Refused("the two passwords differ", hint="Write the same password twice.")
        user = visit.site.weft.accounts.set_password(
            secret,
            chosen,
            withdraw_tokens=visit.given("tokens") == "on",
            address=address_of(visit.site, visit.request),
        )
    except Refused as error:
        return visit.show("password.html", 400, error=error, secret=secret)
    return visit.go("/sign-in", f"{user.name}, your password is set. Sign in with it.")


def shared(visit: Visit) -> Response:
    """Show the answers of a query to a guest with its link."""
    token = visit.part("token")
    principal = visit.site.weft.accounts.of_share(token, address=address_of(visit.site, visit.request))
    if principal is None or principal.query_id is None:
        raise NotFound("this link is not valid any more", hint="Ask the person who gave it to you for a new one.")
    weft = visit.site.weft.acting_as(principal)
    query = weft.query(principal.query_id)
    before = min(max(visit.number("before") or query.rows + 1, 1), query.rows + 1)
    after = max(before - 1 - _LISTED, 0)
    rows = list(weft.results(query.name, after=after, limit=before - 1 - after)) if before - 1 > after else []
    older = f"/shared/{quote(token)}?before={after + 1}" if after else None
    return visit.show("shared.html", query=query, rows=rows[::-1], older=older)


def unsubscribe_form(visit: Visit) -> Response:
    """Ask whether the letters shall end: a program that looks at the link ends nothing."""
    return visit.show("unsubscribe.html", token=visit.part("token"), ended=None)


def unsubscribe(visit: Visit) -> Response:
    """End the letters that the signed link names (RFC 8058): a mail program sends this without a visit before."""
    ended = visit.site.weft.accounts.unsubscribe_by(visit.part("token"), address=address_of(visit.site, visit.request))
    return visit.show("unsubscribe.html", token=visit.part("token"), ended=ended)


ROUTES: Final = (
    Route("/sign-in", page(form, public=True)),
    Route("/sign-in", page(sign_in, public=True), methods=["POST"]),
    Route("/open/{key}", page(open_with_key, public=True)),
    Route("/sign-out", page(sign_out, public=True), methods=["POST"]),
    Route("/password/{secret}", page(password_form, public=True)),
    Route("/password/{secret}", page(set_password, public=True), methods=["POST"]),
    Route("/shared/{token}", page(shared, public=True)),
    Route("/unsubscribe/{token}", page(unsubscribe_form, public=True)),
    Route("/unsubscribe/{token}", page(unsubscribe, public=True, own_form=False), methods=["POST"]),
)
