"""The inbox: the newest answers by query, which of them are unread, and their search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.catalog.records import QueryRecord
from weft.errors import NotFound, StorageError, WeftError
from weft.storage.ledger import ResultRow
from weft.web.marks import Marks
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_QUERIES: Final = 10
_SCANNED: Final = 200
"""The maximum number of queries among which a page looks for unread answers."""
_ANSWERS: Final = 3
_FOUND: Final = 30


@dataclass(frozen=True)
class News:
    """A query with its latest answers, the newest first, and with the number of its unread answers.

    ``marked`` are the ordinals of the unread ones among ``rows``.  ``trouble`` is why the rows cannot be read, or None.
    """

    query: QueryRecord
    rows: tuple[ResultRow, ...]
    unread: int
    marked: frozenset[int]
    trouble: WeftError | None


def show(visit: Visit) -> Response:
    """Show the queries with the newest answers first, or the answers that contain the words of a search."""
    text = visit.asked("q")
    if text:
        found = visit.weft.search(text, before=visit.number("before"), limit=_FOUND)
        more = None if found.more is None else visit.here(before=found.more)
        return visit.show("search.html", found=found, text=text, more=more)
    before = visit.number("before")
    try:
        known = None if before is None else visit.weft.query(before)
    except NotFound:
        return visit.go(visit.here(before=None), "The queries have changed: this is the beginning of the inbox.")
    unread_only = visit.asked("show") == "unread"
    queries, unread = _queries(visit, known, unread_only)
    shown, more = page_of(visit, queries, _QUERIES, lambda last: last.query_id, "before")
    latest, troubles = _latest(visit, [query.query_id for query in shown])
    marked = Marks(visit).unread_of(latest)
    news = [
        News(
            query,
            latest.get(query.query_id, ())[::-1],
            min(unread.get(query.query_id, 0), query.rows),
            marked.get(query.query_id, frozenset()),
            troubles.get(query.query_id),
        )
        for query in shown
    ]
    return visit.show(
        "inbox.html",
        news=news,
        unread_only=unread_only,
        more=more,
        any_query=bool(news) or bool(visit.weft.query_page(limit=1)),
        any_unread=any(each.unread for each in news),
    )


def _latest(
    visit: Visit, query_ids: Sequence[int]
) -> tuple[Mapping[int, tuple[ResultRow, ...]], Mapping[int, WeftError]]:
    """Return the latest answers by query, and the errors of those queries whose answers cannot be read."""
    try:
        return visit.weft.latest_answers(query_ids, _ANSWERS), {}
    except (StorageError, NotFound) as error:
        if len(query_ids) == 1:
            return {}, {query_ids[0]: error}
    alone = [_latest(visit, [query_id]) for query_id in query_ids]
    rows = {key: some for found, _ in alone for key, some in found.items()}
    return rows, {key: error for _, errors in alone for key, error in errors.items()}


def _queries(
    visit: Visit, known: QueryRecord | None, unread_only: bool
) -> tuple[tuple[QueryRecord, ...], Mapping[int, int]]:
    found = visit.weft.news_page(before=known, limit=_SCANNED if unread_only else _QUERIES + 1)
    unread = Marks(visit).unread(found)
    return tuple(query for query in found if not unread_only or unread.get(query.query_id)), unread


def mark(visit: Visit) -> Response:
    """Mark the answers of one query as read, or those of all queries."""
    one = visit.given("query")
    marks, weft = Marks(visit), visit.weft
    queries = (weft.query(visit.whole("query")),) if one else weft.news_page(limit=_SCANNED)
    response = visit.go("/", f"The answers of {queries[0].name} are read." if one else "All answers so far are read.")
    marks.read_all(response, queries)
    return response


ROUTES: Final = (Route("/", page(show)), Route("/", page(mark), methods=["POST"]))
