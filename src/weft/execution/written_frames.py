"""Stream the rows of a Spark DataFrame: Spark writes them to files, which are read one by one.

Collecting the rows would need memory for all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.catalog import layout
from weft.errors import StorageError
from weft.instants import DAY_US
from weft.location import Location
from weft.runtime.session import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS: Final = 10_000


@contextmanager
def spark_rows(frame: DataFrame, data: Location, at: int) -> Iterator[Iterator[pa.Table]]:
    """Provide the frame's rows in the order of its partitions; ``at`` is the wall clock's instant (µs UTC).

    Folders that dead processes left more than a day ago are deleted. Raise ExecutionError if Spark cannot compute the
    rows, StorageError if the files cannot be read.
    """
    parent = data / layout.GIVEN
    for name in parent.names():
        with suppress(FileNotFoundError):  # another process may delete its folder at the same time
            if (parent / name).modified_ms() * 1_000 < at - DAY_US:
                (parent / name).clear()
    parent.make()
    folder = parent / str(uuid.uuid4())
    try:
        with plain_errors("computing the rows of the DataFrame"):
            frame.write.parquet(folder.spark, compression="zstd")
        yield _read(folder)
    finally:
        folder.clear()


def _read(folder: Location) -> Iterator[pa.Table]:
    import pyarrow.dataset as ds

    # Spark may write instants as INT96, which Arrow would read as nanoseconds that overflow after the year 2262.
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    try:
        for name in sorted(each for each in folder.names() if each.endswith(".parquet")):
            scanner = ds.dataset((folder / name).uri, format=form).scanner(
                batch_size=_ROWS, batch_readahead=2, use_threads=False
            )
            for batch in scanner.to_batches():
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"the rows that Spark wrote cannot be read: {error}", where=str(folder)) from error
