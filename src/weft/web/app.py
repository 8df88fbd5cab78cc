"""Build the application of a page: its routes, its static files and its guard."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from weft.web import rendering
from weft.web.api_v1.application import api
from weft.web.feeds import feeds
from weft.web.pages import ROUTES
from weft.web.security import Guard
from weft.web.site import Site
from weft.web.visits import http_error


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """An address with the hash of the file may be kept forever."""
        response = await super().get_response(path, scope)
        if scope.get("query_string"):
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


class _Below(Mount):
    """A mount that also takes paths with line ends, so that the application below answers all of its paths."""

    def __init__(self, path: str, application: ASGIApp) -> None:
        super().__init__(path, application)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)


def application(site: Site, more: Sequence[Route] = ()) -> Starlette:
    """Return the application of the page of one open home, with ``more`` routes."""
    made = Starlette(
        routes=[
            *feeds(site),
            *ROUTES,
            *more,
            _Below("/api/v1", api(site)),
            Mount("/static", _Static(directory=rendering.FOLDER / "static")),
        ],
        middleware=[Middleware(Guard, site=site)],
        exception_handlers={HTTPException: http_error},
    )
    made.state.site = site
    return made
