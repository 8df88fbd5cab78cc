"""Sources without history, and sources of mail."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from weft.api.json.sources import polled_json, shown_source_json, source_json
from weft.api.weft import Weft
from weft.catalog.sources import Stamps
from weft.web.api_v1.operation import AfterName, Fields, Interval, Limit, Name, Operation, listed

Keys = Annotated[list[Name], Field(max_length=100, description="The columns of the key (not for mail).")]
Columns = Annotated[str, Field(max_length=100_000, description="The columns to record: `id BIGINT, name`.")]
Renaming = Annotated[str, Field(max_length=100_000, description="New names of columns: `Order ID=id, Date=day`.")]


def list_sources(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the sources in the order of their names, with the result of their last poll."""
    found = weft.source_page(after=after, limit=limit + 1)
    return listed([source_json(each) for each in found], limit, lambda last: found[last].name)


def add_source(
    weft: Weft,
    name: Name,
    kind: Annotated[
        Literal["csv", "jsonl", "parquet", "sqlite", "postgres", "changes", "maildir", "imap", "nntp"],
        Field(description="The kind."),
    ],
    at: Annotated[str, Field(min_length=1, max_length=10_000, description="The path or URI, as the server sees it.")],
    key: Keys = [],  # noqa: B006 - a default that nobody changes
    every: Interval = "10m",
    ts: Annotated[
        Stamps | None, Field(description="What stamps the changes: the clock of Weft, the file, or the source.")
    ] = None,
    columns: Columns | None = None,
    rename: Renaming | None = None,
    table: Annotated[Name | None, Field(description="The table in the source, if it has several.")] = None,
    slot: Annotated[Name | None, Field(description="The replication slot in PostgreSQL.")] = None,
    publication: Annotated[Name | None, Field(description="The publication in PostgreSQL.")] = None,
) -> Fields:
    """Track a source as a table with its history, or follow mail.

    Mail (`maildir`, `imap` or `nntp`) has no key: each new message is appended to a mail table.
    """
    names = {"rename": rename, "table": table, "slot": slot, "publication": publication}
    return source_json(weft.add_source(name, kind, at, key, every=every, ts=ts, columns=columns, **names))


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
