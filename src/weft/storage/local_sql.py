"""Run SQL with DuckDB in this process, over Arrow tables and data files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.configuration import spill_folder
from weft.errors import StorageError
from weft.storage.columns import conformed
from weft.storage.data_files import check_data_file, dataset_of
from weft.storage.delta_log import RESTORE_HINT, DataFile

if TYPE_CHECKING:
    import duckdb

_NUMBER: Final = "_number"


def connect(prepared: tuple[str, ...] = ()) -> duckdb.DuckDBPyConnection:
    """Return a new connection to an in-memory DuckDB in UTC that downloads no extensions.

    All connections of this process with the same ``prepared`` share a DuckDB, because starting a DuckDB takes as long
    as a small refresh. ``prepared`` are statements that create macros or set options. Each connection has its own
    temporary tables and views, which are dropped when it is closed.

    A DuckDB uses at most half of the machine's memory, because Spark runs on the same machine. Temporary files go to
    the temporary folder of the system.
    """
    import duckdb

    try:
        return _connected(prepared)
    except duckdb.Error:  # after an internal error the DuckDB is unusable
        _started.cache_clear()
        return _connected(prepared)


def _connected(prepared: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    return another(_started(str(spill_folder()), prepared))


def another(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a further connection, in UTC, to the DuckDB of a connection. Close it, or drop it at the end."""
    new = connection.cursor()
    new.execute("SET TimeZone = 'UTC'")  # which a further connection does not inherit
    return new


@cache
def _started(folder: str, prepared: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """Return the DuckDB of the process with this spill folder. A forked process starts its own DuckDB."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"temp_directory": folder, "memory_limit": "50%"})
    for statement in (
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET threads = 2",
        "SET preserve_insertion_order = true",
        "SET enable_progress_bar = false",  # DuckDB shows one where it takes the process for an interactive one
        *prepared,
    ):
        connection.execute(statement)
    return connection


def quoted(name: str) -> str:
    """Return the name as a quoted identifier of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def columns_equal(names: Sequence[str], left: str, right: str) -> str:
    """Return an SQL condition for the equality of two rows in the given columns. NULL equals NULL."""
    return " AND ".join(f"{left}.{quoted(name)} IS NOT DISTINCT FROM {right}.{quoted(name)}" for name in names)


def first_per_key(rows: pa.Table, keys: Sequence[str], order: str) -> pa.Table:
    """Return the first row of each key. The column ``order`` defines the order of the rows and of the result.

    Keys are compared like Spark's ``<=>``: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0.
    """
    names = ", ".join(map(quoted, keys))
    with connect() as connection:
        connection.register("given", rows.select([*keys, order]))
        first = connection.sql(f"SELECT min({quoted(order)}) AS place FROM given GROUP BY {names}").to_arrow_table()
    firsts = rows.filter(pc.is_in(rows.column(order), value_set=first.column("place").combine_chunks()))
    return firsts.sort_by(order)


def without_stored_keys(rows: pa.Table, files: Sequence[DataFile], keys: Sequence[str], place: str) -> pa.Table:
    """Return the rows whose keys do not occur in the data files.

    ``place`` is a column with distinct values. Keys are compared as in ``first_per_key``. The function reads only the
    key columns of the files. Raise StorageError if a file is missing or damaged.
    """
    if not files:
        return rows
    import duckdb

    try:
        with connect() as connection:
            connection.register("stored", dataset_of(files, rows.select(keys).schema))
            return _unmet(connection, rows, keys, place)
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        raise StorageError(f"the stored rows cannot be read: {message}", hint=RESTORE_HINT) from error


def without_keys_of(rows: pa.Table, known: pa.Table, keys: Sequence[str], place: str) -> pa.Table:
    """Return the rows whose keys do not occur in ``known``. Keys are compared as in ``first_per_key``."""
    with connect() as connection:
        connection.register("stored", known.select(list(keys)))
        return _unmet(connection, rows, keys, place)


def _unmet(connection: duckdb.DuckDBPyConnection, rows: pa.Table, keys: Sequence[str], place: str) -> pa.Table:
    same = columns_equal(keys, "new", "old")
    connection.register("given", rows.select([*keys, place]))
    text = f"SELECT new.{quoted(place)} AS place FROM given new SEMI JOIN stored old ON {same}"
    known = connection.sql(text).to_arrow_table().column("place").combine_chunks()
    return rows.filter(pc.invert(pc.is_in(rows.column(place), value_set=known)))


def count_differing(known: pa.Table, new: pa.Table, files: Sequence[DataFile], keys: Sequence[str], place: str) -> int:
    """Count the rows of ``known`` that differ from a row with the same key in ``new`` or in the data files.

    ``new`` contains rows that are not in the files, and has the columns of ``known``. The column ``place`` of ``known``
    has distinct values and is not compared. NULL equals NULL and NaN equals NaN. A column that a file lacks is NULL.
    The function reads all key columns, but other columns only from row groups with a matching key. Raise StorageError
    if a file is missing or damaged.
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
            stored = (_stored(connection, schema, file, keys) for file in files)
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


def _stored(connection: duckdb.DuckDBPyConnection, schema: pa.Schema, file: DataFile, keys: Sequence[str]) -> pa.Table:
    """Return the rows of a file that have a key of the view ``known``."""
    check_data_file(file)
    place = file.location
    pieces = [schema.empty_table()]
    with pq.ParquetFile(place.path, filesystem=place.filesystem) as parquet:
        there = [name for name in schema.names if name in parquet.schema_arrow.names]
        for group in range(parquet.num_row_groups):
            own = parquet.read_row_group(group, columns=[name for name in keys if name in there])
            own = conformed(own, pa.schema([schema.field(name) for name in keys]))
            connection.register("o", own.append_column(_NUMBER, pa.array(range(own.num_rows), pa.int64())))
            text = f"SELECT {_NUMBER} FROM o SEMI JOIN known k ON {columns_equal(keys, 'k', 'o')} ORDER BY {_NUMBER}"
            here = connection.sql(text).to_arrow_table().column(_NUMBER)
            if len(here):
                pieces.append(conformed(parquet.read_row_group(group, columns=there).take(here), schema))
    return pa.concat_tables(pieces)
