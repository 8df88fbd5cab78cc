"""Compute how much a view stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra.temporal import VALID_TO
from weft.catalog.catalog import CatalogParts
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord, readers
from weft.execution.reader import pinned
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.periods import periods, read_log


def storage_counts(catalog: CatalogParts, table: TableRecord) -> tuple[int, int, int]:
    """Return the numbers of periods and of open periods of a tracked table, and its bytes. Raise StorageError."""
    place = catalog.data / table.path
    if not has_commits(place):
        return 0, 0, 0
    with pinned(catalog.data, [table.path]):
        files = delta_snapshot(place, check_files=False).files
        rows = periods(read_log(files, table.stored))
    return rows.num_rows, rows.column(VALID_TO).null_count, sum(file.size for file in files)


@dataclass(frozen=True)
class ShownAuxiliary:
    """An auxiliary view: its query, the table ``of`` which it is a part, and how much it stores (``storage_counts``).

    ``shared`` names the other views that read it.
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


def input_names(
    view: ViewRecord, views: Mapping[int, ViewRecord], tables: Mapping[int, TableRecord]
) -> tuple[str, ...]:
    """Return the names of the tables and views that a view reads, with tables instead of auxiliary views."""
    names: dict[str, None] = {}
    for key in view.reads:
        part = views.get(key)
        for each in part.reads if part is not None and part.auxiliary else (key,):
            names[tables[each].name] = None
    return tuple(names)
