"""The temporal views and the tracked tables: their periods as a timeline, and their rows as of an instant."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from weft.catalog.records import TableRecord
from weft.delivery.timeline import Bar, Span, svg
from weft.errors import NotFound
from weft.execution.histories import History
from weft.instants import FIRST_INSTANT, LAST_INSTANT, read_instant, value_text
from weft.printable import one_line
from weft.web.jobs import Go, Job, Outcome
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 50
_DRAWN: Final = 60
"""The maximum number of periods in a timeline."""
_LARGEST: Final = 500_000
"""The maximum number of recorded changes of a history that a page reads.  It makes values only of what it shows."""
_SECOND: Final = 1_000_000
_NEAREST: Final = FIRST_INSTANT // _SECOND
_FARTHEST: Final = LAST_INSTANT // _SECOND
_STOPS: Final = 200
"""The number of places of the slider."""


def listed(visit: Visit) -> Response:
    """Show the views, and when each was refreshed, and the tracked tables."""
    weft, after, after_tracked = visit.weft, visit.asked("after") or None, visit.asked("after_tracked") or None
    views, more = page_of(visit, weft.view_page(after=after, limit=_LISTED + 1), _LISTED, lambda last: last[0].name)
    found = weft.table_page(kind="tracked", after=after_tracked, limit=_LISTED + 1)
    tracked, more_tracked = page_of(visit, found, _LISTED, lambda last: last.name, "after_tracked")
    return visit.show("views.html", views=views, tracked=tracked, more=more, more_tracked=more_tracked)


def show(visit: Visit) -> Response:
    """Show the periods of a view or of a tracked table, and the rows that held at an instant."""
    weft = visit.weft
    table = weft.table(visit.part("name"))
    if not table.tracked:
        raise NotFound(f"{table.name} is not a view", hint=f"Its page is /tables/{table.name}.")
    # The periods as recorded: a page that is only read refreshes nothing.
    chosen = _chosen(visit)
    if chosen is not None and visit.for_part and table.rows <= _LARGEST:
        return visit.show("view_held.html", **_held(visit, table, chosen))
    details = weft.show_view(table.name) if table.is_view else None
    values: dict[str, object] = {"table": table, "view": details and details.view, "details": details}
    if table.rows > _LARGEST:
        return visit.show("view.html", **values, history=None)
    history = weft.history(table.name, known=LAST_INSTANT, limit=_DRAWN)
    span = Span.of([Bar("", *history.bounds)] if history.bounds else [], history.at)
    # The first place of the slider is not before the first period.
    first, last = -(-span.first // _SECOND), -(-span.last // _SECOND)
    step = max((last - first) // _STOPS, 1)
    instant = last * _SECOND if chosen is None else chosen
    return visit.show(
        "view.html",
        **values,
        history=history,
        drawing=_drawn(table, history),
        first=first,
        last=last,
        step=step,
        end=first + -(-(last - first) // step) * step,
        at=min(max(instant // _SECOND, first), last),
        **_held(visit, table, instant),
    )


def _chosen(visit: Visit) -> int | None:
    """Return the instant of the address, or None.

    The last place of the slider can be after the last instant, ``to``, for which it then stands.
    """
    at, given = visit.number("at"), read_instant(visit.asked("t"))
    if at is None or given is not None:
        return given
    return min(max(at, _NEAREST), _FARTHEST, visit.number("to", _FARTHEST) or 0) * _SECOND


def _held(visit: Visit, table: TableRecord, instant: int) -> dict[str, object]:
    return {
        "instant": instant,
        "held": visit.weft.history(table.name, known=LAST_INSTANT, held_at=instant, limit=_DRAWN),
    }


def _drawn(table: TableRecord, history: History) -> Markup | None:
    bars = [Bar(_label(each.values, history.keys), each.begin, each.end) for each in history.stretches]
    return Markup(svg(f"Periods of {table.name}", bars, history.at)) if bars else None


def _label(values: tuple[object, ...], keys: int) -> str:
    named = ", ".join(one_line(value_text(each), 40) for each in values[:keys] or values)
    rest = ", ".join(one_line(value_text(each), 40) for each in values[keys:])
    return f"{named}: {rest}" if keys and rest else named


def refresh(visit: Visit) -> Response:
    """Refresh a view."""
    name, weft = visit.part("name"), visit.weft

    def work(job: Job) -> Outcome:
        done = weft.refresh_views(name)
        words = "; ".join(each._brief() for each in done)
        return Go(
            f"/views/{name}", f"Refreshed: {words}." if done else f"{name} was refreshed at this instant already."
        )

    return visit.work(f"refresh {name}", work, back=f"/views/{name}")


ROUTES: Final = (
    Route("/views", page(listed)),
    Route("/views/{name}", page(show)),
    Route("/views/{name}", page(refresh), methods=["POST"]),
)
