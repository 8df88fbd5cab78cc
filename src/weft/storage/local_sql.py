"""Run SQL with DuckDB in this process, over Arrow tables and data files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.configuration import spill_folder
from weft.errors import ExecutionError, StorageError
from weft.storage.columns import conformed
from weft.storage.data_files import check_data_file, dataset_of
from weft.storage.delta_log import RESTORE_HINT, DataFile
from weft.storage.time_limit import require_time

if TYPE_CHECKING:
    import duckdb

_NUMBER: Final = "_number"
_INTERRUPTED: Final = "Query interrupted"
"""The message of the RuntimeError by which DuckDB replaces the exception of a signal's handler, as after Ctrl-C."""
_MEMORY: Final = {(1, False): 5, (2, False): 10, (1, True): 10, (2, True): 25}
"""The percentage of the machine's memory for a DuckDB, by its number of threads and whether it has macros.

The DuckDB with two threads and macros computes the first periods of views, and all that a synopsis reads.
"""
_Key = tuple[str, int, tuple[str, ...]]
_started: Final[dict[_Key, duckdb.DuckDBPyConnection]] = {}
"""The DuckDBs of this process by spill folder, number of threads and prepared statements."""
_local = threading.local()
_processes = 1


def connect(threads: int = 2, prepared: tuple[str, ...] = ()) -> duckdb.DuckDBPyConnection:
    """Return a new connection to an in-memory DuckDB in UTC that downloads no extensions.

    All connections of this process with the same number of threads (1 or 2) and the same ``prepared`` share a DuckDB,
    because starting a DuckDB takes as long as a small refresh. ``prepared`` are statements that create macros, which
    may hide functions of DuckDB. Each connection has its own temporary tables and views, which are dropped when it is
    closed.

    The DuckDBs use at most half of the machine's memory together, because Spark runs on the same machine. If several
    processes run at once, as executors do, they share this half (``share_memory``). Temporary files go to the spill
    folder.
    """
    import duckdb

    key = (str(spill_folder()), threads, prepared)
    try:
        return _connected(key)
    except duckdb.Error:  # after an internal error the DuckDB is unusable
        _started.pop(key, None)
        return _connected(key)


def thread_connection() -> duckdb.DuckDBPyConnection:
    """Return the cached connection of this thread. Opening a connection takes longer than a look-up."""
    connection: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = connect()
    return connection


def share_memory(processes: int) -> None:
    """Let the DuckDBs of this process use their memory divided by ``processes``, because as many processes run."""
    global _processes
    if processes != _processes:
        _processes = processes
        for key, connection in _started.items():
            connection.cursor().execute(f"SET memory_limit = '{_memory(key)}'")


def _memory(key: _Key) -> str:
    _, threads, prepared = key
    return f"{_MEMORY[threads, bool(prepared)] / _processes}%"


def _connected(key: _Key) -> duckdb.DuckDBPyConnection:
    connection = another(_started.get(key) or _started.setdefault(key, _start(*key)))
    if not spill_folder().exists():
        _make_spill_folder_again(connection)
    return connection


def another(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a further connection to the DuckDB of a connection. Close it, or drop it at the end."""
    new = connection.cursor()
    new.execute("SET enable_progress_bar = false")  # a further connection does not inherit it
    return new


def _make_spill_folder_again(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the spill folder if DuckDB made it and another program removed it.

    DuckDB makes the folder once. After that it refuses to set the folder, even to the same one.
    """
    import duckdb

    folder = spill_folder()
    text = str(folder).replace("'", "''")
    try:
        connection.execute(f"SET temp_directory = '{text}'")
    except duckdb.NotImplementedException:
        folder.mkdir(parents=True, exist_ok=True)


def _start(folder: str, threads: int, prepared: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": folder,
        "memory_limit": _memory((folder, threads, prepared)),
        "threads": threads,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    for statement in prepared:
        connection.execute(statement)
    return connection


def _forget() -> None:
    """Give a forked process DuckDBs of its own.

    The threads of the inherited DuckDBs do not exist in it. To destroy one of these would wait for them forever, so
    each keeps a reference that is never released.
    """
    import ctypes

    for each in _started.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    _started.clear()
    _local.__dict__.clear()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def execution_errors() -> Iterator[None]:
    """Translate the errors of DuckDB in the ``with`` block.

    Raise ExecutionError, StorageError if a file cannot be read or written, LimitExceeded if an enclosing ``time_limit``
    has expired, or KeyboardInterrupt after Ctrl-C.
    """
    import duckdb

    require_time()
    try:
        yield
    except duckdb.IOException as error:
        raise StorageError(f"a file cannot be read or written: {str(error).splitlines()[0]}") from error
    except duckdb.Error as error:
        require_time()
        raise ExecutionError(f"the rows cannot be computed: {str(error).splitlines()[0]}") from error
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise


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
