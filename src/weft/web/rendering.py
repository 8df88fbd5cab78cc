"""Fill the templates.  Everything that a template shows is escaped, and control characters are made visible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from weft.catalog.records import QueryRecord
from weft.execution.windows import NEVER
from weft.instants import (
    FIRST_INSTANT,
    LAST_INSTANT,
    format_instant,
    format_interval,
    format_rfc3339,
    to_datetime,
    value_text,
)
from weft.printable import counted, one_line, size, visible
from weft.web import security
from weft.web.controls import named_controls

FOLDER: Final = Path(__file__).parent
_CELL: Final = 300
"""The maximum length of a value in a list (characters)."""
_FULL: Final = 20_000
"""The maximum length of a value on its own page (characters)."""
_NULL: Final = Markup('<span class="null">NULL</span>')


def page(request: Request, template: str, values: Mapping[str, Any], status: int, zone: str | None = None) -> Response:
    """Return the page that ``template`` gives for ``values``.  Instants have the time in ``zone`` beside UTC."""
    token = _zone.set(zone)
    try:
        text = (
            environment()
            .get_template(template)
            .render(notice=security.notice_of(request, request.app.state.site), **values)
        )
    finally:
        _zone.reset(token)
    response = HTMLResponse(text, status)
    security.take_notice(request, response, request.app.state.site)
    return response


_zone: Final[ContextVar[str | None]] = ContextVar("zone", default=None)


@cache
def environment() -> Environment:
    """Return the templates with their filters."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "at": at,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "cell": cell,
        "controls": named_controls,
        "counted": counted,
        "due": due,
        "every": every,
        "full": full,
        "length_us": format_interval,
        "line": line,
        "moment": moment,
        "lines": lines,
        "number": number,
        "sentence": sentence,
        "size": size,
        "zip": zip,
    }
    made.tests |= {"match": lambda text, pattern: re.match(pattern, text) is not None}
    made.globals |= {"static": static}
    return made


@cache
def static(name: str) -> str:
    """Return the address of a file in ``static``.  The address changes with the file, so that browsers may keep it."""
    mark = sha256((FOLDER / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{mark}"


def at(instant: int | None, none: str = "–") -> Markup:
    """Format an instant (microseconds UTC), to the second unless it has a fraction.

    >>> at(733968000000000)
    Markup('<time datetime="1993-04-05T00:00:00Z">1993-04-05 00:00:00 UTC</time>')
    """
    if instant is None:
        return escape(none)
    # Neither format has a character to escape.
    shown = Markup(f'<time datetime="{format_rfc3339(instant)}">{format_instant(instant)}</time>')
    own = _own_time(instant)
    return shown if own is None else shown + Markup(' <span class="own">({})</span>').format(own)


def _own_time(instant: int) -> str | None:
    zone = _zone.get()
    if zone is None or not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return None
    try:
        local = to_datetime(instant).astimezone(ZoneInfo(zone))
    except OverflowError:  # the first or the last day of the calendar
        return None
    return f"{local:%Y-%m-%d %H:%M} {local.tzname()}"


def moment(instant: int | None, none: str = "–") -> Markup:
    """Format an instant of the wall clock (microseconds UTC) to the second."""
    return at(None if instant is None else instant // 1_000_000 * 1_000_000, none)


def cell(value: object) -> Markup:
    """Format a value of a row on one line."""
    return _NULL if value is None else escape(one_line(value_text(value), _CELL))


def full(value: object) -> Markup:
    """Format a value of a row with its lines, up to a large length."""
    if value is None:
        return _NULL
    text = value_text(value)
    cut = escape(visible(text[:_FULL], allowed="\n\t")) + ("…" if len(text) > _FULL else "")
    return Markup('<span class="value">{}</span>').format(cut)


def line(text: object, longest: int = _CELL) -> str:
    """Format a text from data on one line."""
    return one_line(str(text), longest)


def lines(text: object) -> str:
    """Format a text from data, with its lines."""
    return visible(str(text), allowed="\n\t")


def sentence(text: str) -> str:
    """Begin a text with a capital letter, and end it with a full stop.

    >>> sentence("a row may return")
    'A row may return.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ":", "?", "!")) else ".")


def number(value: int | None, none: str = "–") -> str:
    """Format a number with separators of thousands."""
    return none if value is None else f"{value:,}"


def every(interval: int | None) -> str:
    """Format the interval of a query."""
    return "each tick" if interval is None else format_interval(interval)


def due(query: QueryRecord, timely: bool | None = None) -> Markup:
    """Say when a query can have its next answer.  ``timely`` is whether time alone can add one (None: unknown)."""
    if query.state != "active":
        return escape(f"not while {query.state}")
    if query.tau is None:
        return escape("at the next tick")
    if query.next_due is None and timely is not False:
        return escape("the next tick checks")
    if query.next_due is None or query.next_due >= NEVER:
        return escape("when rows arrive")
    return moment(query.next_due)
