"""Add and remove temporal views and their auxiliary views.

An auxiliary view is a stored view with its own log. The refresh of an auxiliary view comes before the refresh of its
readers, at the same instant. If a process dies between the refreshes of two views, the recovery does not depend on the
kind of view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.algebra.scalar import Call, Cast, Scalar
from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.algebra.traverse import range_variables, rename
from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.views import Mode, ViewRecord
from weft.derivation.temporal.auxiliary import Auxiliary, auxiliary_views
from weft.errors import Refused
from weft.execution.current_rows_cache import remove_dropped
from weft.execution.home import OpenHome
from weft.execution.temporal.refresh_views import view_plan_of
from weft.planning.view_plan import ViewPlan, auxiliary_of, bound_view, over_tables, query_of, stored_view, text_of
from weft.sql.dialects.duckdb_dialect import ALIKE, not_local
from weft.sql.rendering.render import scalar


def add_view(home: OpenHome, name: str, text: str, mode: Mode) -> ViewRecord:
    """Add a view with its table, definition and auxiliary views, but without rows. Return the view's record.

    Raise SqlError if the text does not define a view. Raise Refused if the name or a column is invalid, or if this
    process cannot compute an operation of the view. Raise Conflict if the name is in use. Raise LeaseBusy.
    """
    with home.writing(f"add the view {name}") as writer:
        bound = checked_view(text, {table.name: table.schema for table in writer.tables.known()})
        at = home.clock()
        try:
            stored = over_auxiliaries(writer, bound, at)
            form, reads, depends = stored_view(stored), reads_of(stored), bound.depends_on_now
            return writer.views.add(name, bound.columns, text, form, reads, mode, at, depends_on_now=depends)
        finally:
            _clear(writer, writer.views.forget_unread())


def checked_view(text: str, tables: Mapping[str, TableSchema]) -> ViewPlan:
    """Return the view that ``text`` defines over ``tables``. Raise SqlError or Refused as ``add_view`` does."""
    bound = bound_view(text, tables)
    refused = not_local(bound.plan.view)
    if refused is not None:
        raise _refused(rename(refused, {f"{each}_stored": each for each in range_variables(bound.query)}))
    return bound


def _refused(part: Scalar) -> Refused:
    hint = "Select the whole column in the view, and its parts in a query over the view."
    match part:
        case Call(name="from_json", args=(column, _)) if column.type.shape is not None:
            return Refused("a view cannot use a part of a nested column", where=scalar(column), hint=hint)
        case Call(name="map"):  # no text contains map(): it comes from a part that is grouped by or selected whole
            return Refused("a view cannot use a part of a nested column", hint=hint)
        case _:
            message = (
                f"a view cannot use {refusal(part)}, because the result might differ from the result of a "
                "standing query"
            )
            return Refused(message, where=scalar(part), hint="See docs/reference/views.md for what a view can use.")


def refusal(refused: Scalar) -> str:
    """Return a phrase with the SQL text of a function, an operator or a conversion."""
    match refused:
        case Call(name=name, args=args) if name in ALIKE or name in ("/", "%", "*"):
            return f"{name.upper()} of {' and '.join(str(arg.type) for arg in args)}"
        case Call(name="try_cast", args=(arg,)) | Cast(arg=arg):
            return f"a conversion of {arg.type} to {refused.type}"
        case Call(name=name):
            return f"{name.upper()}{'' if ' ' in name or name in ('like', 'ilike') else '()'}"
        case _:
            return f"constants of the type {refused.type}"


def remove_view(home: OpenHome, name: str) -> ViewRecord:
    """Remove a view with its history, and the auxiliary views that no other view reads. Return the removed view.

    Raise NotFound or LeaseBusy. Raise Conflict if another object reads the view.
    """
    with home.writing(f"remove the view {name}") as writer:
        view = writer.views.named(name)
        _clear(writer, writer.views.remove(view.table_id))
        remove_dropped(writer)
        return view


def _clear(writer: Writer, paths: Iterable[str]) -> None:
    for path in paths:
        (writer.data / path).clear()


def over_auxiliaries(writer: Writer, bound: ViewPlan, at: int) -> ViewPlan:
    """If the view needs only part of a table, replace the table by an auxiliary view. Return the changed plan.

    The function adds missing auxiliary views. ``at`` is the wall clock time (µs UTC).
    """
    tables = {table.table_id: table for table in writer.tables.all()}
    keys = {key: table.keys for key, table in tables.items() if table.keys}
    parts: dict[int, TableSchema] = {}
    for wanted in auxiliary_views(bound.value, keys):
        if is_worth_storing(wanted):
            part = _stored(writer, tables, wanted) or _added(writer, wanted, at)
            parts[wanted.table.id] = wanted.part_of(part.schema)
    return ViewPlan(over_tables(bound.query, parts)) if parts else bound


def is_worth_storing(wanted: Auxiliary) -> bool:
    """Return whether an auxiliary view has a condition that excludes rows, and is therefore worth storing.

    Without such a condition, the log of the auxiliary view would be nearly as long as the table's log. Each refresh of
    an auxiliary view also needs one more commit. In a measurement, the table had 20,000 rows of 12 columns. Each poll
    recorded 500 changes, and 70 % of the changes concerned columns that the view did not need. With an auxiliary view
    without conditions in place of the table, a join took 10 % longer and a projection took 40 % longer.
    """
    return bool(wanted.conditions)


def _stored(writer: Writer, tables: dict[int, TableRecord], wanted: Auxiliary) -> TableRecord | None:
    """Return the table of an existing auxiliary view that contains ``wanted``, or None."""
    parts = (view for view in writer.views.all() if view.auxiliary and wanted.table.id in view.reads)
    queries = ((view, view_plan_of(view, tables.values()).query) for view in parts)
    return next((tables[view.table_id] for view, query in queries if auxiliary_of(query).contains(wanted)), None)


def _added(writer: Writer, wanted: Auxiliary, at: int) -> TableRecord:
    plan = ViewPlan(query_of(wanted), auxiliary=True)
    name, text = wanted.table.name, text_of(wanted)
    form, reads, depends = stored_view(plan), reads_of(plan), plan.depends_on_now
    view = writer.views.add(name, plan.columns, text, form, reads, "auxiliary", at, depends_on_now=depends)
    return writer.tables.by_id(view.table_id)


def reads_of(bound: ViewPlan) -> dict[int, tuple[int, ...]]:
    """Map the ID of each input table to the IDs of the value columns that the view reads."""
    return {
        table.id: tuple(column.id for column in table.columns if column.name not in (VALID_FROM, VALID_TO))
        for table in bound.tables
    }
