"""Adding a temporal view and taking it away."""

from __future__ import annotations

from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.catalog.views import Mode, ViewRecord
from weft.errors import Refused
from weft.execution.home import Home
from weft.planning.upkeep import Upkeep, bound_view, stored_view
from weft.sql.local import is_local


def add_view(home: Home, name: str, text: str, mode: Mode) -> ViewRecord:
    """Keeps a view from now on: its table and its definition; nothing is computed yet.

    Raises SqlError for a text that is no view, Refused for a name or columns that no table can have and for what this
    process does not compute, Conflict where the name is taken, LeaseBusy.
    """
    with home.writing(f"add the view {name}") as writer:
        bound = bound_view(text, {table.name: table.schema for table in writer.tables.all()})
        if not is_local(bound.plan.view):
            raise Refused(
                "the view calls a function, or converts to a type, that views cannot have",
                hint="They have comparisons, +, -, COALESCE, LOWER, UPPER, LENGTH, CASE and the parts of dates.",
            )
        table = writer.tables.create(name, bound.columns, tracked=True)
        writer.views.add(table.table_id, text, stored_view(bound), reads_of(bound), mode, home.clock())
        return writer.views.named(name)


def reads_of(bound: Upkeep) -> dict[int, tuple[int, ...]]:
    """What a view reads: tables by id, and the ids of the columns that their rows have."""
    return {
        table.id: tuple(column.id for column in table.columns if column.name not in (VALID_FROM, VALID_TO))
        for table in bound.tables
    }


def remove_view(home: Home, name: str) -> ViewRecord:
    """Takes a view away with all that was recorded of it; raises NotFound, Conflict where something reads it."""
    with home.writing(f"remove the view {name}") as writer:
        found = writer.views.named(name)
        path = writer.tables.by_id(found.table_id).path
        writer.views.remove(found.table_id)
        (writer.data / path).clear()
        return found
