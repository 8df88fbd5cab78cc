"""The messages to channels: their attempts, the replies of the receivers, and their repetition."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 50
_TROUBLED: Final = 20


def listed(visit: Visit) -> Response:
    """Show the channels in trouble, then the messages, the newest first."""
    unsent, before = visit.asked("state") == "unsent", visit.number("before")
    query_id = visit.number("query")
    query = None if query_id is None else visit.weft.query(query_id)
    found = visit.weft.message_page(query_id, before=before, unsent=unsent, limit=_LISTED + 1)
    after = visit.number("after") or 0
    failing = visit.weft.troubled_channels(after=after, limit=_TROUBLED + 1) if before is None else ()
    messages, older = page_of(visit, found, _LISTED, lambda last: last.message.entry_id, "before")
    troubled, more_troubled = page_of(visit, failing, _TROUBLED, lambda last: last[0].sub_id)
    return visit.show(
        "deliveries.html",
        messages=messages,
        older=older,
        troubled=troubled,
        more_troubled=more_troubled,
        unsent=unsent,
        query=query,
    )


ROUTES: Final = (Route("/deliveries", page(listed)),)
