"""Write, check and read data files. A data file is a Parquet file in the folder of a Delta table."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from weft.catalog.records import TS
from weft.errors import AttachedFileGone, FilesRemoved, StorageError
from weft.storage.attached import COLUMN, Attached, read_instants, with_instants
from weft.storage.delta_log import RESTORE_HINT, DataFile, check_parquet, names_file
from weft.storage.slices import Slice
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

_BATCH_ROWS: Final = 65_536

# zstd produces half as many bytes as snappy in about the same time.
_COMPRESSION: Final = "zstd"
_LEVEL: Final = 1

ROW_GROUP: Final = 32_768
"""The number of rows in a row group. A reader can skip a row group by its statistics."""
ROW_GROUP_PROPERTY: Final = "weft.rowGroup"
"""The property of a table that names another number of rows in a row group."""
_SAMPLE: Final = 10_000
_SMALL: Final = 256 << 10
"""A file of an object store with at most this number of bytes is kept in memory after the first read."""


@dataclass(frozen=True)
class NewFile:
    """A data file that no commit names yet, with its statistics for the log (JSON).

    ``size`` is in bytes. ``modified_ms`` is the time of the write in milliseconds since 1970 UTC. ``attached`` is the
    description of a file of another program's table (``storage.attached``), or None.
    """

    location: Store
    size: int
    modified_ms: int
    rows: int
    statistics: str
    attached: str | None = None

    @property
    def description(self) -> dict[str, str | None]:
        """The partition values of the file in the log: the description of an attached file, or none."""
        return {} if self.attached is None else {COLUMN: self.attached}


@dataclass(frozen=True)
class FileForm:
    """What a new data file of a table needs: the table's folder, its schema, the columns with statistics, and the
    number of rows in a row group.

    Processes that have no other part of the home receive this object.
    """

    folder: Store
    schema: pa.Schema
    with_statistics: tuple[str, ...]
    row_group: int = ROW_GROUP

    def write(self, pieces: Iterable[pa.Table], name: str | None = None) -> NewFile:
        """Write the rows as one Parquet file in the folder of the table, in their order. A missing column is NULL.

        A piece becomes one or more row groups. Without a piece, the file has no rows. ``name`` is the file's name, by
        default a new one. If the write fails, the file is removed, and the error of Arrow passes through.
        """
        from pyarrow import ArrowException

        file = self.folder / (new_name() if name is None else name)
        try:
            rows, statistics = self._write(file, pieces)
            file.follow()
        except (OSError, ArrowException):
            with suppress(OSError):  # leave no more on a full disk than necessary
                file.remove()
            raise
        return NewFile(file, *file.stat(), rows, statistics)

    def _write(self, file: Store, pieces: Iterable[pa.Table]) -> tuple[int, str]:
        from weft.storage.columns import conformed
        from weft.storage.statistics import Statistics

        statistics = Statistics(self.with_statistics)
        given = (conformed(piece, self.schema) for piece in pieces)
        first = next(given, self.schema.empty_table())
        with file.filesystem.open_output_stream(file.path) as stream, _writer(stream, first) as writer:
            for rows in chain([first], given):
                writer.write_table(rows, row_group_size=self.row_group)
                statistics.add(rows)
        return statistics.rows, statistics.text()


def _writer(stream: pa.NativeFile, sample: pa.Table) -> pq.ParquetWriter:
    """Return a writer of Parquet for tables like ``sample``.

    Floating-point columns have no statistics.  The statistics would leave out NaN, and a reader with the condition
    x > 5 would skip a file with NaN, although NaN is greater than 5.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    exact = [field.name for field in sample.schema if not pa.types.is_floating(field.type)]
    return pq.ParquetWriter(
        stream,
        sample.schema,
        compression=_COMPRESSION,
        compression_level=_LEVEL,
        store_schema=False,
        use_dictionary=_repeating(sample),
        write_statistics=exact if len(exact) < len(sample.schema) else True,
        write_page_index=True,
    )


def new_name(partition: int = 0, attempt: int = 0) -> str:
    """Return a new, unique name for a data file that an attempt to write the partition makes."""
    return f"part-{partition:05d}-{uuid.uuid4()}-{attempt}.{_COMPRESSION}.parquet"


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
    """Raise StorageError if the file is missing, has the wrong size, or (on a disk) lacks Parquet's magic bytes.

    Raise FilesRemoved, a StorageError, if the file is missing because its table no longer needs it.
    """
    try:
        size = file.location.size()
    except OSError as error:
        if file.attached is not None:
            raise removed_by_others(file.location) from error
        raise unreadable_file(file.location, error) from error
    if size != file.size and file.attached is not None:
        raise removed_by_others(file.location)
    if size != file.size:
        raise StorageError(
            f"a data file has {size} bytes, but the table's log says {file.size}",
            where=str(file.location),
            hint=RESTORE_HINT,
        )
    if file.location.remote:  # an object is never written in part
        return
    try:
        check_parquet(file.location)
    except OSError as error:
        raise unreadable_file(file.location, error) from error


def check_before_reading(file: DataFile) -> None:
    """Check a file, as ``check_data_file`` does, unless the check costs as many requests as the reading."""
    if not file.location.remote or file.attached is not None:
        check_data_file(file)


def removed_by_others(file: Store) -> AttachedFileGone:
    """Return the error for a file of an attached table that the other program has deleted or replaced."""
    return AttachedFileGone(
        "a file of an attached table is gone: the program that writes the table has deleted or replaced it",
        where=str(file),
        hint="VACUUM deletes files that are no longer part of the table. Drop the table with `weft table drop`, and "
        "attach it again.",
    )


def unreadable_file(file: Store, error: Exception) -> StorageError:
    """Return the error for a data file that cannot be read.

    If the file is missing, the table is read again. If the table no longer names the file, the result is FilesRemoved:
    the file was removed and deleted after the caller had read the log. An error of the object store is returned as such
    an error.
    """
    failed = file.failure(error)
    if failed is not None:
        return failed
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


def dataset_of(files: Sequence[DataFile], schema: pa.Schema, part: Slice | None = None) -> ds.Dataset:
    """Return the rows of the files as a dataset with the columns of ``schema``, for DuckDB.

    If ``part`` is given, return only its rows. A column that is newer than a file is NULL. No file may be that of an
    attached table. Raise StorageError if a file is missing or damaged.
    """
    import pyarrow.dataset as ds

    for file in files:
        check_before_reading(file)
    fragments = [_fragment(file) for file in files]
    filesystem = files[0].location.filesystem if files else None
    rows = ds.FileSystemDataset(fragments, schema, _form(), filesystem)
    return rows if part is None else rows.filter(part.condition)


def _fragment(file: DataFile) -> ds.ParquetFileFragment:
    """Return the file for Arrow. A small file of an object store is read once in a process: it never changes."""
    import pyarrow as pa

    if file.location.remote and file.size <= _SMALL and file.attached is None:
        try:
            return _form().make_fragment(pa.BufferReader(_small(file.location, file.size)))
        except OSError as error:
            raise unreadable_file(file.location, error) from error
    # With the size, Arrow does not ask an object store for it.
    return _form().make_fragment(file.location.path, file.location.filesystem, file_size=file.size)


@lru_cache(maxsize=256)
def _small(location: Store, size: int) -> bytes:
    raw = location.read()
    if len(raw) != size:
        raise OSError(f"the object has {len(raw)} bytes, but the table's log says {size}")
    return raw


def _form() -> ds.ParquetFileFormat:
    import pyarrow.dataset as ds

    # Spark may write instants as INT96. Nanoseconds would overflow after the year 2262.
    return ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


def count_rows(file: DataFile, part: Slice) -> int:
    """Return the number of rows of a file in a slice of instants.

    Raise StorageError if the file is missing or damaged.
    """
    import pyarrow as pa

    from weft.storage.columns import INSTANT

    schema = pa.schema([(part.column, INSTANT)])
    return sum(batch.num_rows for batch in file_batches(file, schema, part.condition, part=part))


def file_batches(
    file: DataFile,
    schema: pa.Schema,
    condition: pc.Expression | None = None,
    batch_rows: int = _BATCH_ROWS,
    *,
    part: Slice | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file in batches. ``condition`` may use only columns of ``schema``.

    ``part`` contains all rows that satisfy the condition. The instants of an attached table are not always a column of
    its files, so that only ``part`` saves reading them whole.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    from weft.storage.columns import conformed

    check_before_reading(file)
    if file.attached is not None:
        for table in attached_rows(file, schema, batch_rows, part=part):
            yield from (table if condition is None else table.filter(condition)).to_batches()
        return
    try:
        fragment = _fragment(file)
        stored = ds.FileSystemDataset([fragment], fragment.physical_schema, _form(), file.location.filesystem)
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


def attached_rows(
    file: DataFile,
    schema: pa.Schema,
    batch_rows: int = _BATCH_ROWS,
    *,
    start: str | None = TS,
    part: Slice | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a file of an attached table. ``start`` is the column that gets the instant, or None.

    Leave out row groups outside ``part``, and the rows outside where that is possible.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    attached = file.attached
    assert attached is not None
    wanted = [name for name in schema.names if name not in attached.values and name != start]
    if attached.column is not None and start in schema.names:
        wanted.append(attached.column)
    try:
        whole = _form().make_fragment(file.location.path, file.location.filesystem)
        stored = whole.physical_schema
        condition = None
        if part is not None and attached.instants_file is None:
            condition = part.condition_on((attached.column if part.column == start else part.column) or "", stored)
        there = [name for name in dict.fromkeys(wanted) if name in stored.names]
        for fragment, instants in _dated_groups(
            attached, whole, part if part is not None and part.column == start else None
        ):
            rows = ds.FileSystemDataset([fragment], stored, _form(), file.location.filesystem)
            scanner = rows.scanner(
                columns=there, filter=condition, batch_size=batch_rows, batch_readahead=2, use_threads=False
            )
            yield from with_instants(attached, scanner.to_batches(), schema, start, instants)
    except (OSError, pa.ArrowException) as error:
        if not file.location.exists():
            raise removed_by_others(file.location) from error
        raise StorageError(f"a data file cannot be read: {error}", where=str(file.location)) from error


def _dated_groups(
    attached: Attached, whole: ds.ParquetFileFragment, part: Slice | None
) -> Iterator[tuple[ds.ParquetFileFragment, pa.Array | None]]:
    """Yield the parts of a file that have rows of ``part``, with the instants of their rows if a file has them.

    A row without an instant in ``part`` gets NULL.
    """
    import pyarrow.compute as pc

    if attached.at is not None and part is not None and not part.holds(attached.at):
        return
    if attached.instants_file is None:
        yield whole, None
        return
    instants, done = read_instants(attached, ["ts"]).column("ts").combine_chunks(), 0
    if part is not None:
        instants = pc.if_else(part.mask(instants), instants, None)
    for number in range(whole.metadata.num_row_groups):
        own = instants.slice(done, whole.metadata.row_group(number).num_rows)
        done += len(own)
        if own.null_count < len(own):
            yield whole.subset(row_group_ids=[number]), own
