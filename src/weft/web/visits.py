"""Turn a request into a ``Visit``, run its page in a thread, and turn errors into pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.api.weft import Weft
from weft.errors import CatalogUnreachable, Conflict, LeaseBusy, NotFound, Refused, WeftError
from weft.faults import error_summary, log_defect
from weft.web import rendering, security
from weft.web.site import Site

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

    def show(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page."""
        return rendering.page(self.request, template, {"visit": self, **values}, status)

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
        form = await request.form() if request.method == "POST" else FormData()
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
    except WeftError as error:
        return error_page(visit, error)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - a defect in one page must not stop the server
        log_defect(
            visit.site.weft.home / "logs", visit.site.weft.clock(), f"{visit.request.method} {visit.path}", error
        )
        return _failure(visit, 500, f"this is a defect in Weft: {error_summary(error)}", {})


def error_page(visit: Visit, error: WeftError) -> Response:
    """Return the page for an error, with its place and its remedy."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    reasons = [{"message": each.message, "where": each.where, "hint": each.hint} for each in error.reasons]
    more = {"where": error.where, "excerpt": error.excerpt, "hint": error.hint, "reasons": reasons}
    return _failure(visit, status, error.message, more)


def _failure(visit: Visit, status: int, message: str, more: Mapping[str, Any]) -> Response:
    return visit.show("error.html", status, message=message, **more)


async def http_error(request: Request, error: Exception) -> Response:
    """Return the page for an address that does not exist, or for a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is no such page", 405: "this address does not take this request"}
    text = words.get(status) or (error.detail if isinstance(error, HTTPException) else "the page failed")
    visit = Visit(request, request.app.state.site)
    return await run_in_threadpool(_failure, visit, status, text, {})
