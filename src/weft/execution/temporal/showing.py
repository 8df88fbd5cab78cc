"""How much is kept of a view."""

from __future__ import annotations

from weft.algebra.temporal import VALID_TO
from weft.catalog.catalog import CatalogParts
from weft.catalog.records import TableRecord
from weft.execution.reader import held
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.periods import periods, read_log


def counted(catalog: CatalogParts, table: TableRecord) -> tuple[int, int, int]:
    """The periods of a tracked table, how many of them are open, and the bytes of its files; raises StorageError."""
    place = catalog.data / table.path
    if not has_commits(place):
        return 0, 0, 0
    with held(catalog.data, [table.path]):
        files = delta_snapshot(place, check_files=False).files
        found = periods(read_log(files, table.stored))
    return found.num_rows, found.column(VALID_TO).null_count, sum(file.size for file in files)
