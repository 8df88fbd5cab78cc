"""Add and remove temporal views."""

from __future__ import annotations

from collections.abc import Iterable

from weft.algebra.scalar import Call, Cast, Scalar
from weft.algebra.traverse import range_variables, rename
from weft.catalog import Writer
from weft.catalog.views import Mode, ViewRecord
from weft.errors import Refused
from weft.execution.home import OpenHome
from weft.execution.temporal.auxiliaries import over_auxiliaries, reads_of
from weft.planning.view_plan import bound_view, stored_view
from weft.sql.duckdb_dialect import not_local
from weft.sql.render import scalar


def add_view(home: OpenHome, name: str, text: str, mode: Mode) -> ViewRecord:
    """Add a view: its table, its definition and auxiliary views. Nothing is computed yet.

    Raise SqlError if the text is not a view, Refused for an invalid name, an invalid column or an operation that this
    process does not compute, Conflict if the name is in use, and LeaseBusy.
    """
    with home.writing(f"add the view {name}") as writer:
        bound = bound_view(text, {table.name: table.schema for table in writer.tables.known()})
        refused = not_local(bound.plan.view)
        if refused is not None:
            raise _refused(rename(refused, {f"{each}_stored": each for each in range_variables(bound.query)}))
        at = home.clock()
        try:
            stored = over_auxiliaries(writer, bound, at)
            form, reads, depends = stored_view(stored), reads_of(stored), bound.depends_on_now
            return writer.views.add(name, bound.columns, text, form, reads, mode, at, depends_on_now=depends)
        finally:
            _clear(writer, writer.views.forget_unread())


def _refused(part: Scalar) -> Refused:
    hint = "Select the whole column in the view, and its parts in a query over the view."
    match part:
        case Call(name="from_json", args=(column, _)) if column.type.shape is not None:
            return Refused("a view cannot use a part of a nested column", where=scalar(column), hint=hint)
        case Call(name="map"):  # no text contains map(): it comes from a part that is grouped by or selected whole
            return Refused("a view cannot use a part of a nested column", hint=hint)
        case _:
            message = f"a view cannot use {refusal(part)}: the result might differ from a standing query's"
            return Refused(message, where=scalar(part), hint="docs/reference/views.md lists what a view can use.")


def refusal(refused: Scalar) -> str:
    """Describe a function, an operator or a conversion as a query's text names it."""
    match refused:
        case Call(name="/" | "%" | "*" as operator, args=args):
            return f"{operator} of {' and '.join(str(arg.type) for arg in args)}"
        case Call(name="try_cast", args=(arg,)) | Cast(arg=arg):
            return f"a conversion of {arg.type} to {refused.type}"
        case Call(name=name):
            return f"{name.upper()}{'' if ' ' in name or name in ('like', 'ilike') else '()'}"
        case _:
            return f"constants of the type {refused.type}"


def remove_view(home: OpenHome, name: str) -> ViewRecord:
    """Remove a view with its history, and the auxiliary views that no other view reads.

    Raise NotFound, and Conflict if something reads the view.
    """
    with home.writing(f"remove the view {name}") as writer:
        view = writer.views.named(name)
        _clear(writer, writer.views.remove(view.table_id))
        return view


def _clear(writer: Writer, paths: Iterable[str]) -> None:
    for path in paths:
        (writer.data / path).clear()
