"""Write the rows of a DataFrame as data files of a Delta table, by the executors.

Each attempt to compute a partition writes one file under a name of its own into the table's folder, and returns what a
commit needs to know about the file. Spark accepts the result of one attempt for each partition. The driver therefore
commits one file for each partition, also if an attempt was repeated or ran twice. Cleaning deletes the files of other
attempts (``storage/cleaning.py``). No file is renamed, which would be a copy in an object store.

Each process of an executor imports this module. Therefore it imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.storage.data_files import ROW_GROUP, FileForm, NewFile, new_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRITTEN: Final = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("rows", pa.int64()),
        ("statistics", pa.string()),
    ]
)
_HELD: Final = 64 << 20
"""The bytes of memory from which on rows become a row group, even if they are few."""

Batches = Iterator[pa.RecordBatch]


def write_files(rows: DataFrame, form: FileForm) -> list[NewFile]:
    """Write one file for each partition that has rows, in the order of its rows. No commit names the files yet.

    Return the files in the order of the partitions. Spark's errors pass through.
    """
    found = _mapped(rows, partial(_write, form)).collect()
    return [NewFile(form.folder / each.name, each.size, each.modified_ms, each.rows, each.statistics) for each in found]


def _mapped(rows: DataFrame, function: Callable[[Batches], Batches]) -> DataFrame:
    """Do what ``DataFrame.mapInArrow`` does, but without pandas, which Weft does not require."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.util import PythonEvalType

    applied = vectorized_udf(function, from_arrow_schema(_WRITTEN), PythonEvalType.SQL_MAP_ARROW_ITER_UDF, "pandas")
    columns = (rows["`{}`".format(name.replace("`", "``"))] for name in rows.columns)
    return DataFrame(rows._jdf.mapInArrow(applied(*columns)._jc, False, None), rows.sparkSession)


def _write(form: FileForm, batches: Batches) -> Batches:
    """Write the rows of a partition, in the process of an executor."""
    from pyspark import TaskContext

    pieces = row_groups(batches, form.row_group)
    first = next(pieces, None)
    if first is None:
        return
    task = TaskContext.get()
    assert task is not None
    new = form.write(chain([first], pieces), new_name(task.partitionId(), task.attemptNumber()))
    row = (new.location.name, new.size, new.modified_ms, new.rows, new.statistics)
    yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], schema=_WRITTEN)


def row_groups(batches: Iterable[pa.RecordBatch], size: int = ROW_GROUP) -> Iterator[pa.Table]:
    """Combine batches into row groups of ``size`` rows. The last one, and one with long values, may have fewer rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        long = sum(each.nbytes for each in held) >= _HELD
        if not long and sum(each.num_rows for each in held) < size:
            continue
        rows = pa.Table.from_batches(held)
        ready = rows.num_rows if long else rows.num_rows // size * size
        yield from (rows.slice(at, min(size, ready - at)) for at in range(0, ready, size))
        held = rows.slice(ready).to_batches()
    if any(each.num_rows for each in held):
        yield pa.Table.from_batches(held)
