"""Build the application of a page: its routes, its static files and its guard."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from weft.web import rendering
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


def application(site: Site) -> Starlette:
    """Return the application of the page of one open home."""
    made = Starlette(
        routes=[
            *ROUTES,
            Mount("/static", _Static(directory=rendering.FOLDER / "static")),
        ],
        middleware=[Middleware(Guard, site=site)],
        exception_handlers={HTTPException: http_error},
    )
    made.state.site = site
    return made
