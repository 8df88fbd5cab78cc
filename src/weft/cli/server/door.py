"""Run the commands of clients on other machines, which come over HTTPS, on behalf of the person whose token they have.

The same application as that of a local command parses and prints them.  Only its terminal is another one.
"""

from __future__ import annotations

import os
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from weft.cli.server.server import COMMAND, CommandResponse, LocalServer, body_of
from weft.errors import WeftError
from weft.web.api_v1.endpoints import Unfit, caller_of, require_own_origin
from weft.web.problems import problem, problem_of, problem_response
from weft.web.site import Site

_OWN = ("key", "home", "folder", "user")
"""The fields of a local command that the server sets here."""
_FIELDS = {name: check for name, check in COMMAND.items() if name not in _OWN}


def command_route(server: LocalServer, site: Site) -> Route:
    """Return the route of the command line."""

    async def endpoint(request: Request) -> Any:
        try:
            require_own_origin(request)
            caller = await run_in_threadpool(caller_of, site, request, "command")
            typed = await body_of(request, _FIELDS)
        except Unfit as error:
            return problem_response(error.document, error.headers)
        except WeftError as error:
            return problem_response(problem_of(error))
        except HTTPException as error:
            return problem_response(problem(error.status_code, "invalid request", error.detail))
        own = {"key": os.urandom(8).hex(), "home": str(caller.weft.home), "folder": os.devnull, "user": caller.name}
        return CommandResponse(server, {**typed, **own}, caller.weft, elsewhere=True)

    return Route("/api/v1/commands", endpoint, methods=["POST"])
