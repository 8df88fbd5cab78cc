"""Turn a request into a ``Visit``, run its page in a thread, and turn errors into pages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.api.arguments import own_user
from weft.api.weft import Weft
from weft.catalog.records import QueryRecord
from weft.catalog.users import UserRecord
from weft.errors import CatalogUnreachable, Conflict, HomeClosed, LeaseBusy, NotAllowed, NotFound, Refused, WeftError
from weft.faults import isolated_error
from weft.rights.principal import OWNER, Principal, Right, Role
from weft.web import keys, rendering, security  # noqa: F401 - addresses with keys
from weft.web.attempts import TooManyAttempts
from weft.web.callers import principal_of, session_cookie
from weft.web.jobs import Go, Job, Scopes, Shown, Value, Work
from weft.web.site import Site

_AREAS: Final = (
    ("/", "Inbox"),
    ("/queries", "Queries"),
    ("/tables", "Tables"),
    ("/views", "Views"),
    ("/synopses", "Synopses"),
)
_FOR_AUTHORS: Final = (("/deliveries", "Deliveries"),)
_FOR_ADMINS: Final = (*_FOR_AUTHORS, ("/users", "Users"), ("/system", "System"))
_PATIENCE_SECONDS: Final = 2.0
"""The longest time for which a request waits for its job."""
_LONGEST_ADDRESS: Final = 12_000
"""The maximum length of an address that contains another one.  A server refuses headers of 16 KiB."""
_WITH_TEXT: Final = re.compile(r"/ask|/queries/[0-9]+/change")
"""The paths of the forms with the text of a query that an address can fill."""
_KEPT_FIELDS: Final = ("sql", "dialect", "text_since")
_STATUSES: Final[tuple[tuple[type[WeftError], int], ...]] = (
    (NotFound, 404),
    (NotAllowed, 403),
    (Conflict, 409),
    (TooManyAttempts, 429),
    (Refused, 400),
    (LeaseBusy, 503),
    (CatalogUnreachable, 503),
)
_WITHOUT_FILES: Final = "application/x-www-form-urlencoded"
"""The type of a form that contains no files."""
_FROM_ANYBODY: Final = 64 << 10
"""The maximum size of a form from somebody who has not signed in, in bytes."""
_MOST_FIELDS: Final = 100


@dataclass(frozen=True)
class Visit:
    """A request with the form that it sends, and the home as its principal sees it.

    ``stands_for``: on the page of a job with a result, the path of the page whose form started the job.
    """

    request: Request
    site: Site
    principal: Principal | None = None
    form: FormData = field(default_factory=FormData)
    stands_for: str | None = None

    @cached_property
    def weft(self) -> Weft:
        """The home, with the rights of the person who asks.  Raise NotAllowed if nobody has signed in."""
        if self.principal is None:
            raise NotAllowed("this page needs somebody who has signed in", hint="Sign in first.")
        return self.site.weft if self.principal == OWNER else self.site.weft.acting_as(self.principal)

    @cached_property
    def user(self) -> UserRecord | None:
        """The user who asks, or None for the owner of the home and for somebody who has not signed in."""
        return None if self.principal is None or self.principal.user_id is None else self.weft.accounts.me()

    @property
    def person(self) -> str:
        """The name of the person who asks."""
        return own_user() if self.principal is None else self.principal.name or own_user()

    @property
    def is_admin(self) -> bool:
        """Whether the person may do everything."""
        return self.principal == OWNER or (self._has_role("admin") and self._in_scope(Right.ADMIN))

    @property
    def is_author(self) -> bool:
        """Whether the person may install queries."""
        return self.is_admin or (self._has_role("admin", "author") and self._in_scope(Right.INSTALL))

    def _has_role(self, *roles: Role) -> bool:
        return self.user is not None and self.user.role in roles

    def _in_scope(self, right: Right) -> bool:
        """A token may have fewer rights than its user."""
        return self.principal is not None and self.principal.in_scope(right)

    def owns(self, query: QueryRecord) -> bool:
        """Return whether the person may change a query."""
        return self.is_admin or (self.user is not None and query.user == self.user.name)

    @property
    def areas(self) -> tuple[tuple[str, str], ...]:
        """The addresses and names of the areas that the person has, in the order of the menu."""
        if self.principal is None:
            return ()
        last = _FOR_ADMINS if self.is_admin else _FOR_AUTHORS if self.is_author else ()
        ask = ("/ask", "Ask") if self.is_author else ("/saved", "Saved queries")
        return (*_AREAS[:2], ask, *_AREAS[2:], *last)

    @property
    def zone(self) -> str | None:
        """The time zone that the person has set for herself."""
        return None if self.user is None else self.user.zone

    @property
    def owner_or_all(self) -> str | None:
        """The person whose jobs the visit may see, or None for the jobs of all."""
        return None if self.is_admin else self.person

    @property
    def user_id(self) -> int | None:
        """The ID of the user who asks, or None as for ``user``."""
        return None if self.principal is None else self.principal.user_id

    @property
    def scopes(self) -> Scopes:
        """The scopes of the token of the request, or None without a token."""
        return None if self.principal is None else self.principal.scopes

    @property
    def path(self) -> str:
        """The path of the page: that of the request, or of the page that an outcome of a job belongs to."""
        return self.request.url.path if self.stands_for is None else self.stands_for

    @property
    def for_part(self) -> bool:
        """Whether htmx asks for a part of the page.  For Back, it asks for the whole page."""
        headers = self.request.headers
        return "hx-request" in headers and "hx-history-restore-request" not in headers

    @property
    def base(self) -> str:
        """The beginning of links to this page that a person sends to others, without a slash at the end."""
        return self.site.base(self.request)

    @property
    def visitor(self) -> str:
        """The random name of this browser, from its cookie."""
        return str(self.request.state.visitor)

    @property
    def csrf(self) -> str:
        """The token that each form of a page carries.  It is invalid in another session."""
        session = self.request.cookies.get(session_cookie(self.site), "")
        return security.form_token(self.site.secret, self.visitor, session)

    def asked(self, name: str, default: str = "") -> str:
        """Return a parameter of the address without surrounding spaces."""
        return self.request.query_params.get(name, default).strip()

    def given(self, name: str, default: str = "") -> str:
        """Return a text field of the form without surrounding spaces.  A file is not a text."""
        value = self.form.get(name, default)
        return value.strip() if isinstance(value, str) else default

    @property
    def again(self) -> str | None:
        """The address of the form with the text of a query that it sent.

        It is None without such a text, for other forms, for a page of another server, and if the address does not fit
        into that of the sign-in.  The form keeps the instant of the text that it replaces.
        """
        fields = {name: given for name in _KEPT_FIELDS if (given := self.given(name).replace("\r\n", "\n"))}
        if "sql" not in fields or _WITH_TEXT.fullmatch(self.path) is None or security.is_foreign(self.request):
            return None
        address = f"{self.path}?{urlencode(fields)}"
        return address if len(quote(address, safe="")) <= _LONGEST_ADDRESS else None

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number from the address, or ``default`` if the parameter is missing or not a number."""
        text = self.asked(name)
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else default

    def whole(self, name: str) -> int:
        """Return a whole number from the form.  Raise Refused for another text."""
        text = self.given(name)
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise Refused(f"{name} is not a number", hint="Reload the page, and try again.")
        return int(text)

    def key(self, name: str) -> int:
        """Return a number from the path."""
        return int(self.request.path_params[name])

    def part(self, name: str) -> str:
        """Return a text from the path."""
        return str(self.request.path_params[name])

    @property
    def sent(self) -> Iterator[object]:
        """The parts and parameters of the address, and the fields of the form."""
        yield from self.request.path_params.values()
        yield from self.request.query_params.values()
        yield from self.form.values()

    def here(self, **changes: object) -> str:
        """Return the address of this page with some parameters changed.  None removes a parameter."""
        parameters = {**self.request.query_params, **changes}
        kept = urlencode({key: value for key, value in parameters.items() if value not in (None, "")})
        return f"{self.path}?{kept}" if kept else self.path

    def show(self, template: str, code: int = 200, /, **values: object) -> Response:
        """Return a page."""
        return rendering.page(self.request, template, {"visit": self, **values}, code, self.zone)

    def work(self, title: str, work: Work, back: str | None = None, *, brief: bool = False) -> Response:
        """Run ``work`` as a job.  Return its outcome, or the way to the page of the job.

        The browser goes to the page of the job if the job takes longer than two seconds, or if its outcome is a page.
        The button Back and a reload then show this page without sending the form again.
        """
        job = self.site.jobs.start(
            title,
            self.person,
            back or self.again or self.path,
            work,
            brief=brief,
            scopes=self.scopes,
            user_id=self.user_id,
            reach=self.weft.accounts.reach,
        )
        if not job.wait(_PATIENCE_SECONDS) or isinstance(job.outcome, Shown):
            return self.go(f"/jobs/{job.job_id}")
        return self.outcome(job)

    def outcome(self, job: Job) -> Response:
        """Return the response for a job that has ended."""
        if job.error is not None:
            return error_page(self, job.error)
        match job.outcome:
            case Go(path, notice):
                return self.go(path, notice)
            case Shown(template, values):
                return replace(self, stands_for=urlsplit(job.back).path).show(template, **values)
            case Value():
                return self.show("job.html", job=job)
            case None:
                return self.go(job.back, f"Cancelled: {job.title}.")

    def go(self, path: str, notice: str = "") -> Response:
        """Send the browser to another page of this home, which shows ``notice`` once."""
        response = RedirectResponse(path, 303)
        if notice:
            security.leave_notice(response, notice, self.site)
        return response


Page: TypeAlias = Callable[[Visit], Response]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def page(
    shown: Page, *, public: bool = False, own_form: bool = True, first: Callable[[Visit], None] = lambda _: None
) -> Endpoint:
    """Return the endpoint of a page.  A page is a function that runs in a thread, because it reads files.

    A ``public`` page requires no sign-in.  Without ``own_form``, other servers may send its form, too.
    A large form, and a form with files, are read only after their sender has signed in and ``first`` has raised no
    error.  A file from a person without the right to load is therefore never stored.
    """

    async def endpoint(request: Request) -> Response:
        stranger = Visit(request, request.app.state.site)
        if request.method != "POST":
            return await run_in_threadpool(_entered_and_answered, stranger, public, first, shown)
        is_small = _is_small(request)
        if is_small and request.headers.get("content-type", "").startswith(_WITHOUT_FILES):
            stranger = replace(stranger, form=await request.form(max_fields=_MOST_FIELDS))
        visit = await run_in_threadpool(_entered, stranger, public, first)
        if isinstance(visit, Response):
            return visit
        if visit.principal is None and not is_small:
            raise HTTPException(413, "the request is too large")
        async with request.form(max_files=4, max_fields=_MOST_FIELDS) as form:
            return await run_in_threadpool(_answer, shown, replace(visit, form=form), own_form)

    return endpoint


def _is_small(request: Request) -> bool:
    """Return whether the request states that its form is small.  The server then reads no more than the stated size."""
    size = request.headers.get("content-length", "0")
    is_number = size.isascii() and size.isdigit() and len(size) < 10
    return "transfer-encoding" not in request.headers and is_number and int(size) <= _FROM_ANYBODY


def _entered(stranger: Visit, public: bool, first: Callable[[Visit], None]) -> Visit | Response:
    """Return the visit of a known principal, or the way to the sign-in."""
    visit = stranger
    try:
        visit = replace(stranger, principal=principal_of(stranger.site, stranger.request))
        if not public and visit.principal is None:
            return _asked_to_sign_in(visit)
        first(visit)
    except Exception as error:  # noqa: BLE001 - as in _answer
        return _failed(visit, error)
    return visit


def _entered_and_answered(stranger: Visit, public: bool, first: Callable[[Visit], None], shown: Page) -> Response:
    """Enter and answer in one piece of work for a thread, which reads the catalog in one transaction."""
    try:
        with stranger.site.weft.one_state():
            visit = _entered(stranger, public, first)
            return visit if isinstance(visit, Response) else _answer(shown, visit)
    except HomeClosed as error:
        return _failed(stranger, error)


def _answer(shown: Page, visit: Visit, own_form: bool = False) -> Response:
    try:
        if any(isinstance(each, str) and "\0" in each for each in visit.sent):
            raise Refused("a field contains the character NUL", hint="Go back, and write the text again.")
        if own_form:
            security.require_own_form(visit.request, visit.given(security.FIELD), visit.csrf)
        return shown(visit)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - a defect in one page must not stop the server
        return _failed(visit, error)


def _failed(visit: Visit, error: Exception) -> Response:
    home, doing = visit.site.weft, f"{visit.request.method} {visit.path}"
    return error_page(visit, isolated_error(error, home.home / "logs", lambda: home.clock(), doing))


def _asked_to_sign_in(visit: Visit) -> Response:
    if visit.request.method != "POST" and not visit.for_part:
        return visit.go(f"/sign-in?{urlencode({'next': visit.here()})}")
    return error_page(visit, NotAllowed("you are not signed in any more", hint="Open /sign-in, and sign in again."))


def error_page(visit: Visit, error: WeftError) -> Response:
    """Return the page for an error, with its place and its remedy."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return visit.show("error.html", status, error=error, status=status)


async def http_error(request: Request, error: Exception) -> Response:
    """Return the page for an address that does not exist, or for a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "There is no such page", 405: "This address does not take this request"}
    text = words.get(status) or (error.detail if isinstance(error, HTTPException) else "the page failed")
    site: Site = request.app.state.site

    def shown() -> Response:
        visit = Visit(request, site, principal_of(site, request))
        return visit.show("error.html", status, error=WeftError(text), status=status)

    return await run_in_threadpool(shown)
