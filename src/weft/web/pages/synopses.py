"""The queries that are maintained as synopses: whether their size is bounded, and how it grew."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft import charts
from weft.catalog.query_list import ListedQuery, QueryFilter
from weft.errors import WeftError
from weft.planning.synopsis_words import SynopsisExplanation
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 20


def listed(visit: Visit) -> Response:
    """Show the synopses in the order of their names."""
    wanted = QueryFilter(synopsis=True)
    found = visit.weft.query_page(wanted, after=visit.asked("after") or None, limit=_LISTED + 1)
    shown, more = page_of(visit, found, _LISTED, lambda last: last.query.name)
    return visit.show("synopses.html", synopses=[_described(visit, each) for each in shown], more=more)


def _described(visit: Visit, each: ListedQuery) -> dict[str, object]:
    sizes = visit.weft.synopsis_sizes(each.query.name)
    try:
        explained = visit.weft.explain_installed(each.query.name)
    except WeftError as error:
        return {"query": each.query, "verdict": error.message, "drawings": [], "faults": ()}
    assert isinstance(explained, SynopsisExplanation)
    drawings = [
        (relation, points[-1][1], charts.curve(points, f"rows of {relation.formula}") if len(points) > 1 else None)
        for relation in explained.relations
        if (points := sizes.get(relation.name))
    ]
    verdict = explained.history or explained.verdict
    return {"query": each.query, "verdict": verdict, "drawings": drawings, "faults": explained.faults}


ROUTES: Final = (Route("/synopses", page(listed)),)
