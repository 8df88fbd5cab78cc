"""Write, check and read data files. A data file is a Parquet file in the folder of a Delta table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.errors import FilesRemoved, StorageError
from weft.storage.delta_log import RESTORE_HINT, DataFile, check_parquet, names_file
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

_BATCH_ROWS: Final = 65_536

# zstd produces half as many bytes as snappy in about the same time.
_COMPRESSION: Final = "zstd"
_LEVEL: Final = 1

_ROW_GROUP: Final = 32_768
"""The number of rows in a row group. A reader can skip a row group by its statistics."""
_SAMPLE: Final = 10_000


@dataclass(frozen=True)
class NewFile:
    """A data file that no commit names yet, with its statistics for the log (JSON).

    ``size`` is in bytes. ``modified_ms`` is the time of the write in milliseconds since 1970 UTC.
    """

    location: Store
    size: int
    modified_ms: int
    rows: int
    statistics: str


def write_data_file(table: Store, rows: pa.Table, schema: pa.Schema, properties: Mapping[str, str]) -> NewFile:
    """Write the rows as one Parquet file in the folder of the table, in their order. A missing column is NULL.

    ``schema`` and ``properties`` are those of the table. If the write fails, the file is removed, and the error of
    Arrow passes through.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    from weft.storage.columns import conformed

    plain, file = conformed(rows, schema), new_location(table)
    try:
        pq.write_table(
            plain,
            file.path,
            filesystem=file.filesystem,
            compression=_COMPRESSION,
            compression_level=_LEVEL,
            store_schema=False,
            row_group_size=_ROW_GROUP,
            use_dictionary=_repeating(plain),
            write_page_index=True,
        )
        file.follow()
    except (OSError, ArrowException):
        with suppress(OSError):  # leave no more on a full disk than necessary
            file.remove()
        raise
    return _new_file(file, plain, schema, properties)


def adopt_data_files(table: Store, folder: Store, schema: pa.Schema, properties: Mapping[str, str]) -> list[NewFile]:
    """Move the Parquet files of a folder into the folder of the table. The files have the columns of the table."""
    from weft.storage.statistics import columns_with_statistics

    names, files = columns_with_statistics(properties, schema), []
    for name in sorted(each for each in folder.names() if each.endswith(".parquet")):
        rows, file = _read(folder / name, names), new_location(table)
        (folder / name).move(file)
        files.append(_new_file(file, rows, schema, properties))
    return files


def _read(file: Store, names: list[str]) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(file.path, filesystem=file.filesystem, columns=names)


def _new_file(file: Store, rows: pa.Table, schema: pa.Schema, properties: Mapping[str, str]) -> NewFile:
    from weft.storage.statistics import columns_with_statistics, statistics

    stats = statistics(rows, columns_with_statistics(properties, schema))
    return NewFile(file, file.size(), file.modified_ms(), rows.num_rows, stats)


def new_location(table: Store) -> Store:
    """Return a new, unique path for a data file of the table."""
    return table / f"part-00000-{uuid.uuid4()}-c000.{_COMPRESSION}.parquet"


def _repeating(rows: pa.Table) -> list[str]:
    """Return the Parquet names of columns with many repeated values, for which a dictionary saves space."""
    import pyarrow as pa

    names = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        sample = column.slice(0, _SAMPLE)
        if pa.types.is_list(column.type):
            names.append(f"{name}.list.element")
        elif not pa.types.is_nested(column.type) and 2 * len(sample.unique()) <= len(sample):
            names.append(name)
    return names


def check_data_file(file: DataFile) -> None:
    """Raise StorageError if the file is missing, has the wrong size, or lacks Parquet's magic bytes.

    Raise FilesRemoved, a StorageError, if the file is missing because its table no longer needs it.
    """
    try:
        size = file.location.size()
    except OSError as error:
        raise unreadable_file(file.location, error) from error
    if size != file.size:
        raise StorageError(
            f"a data file has {size} bytes, but the table's log says {file.size}",
            where=str(file.location),
            hint=RESTORE_HINT,
        )
    try:
        check_parquet(file.location)
    except OSError as error:
        raise unreadable_file(file.location, error) from error


def unreadable_file(file: Store, error: Exception) -> StorageError:
    """Return the error for a data file that cannot be read.

    If the file is missing, the table is read again. If the table no longer names the file, the result is FilesRemoved:
    the file was removed and deleted after the caller had read the log.
    """
    if file.exists():
        return StorageError(f"a data file cannot be read: {error}", where=str(file), hint=RESTORE_HINT)
    if names_file(file):
        return StorageError("a data file is missing", where=str(file), hint=RESTORE_HINT)
    return FilesRemoved(
        "a file was removed from its table while it was being read", where=str(file), hint="Run the command again."
    )


def read_data_files(files: Sequence[DataFile], schema: pa.Schema, condition: pc.Expression | None = None) -> pa.Table:
    """Return the rows that satisfy ``condition`` (None: all rows), with the columns of ``schema``.

    A column that is newer than a file is NULL. Raise StorageError if a file is missing or damaged.
    """
    import pyarrow as pa

    batches = [batch for file in files for batch in file_batches(file, schema, condition) if batch.num_rows]
    return pa.Table.from_batches(batches, schema)


def dataset_of(files: Sequence[DataFile], schema: pa.Schema) -> ds.Dataset:
    """Return the rows of the files as a dataset with the columns of ``schema``, for DuckDB.

    A column that is newer than a file is NULL. Raise StorageError if a file is missing or damaged.
    """
    import pyarrow.dataset as ds

    for file in files:
        check_data_file(file)
    places = [file.location for file in files]
    filesystem = places[0].filesystem if places else None
    return ds.dataset([each.path for each in places], schema=schema, format=_form(), filesystem=filesystem)


def _form() -> ds.ParquetFileFormat:
    import pyarrow.dataset as ds

    # Spark may write instants as INT96. Nanoseconds would overflow after the year 2262.
    return ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


def count_rows(file: DataFile, column: str, after: int) -> int:
    """Return the number of rows of a file whose instant in ``column`` is later than ``after`` (µs UTC).

    Raise StorageError if the file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from weft.storage.columns import INSTANT

    later = pc.field(column) > pa.scalar(after, INSTANT)
    return sum(batch.num_rows for batch in file_batches(file, pa.schema([(column, INSTANT)]), later))


def file_batches(
    file: DataFile, schema: pa.Schema, condition: pc.Expression | None = None, batch_rows: int = _BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file in batches. ``condition`` may use only columns of ``schema``."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    from weft.storage.columns import conformed

    check_data_file(file)
    try:
        stored = ds.dataset(file.location.path, format=_form(), filesystem=file.location.filesystem)
        there = set(stored.schema.names)
        wanted = [name for name in schema.names if name in there]
        # Arrow skips row groups by statistics only if the column types of file and condition are the same.
        plain = len(wanted) == len(schema) and "_view" not in str(stored.schema)
        scanner = stored.scanner(
            columns=wanted,
            filter=condition if plain else None,
            batch_size=batch_rows,
            batch_readahead=2,
            use_threads=False,
        )
        for batch in scanner.to_batches():
            table = conformed(pa.Table.from_batches([batch]), schema)
            yield from (table if plain or condition is None else table.filter(condition)).to_batches()
    except (OSError, pa.ArrowException) as error:
        raise unreadable_file(file.location, error) from error
