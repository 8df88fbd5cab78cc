"""Temporal views."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from weft.api.json.views import refreshed_json, shown_view_json, view_json
from weft.api.weft import Weft
from weft.web.api_v1.operation import AfterName, Fields, Limit, Name, Operation, Sql, listed


def list_views(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the temporal views in the order of their names."""
    found = weft.view_page(after=after, limit=limit + 1)
    return listed([view_json(view) for view, _ in found], limit, lambda last: found[last][0].name)


def add_view(
    weft: Weft,
    name: Name,
    sql: Sql,
    batched: Annotated[bool, Field(description="Refresh the view when it is read, not after each poll.")] = False,
) -> Fields:
    """Add a temporal view over tracked tables and other views, starting with their recorded history."""
    view = weft.add_view(name, sql, batched=batched)
    return {**view_json(view), "warnings": list(weft.warnings_of_view(name))}


def show_view(weft: Weft, view: Name) -> Fields:
    """Show a view: its query, its columns, what it reads, what reads it, and its size."""
    return shown_view_json(weft.show_view(view))


def refresh_view(weft: Weft, view: Name) -> list[Fields]:
    """Refresh a view and the views that it reads."""
    return [refreshed_json(each) for each in weft.refresh_views(view)]


def remove_view(weft: Weft, view: Name) -> Fields:
    """Remove a view with all its recorded periods."""
    return {"name": weft.remove_view(view).name, "removed": True}


_ONE: Final = "/views/{view}"

OPERATIONS: Final = (
    Operation("GET", "/views", list_views, "views"),
    Operation("POST", "/views", add_view, "views", "install", 201),
    Operation("GET", _ONE, show_view, "views"),
    Operation("POST", f"{_ONE}/refresh", refresh_view, "views"),
    Operation("DELETE", _ONE, remove_view, "views", "admin"),
)
