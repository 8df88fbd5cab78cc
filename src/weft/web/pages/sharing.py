"""Share a query with users, with groups, or by a link that can be withdrawn."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.catalog.records import RESULTS, QueryRecord
from weft.errors import Refused
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 50


def show(visit: Visit) -> Response:
    """Show who may read the answers of a query."""
    return _shown(visit, visit.weft.query(visit.key("query_id")))


def _shown(visit: Visit, query: QueryRecord, link: str | None = None) -> Response:
    accounts, about = visit.weft.accounts, f"{RESULTS}.{query.name}"
    granted = accounts.grants(about=about, after=visit.asked("after") or None, limit=_LISTED + 1)
    grants, more = page_of(visit, granted, _LISTED, lambda last: last.key)
    valid = accounts.share_links(query.name, after=visit.number("after_link") or 0, limit=_LISTED + 1)
    links, more_links = page_of(visit, valid, _LISTED, lambda last: last.secret_id, "after_link")
    values = {"grants": grants, "more": more, "links": links, "more_links": more_links}
    return visit.show("sharing.html", query=query, link=link, **values)


def change(visit: Visit) -> Response:
    """Make or withdraw a link, or give or take the right to read."""
    query, accounts, do = visit.weft.query(visit.key("query_id")), visit.weft.accounts, visit.given("do")
    here, about = f"/queries/{query.query_id}/share", f"{RESULTS}.{query.name}"
    match do:
        case "link":
            label, expires = visit.given("label") or None, visit.given("expires") or None
            issued = accounts.share_link(query.name, label=label, expires=expires)
            return _shown(visit, query, f"{visit.base}/shared/{issued.secret}")
        case "withdraw":
            accounts.withdraw_link(query.name, visit.whole("link"))
            return visit.go(here, "The link is withdrawn.")
        case "grant":
            accounts.grant(visit.given("name"), "read", about)
            return visit.go(here, f"{visit.given('name')} may read the answers.")
        case "revoke":
            accounts.revoke(visit.given("name"), "read", about)
            return visit.go(here, f"{visit.given('name')} may no longer read the answers.")
        case _:
            raise Refused("this page has no such button")


ROUTES: Final = (
    Route("/queries/{query_id:key}/share", page(show)),
    Route("/queries/{query_id:key}/share", page(change), methods=["POST"]),
)
