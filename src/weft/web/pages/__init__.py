"""The pages, one module for each area.  Each module has its ``ROUTES``."""

from __future__ import annotations

from itertools import chain
from typing import Final

from starlette.routing import Route

from weft.web.pages import answers, jobs, queries, tables

ROUTES: Final[tuple[Route, ...]] = tuple(chain(queries.ROUTES, answers.ROUTES, tables.ROUTES, jobs.ROUTES))
