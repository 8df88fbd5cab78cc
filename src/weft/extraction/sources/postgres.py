"""Read a table of a PostgreSQL database completely, in one read-only transaction with one snapshot.

The database defines the column types. The URI must not contain a password, because the catalog stores the URI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.algebra.schema import STRING, DataType, TableSchema
from weft.configuration.postgres_uri import PASSWORD_PLACES, SCHEMES, has_password
from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import Progress
from weft.extraction.files.columns import check_names, chosen_of
from weft.extraction.files.text_records import TextRecord
from weft.extraction.sources.snapshot import Chosen, Columns, Snapshot, added_columns, rows_of

if TYPE_CHECKING:
    import psycopg

_PATIENCE_SECONDS: Final = 10
_AT_ONCE: Final = 10_000
_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET IntervalStyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    "SET client_encoding = 'UTF8'",
)
_MOST_DIGITS: Final = 38
_KINDS: Final = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "bytea": "BINARY",
}
# The column ``atttypmod`` packs the precision and the scale of a numeric. Without ``atttypmod``, the precision is
# unlimited.
_COLUMNS: Final = """
    SELECT a.attname, t.typname, (a.atttypmod - 4) >> 16, (a.atttypmod - 4) & 2047, a.atttypmod
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


def check_uri(uri: str) -> str:
    """Return the URI. Raise Refused if ``uri`` is not a PostgreSQL URI or contains a password."""
    if not uri.startswith(SCHEMES):
        raise Refused("this is not a PostgreSQL URI", hint="Write, for example, postgresql://anna@db.example/shop.")
    if has_password(uri):
        raise Refused(
            "the URI contains a password, which the catalog would store",
            hint=f"Omit the password in the URI, and put it into {PASSWORD_PLACES}.",
        )
    return uri


def columns_of_postgres(uri: str, table: str | None, chosen: Chosen) -> Columns:
    """Return the columns of the table (``name`` or ``schema.name``).

    Raises NotFound if the table does not exist, ExtractionError if the server cannot be read, or Refused if ``table``
    is None or a column is not allowed.
    """
    if table is None:
        raise Refused("--table is missing: a database can have several tables", hint="Write --table public.staff.")
    with _reading(uri) as connection:
        columns_there = columns_in(connection, table, uri)
    return columns_there if chosen is None else tuple(chosen_of(columns_there, chosen, uri))


def read_postgres(
    uri: str,
    table: str,
    schema: TableSchema,
    chosen: Chosen,
    *,
    evolve: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """Read all rows of the table. ``schema`` has only the columns of the source, with their types.

    Raise ExtractionError if the table cannot be read completely, and Refused if its columns do not match ``schema``.
    """
    with _reading(uri) as connection:
        columns_there = columns_in(connection, table, uri)
        taken = columns_there if chosen is None else tuple(chosen_of(columns_there, chosen, uri))
        added = added_columns(taken, schema, evolve, uri)
        columns = (*((column.name, column.type) for column in schema.columns), *added)
        rows = rows_of(records_in(connection, table, columns_there), columns, uri, progress)
    return Snapshot(rows, columns, added, None, {})


@contextmanager
def connected(uri: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect with settings under which PostgreSQL prints values in the notation that Weft reads.

    Every PostgreSQL error becomes an ExtractionError, also inside the ``with`` block.
    """
    try:
        import psycopg
    except ImportError:
        raise ExtractionError(
            "reading PostgreSQL requires psycopg, which is not installed", hint="Run pip install 'weft[postgres]'."
        ) from None
    try:
        with psycopg.connect(uri, connect_timeout=_PATIENCE_SECONDS, autocommit=True) as connection:
            for setting in _SETTINGS:
                connection.execute(setting)
            yield connection
    except psycopg.Error as error:
        reason = " ".join(str(error).split())[:300]
        raise ExtractionError(f"PostgreSQL cannot be read: {reason}", where=uri) from None


@contextmanager
def one_state(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Run a read-only transaction with one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _reading(uri: str) -> Iterator[psycopg.Connection[Any]]:
    with connected(uri) as connection, one_state(connection):
        yield connection


def identified(table: str) -> Any:
    """Return a table name (``name`` or ``schema.name``) as an identifier of ``psycopg.sql``."""
    from psycopg import sql

    return sql.Identifier(*table.split("."))


def columns_in(connection: psycopg.Connection[Any], table: str, uri: str) -> Columns:
    """Return the columns of the table with their types.

    Raises NotFound if the table does not exist, or Refused if a column has a name that Weft does not allow.
    """
    named = identified(table).as_string(connection)
    rows = connection.execute(_COLUMNS, [named]).fetchall()
    if not rows:
        raise NotFound(
            f"the table {table!r} does not exist", where=uri, hint="Write the name as in PostgreSQL, in the same case."
        )
    check_names([name for name, *_ in rows], uri)
    return tuple((name, _kind(type_, *digits)) for name, type_, *digits in rows)


def replicated_columns(
    connection: psycopg.Connection[Any], table: str, uri: str
) -> tuple[int, Mapping[str, str], Columns]:
    """Return the OID of a replicated table, the PostgreSQL type of each column, and the columns.

    Generated columns are excluded, because logical decoding does not publish them. Raises the errors of
    ``columns_in``.
    """
    columns_there = columns_in(connection, table, uri)
    rows = connection.execute(
        "SELECT attrelid, attname, format_type(atttypid, atttypmod), attgenerated <> '' FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        [identified(table).as_string(connection)],
    ).fetchall()
    types = {name: type_ for _, name, type_, generated in rows if not generated}
    return int(rows[0][0]), types, tuple(each for each in columns_there if each[0] in types)


def _kind(name: str, digits: int, scale: int, modifier: int) -> DataType:
    if name == "numeric" and modifier >= 0 and digits <= _MOST_DIGITS and scale <= digits:
        return DataType("DECIMAL", digits, scale)
    return DataType(_KINDS[name]) if name in _KINDS else STRING


def records_in(connection: psycopg.Connection[Any], table: str, columns: Columns) -> Iterator[TextRecord]:
    """Yield the rows, read with a server-side cursor. Values are text in PostgreSQL's notation. Bytes are in base64."""
    from psycopg import sql

    names = [name for name, _ in columns]
    as_text, as_base64 = sql.SQL("CAST({} AS text)"), sql.SQL("translate(encode({}, 'base64'), E'\\n', '')")
    cells = sql.SQL(", ").join(
        (as_base64 if kind.name == "BINARY" else as_text).format(sql.Identifier(name)) for name, kind in columns
    )
    with connection.cursor(name="weft") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(sql.SQL("SELECT {} FROM {}").format(cells, identified(table)))
        for number, row in enumerate(cursor, 1):
            yield TextRecord(number, b"", dict(zip(names, row, strict=True)), None)
