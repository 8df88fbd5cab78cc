"""The messages to channels: their attempts, the replies of the receivers, and their repetition."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

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
    troubled = visit.weft.troubled_channels(after=after, limit=_TROUBLED + 1) if before is None else ()
    return visit.show(
        "deliveries.html",
        messages=found[:_LISTED],
        older=visit.here(before=found[_LISTED - 1].message.entry_id) if len(found) > _LISTED else None,
        troubled=troubled[:_TROUBLED],
        more_troubled=visit.here(after=troubled[_TROUBLED - 1][0].sub_id) if len(troubled) > _TROUBLED else None,
        unsent=unsent,
        query=query,
    )


ROUTES: Final = (Route("/deliveries", page(listed)),)
