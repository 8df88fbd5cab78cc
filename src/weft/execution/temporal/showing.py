"""Compute how much a view stores, and warn about running totals.

A running total is a moving window over a table whose rows never end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from weft.algebra.relation import Grouped, Scan
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, VALID_TO, TableSchema
from weft.algebra.temporal import Difference, Extension, Temporal
from weft.algebra.temporal import each as subexpressions
from weft.catalog.catalog import CatalogParts
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord, readers
from weft.execution.engines.choosing import Choice
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.reader import removals_reported, stored_files
from weft.execution.temporal.refresh_views import outdated, view_plan_of
from weft.execution.temporal.running import refresh_choice
from weft.execution.temporal.states import LoggedTable
from weft.instants import LAST_INSTANT
from weft.planning.words import length
from weft.sql.rendering.render import interval, quoted
from weft.storage.delta_log import DeltaSnapshot


def storage_counts(catalog: CatalogParts, table: TableRecord) -> tuple[int, int, int]:
    """Return the numbers of periods and open periods of a table, and its size in bytes. Raise StorageError."""
    snapshots: dict[str, DeltaSnapshot | None] = {}
    files = stored_files(catalog.data, table.path, snapshots)
    with removals_reported(catalog.data, snapshots), duckdb_engine() as engine:
        engine.stored("log", files, table.stored)
        periods = LoggedTable(engine, "log", table.stored, table.schema).periods(LAST_INSTANT)
        heads = f"COUNT(*) AS every_period, COUNT({VALID_TO}) AS ended"
        (found,) = engine.rows(f"SELECT {heads} FROM ({periods}) AS periods").to_pylist()
    return found["every_period"], found["every_period"] - found["ended"], sum(file.size for file in files)


@dataclass(frozen=True)
class ShownAuxiliary:
    """An auxiliary view, with the results of ``storage_counts``. ``of`` is the name of the base table.

    ``recorded`` is the number of log rows. ``shared`` has the names of other views that read the auxiliary view.
    """

    name: str
    sql: str
    of: str
    periods: int
    open: int
    recorded: int
    size: int
    shared: tuple[str, ...]


def auxiliaries_of(catalog: CatalogParts, view: ViewRecord) -> tuple[ShownAuxiliary, ...]:
    """Return the auxiliary views that a view reads. Raise StorageError."""
    views, tables = catalog.views.all(), {table.table_id: table for table in catalog.tables.all()}
    shown = []
    for each in views:
        if each.auxiliary and each.table_id in view.reads:
            own, (base,) = tables[each.table_id], each.reads
            periods, still, size = storage_counts(catalog, own)
            shared = tuple(other.name for other in readers(views, each.table_id) if other.name != view.name)
            shown.append(ShownAuxiliary(each.name, each.sql, tables[base].name, periods, still, own.rows, size, shared))
    return tuple(shown)


def next_refreshes(catalog: CatalogParts, view: ViewRecord) -> tuple[tuple[str, Choice], ...]:
    """Return the engines of the next refresh of a view, each with the subject of a sentence about it.

    An auxiliary view is refreshed first if its table has changed. Raise StorageError.
    """
    views, tables = catalog.views.all(), {table.table_id: table for table in catalog.tables.all()}
    names = {key: table.name for key, table in tables.items()}
    parts = {each.table_id: names[next(iter(each.reads))] for each in views if each.auxiliary}
    names |= {key: f"the auxiliary view of {name}" for key, name in parts.items()}
    behind = {each.table_id for each in outdated(views, tables)}
    snapshots: dict[str, DeltaSnapshot | None] = {}
    found = []
    for each in views:
        own = each.table_id == view.table_id
        if own or (each.table_id in view.reads and each.table_id in parts and each.table_id in behind):
            files = {key: stored_files(catalog.data, tables[key].path, snapshots) for key in each.reads}
            choice = refresh_choice(each, names, files)
            if behind & each.reads.keys():
                choice = replace(choice, why=f"{choice.why}, but views that it reads are refreshed before")
            subject = "The next refresh" if own else f"The next refresh of {names[each.table_id]}"
            found.append((subject, choice))
    return tuple(found)


def input_names(
    view: ViewRecord, views: Mapping[int, ViewRecord], tables: Mapping[int, TableRecord]
) -> tuple[str, ...]:
    """Return the names of the tables and views that a view reads, with base tables in place of auxiliary views."""
    names: dict[str, None] = {}
    for key in view.reads:
        part = views.get(key)
        for each in part.reads if part is not None and part.auxiliary else (key,):
            names[tables[each].name] = None
    return tuple(names)


def running_totals(catalog: CatalogParts, view: ViewRecord) -> tuple[str, ...]:
    """Return a warning for each moving window over tables without ended rows. Empty tables give no warning.

    Each warning proposes a different query. Raise PlanMismatch or StorageError.
    """
    records = {table.table_id: table for table in catalog.tables.all()}
    parts = {each.table_id: next(iter(each.reads)) for each in catalog.views.all() if each.auxiliary}
    warnings: dict[str, None] = {}
    for window, bases in _windows(view_plan_of(view, records.values()).value):
        tables = [records[parts.get(base.table.id, base.table.id)] for base in bases]
        if tables and all(_unending(catalog, table) for table in tables):
            warnings[_warning(window, tables[0].schema)] = None
    return tuple(warnings)


def _windows(relation: Temporal) -> Iterator[tuple[int, list[Scan]]]:
    """Yield the length (µs) and the tables of each moving window over rows that end only if a table row ends."""
    for part in subexpressions(relation):
        if isinstance(part, Extension) and isinstance(part.window, Literal) and isinstance(part.window.value, int):
            below = list(subexpressions(part.input))
            # Rows of these operators may end even if no row of a table ends.
            ending = any(isinstance(inner, (Grouped, Difference, Extension)) for inner in below)
            if part.window.value and not ending:
                yield part.window.value, [inner for inner in below if isinstance(inner, Scan)]


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
        f"no row of {table.name} has ended yet. As long as no row ends, MOVING_WINDOW({span}) is a running total: each "
        f"row counts from its start on. To count only the events of the last {length(window, weeks=False)}, omit "
        f"MOVING_WINDOW and write {recent}. The view then has the events that are recent when it is read"
    )
