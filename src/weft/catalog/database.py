"""The catalog's database: connections, and transactions that read or write.

A writing transaction begins with BEGIN IMMEDIATE, so that what it read is still so when it commits, and checks the
writer's fencing token inside (design section 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Insert, create_engine, event, select
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from weft.catalog import schema
from weft.errors import CatalogError, LeaseLost

_BUSY_TIMEOUT_MS: Final = 30_000
_WRITES: Final = "weft_writes"


def connect(database: Path) -> Engine:
    """An engine on a SQLite file: WAL, synchronous=FULL (a commit survives a power cut), foreign keys on."""
    engine = create_engine(f"sqlite:///{database}")

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: it would begin them deferred, and only at the first write.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


class Database:
    """A home's folder and its database; every part of the catalog is built over one.

    With ``token`` it is the database as the holder of that lease may change it.
    """

    def __init__(self, home: Path, engine: Engine, token: int | None = None) -> None:
        self.home = home
        self._engine = engine
        self._token = token

    def under(self, token: int) -> Database:
        """The same database as the holder of the lease with this token changes it."""
        return Database(self.home, self._engine, token)

    @property
    def token(self) -> int | None:
        """The token of the lease under which it is changed; None: under none."""
        return self._token

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one consistent state and writes nothing."""
        with speaking_plainly(self.home), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A transaction that excludes every other writer; raises LeaseLost where the lease is another's by now."""
        with speaking_plainly(self.home), self._engine.connect() as plain:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                if self._token is not None:
                    require_token(connection, self._token)
                yield connection

    @contextmanager
    def changing_under_lease(self) -> Iterator[Connection]:
        """As ``changing``, for changes that need the lease; raises CatalogError where none is held."""
        if self._token is None:
            raise CatalogError("this change needs the writer's lease", hint="Make it within catalog.writing(…).")
        with self.changing() as connection:
            yield connection

    def close(self) -> None:
        """Lets go of the database's connections."""
        self._engine.dispose()


def inserted_id(connection: Connection, statement: Insert) -> int:
    """Inserts one row; the id that the database gave it."""
    key = connection.execute(statement).inserted_primary_key
    if key is None:
        raise CatalogError("the catalog gave no id to a new row")
    return int(key[0])


def require_token(connection: Connection, token: int) -> None:
    """Raises LeaseLost unless ``token`` is that of the lease now held.

    A lease that ran out but that nobody took is still good: no other writer can have come between.
    """
    current = connection.execute(select(schema.lease.c.token, schema.lease.c.holder)).one()
    if current.token == token and current.holder is not None:
        return
    if current.token == token:
        raise LeaseLost(f"the lease with token {token} was given back already", hint="Acquire the lease again.")
    raise LeaseLost(
        f"another writer took this home over (its token is {current.token}, this one's {token})",
        hint="Nothing more was written. Run the command again: it goes on from what was committed.",
    )


@contextmanager
def speaking_plainly(home: Path) -> Iterator[None]:
    """Turns the database's errors into CatalogError."""
    try:
        yield
    except IntegrityError as error:
        raise CatalogError(f"the catalog refused a change that does not fit: {error.orig}", where=str(home)) from error
    except DBAPIError as error:
        raise _explained(error, home) from error
    except SQLAlchemyError as error:
        raise CatalogError(f"the catalog could not be used: {error}", where=str(home)) from error


def _explained(error: DBAPIError, home: Path) -> CatalogError:
    reason = str(error.orig)
    if "locked" in reason or "busy" in reason:
        hint = "Another process is writing to it: try again in a moment."
    elif "readonly" in reason or "unable to open" in reason:
        hint = "See whether the folder exists and may be written to."
    elif "full" in reason:
        hint = "The disk is full: make room and run the command again."
    else:
        hint = "The file catalog.sqlite is damaged: put back a copy of the whole home, not of this file alone."
    return CatalogError(f"the catalog could not be used: {reason}", where=str(home), hint=hint)
