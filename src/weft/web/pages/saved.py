"""Saved queries: the list, and the form of each, which people fill in and install."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from weft.catalog.records import SAVED
from weft.catalog.saved_queries import SavedQuery
from weft.errors import Refused, WeftError
from weft.web.drafts import Draft, fields_of, first_answers, refusal, unsuitable, values_of
from weft.web.jobs import Go, Job, Outcome, Shown
from weft.web.pages.ask import backtest, try_once
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 50


def listed(visit: Visit) -> Response:
    """Show the saved queries that the person may fill in."""
    text, after = visit.asked("q"), visit.asked("after") or None
    found = visit.weft.saved_queries(text=text or None, after=after, limit=_LISTED + 1)
    saved, more = page_of(visit, found, _LISTED, lambda last: last.name)
    return visit.show("saved.html", saved=saved, text=text, more=more)


def show(visit: Visit) -> Response:
    """Show the form of a saved query, with its defaults."""
    saved = _saved(visit)
    defaults = {each.name: each.default for each in saved.parameters if each.default is not None}
    draft = Draft(saved.sql, fields_of(visit), saved.parameters, defaults)
    return visit.show("saved_query.html", **_values(visit, saved, draft))


def act(visit: Visit) -> Response:
    """Run the action of a button of the form."""
    saved, do = _saved(visit), visit.given("do")
    if do in _OWNER:
        notice = _OWNER[do](visit, saved)
        return visit.go("/saved" if do == "remove" else f"/saved/{saved.saved_id}", notice)
    if do not in _STEPS:
        raise Refused("this page has no such button")
    draft = Draft(saved.sql, fields_of(visit), saved.parameters, values_of(visit, saved.parameters))
    title, step = _STEPS[do]
    return visit.work(f"{title} {saved.name}", lambda job: _run(visit, saved, draft, job, step))


def _run(visit: Visit, saved: SavedQuery, draft: Draft, job: Job, step: Callable[..., Mapping[str, Any]]) -> Outcome:
    """Values that are refused stay in the form, with the reasons."""
    text = draft.sql
    try:
        text = draft.text
        found = step(visit, saved, draft, job)
    except WeftError as error:
        refused = {**refusal(error, text, step is _installed), "troubles": unsuitable(draft)}
        return Shown("saved_query.html", _values(visit, saved, draft, **refused))
    if "installed" in found:
        query = found["installed"]
        return Go(f"/queries/{query.query_id}", f"{query.name} is installed. The next tick runs it.")
    return Shown("saved_query.html", _values(visit, saved, draft, **found))


def _values(visit: Visit, saved: SavedQuery, draft: Draft, **found: Any) -> dict[str, Any]:
    owns = visit.is_admin or (visit.user is not None and visit.user.name == saved.owner)
    about, after = f"{SAVED}.{saved.name}", visit.asked("after") or None
    granted = visit.weft.accounts.grants(about=about, after=after, limit=_LISTED + 1) if owns else ()
    grants, more = page_of(visit, granted, _LISTED, lambda last: last.key)
    nothing = dict.fromkeys(("text", "tried", "tested", "chart", "error"))
    shown = {
        "saved": saved,
        "draft": draft,
        "owns": owns,
        "grants": grants,
        "more": more,
        "first_answers": first_answers(visit),
    }
    return {**shown, **nothing, "problems": (), "at_install": False, "troubles": {}, **found}


def _saved(visit: Visit) -> SavedQuery:
    return visit.weft.saved_by_id(visit.key("saved_id"))


def _filled(visit: Visit, saved: SavedQuery, draft: Draft, job: Job) -> Mapping[str, Any]:
    return {"text": visit.weft.fill_query(saved.name, draft.values)}


def _tried(visit: Visit, saved: SavedQuery, draft: Draft, job: Job) -> Mapping[str, Any]:
    return {**_filled(visit, saved, draft, job), **try_once(visit, draft, job)}


def _tested(visit: Visit, saved: SavedQuery, draft: Draft, job: Job) -> Mapping[str, Any]:
    return {**_filled(visit, saved, draft, job), **backtest(visit, draft, job)}


def _installed(visit: Visit, saved: SavedQuery, draft: Draft, job: Job) -> Mapping[str, Any]:
    if not draft["name"]:
        raise Refused("the query has no name", hint="Write a name, such as late-orders.")
    installed = visit.weft.install_saved(saved.name, draft["name"], draft.values, **draft.installation())
    return {"installed": installed}


def _remove(visit: Visit, saved: SavedQuery) -> str:
    visit.weft.remove_saved(saved.name)
    return f"The saved query {saved.name} is removed. Queries that were installed from it stay."


def _grant(visit: Visit, saved: SavedQuery) -> str:
    name = visit.given("subject")
    visit.weft.accounts.grant(name, "read", f"{SAVED}.{saved.name}")
    return f"{name} may fill in {saved.name}."


def _revoke(visit: Visit, saved: SavedQuery) -> str:
    name = visit.given("subject")
    visit.weft.accounts.revoke(name, "read", f"{SAVED}.{saved.name}")
    return f"{name} may not fill in {saved.name} any more."


_STEPS: Final = {
    "fill": ("fill in", _filled),
    "try": ("try", _tried),
    "backtest": ("backtest", _tested),
    "install": ("install", _installed),
}
_OWNER: Final[Mapping[str, Callable[[Visit, SavedQuery], str]]] = {
    "remove": _remove,
    "grant": _grant,
    "revoke": _revoke,
}

ROUTES: Final = (
    Route("/saved", page(listed)),
    Route("/saved/{saved_id:key}", page(show)),
    Route("/saved/{saved_id:key}", page(act), methods=["POST"]),
)
