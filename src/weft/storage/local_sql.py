"""Run SQL in this process with DuckDB, over Arrow rows and the data files of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.configuration import spill_folder
from weft.errors import StorageError
from weft.location import Location
from weft.storage.delta_log import RESTORE_HINT

if TYPE_CHECKING:
    import duckdb


def connect(threads: int = 2) -> duckdb.DuckDBPyConnection:
    """Return a new in-memory DuckDB in UTC that fetches no extensions.

    It uses at most half of the machine's memory, since Spark runs beside it, and spills to the system's folder for
    temporary files (DuckDB's default is the process's working directory).
    """
    import duckdb

    connection = duckdb.connect(":memory:", config={"temp_directory": str(spill_folder()), "memory_limit": "50%"})
    for setting in (
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET TimeZone = 'UTC'",
        f"SET threads = {threads}",
        "SET preserve_insertion_order = true",
    ):
        connection.execute(setting)
    return connection


def quoted(name: str) -> str:
    """Return the name as a quoted identifier of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def columns_equal(names: Sequence[str], left: str, right: str) -> str:
    """Return the condition that the rows ``left`` and ``right`` are equal in these columns; NULL equals NULL."""
    return " AND ".join(f"{left}.{quoted(name)} IS NOT DISTINCT FROM {right}.{quoted(name)}" for name in names)


def first_per_key(rows: pa.Table, keys: Sequence[str], order: str) -> pa.Table:
    """Return the first row by ``order`` of each group of rows with equal keys, in that order.

    Keys are equal as by Spark's ``<=>``: NULL is NULL, NaN is NaN, -0.0 is 0.0.
    """
    names = ", ".join(map(quoted, keys))
    with connect() as connection:
        connection.register("given", rows.select([*keys, order]))
        first = connection.sql(f"SELECT min({quoted(order)}) AS place FROM given GROUP BY {names}").to_arrow_table()
    firsts = rows.filter(pc.is_in(rows.column(order), value_set=first.column("place").combine_chunks()))
    return firsts.sort_by(order)


def without_stored_keys(rows: pa.Table, files: Sequence[Location], keys: Sequence[str], place: str) -> pa.Table:
    """Return the rows whose keys do not occur in the Parquet files; ``place`` is a column of distinct values.

    Reads only the key columns of the files, and compares keys as ``first_per_key`` does.  Raises StorageError for a
    file that is missing or damaged.
    """
    if not files:
        return rows
    import duckdb

    try:
        with connect() as connection:
            connection.read_parquet([file.path for file in files]).create_view("stored")
            return _unmet(connection, rows, keys, place)
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        raise StorageError(f"the stored rows cannot be read: {message}", hint=RESTORE_HINT) from error


def without_keys_of(rows: pa.Table, known: pa.Table, keys: Sequence[str], place: str) -> pa.Table:
    """Return the rows whose keys do not occur in ``known``; else as ``without_stored_keys``."""
    with connect() as connection:
        connection.register("stored", known.select(list(keys)))
        return _unmet(connection, rows, keys, place)


def _unmet(connection: duckdb.DuckDBPyConnection, rows: pa.Table, keys: Sequence[str], place: str) -> pa.Table:
    same = columns_equal(keys, "new", "old")
    connection.register("given", rows.select([*keys, place]))
    text = f"SELECT new.{quoted(place)} AS place FROM given new SEMI JOIN stored old ON {same}"
    known = connection.sql(text).to_arrow_table().column("place").combine_chunks()
    return rows.filter(pc.invert(pc.is_in(rows.column(place), value_set=known)))
