"""Read a few rows of a user's table for display, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra.schema import VALID_FROM, TableSchema
from weft.catalog.records import TableRecord
from weft.storage.columns import stored_schema
from weft.storage.data_files import check_data_file, file_batches, unreadable_file
from weft.storage.delta_log import DataFile
from weft.storage.periods import periods, read_log
from weft.storage.table import Table
from weft.store import Store


def sample_rows(data: Store, table: TableRecord, limit: int = 5) -> list[tuple[object, ...]]:
    """Return at most ``limit`` rows of the table's newest files, with values in column order.

    A column that is newer than a file is NULL. Raise StorageError if a file is missing or damaged.
    """
    if table.version < 0:
        return []
    names = [column.name for column in table.schema.columns]
    stored = Table(data / table.path).files()
    files = sorted(stored, key=lambda each: (each.greatest.get("ts", 0), each.location), reverse=True)
    if table.attached:
        return _attached(files, table.schema, limit) if limit else []
    return _periods(files, table.log, names, limit) if table.log else _newest(files, names, limit)


def _newest(files: Sequence[DataFile], names: Sequence[str], limit: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for file in files:
        if len(rows) < limit:
            check_data_file(file)
            rows += _head(file.location, names, limit - len(rows))
    return rows


def _attached(files: Sequence[DataFile], table: TableSchema, limit: int) -> list[tuple[object, ...]]:
    batches = (batch for file in files for batch in file_batches(file, stored_schema(table), batch_rows=limit))
    rows: list[tuple[object, ...]] = []
    for batch in batches:
        rows += [tuple(row.values()) for row in batch.slice(0, limit - len(rows)).to_pylist()]
        if len(rows) == limit:
            break
    return rows


def _periods(files: Sequence[DataFile], log: TableSchema, names: Sequence[str], limit: int) -> list[tuple[object, ...]]:
    """Return the periods that began last. The newest files have them, and the latest states of all their periods."""
    order = [(VALID_FROM, "descending"), *((name, "ascending") for name in names if name != VALID_FROM)]
    count = 0
    records: list[dict[str, object]] = []
    while count < len(files) and len(records) < limit:
        for file in files[count : 2 * count + 1]:
            check_data_file(file)
        count = 2 * count + 1
        latest = periods(read_log(files[:count], log)).sort_by(order)
        records = latest.slice(0, limit).select(list(names)).to_pylist()
    return [tuple(row[name] for name in names) for row in records]


def _head(file: Store, names: Sequence[str], limit: int) -> list[tuple[object, ...]]:
    import pyarrow
    import pyarrow.dataset

    form = pyarrow.dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    try:
        stored = pyarrow.dataset.dataset(file.path, format=form, filesystem=file.filesystem)
        there = [name for name in names if name in stored.schema.names]
        rows = stored.head(limit, columns=there, batch_size=max(limit, 1), use_threads=False).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable_file(file, error) from error
    return [tuple(row.get(name) for name in names) for row in rows]
