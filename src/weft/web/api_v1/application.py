"""The application below ``/api/v1``: the routes of the operations, and the document that describes them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weft.web.api_v1.endpoints import routes
from weft.web.api_v1.openapi import document
from weft.web.api_v1.operations import OPERATIONS
from weft.web.problems import problem, problem_response
from weft.web.site import Site


def api(site: Site) -> Starlette:
    """Return the application of the HTTP API of one open home."""
    described = document(OPERATIONS)

    async def openapi(request: Request) -> Response:
        return JSONResponse(described)

    made = Starlette(
        routes=[*routes(site, OPERATIONS), Route("/openapi.json", openapi)],
        exception_handlers={HTTPException: _http_error},
    )
    made.router.redirect_slashes = False
    return made


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is no such operation", 405: "this address does not take this method"}
    title = {404: "not found", 405: "method not allowed"}.get(error.status_code, "failed")
    detail = words.get(error.status_code, error.detail)
    return problem_response(problem(error.status_code, title, detail), error.headers)
