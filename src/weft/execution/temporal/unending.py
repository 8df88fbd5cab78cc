"""Warn about moving windows over tables whose rows never end: such aggregates are running totals."""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.temporal import Aggregation, Base, Difference, Extension, Temporal, each
from weft.catalog.catalog import CatalogParts
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.execution.temporal.refresh_views import view_plan_of
from weft.execution.temporal.showing import storage_counts
from weft.planning.words import length
from weft.sql.render import interval, quoted


def running_totals(catalog: CatalogParts, view: ViewRecord) -> tuple[str, ...]:
    """Return a warning for each moving window over tables of which no row has ended, with the query to write instead.

    Empty tables give no warning. Raise PlanMismatch or StorageError.
    """
    records = {table.table_id: table for table in catalog.tables.all()}
    parts = {each.table_id: next(iter(each.reads)) for each in catalog.views.all() if each.auxiliary}
    warnings: dict[str, None] = {}
    for window, bases in _windows(view_plan_of(view, records.values()).value):
        tables = [records[parts.get(base.table.id, base.table.id)] for base in bases]
        if tables and all(_unending(catalog, table) for table in tables):
            warnings[_warning(window, tables[0].schema)] = None
    return tuple(warnings)


def _windows(relation: Temporal) -> Iterator[tuple[int, list[Base]]]:
    """Yield the lengths of moving windows (µs), each with the tables whose rows determine when the window's rows
    end.
    """
    for part in each(relation):
        if isinstance(part, Extension) and isinstance(part.window, Literal) and isinstance(part.window.value, int):
            below = list(each(part.input))
            # These operators yield rows that end even if no row of a table ends.
            ending = any(isinstance(inner, (Aggregation, Difference, Extension)) for inner in below)
            if part.window.value and not ending:
                yield part.window.value, [inner for inner in below if isinstance(inner, Base)]


def _unending(catalog: CatalogParts, table: TableRecord) -> bool:
    periods, still_open, _ = storage_counts(catalog, table)
    return periods > 0 and periods == still_open


def _warning(window: int, table: TableSchema) -> str:
    bounds = (table.start, table.end)
    at = next((c.name for c in table.columns if c.type == TIMESTAMP and c.name not in bounds), None)
    span = interval(window)
    recent = f"WHERE {quoted(at or 'at')} > NOW() - {span}"
    if at is None:
        recent += f" ({table.name} needs a TIMESTAMP column `at` with the instant of the event)"
    return (
        f"MOVING_WINDOW({span}) is a running total as long as no row of {table.name} ends, and none has ended yet: "
        f"each row counts from its start on. For events of the last {length(window, weeks=False)}, omit MOVING_WINDOW "
        f"and write {recent}: the view then has the events that are recent when it is read"
    )
