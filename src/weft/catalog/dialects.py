"""Handle the differences between SQLite and PostgreSQL."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite

WRITES: Final = "weft_writes"
"""The execution option that marks a writing transaction."""

_BUSY_TIMEOUT_MS: Final = 30_000
_WRITERS_LOCK: Final = 0x77656674
"""The key of the PostgreSQL advisory lock that every writing transaction takes."""


def sqlite_engine(file: Path) -> Engine:
    """Return an engine for a SQLite file.  A commit survives a power cut.

    The engine is read-only if Weft cannot write the file or its folder.
    """
    if file.exists() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return _read_only(file)
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        _own_transactions(connection, "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def postgresql_engine(url: str) -> Engine:
    """Return an engine for a PostgreSQL database.  Each reading transaction sees one snapshot."""
    engine = create_engine(url, isolation_level="REPEATABLE READ")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES, False):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")

    return engine


def to_write(connection: Connection) -> Connection:
    """Return the connection with the options for a writing transaction."""
    if connection.dialect.name == "postgresql":
        # With a stronger isolation level, the snapshot could be older than the lock and miss the previous commit.
        return connection.execution_options(isolation_level="READ COMMITTED", **{WRITES: True})
    return connection.execution_options(**{WRITES: True})


def upserted(connection: Connection, table: Table, key: Sequence[str], changed: Sequence[str]) -> Any:
    """Return a statement that inserts a row, or updates the columns ``changed`` if the ``key`` exists."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table)
    values = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=list(key), set_=values)


def _own_transactions(connection: Any, *pragmas: str) -> None:
    # By default, the driver begins a deferred transaction, and only at the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={_BUSY_TIMEOUT_MS}", *pragmas):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


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
    engine = create_engine(f"sqlite:///{uri.replace('file://', 'file:', 1)}{'&' if '?' in uri else '?'}uri=true")
    if folder is not None:
        weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        _own_transactions(connection, "query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
