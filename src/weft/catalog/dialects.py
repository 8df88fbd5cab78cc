"""Handle the differences between SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Cast,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    cast,
    create_engine,
    event,
    extract,
    func,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import registry, sqlite
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable, DropSchema
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.util import LRUCache

from weft.configuration.postgres_uri import schema_of
from weft.errors import CatalogError

WRITES: Final = "weft_writes"
"""The execution option that marks a writing transaction."""

_BUSY_TIMEOUT_MS: Final = 30_000
POOL: Final = {"pool_size": 5, "max_overflow": 51}
"""One connection for each thread of a server: 16 make pages, 16 run jobs, 16 run commands, 2 check texts, and 6 tick,
deliver, renew leases, poll and index answers.  Five stay open.
"""
_SERVER_SETTINGS: Final = {
    "lock_timeout": _BUSY_TIMEOUT_MS,
    # The server ends the transaction of a process that is suspended, so that the others can write.
    "idle_in_transaction_session_timeout": 60_000,
    # The server notices within a minute that the machine of a client is gone.
    "tcp_keepalives_idle": 30,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
}
_CLIENT_SETTINGS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "weft",
}
"""The defaults of parameters that the URL can also contain."""


class _SqliteCompiler(SQLiteCompiler):
    """The compiler for SQLite.  LIKE ignores the case of ASCII letters there, so ``lower`` is not needed.

    A search for a word compares the texts of all queries, and SQLite's own ``lower`` would take a third of the time.
    """

    def visit_ilike_case_insensitive_operand(self, element: Any, **named: Any) -> str:
        """Return the operand of a comparison that ignores case."""
        return self.process(element.element, **named)


class SqliteDialect(SQLiteDialect_pysqlite):
    """SQLite, for a cache of compiled statements that all files of this process share.

    To compile the statements of a command takes longer than to run them. The key of such a cache contains the dialect.
    """

    supports_statement_cache = True
    statement_compiler = _SqliteCompiler

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class without_case(FunctionElement[str]):
    """The text of a column or a parameter in a form for comparisons that ignore the case of all letters."""

    type = Text()
    inherit_cache = True


@compiles(without_case, "sqlite")
def _in_sqlite(element: without_case, compiler: SQLCompiler, **named: Any) -> str:
    """SQLite's own functions know ASCII letters only."""
    return f"casefold({compiler.process(element.clauses, **named)})"


@compiles(without_case, "postgresql")
def _in_postgresql(element: without_case, compiler: SQLCompiler, **named: Any) -> str:
    """The texts of a catalog have the collation "C", which knows ASCII letters only."""
    return f'lower({compiler.process(element.clauses, **named)} COLLATE "und-x-icu")'


registry.register("sqlite.weft", __name__, SqliteDialect.__name__)
_compiled: Final = LRUCache[Any, Any](1_000)


def _engine_of(place: str) -> Engine:
    return create_engine(f"sqlite+weft:///{place}", execution_options={"compiled_cache": _compiled}, **POOL)


def _micros(instant: Any) -> Cast[int]:
    return cast(extract("epoch", instant) * 1_000_000, BigInteger)


SERVER_TIME: Final = _micros(func.clock_timestamp())
"""The time of a PostgreSQL server in microseconds UTC, as an SQL expression."""
SERVER_START: Final = _micros(func.pg_postmaster_start_time())
"""The start of a PostgreSQL server in microseconds UTC, as an SQL expression."""


def sqlite_engine(file: Path) -> Engine:
    """Return an engine for a SQLite file.  A commit survives a power cut.

    The engine is read-only if Weft cannot write the file or its folder.
    """
    if file.exists() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return _read_only(file)
    engine = _engine_of(str(file))

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        _own_transactions(connection, "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES, False):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:  # it waits for nobody; SQLAlchemy would take a tenth of a millisecond for it
            connection.connection.cursor().execute("BEGIN")

    return engine


def postgresql_engine(url: str) -> Engine:
    """Return an engine for the schema of a PostgreSQL database that ``url`` names.

    Each reading transaction sees one snapshot.  A connection that the server has closed in the meantime is opened again
    before its next use.  Raise CatalogError if the driver is not installed.
    """
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise CatalogError(
            "a catalog on PostgreSQL requires psycopg, which is not installed",
            where=url,
            hint="Run `pip install 'weft[postgres]'`.",
        ) from None
    schema = schema_of(url)
    address = make_url(url).set(drivername="postgresql+psycopg").difference_update_query(["schema", "options"])
    options = [str(make_url(url).query.get("options", "")), f"-c search_path={schema}"]
    options += [f"-c {name}={value}" for name, value in _SERVER_SETTINGS.items()]
    given = {name: value for name, value in _CLIENT_SETTINGS.items() if name not in address.query}
    engine = create_engine(
        address,
        isolation_level="REPEATABLE READ",
        pool_pre_ping=True,
        connect_args={**given, "options": " ".join(options)},
        **POOL,
    )
    writers = lock_key(f"the writers of {schema}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES, False):
            connection.execute(select(func.pg_advisory_xact_lock(writers)))

    return engine


def lock_key(name: str) -> int:
    """Return the key of the PostgreSQL advisory lock with this name, a signed number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(f"weft: {name}".encode(), digest_size=8).digest(), "big", signed=True)


def drop_tables(connection: Connection, metadata: MetaData, schema: str | None) -> None:
    """Drop the tables of a catalog, and for PostgreSQL the schema.

    A schema stays if it has other objects or belongs to another user.
    """
    metadata.drop_all(connection)
    if schema is not None:
        with suppress(DBAPIError), connection.begin_nested():
            connection.execute(DropSchema(schema))


def make_tables(connection: Connection, metadata: MetaData, schema: str | None) -> None:
    """Create the tables, and for PostgreSQL a missing schema.  SQLite has no schemas (None)."""
    if schema is None:
        for statement in _definitions(metadata):
            connection.exec_driver_sql(statement)
        return
    if not inspect(connection).has_schema(schema):
        connection.execute(CreateSchema(schema))
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    metadata.create_all(connection)


@cache
def _definitions(metadata: MetaData) -> tuple[str, ...]:
    """Return the statements that create the tables in SQLite. They are compiled once in a process."""
    created: list[CreateTable | CreateIndex] = []
    for table in metadata.sorted_tables:
        created += [CreateTable(table), *map(CreateIndex, table.indexes)]
    return tuple(str(each.compile(dialect=SqliteDialect())) for each in created)


def server_time(connection: Connection) -> int:
    """Return the time of a PostgreSQL server in microseconds UTC, which goes on within a transaction."""
    time: int = connection.execute(select(SERVER_TIME)).scalar_one()
    return time


def to_write(connection: Connection) -> Connection:
    """Return the connection with the options for a writing transaction."""
    if connection.dialect.name == "postgresql":
        # With a stronger isolation level, the snapshot could be older than the lock and miss the previous commit.
        return connection.execution_options(isolation_level="READ COMMITTED", **{WRITES: True})
    return connection.execution_options(**{WRITES: True})


def upserted(connection: Connection, table: Table, key: Sequence[str], changed: Sequence[str]) -> Any:
    """Return a statement that inserts a row, or updates the columns ``changed`` if the ``key`` exists."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        statement: Any = postgresql.insert(table)
    else:
        statement = sqlite.insert(table)
    values = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=list(key), set_=values)


def last_id(connection: Connection, table: Table) -> int | None:
    """Return the last ID that the database assigned to a row of the table, even if the row is deleted, or None."""
    wanted = "SELECT seq FROM sqlite_sequence WHERE name = :name"
    if connection.dialect.name == "postgresql":
        wanted = f"SELECT pg_sequence_last_value({_SEQUENCE})"
    found: int | None = connection.execute(text(wanted), _names(table)).scalar_one_or_none()
    return found


def set_last_id(connection: Connection, table: Table, last: int | None) -> None:
    """Let the database assign IDs after ``last``.  None stands for a table that never had a row."""
    values = {**_names(table), "last": last}
    if connection.dialect.name == "postgresql":
        if last is not None:
            connection.execute(text(f"SELECT setval({_SEQUENCE}, :last)"), values)
        return
    connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), values)
    if last is not None:
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), values)


_SEQUENCE: Final = "CAST(pg_get_serial_sequence(:name, :key) AS regclass)"


def _names(table: Table) -> dict[str, Any]:
    return {"name": table.name, "key": next(iter(table.primary_key.columns)).name}


def _own_transactions(connection: Any, *pragmas: str) -> None:
    # By default, the driver begins a deferred transaction, and only at the first write.
    connection.isolation_level = None
    connection.create_function("casefold", 1, _casefold, deterministic=True)
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={_BUSY_TIMEOUT_MS}", *pragmas):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _casefold(text: str | None) -> str | None:
    return None if text is None else text.casefold()


def _read_only(file: Path) -> Engine:
    """To read the write-ahead log, SQLite needs an index file.  If SQLite can neither find nor create the index file,
    the engine uses a temporary copy of the database and its log.
    """
    log, index = (file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))
    folder = None
    if not log.exists() or log.stat().st_size == 0:
        uri = f"{file.absolute().as_uri()}?immutable=1"
    elif index.exists():
        uri = f"{file.absolute().as_uri()}?mode=ro"
    else:
        folder = tempfile.mkdtemp(prefix="weft-catalog-")
        for each in (file, log):
            shutil.copyfile(each, Path(folder, each.name))
        uri = Path(folder, file.name).as_uri()
    engine = _engine_of(f"{uri.replace('file://', 'file:', 1)}{'&' if '?' in uri else '?'}uri=true")
    if folder is not None:
        weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        _own_transactions(connection, "query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
