"""The list of queries, and the pages of one query: its state, its plan, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.responses import Response
from starlette.routing import Route

from weft import charts
from weft.catalog.query_list import QueryFilter
from weft.catalog.records import QueryRecord, QueryState
from weft.errors import NotFound, Refused, StorageError, WeftError
from weft.web.jobs import Go, Job, Outcome, Shown
from weft.web.paging import page_of
from weft.web.visits import Visit, page

if TYPE_CHECKING:
    from weft.api.weft import Weft
    from weft.storage.ledger import ResultRow

_LISTED: Final = 50
_TICKS: Final = 2_000
"""The number of ticks from which a chart is drawn."""
_LATEST: Final = 5
_STATES: Final = ("active", "paused", "failed")


def listed(visit: Visit) -> Response:
    """Show the queries in the order of their names, with their errors."""
    state, text = visit.asked("state"), visit.asked("q")
    wanted = QueryFilter(
        text=text or None,
        state=cast(QueryState, state) if state in _STATES else None,
        troubled=state == "troubled",
    )
    found = visit.weft.query_page(wanted, after=visit.asked("after") or None, limit=_LISTED + 1)
    shown, more = page_of(visit, found, _LISTED, lambda last: last.query.name)
    counts = visit.weft.query_counts()
    return visit.show(
        "queries.html",
        queries=shown,
        timely=_timely(visit.weft, (each.query for each in shown)),
        more=more,
        counts=counts,
        total=sum(count for state, count in counts.items() if state != "troubled"),
        text=text,
        state=state,
    )


def overview(visit: Visit) -> Response:
    """Show the text of a query, when it has answers, its latest ones, its channels and its ticks."""
    weft, query = visit.weft, _query(visit)
    if query.is_barred and visit.owns(query) and not visit.is_admin:
        return visit.show("query_barred.html", query=query)
    shown = weft.show(query.name, ticks=_TICKS)
    ticked = [tick for tick in shown.ticks if tick.rows is not None]
    counted = charts.counted_over_time((tick.t, tick.rows or 0) for tick in ticked)
    news, unreadable = _news(weft, query)
    return visit.show(
        "query.html",
        query=query,
        shown=shown,
        news=news[::-1],
        unreadable=unreadable,
        ticks=shown.ticks[:_LATEST],
        answers_chart=charts.bars(counted, "answers") if counted and sum(counted.counts) else None,
        ticks_chart=charts.bars(_ticks(counted, ticked), "ticks") if counted else None,
        each=counted.each if counted else "",
        **_explained(weft, query),
    )


def _timely(weft: Weft, queries: Iterable[QueryRecord]) -> Mapping[int, bool | None]:
    """Map the IDs of active queries that have no next instant to whether time alone can add answers."""
    return weft.time_driven(each for each in queries if each.state == "active" and each.next_due is None)


def _news(weft: Weft, query: QueryRecord) -> tuple[list[ResultRow], WeftError | None]:
    """A query whose answers cannot be read has a page, too."""
    try:
        return list(weft.results(query.name, after=max(query.rows - _LATEST, 0))), None
    except (StorageError, NotFound) as error:
        return [], error


def _ticks(counted: charts.Counted, ticked: list[Any]) -> charts.Counted:
    """Count the ticks in the same periods as the answers."""
    counts = [0] * len(counted.counts)
    for tick in ticked:
        place = (tick.t - counted.begins) // counted.step
        if place >= 0:
            counts[place] += 1
    return charts.Counted(counted.begins, counted.step, tuple(counts))


def _explained(weft: Weft, query: QueryRecord) -> Mapping[str, Any]:
    """A query that no longer fits its tables has a page, too."""
    try:
        explained = weft.explain_installed(query.name)
    except WeftError as error:
        return {"explained": None, "misfit": error, "timely": _timely(weft, [query]).get(query.query_id)}
    words = [each for each in explained.brief[:-1] if not each.startswith(("Next due:", "Answers so far"))]
    return {"explained": explained, "misfit": None, "timely": None, "words": "\n".join(words)}


def plan(visit: Visit) -> Response:
    """Show the operators of a query, and the branches that find its new answers, as trees."""
    query = _query(visit)
    explained = visit.weft.explain_installed(query.name)
    tree = visit.weft.plan_tree(query.name)
    return visit.show("query_plan.html", query=query, tree=tree, explained=explained)


def change(visit: Visit) -> Response:
    """Show the form for another text, and the earlier texts."""
    query = _query(visit)
    shown = visit.weft.show(query.name, ticks=0)
    sql, since = visit.asked("sql") or query.sql, visit.number("text_since", query.text_since)
    values = {"query": query, "shown": shown, "sql": sql, "every": "", "text_since": since}
    return visit.show("query_change.html", **values, preview=None, error=None)


def changed(visit: Visit) -> Response:
    """Count the answers that another text would deliver, or replace the text."""
    query = _query(visit)
    given: dict[str, Any] = {"sql": visit.given("sql"), "every": visit.given("every") or None}
    if not given["sql"]:
        raise Refused("the new text is missing", hint="Write a SELECT.")
    if visit.given("do") == "replace":
        given["text_since"] = visit.whole("text_since")
        return visit.work(f"replace the text of {query.name}", lambda job: _replaced(visit, query, given))
    title = f"see what a new text of {query.name} changes"
    return visit.work(title, lambda job: _previewed(visit, query, given))


def _replaced(visit: Visit, query: QueryRecord, given: Mapping[str, Any]) -> Outcome:
    visit.weft.install(query.name, **given, replace=True)
    return Go(f"/queries/{query.query_id}", "The query has its new text. Only answers not delivered so far are new.")


def _previewed(visit: Visit, query: QueryRecord, given: Mapping[str, Any]) -> Outcome:
    """Show what the new text changes.  If the text is refused, show it in the form, with the reason."""
    shown = visit.weft.show(query.name, ticks=0)
    preview, error = None, None
    try:
        preview = visit.weft.replacement(query.name, **given)
    except Refused as refused:
        error = refused
    values = {"query": query, "shown": shown, "sql": given["sql"], "every": given["every"] or ""}
    values["text_since"] = query.text_since
    return Shown("query_change.html", {**values, "preview": preview, "error": error})


def _query(visit: Visit) -> QueryRecord:
    return visit.weft.query(visit.key("query_id"))


Action = Callable[[Visit, QueryRecord], str]
"""What a button of a query does.  It returns a sentence for the next page."""


def _pause(visit: Visit, query: QueryRecord) -> str:
    visit.weft.pause(query.name)
    return f"{query.name} is paused: ticks omit it, and its answers stay."


def _resume(visit: Visit, query: QueryRecord) -> str:
    visit.weft.resume(query.name, skip=visit.given("skip") == "on")
    return f"{query.name} is active again. The next tick runs it."


def _mute(visit: Visit, query: QueryRecord) -> str:
    muted = visit.weft.mute(query.name, visit.given("channel") or None)
    return f"Muted: {', '.join(each.channel for each in muted)}."


def _unmute(visit: Visit, query: QueryRecord) -> str:
    unmuted = visit.weft.unmute(query.name, visit.given("channel") or None, skip=visit.given("skip") == "on")
    return f"No longer muted: {', '.join(each.channel for each in unmuted)}."


def _subscribe(visit: Visit, query: QueryRecord) -> str:
    to = visit.given("channel")
    if not to:
        raise Refused("the channel is missing", hint="Write a channel such as email:you@example.org.")
    every = visit.given("from_start") == "on"
    added = visit.weft.subscribe(query.name, to, from_start=every, digest=visit.given("digest") or None)
    return f"New answers of {query.name} go to {added.channel}."


def _unsubscribe(visit: Visit, query: QueryRecord) -> str:
    ended = visit.weft.unsubscribe(query.name, visit.given("channel"))
    return f"Answers of {query.name} no longer go to {ended.channel}."


def _redeliver(visit: Visit, query: QueryRecord) -> str:
    first = visit.whole("from")
    again = visit.weft.redeliver(query.name, visit.given("channel") or None, from_ordinal=first)
    return f"The next delivery sends answers from {first:,} on again to {len(again)} of the channels."


def _remove(visit: Visit, query: QueryRecord) -> str:
    purge = visit.given("purge") == "on"
    visit.weft.remove(query.name, purge=purge)
    return f"{query.name} is removed" + (" with its answers." if purge else ". Its answers stay in the ledger.")


_ACTIONS: Final[Mapping[str, tuple[str, Action]]] = {
    "pause": ("pause", _pause),
    "resume": ("resume", _resume),
    "mute": ("mute", _mute),
    "unmute": ("unmute", _unmute),
    "subscribe": ("add a channel to", _subscribe),
    "unsubscribe": ("end a channel of", _unsubscribe),
    "redeliver": ("redeliver answers of", _redeliver),
    "remove": ("remove", _remove),
}


def act(visit: Visit) -> Response:
    """Run the action of a button of the query."""
    query, name = _query(visit), visit.given("do")
    if name not in _ACTIONS:
        raise Refused("this page has no such button")
    words, action = _ACTIONS[name]

    def work(job: Job) -> Outcome:
        notice = action(visit, query)
        return Go("/queries" if name == "remove" else f"/queries/{query.query_id}", notice)

    return visit.work(f"{words} {query.name}", work, brief=True)


ROUTES: Final = (
    Route("/queries", page(listed)),
    Route("/queries/{query_id:key}", page(overview)),
    Route("/queries/{query_id:key}", page(act), methods=["POST"]),
    Route("/queries/{query_id:key}/plan", page(plan)),
    Route("/queries/{query_id:key}/change", page(change)),
    Route("/queries/{query_id:key}/change", page(changed), methods=["POST"]),
)
