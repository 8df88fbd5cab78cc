"""Sources without history."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from weft.api.json.sources import polled_json, shown_source_json, source_json
from weft.api.weft import Weft
from weft.web.api_v1.operation import AfterName, Fields, Interval, Limit, Name, Operation, after_name, listed


def list_sources(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the sources in the order of their names, with the result of their last poll."""
    found = after_name(weft.sources(), after, limit)
    return listed([source_json(each) for each in found], limit, lambda last: found[last].name)


def add_source(
    weft: Weft,
    name: Name,
    kind: Annotated[
        Literal["csv", "jsonl", "parquet", "sqlite", "postgres", "changes"], Field(description="The kind.")
    ],
    at: Annotated[str, Field(min_length=1, max_length=10_000, description="The path or URI, as the server sees it.")],
    key: Annotated[list[Name], Field(min_length=1, max_length=100, description="The columns of the key.")],
    every: Interval = "10m",
    table: Annotated[Name | None, Field(description="The table in the source, if it has several.")] = None,
) -> Fields:
    """Track a source as a table with its history."""
    return source_json(weft.add_source(name, kind, at, key, every=every, table=table))


def show_source(weft: Weft, source: Name) -> Fields:
    """Show a source: its location, its columns, and the result of its last poll."""
    return shown_source_json(*weft.source(source))


def poll_source(
    weft: Weft,
    source: Name,
    evolve: Annotated[bool, Field(description="Add the source's new columns to the table.")] = False,
    allow_empty: Annotated[bool, Field(description="Accept an empty source.")] = False,
) -> list[Fields]:
    """Record the changes of a source since its last poll."""
    polled = weft.poll_feed(source, evolve=evolve, allow_empty=allow_empty)
    return [polled_json(each.name, each) for each in polled]


def remove_source(weft: Weft, source: Name) -> Fields:
    """Remove a source; its tracked table stays."""
    removed, left = weft.remove_source(source)
    return {"name": removed.name, "removed": True, "left": left}


_ONE: Final = "/sources/{source}"

OPERATIONS: Final = (
    Operation("GET", "/sources", list_sources, "sources", "admin"),
    Operation("POST", "/sources", add_source, "sources", "admin", 201),
    Operation("GET", _ONE, show_source, "sources", "admin"),
    Operation("POST", f"{_ONE}/poll", poll_source, "sources", "admin"),
    Operation("DELETE", _ONE, remove_source, "sources", "admin"),
)
