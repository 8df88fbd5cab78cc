"""The pages, one module for each area.  Each module has its ``ROUTES``."""

from __future__ import annotations

from itertools import chain
from typing import Final

from starlette.routing import Route

from weft.web.pages import (
    accounts,
    answers,
    ask,
    deliveries,
    inbox,
    jobs,
    queries,
    saved,
    sharing,
    signing_in,
    synopses,
    system,
    tables,
    views,
)

_AREAS: Final = (
    *(signing_in, inbox, queries, answers, ask, saved, sharing, tables, views),
    *(synopses, deliveries, accounts, system, jobs),
)
ROUTES: Final[tuple[Route, ...]] = tuple(chain.from_iterable(each.ROUTES for each in _AREAS))
