"""Turn a request into a ``Visit``, run its page in a thread, and turn errors into pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.api.arguments import own_user
from weft.api.weft import Weft
from weft.errors import CatalogUnreachable, Conflict, LeaseBusy, NotFound, Refused, WeftError
from weft.faults import isolated_error
from weft.web import rendering, security
from weft.web.jobs import Go, Job, Shown, Value, Work
from weft.web.site import Site

_PATIENCE_SECONDS: Final = 2.0
"""The longest time for which a request waits for its job."""
_STATUSES: Final[tuple[tuple[type[WeftError], int], ...]] = (
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 400),
    (LeaseBusy, 503),
    (CatalogUnreachable, 503),
)


@dataclass(frozen=True)
class Visit:
    """A request with the form that it sends, and the home as its principal sees it."""

    request: Request
    site: Site
    form: FormData = field(default_factory=FormData)

    @property
    def weft(self) -> Weft:
        """The home, with the rights of the person who asks."""
        return self.site.weft

    @property
    def person(self) -> str:
        """The name of the person who asks."""
        return own_user()

    @property
    def owner_or_all(self) -> str | None:
        """The person whose jobs the visit may see, or None for the jobs of all."""
        return None

    @property
    def path(self) -> str:
        """The path of the request."""
        return self.request.url.path

    @property
    def visitor(self) -> str:
        """The random name of this browser, from its cookie."""
        return str(self.request.state.visitor)

    @property
    def csrf(self) -> str:
        """The token that each form of a page carries."""
        return security.form_token(self.site.secret, self.visitor)

    def asked(self, name: str, default: str = "") -> str:
        """Return a parameter of the address without surrounding spaces."""
        return self.request.query_params.get(name, default).strip()

    def given(self, name: str, default: str = "") -> str:
        """Return a text field of the form without surrounding spaces.  A file is not a text."""
        value = self.form.get(name, default)
        return value.strip() if isinstance(value, str) else default

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number from the address, or ``default`` if the parameter is missing or not a number."""
        text = self.asked(name)
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else default

    def key(self, name: str) -> int:
        """Return a number from the path.  Raise NotFound for a number that is too long for an ID."""
        key: int = self.request.path_params[name]
        if key >= 1 << 62:
            raise NotFound(f"there is no number {key}")
        return key

    def part(self, name: str) -> str:
        """Return a text from the path."""
        return str(self.request.path_params[name])

    def here(self, **changes: object) -> str:
        """Return the address of this page with some parameters changed.  None removes a parameter."""
        parameters = {**self.request.query_params, **changes}
        kept = urlencode({key: value for key, value in parameters.items() if value not in (None, "")})
        return f"{self.path}?{kept}" if kept else self.path

    def show(self, template: str, code: int = 200, /, **values: object) -> Response:
        """Return a page."""
        return rendering.page(self.request, template, {"visit": self, **values}, code)

    def work(self, title: str, work: Work, back: str | None = None) -> Response:
        """Run ``work`` as a job.  Return its outcome, or after two seconds the way to its page."""
        job = self.site.jobs.start(title, self.person, back or self.path, work)
        return self.outcome(job) if job.wait(_PATIENCE_SECONDS) else self.go(f"/jobs/{job.job_id}")

    def outcome(self, job: Job) -> Response:
        """Return what a job that has ended leads to."""
        if job.error is not None:
            return error_page(self, job.error)
        match job.outcome:
            case Go(path, notice):
                return self.go(path, notice)
            case Shown(template, values):
                return self.show(template, **values)
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


def page(shown: Page) -> Endpoint:
    """Return the endpoint of a page.  A page is a function that runs in a thread, because it reads files."""

    async def endpoint(request: Request) -> Response:
        site: Site = request.app.state.site
        form = await request.form(max_files=4, max_fields=100) if request.method == "POST" else FormData()
        try:
            return await run_in_threadpool(_answer, shown, Visit(request, site, form))
        finally:
            await form.close()

    return endpoint


def _answer(shown: Page, visit: Visit) -> Response:
    try:
        if visit.request.method == "POST":
            security.require_own_form(visit.request, visit.given(security.FIELD), visit.csrf)
        return shown(visit)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - a defect in one page must not stop the server
        home, doing = visit.site.weft, f"{visit.request.method} {visit.path}"
        return error_page(visit, isolated_error(error, home.home / "logs", home.clock(), doing))


def error_page(visit: Visit, error: WeftError) -> Response:
    """Return the page for an error, with its place and its remedy."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return visit.show("error.html", status, error=error, status=status)


async def http_error(request: Request, error: Exception) -> Response:
    """Return the page for an address that does not exist, or for a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is no such page", 405: "this address does not take this request"}
    text = words.get(status) or (error.detail if isinstance(error, HTTPException) else "the page failed")
    values = {"error": WeftError(text), "status": status}
    return await run_in_threadpool(Visit(request, request.app.state.site).show, "error.html", status, **values)
