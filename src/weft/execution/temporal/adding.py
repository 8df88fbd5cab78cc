"""Adding a temporal view and taking it away."""

from __future__ import annotations

from weft.algebra.scalar import Call, Cast, Scalar
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.algebra.traverse import range_variables, rename
from weft.catalog.views import Mode, ViewRecord
from weft.errors import Refused
from weft.execution.home import Home
from weft.planning.upkeep import Upkeep, bound_view, stored_view
from weft.sql.local import not_local
from weft.sql.render import scalar


def add_view(home: Home, name: str, text: str, mode: Mode) -> ViewRecord:
    """Keeps a view from now on: its table and its definition; nothing is computed yet.

    Raises SqlError for a text that is no view, Refused for a name or columns that no table can have and for what this
    process does not compute, Conflict where the name is taken, LeaseBusy.
    """
    with home.writing(f"add the view {name}") as writer:
        bound = bound_view(text, {table.name: table.schema for table in writer.tables.all()})
        refused = not_local(bound.plan.view)
        if refused is not None:
            raise Refused(
                f"views have no {_what(refused)}: it might come out otherwise here than in a standing query",
                where=scalar(rename(refused, {f"{each}_stored": each for each in range_variables(bound.query)})),
                hint="docs/reference/views.md lists what they have.",
            )
        table = writer.tables.create(name, bound.columns, tracked=True)
        writer.views.add(table.table_id, text, stored_view(bound), reads_of(bound), mode, home.clock())
        return writer.views.named(name)


def _what(refused: Scalar) -> str:
    """A function, an operator or a conversion, as the text of a query has it."""
    match refused:
        case Call(name="/" | "%" | "*" as operator, args=args):
            return f"{operator} of {' and '.join(str(arg.type) for arg in args)}"
        case Call(name="try_cast", args=(arg,)) | Cast(arg=arg):
            return f"conversion of {arg.type} to {refused.type}"
        case Call(name=name):
            return f"{name.upper()}{'' if ' ' in name or name in ('like', 'ilike') else '()'}"
        case _:
            return f"constants of the type {refused.type}"


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
