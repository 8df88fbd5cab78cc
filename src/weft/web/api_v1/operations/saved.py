"""Saved queries: texts with parameters, which people fill in and install."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, FiniteFloat

from weft.api.json.queries import query_json, saved_json
from weft.api.weft import Weft
from weft.web.api_v1.operation import (
    AfterName,
    Fields,
    Interval,
    Limit,
    Name,
    Operation,
    QueryName,
    Sql,
    listed,
)
from weft.web.api_v1.operations.queries import Channels, Digest, Keep, Start, Zone, id_in

Declared = Annotated[str, Field(min_length=1, max_length=10_000)]
Parameters = Annotated[
    list[Declared], Field(max_length=100, description="Each parameter: `NAME:TYPE` or `NAME:TYPE=DEFAULT`.")
]
Description = Annotated[str, Field(max_length=2_000, description="What the query is for.")]
Text = Annotated[str, Field(max_length=1_000_000)]
Values = Annotated[
    dict[str, Text | int | bool | FiniteFloat],
    Field(max_length=100, description="A value for each parameter without a default.  A text keeps all digits."),
]


def list_saved(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the saved queries that one may fill in, in the order of their names."""
    found = weft.saved_queries(after=after, limit=limit + 1)
    return listed([saved_json(each) for each in found], limit, lambda last: found[last].name)


def save_query(weft: Weft, name: Name, sql: Sql, parameters: Parameters, description: Description = "") -> Fields:
    """Save a text with `{{parameters}}`, which others fill in and install."""
    return saved_json(weft.save_query(name, sql, parameters, description=description))


def show_saved(weft: Weft, saved: QueryName) -> Fields:
    """Show a saved query with its parameters."""
    saved_id = id_in(saved)
    return saved_json(weft.saved_query(saved) if saved_id is None else weft.saved_by_id(saved_id))


def change_saved(weft: Weft, saved: Name, sql: Sql, parameters: Parameters, description: Description = "") -> Fields:
    """Replace the text of a saved query, its parameters and its description.

    The rights to it and the queries that were installed from it stay.
    """
    name = weft.saved_query(saved).name
    return saved_json(weft.save_query(name, sql, parameters, description=description, replace=True))


def remove_saved(weft: Weft, saved: Name) -> Fields:
    """Remove a saved query with the rights to it.  Queries that were installed from it stay."""
    return saved_json(weft.remove_saved(saved))


def fill_saved(weft: Weft, saved: Name, values: Values = {}) -> Fields:  # noqa: B006 - a default that nobody changes
    """Return the text of a saved query with a constant in place of each parameter."""
    return {"sql": weft.fill_query(saved, values)}


def install_saved(
    weft: Weft,
    saved: Name,
    name: Name,
    values: Values = {},  # noqa: B006
    every: Interval | None = None,
    start: Start | None = None,
    to: Channels = [],  # noqa: B006
    digest: Digest | None = None,
    zone: Zone | None = None,
    keep: Keep = "history",
) -> Fields:
    """Fill in a saved query, and install it as a standing query of one's own.

    Readers may do so, too.
    """
    how = {"every": every, "start": start, "to": to, "digest": digest, "zone": zone, "keep": keep}
    return query_json(weft.install_saved(saved, name, values, **how))  # type: ignore[arg-type]


_ONE: Final = "/saved/{saved}"

OPERATIONS: Final = (
    Operation("GET", "/saved", list_saved, "saved queries"),
    Operation("POST", "/saved", save_query, "saved queries", "install", 201),
    Operation("GET", _ONE, show_saved, "saved queries"),
    Operation("PUT", _ONE, change_saved, "saved queries", "own"),
    Operation("DELETE", _ONE, remove_saved, "saved queries", "own", brief=True),
    Operation("POST", f"{_ONE}/text", fill_saved, "saved queries", slow=False),
    Operation("POST", f"{_ONE}/install", install_saved, "saved queries", "read", 201),
)
