"""The list of queries."""

from __future__ import annotations

from typing import Final, cast

from starlette.responses import Response
from starlette.routing import Route

from weft.catalog.query_list import QueryFilter
from weft.catalog.records import QueryState
from weft.web.visits import Visit, page

_SHOWN: Final = 50
_STATES: Final = ("active", "paused", "failed")


def listed(visit: Visit) -> Response:
    """Show the queries in the order of their names, with what is wrong."""
    state, text = visit.asked("state"), visit.asked("q")
    wanted = QueryFilter(
        text=text or None,
        state=cast(QueryState, state) if state in _STATES else None,
        troubled=state == "troubled",
    )
    found = visit.weft.query_page(wanted, after=visit.asked("after") or None, limit=_SHOWN + 1)
    counts = visit.weft.query_counts()
    return visit.show(
        "queries.html",
        queries=found[:_SHOWN],
        more=visit.here(after=found[_SHOWN - 1].query.name) if len(found) > _SHOWN else None,
        counts=counts,
        total=sum(count for state, count in counts.items() if state != "troubled"),
        text=text,
        state=state,
    )


ROUTES: Final = (Route("/queries", page(listed)),)
