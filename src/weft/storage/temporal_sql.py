"""Query temporal relations in DuckDB.

The module reads the history logs of tracked tables from their files and runs rendered SQL over the logs. A relation is
a table or view with the columns ``c1 … cn, valid_from, valid_to``. Timestamps have no zone and are in UTC.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.errors import ExecutionError, StorageError
from weft.sql.dialects.duckdb_dialect import MACROS, SETTINGS, local_text
from weft.storage.columns import stored_schema
from weft.storage.data_files import dataset_of, file_batches
from weft.storage.delta_log import RESTORE_HINT, DataFile
from weft.storage.local_sql import connect, execution_errors, quoted
from weft.storage.slices import Slice
from weft.storage.time_limit import interrupted_in_time, require_time

if TYPE_CHECKING:
    import duckdb


_PLAIN = pa.timestamp("us")
_PREPARED = (*SETTINGS, *(f"CREATE MACRO {head} AS {meaning}" for head, meaning in MACROS.items()))
# ``rows`` explains why it copies the rows.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)


@dataclass
class TemporalSql:
    """A DuckDB connection with the macros that rendered SQL needs."""

    connection: duckdb.DuckDBPyConnection

    def stored(self, name: str, files: Sequence[DataFile], table: TableSchema, part: Slice | None = None) -> None:
        """Create the view ``name`` over the files of a stored table. The view has the column names of the table.

        If ``part`` is given, the view has all rows of the slice, and possibly others. The rows of an attached table,
        whose instants are not always a column of its files, are copied into a temporary table of DuckDB. Raise
        StorageError if a file is missing or damaged.
        """
        schema = stored_schema(table)
        if not files:
            self.given(name, schema.empty_table())
        elif any(file.attached for file in files):
            batches = (batch for file in files for batch in file_batches(file, schema, part=part))
            self._copied(name, batches, schema)
        else:
            with _storage_errors():
                self.connection.register(f"{name}_files", dataset_of(files, schema, part))
            self.view(name, f"SELECT {_heads(schema)} FROM {quoted(f'{name}_files')}")

    def _copied(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        copy, piece = f"{name}_copy", f"{name}_piece"
        self.given(piece, schema.empty_table())
        self.created(copy, f"SELECT * FROM {quoted(piece)}")
        for batch in batches:
            self.given(piece, pa.Table.from_batches([batch]))
            self._run(f"INSERT INTO {quoted(copy)} SELECT * FROM {quoted(piece)}")
        self.view(name, f"SELECT * FROM {quoted(copy)}")

    def given(self, name: str, rows: pa.Table) -> None:
        """Create the view ``name`` over rows in memory. Raise ExecutionError if DuckDB cannot."""
        with execution_errors():
            self.connection.register(name, plain(rows))

    def table(self, name: str, sql: str) -> int:
        """Create or replace the temporary table ``name``, and return its row count. Raise ExecutionError."""
        return self.created(name, sql)

    def created(self, name: str, sql: str) -> int:
        """Create a table as ``table`` does, without the bounds of a subclass."""
        return int(self.one(f"CREATE OR REPLACE TEMP TABLE {quoted(name)} AS {sql}"))

    def insert(self, name: str, sql: str) -> int:
        """Add the rows of a rendered query to a table, in their order. Return their number. Raise ExecutionError."""
        return int(self.one(f"INSERT INTO {quoted(name)} {sql}"))

    def drop(self, name: str) -> None:
        """Drop a table."""
        self._run(f"DROP TABLE {quoted(name)}")

    def view(self, name: str, sql: str) -> None:
        """Create or replace the temporary view ``name`` from a rendered query."""
        self._run(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS {sql}")

    def rows(self, sql: str) -> pa.Table:
        """Return the result of a rendered query.

        ``connection.sql`` copies no rows, but it parses and binds the text twice. This costs more than a copy of up to
        about 50,000 rows.
        """
        with execution_errors():
            return self.connection.execute(local_text(sql)).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the result of a rendered query piece by piece. Raise ExecutionError, also between two pieces."""
        with execution_errors():
            reader = self.connection.sql(local_text(sql)).to_arrow_reader()
        while (batch := _next(reader)) is not None:
            yield batch

    def forget(self, name: str) -> None:
        """Remove a view that ``given`` created."""
        self.connection.unregister(name)

    def one(self, sql: str) -> Any:
        """Return the value of a query with one row and one column."""
        with execution_errors():
            return self.connection.execute(local_text(sql)).fetchall()[0][0]

    def _run(self, sql: str) -> None:
        with execution_errors():
            self.connection.execute(local_text(sql))


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """Return the next piece of a result, or None. pyarrow raises OSError for DuckDB's errors after the first piece."""
    with execution_errors():
        try:
            return next(reader, None)
        except (OSError, pa.ArrowException) as error:
            require_time()
            message = str(error).splitlines()[0]
            if message.startswith("INTERRUPT"):
                raise KeyboardInterrupt from None
            raise ExecutionError(f"the rows cannot be computed: {message}") from error


def _heads(schema: pa.Schema) -> str:
    return ", ".join(
        f"CAST({quoted(field.name)} AS {_type_of(field.type)}) AS {quoted(field.name)}" for field in schema
    )


@cache
def _type_of(kind: pa.DataType) -> str:
    field = pa.schema([("x", _PLAIN if pa.types.is_timestamp(kind) else kind)])
    connection = connect()
    connection.register("_typed", field.empty_table())
    try:
        return str(connection.sql("SELECT x FROM _typed").types[0])
    finally:
        connection.unregister("_typed")
        connection.close()


def plain(rows: pa.Table) -> pa.Table:
    """Remove the zones of all timestamps without changing the instants."""
    fields = [f.with_type(_PLAIN) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


@contextmanager
def temporal_sql(threads: int = 2) -> Iterator[TemporalSql]:
    """Open a connection for the ``with`` block. Tables and views of the connection are dropped at the end.

    Many small statements run faster on one thread. Raise LimitExceeded if an enclosing ``time_limit`` has expired.
    """
    with connect(threads, _PREPARED) as connection, interrupted_in_time(connection):
        yield TemporalSql(connection)


@contextmanager
def _storage_errors() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        raise StorageError(f"the log of a tracked table cannot be read: {message}", hint=RESTORE_HINT) from error
