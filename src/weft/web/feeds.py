"""The addresses of formats: answers, the calendar, figures, and each list and object of the page as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from weft.api.results import Results
from weft.catalog.query_list import QueryFilter
from weft.errors import CatalogError, NotFound, Refused
from weft.faults import isolated_error
from weft.web import formats
from weft.web.api_v1.endpoints import Unfit, caller_of, routes
from weft.web.api_v1.operation import Caller, Operation
from weft.web.api_v1.operations import accounts, homes, jobs, queries, saved, sources, tables, views
from weft.web.callers import address_of
from weft.web.problems import problem_of, problem_response
from weft.web.site import Site

_IN_FEED: Final = 50
_IN_CALENDAR: Final = 1_000
_PAGES: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("/inbox", queries.list_news),
    ("/queries", queries.list_queries),
    ("/queries/{query:key}", queries.show_query),
    ("/queries/{query:key}/answers", queries.list_answers),
    ("/queries/{query:key}/answers/{ordinal:key}", queries.show_answer),
    ("/tables", tables.list_tables),
    ("/tables/{table}", tables.show_table),
    ("/tables/{table}/quarantine", tables.list_quarantine),
    ("/views", views.list_views),
    ("/views/{view}", views.show_view),
    ("/sources", sources.list_sources),
    ("/deliveries", queries.list_messages),
    ("/synopses", queries.list_synopses),
    ("/saved", saved.list_saved),
    ("/saved/{saved:key}", saved.show_saved),
    ("/users", accounts.list_users),
    ("/audit", accounts.list_audit),
    ("/quarantine", tables.list_quarantine),
    ("/loads", tables.list_loads),
    ("/system", homes.show_status),
    ("/jobs", jobs.list_jobs),
    ("/jobs/{job}", jobs.show_job),
)
Shown = Callable[[Caller, Request], Response]
Found = Callable[[Site, Request], Caller]


def feeds(site: Site) -> list[Route]:
    """Return the routes of all formats."""

    def route(path: str, shown: Shown, find: Found = caller_of) -> Route:
        return Route(path, _endpoint(site, shown, find))

    return [
        *routes(site, [Operation("GET", f"{path}.json", call, "pages") for path, call in _PAGES]),
        route("/queries/{query:key}/answers.csv", _csv),
        route("/queries/{query:key}/answers.jsonl", _jsonl),
        route("/queries/{query:key}/answers.atom", _atom),
        route("/feeds/{name}.atom", _feed),
        route("/shared/{token}/feeds/{name}.atom", _feed, _with_link),
        route("/queries.ics", _calendar),
        route("/metrics", _metrics),
        Route("/healthz", _health(site)),
    ]


def _with_link(site: Site, request: Request) -> Caller:
    """Return the principal with the link to a query.  Raise NotFound."""
    principal = site.weft.accounts.of_share(request.path_params["token"], address=address_of(site, request))
    if principal is None:
        raise NotFound("this link is not valid any more", hint="Ask the person who gave it to you for a new one.")
    return Caller(site.weft.acting_as(principal), "", site.jobs)


def _endpoint(site: Site, shown: Shown, find: Found) -> Callable[[Request], Awaitable[Response]]:
    def answer(request: Request) -> Response:
        try:
            with site.weft.one_state():
                return shown(find(site, request), request)
        except Unfit as error:
            # Feed readers know no other challenge.
            challenge = {"WWW-Authenticate": 'Basic realm="Weft"'} if error.headers else None
            return problem_response(error.document, challenge)
        except Exception as error:  # noqa: BLE001 - a defect in one format must not stop the server
            home = site.weft
            plain = isolated_error(error, home.home / "logs", lambda: home.clock(), "a feed")
            return problem_response(problem_of(plain))

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return endpoint


def _results(caller: Caller, request: Request) -> Results:
    """Return the answers that the address names.  Raise NotFound or Refused."""
    query = caller.weft.query(request.path_params["query"])
    given = {name: _number(request, name) for name in ("after", "limit")}
    return caller.weft.results(query.name, after=given["after"] or 0, limit=given["limit"])


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(f"{name} is {text!r}, which is not a whole number", hint=f"Write {name}=100, or omit it.")
    return None if text is None else int(text)


def _csv(caller: Caller, request: Request) -> Response:
    answers = _results(caller, request)
    return _file(answers, "csv", formats.csv_text(answers), "text/csv")


def _jsonl(caller: Caller, request: Request) -> Response:
    answers = _results(caller, request)
    return _file(answers, "jsonl", formats.json_lines(answers), "application/x-ndjson")


def _file(answers: Results, ending: str, lines: Iterator[str], media_type: str) -> Response:
    name = quote(f"{answers.query.name}.{ending}")
    return StreamingResponse(lines, 200, {"content-disposition": f"attachment; filename*=UTF-8''{name}"}, media_type)


def _atom(caller: Caller, request: Request) -> Response:
    query = caller.weft.query(request.path_params["query"])
    tag = f'"{query.query_id}-{query.rows}-{query.replaced_at or 0}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    answers = caller.weft.results(query.name, after=max(query.rows - _IN_FEED, 0), limit=_IN_FEED)
    feed = formats.atom(answers, caller.weft.home_id, _site(request).base(request))
    return Response(feed, 200, headers, "application/atom+xml")


def _feed(caller: Caller, request: Request) -> Response:
    content = caller.weft.feed(request.path_params["name"])
    headers = {"etag": f'"{sha256(content).hexdigest()}"', "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(None, 304, headers)
    return Response(content, 200, headers, "application/atom+xml")


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _calendar(caller: Caller, request: Request) -> Response:
    listed = caller.weft.query_page(QueryFilter(state="active"), limit=_IN_CALENDAR)
    shown = (each.query for each in listed)
    text = formats.calendar(shown, caller.weft.home_id, caller.weft.clock(), _site(request).base(request))
    return PlainTextResponse(text, media_type="text/calendar")


def _metrics(caller: Caller, request: Request) -> Response:
    running = sum(1 for job in caller.jobs.listed(None) if not job.is_over)
    text = formats.prometheus(caller.weft.figures(), caller.weft.clock(), running)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _health(site: Site) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that says whether the server reaches the catalog.  It says nothing about the home."""

    def answer() -> Response:
        try:
            site.weft.accounts.in_use()  # one row: strangers may ask as often as they like
        except CatalogError:
            return PlainTextResponse("the catalog cannot be read\n", 503)
        return PlainTextResponse("ok\n")

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer)

    return endpoint
