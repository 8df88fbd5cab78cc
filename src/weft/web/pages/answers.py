"""The answers of a query, and the page of one answer."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.web.jobs import Job, Outcome, Shown
from weft.web.marks import Marks
from weft.web.visits import Visit, page

_LISTED: Final = 50


def listed(visit: Visit) -> Response:
    """Show the answers of a query by their numbers, the newest first."""
    query = visit.weft.query(visit.key("query_id"))
    before = min(max(visit.number("before") or query.rows + 1, 1), query.rows + 1)
    after = max(before - 1 - _LISTED, 0)
    rows = list(visit.weft.results(query.name, after=after, limit=before - 1 - after)) if before - 1 > after else []
    return visit.show(
        "answers.html",
        query=query,
        rows=rows[::-1],
        unread=Marks(visit).unread_of({query.query_id: rows}).get(query.query_id, frozenset()),
        older=visit.here(before=after + 1) if after else None,
        newer=visit.here(before=min(before + _LISTED, query.rows + 1)) if before <= query.rows else None,
    )


def show(visit: Visit) -> Response:
    """Show a row, since when it is an answer, and where it was delivered."""
    found = visit.weft.answer(visit.key("query_id"), visit.key("ordinal"))
    Marks(visit).read(found.query, found.row.ordinal)
    return visit.show("answer.html", query=found.query, row=found.row, messages=found.messages, why=None)


def explain(visit: Visit) -> Response:
    """Find the causes of an answer, which Spark computes."""
    found = visit.weft.answer(visit.key("query_id"), visit.key("ordinal"))
    values = {"query": found.query, "row": found.row, "messages": found.messages}

    def work(job: Job) -> Outcome:
        return Shown("answer.html", {**values, "why": visit.weft.why(found.query.name, found.row.ordinal)})

    back = f"/queries/{found.query.query_id}/answers/{found.row.ordinal}"
    return visit.work(f"find why answer {found.row.ordinal:,} of {found.query.name} appeared", work, back=back)


ROUTES: Final = (
    Route("/queries/{query_id:key}/answers", page(listed)),
    Route("/queries/{query_id:key}/answers/{ordinal:key}", page(show)),
    Route("/queries/{query_id:key}/answers/{ordinal:key}", page(explain), methods=["POST"]),
)
