"""Count the rows whose key is stored already with other values.

Reads the keys of all files, and of the other columns only the row groups that contain such a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.errors import StorageError
from weft.location import Location
from weft.storage.delta_log import RESTORE_HINT
from weft.storage.local_sql import columns_equal, connect, quoted

if TYPE_CHECKING:
    import duckdb


def count_differing(known: pa.Table, new: pa.Table, files: Sequence[Location], keys: Sequence[str], place: str) -> int:
    """Return the number of rows of ``known`` whose values differ from those of the same key in the files or in ``new``.

    ``new`` holds rows that are not in the Parquet files yet.  ``known`` and ``new`` have the same columns, and rows are
    compared by all of them except ``place``, a column of distinct values in ``known``.  NULL equals NULL and NaN equals
    NaN; a column that a file lacks is NULL.  Raises StorageError for a file that is missing or damaged.
    """
    values = [name for name in known.column_names if name not in (*keys, place)]
    if not values or not known.num_rows:
        return 0
    import duckdb

    columns = [*keys, *values]
    schema = pa.schema([known.schema.field(name) for name in columns])
    try:
        with connect() as connection:
            connection.register("known", known)
            stored = _stored(connection, schema, files, keys) if files else []
            connection.register("old", pa.concat_tables([*stored, new.select(columns).cast(schema)]))
            other = " OR ".join(f"k.{quoted(name)} IS DISTINCT FROM o.{quoted(name)}" for name in values)
            text = (
                f"SELECT count(DISTINCT k.{quoted(place)}) FROM known k JOIN old o ON {columns_equal(keys, 'k', 'o')}"
            )
            [(count,)] = connection.execute(f"{text} WHERE {other}").fetchall()
            return int(count)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        message = str(error).splitlines()[0]
        raise StorageError(f"the stored rows cannot be read: {message}", hint=RESTORE_HINT) from error


def _stored(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema, files: Sequence[Location], keys: Sequence[str]
) -> list[pa.Table]:
    """Return the rows of the files whose keys occur in ``known``."""
    text = (
        "SELECT o.filename, list(o.file_row_number ORDER BY o.file_row_number)"
        " FROM read_parquet($1, filename = true, file_row_number = true) o"
        f" SEMI JOIN known k ON {columns_equal(keys, 'k', 'o')} GROUP BY o.filename"
    )
    groups = connection.execute(text, [[file.path for file in files]]).fetchall()
    return [_rows(path, numbers, schema) for path, numbers in groups]


def _rows(path: str, numbers: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Return the rows of a file with these numbers (from 0), reading only the row groups that contain them."""
    wanted = pa.array(numbers, pa.int64())
    pieces = []
    with pq.ParquetFile(path) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        first = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            here = wanted.filter(pc.and_(pc.greater_equal(wanted, first), pc.less(wanted, first + count)))
            if len(here):
                rows = file.read_row_group(group, columns=there).take(pc.subtract(here, first))
                columns = [
                    rows.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(here), field.type)
                    for field in schema
                ]
                pieces.append(pa.table(columns, schema=schema))
            first += count
    return pa.concat_tables([schema.empty_table(), *pieces])
