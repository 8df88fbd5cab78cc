"""Read columns and rows of data files as Arrow tables in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from weft.errors import StorageError
from weft.storage.columns import conformed
from weft.storage.delta_log import RESTORE_HINT, DataFile, check_data_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_BATCH_ROWS: Final = 65_536


def read_data_files(files: Sequence[DataFile], schema: pa.Schema, condition: pc.Expression | None = None) -> pa.Table:
    """Return the rows that satisfy ``condition`` (None: all rows), with the columns of ``schema``.

    A column that is newer than a file is NULL. Raise StorageError if a file is missing or damaged.
    """
    import pyarrow as pa

    batches = [batch for file in files for batch in file_batches(file, schema, condition) if batch.num_rows]
    return pa.Table.from_batches(batches, schema)


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

    check_data_file(file)
    # Spark may write instants as INT96. Nanoseconds would overflow after the year 2262.
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    try:
        stored = ds.dataset(file.location.uri, format=form)
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
        raise StorageError(
            f"a data file cannot be read: {error}", where=str(file.location), hint=RESTORE_HINT
        ) from error
