"""Connect to the catalog's database and run transactions that read or write.

A writing transaction excludes all other writers until it commits, so the values that it reads stay current.  A writing
transaction also checks the writer's fencing token (design section 6).
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, Insert, Row, Select, bindparam, select
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from weft.catalog import ddl, layout
from weft.catalog.address import CatalogAddress
from weft.catalog.dialects import server_time, to_write
from weft.catalog.liveness import FileLocks, Liveness, SessionLocks
from weft.catalog.records import Lease, LeaseName
from weft.configuration.postgres_uri import PASSWORD_PLACES
from weft.errors import CatalogError, CatalogUnreachable, HomeClosed, LeaseLost
from weft.printable import require_text
from weft.store import FULL, free_bytes

_given_back: Final[dict[CatalogAddress, set[tuple[LeaseName, int, str]]]] = {}
_LOCK_NOT_AVAILABLE: Final = "55P03"
_INSUFFICIENT_PRIVILEGE: Final = "42501"
P = ParamSpec("P")
R = TypeVar("R")


class _State:
    """A reading transaction that functions of one thread share.  The first of them begins it."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], object] = {}
        """The results of functions, by the function and its arguments."""
        self._connection: Connection | None = None
        self._readers = 0
        self._ends = False
        """Whether the transaction ends with its last reader."""

    @contextmanager
    def reading(self, engine: Engine) -> Iterator[Connection]:
        """Lend the connection of the transaction.  An error of the database ends it: PostgreSQL refuses its rest."""
        if self._connection is None:
            self._connection = _begun(engine)
        self._readers += 1
        try:
            yield self._connection
        except SQLAlchemyError:
            self._ends = True
            raise
        finally:
            self._readers -= 1
            if self._ends:
                self.end()

    def end(self) -> None:
        """End the transaction when no function of this thread reads in it any more.  The next one begins another."""
        self._ends = self._readers > 0
        if self._connection is not None and not self._ends:
            connection, self._connection = self._connection, None
            self.known.clear()
            connection.close()


def _begun(engine: Engine) -> Connection:
    connection = engine.connect()
    try:
        connection.begin()
    except SQLAlchemyError:
        connection.close()
        raise
    return connection


class _Shared(threading.local):
    """The state that the current thread reads, or None if each reading function has a transaction of its own."""

    state: _State | None = None


class Database:
    """The folder and the database connection of a home.

    Writing transactions check ``lease`` if it is set.  After ``close``, every use of the object raises HomeClosed.
    """

    def __init__(self, address: CatalogAddress, engine: Engine) -> None:
        self.address = address
        self._engine = engine
        self._shared = _Shared()
        self.clock = None if address.url is None else _server_clock(address, self._server_time)
        """The clock of the database server, or None for SQLite, which has no server."""
        self.given_back = _given_back.setdefault(address, set())
        """The key of each lease that this process gave up, but that the catalog may still record as held."""
        self._liveness: Liveness = (
            FileLocks(layout.holders_folder(address.home))
            if address.schema is None
            else SessionLocks(engine, address.schema)
        )
        self._lease: Lease | None = None
        self._closed = threading.Event()

    def under(self, lease: Lease) -> Database:
        """Return a copy of this object for writing under ``lease``."""
        other = copy.copy(self)
        other._lease = lease
        return other

    @property
    def home(self) -> Path:
        """The folder of the home."""
        return self.address.home

    @property
    def token(self) -> int | None:
        """The token of the lease, or None without a lease."""
        return None if self._lease is None else self._lease.token

    @property
    def is_writer(self) -> bool:
        """Whether this object writes under the write lease."""
        return self._lease is not None and self._lease.name == "write"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a transaction that reads one consistent state."""
        self._require_open()
        state = self._shared.state
        if state is not None:
            with catalog_errors(self.address), state.reading(self._engine) as connection:
                yield connection
            return
        with catalog_errors(self.address), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Let this thread read one consistent state of the catalog during the ``with`` block, in one transaction.

        A writing transaction of the thread ends the state: after it, the thread reads the new state.
        """
        if self._shared.state is not None:
            yield
            return
        self._shared.state = state = _State()
        try:
            yield
        finally:
            self._shared.state = None
            state.end()

    def end_state(self) -> None:
        """Let this thread read the current state, also within ``one_state``."""
        if self._shared.state is not None:
            self._shared.state.end()

    def read(self, function: Callable[Concatenate[Connection, P], R], *given: P.args, **named: P.kwargs) -> R:
        """Return the result of a function that reads, in a transaction of its own.

        Within ``one_state``, a function runs once for the same plain arguments.  Its result must be immutable.
        """
        key = (function, *given)
        state = None if named or not _is_plain(given) else self._shared.state
        with self.reading() as connection:
            if state is None:
                return function(connection, *given, **named)
            if key not in state.known:
                state.known[key] = function(connection, *given, **named)
            return cast("R", state.known[key])

    def rows(self, wanted: Select[Any]) -> Sequence[Any]:
        """Return the rows of a query that is a transaction of its own."""
        with self.reading() as connection:
            return connection.execute(wanted).all()

    def first(self, wanted: Select[Any]) -> Any | None:
        """Return the first row of a query that is a transaction of its own, or None."""
        with self.reading() as connection:
            return connection.execute(wanted).first()

    def value(self, wanted: Select[Any]) -> Any:
        """Return the value of a query with one row and one column that is a transaction of its own."""
        with self.reading() as connection:
            return connection.execute(wanted).scalar_one()

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Run a transaction that excludes all other writers.  Raise LeaseLost if another writer took the lease."""
        self._require_open()
        self.end_state()
        with catalog_errors(self.address), self._engine.connect() as plain:
            connection = to_write(plain)
            with connection.begin():
                if self._lease is not None:
                    require_held(connection, self._lease)
                yield connection

    @contextmanager
    def changing_under_lease(self, name: LeaseName | None = "write") -> Iterator[Connection]:
        """Run a writing transaction.  Raise CatalogError if this object does not hold the lease ``name``.

        If ``name`` is None, any lease is sufficient.
        """
        if self._lease is None or name not in (None, self._lease.name):
            raise CatalogError(
                f"this change needs the lease to {name or 'write'}",
                hint="Make the change within catalog.writing(…) or catalog.delivering(…).",
            )
        with self.changing() as connection:
            yield connection

    def announce(self, holder: str) -> None:
        """Say that the process ``holder`` is alive, before it takes or renews a lease.  Raise CatalogError."""
        self._require_open()
        try:
            with catalog_errors(self.address):
                self._liveness.announce(holder)
        except OSError as error:
            raise CatalogError(
                f"the home cannot be written to: {error.strerror}",
                where=str(error.filename or self.home),
                hint="Check that the folder exists and is writable.",
            ) from error

    def is_gone(self, holder: str, seen_at: int) -> bool:
        """Return whether the process ``holder``, which was alive at ``seen_at``, has certainly ended."""
        with catalog_errors(self.address):
            return self._liveness.is_gone(holder, seen_at)

    def close(self) -> None:
        """Close the database connections.  A second call does nothing."""
        self._closed.set()
        self._liveness.close()
        self._engine.dispose()

    def _server_time(self) -> int:
        """Ask on the connection of this thread's state, because pages that each need a second one exhaust the pool."""
        state = self._shared.state
        if state is not None:
            with state.reading(self._engine) as connection:
                return server_time(connection)
        with self._engine.connect() as connection:
            return server_time(connection.execution_options(isolation_level="AUTOCOMMIT"))

    def _require_open(self) -> None:
        # SQLAlchemy would silently reconnect a disposed engine.
        if self._closed.is_set():
            raise home_closed(self.home)


def _is_plain(value: object) -> bool:
    """Return whether a value cannot change, so that it can be part of a key."""
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, int | str | None)


def home_closed(home: Path) -> HomeClosed:
    """Return the error for a use of a home after ``close``."""
    return HomeClosed(f"the home {home} was closed", hint=f"Open the home again: Weft.open({str(home)!r})")


def inserted_id(connection: Connection, statement: Insert) -> int:
    """Insert one row and return the ID that the database assigned."""
    key = connection.execute(statement).inserted_primary_key
    if key is None:
        raise CatalogError("the catalog gave no id to a new row")
    return int(key[0])


_HOLDER: Final = select(ddl.leases.c.token, ddl.leases.c.holder).where(ddl.leases.c.name == bindparam("name"))


def require_held(connection: Connection, lease: Lease) -> None:
    """Raise LeaseLost if another writer has taken ``lease``.  An expired lease that nobody took is valid."""
    current = connection.execute(_HOLDER, {"name": lease.name}).one()
    if current.token == lease.token and current.holder is not None:
        return
    if current.token == lease.token:
        raise LeaseLost(f"the lease with token {lease.token} was already released", hint="Acquire the lease again.")
    raise LeaseLost(
        f"another writer took this home over (its lease has the token {current.token}; the lease of this "
        f"writer has {lease.token})",
        hint="Nothing more was written. Run the command again; it continues after the last commit.",
    )


def _server_clock(address: CatalogAddress, server_time: Callable[[], int]) -> Callable[[], int]:
    """Return the clock of the database server.

    While the server cannot be reached, the clock counts on from the last time that the server gave, so that errors can
    be reported with a time.  Nothing can be recorded with such a time.
    """

    def asked() -> tuple[int, float]:
        with catalog_errors(address):
            return server_time(), time.monotonic()

    last = asked()

    def clock() -> int:
        nonlocal last
        try:
            last = asked()
        except CatalogUnreachable:
            return last[0] + int((time.monotonic() - last[1]) * 1_000_000)
        return last[0]

    return clock


@contextmanager
def catalog_errors(address: CatalogAddress) -> Iterator[None]:
    """Convert database errors to CatalogError.  Raise Refused for text that UTF-8 cannot encode."""
    try:
        yield
    except UnicodeEncodeError as error:
        require_text(error.object, "a text to be stored")
        raise
    except IntegrityError as error:
        raise CatalogError(
            f"the catalog refused a change that violates a constraint: {error.orig}", where=str(address)
        ) from error
    except DBAPIError as error:
        raise (_of_file if address.url is None else _of_server)(error, address) from error
    except SQLAlchemyError as error:
        raise CatalogError(f"the catalog could not be used: {error}", where=str(address)) from error


def _of_file(error: DBAPIError, address: CatalogAddress) -> CatalogError:
    reason, free = str(error.orig), free_bytes(address.home)[0]
    if "is full" in reason or ("disk I/O" in reason and free < FULL):
        # SQLite reports an I/O error if its write-ahead log cannot grow.
        return CatalogError(
            f"the disk of the catalog is full, with {free:,} bytes free",
            where=str(address),
            hint="Free some space and run the command again; it continues after the last commit.",
        )
    if "locked" in reason or "busy" in reason:
        hint = "Try again in a moment: another process is writing to the catalog."
    elif "readonly" in reason or "unable to open" in reason:
        hint = "Check that the folder exists and is writable."
    else:
        hint = (
            "Restore a backup of the entire home, because the file catalog.sqlite is damaged. Do not restore "
            "this file alone."
        )
    return CatalogError(f"the catalog could not be used: {reason}", where=str(address), hint=hint)


def _of_server(error: DBAPIError, address: CatalogAddress) -> CatalogError:
    reason = " ".join(str(error.orig).split())[:300]
    if error.connection_invalidated:
        return CatalogUnreachable(
            f"the connection to the catalog broke: {reason}",
            where=str(address),
            hint="Run the command again; it continues after the last change that the catalog recorded.",
        )
    code = getattr(error.orig, "sqlstate", None)
    if error.statement is None and code is None:
        return CatalogUnreachable(
            f"the catalog could not be reached: {reason}",
            where=str(address),
            hint=f"Check that the server runs and accepts this user. A password belongs in {PASSWORD_PLACES}.",
        )
    if "NUL (0x00)" in reason:
        hint = "Remove the character U+0000 from the text, because PostgreSQL cannot store it."
    elif code == _LOCK_NOT_AVAILABLE:
        hint = "Try again in a moment: another process is writing to the catalog."
    elif code == _INSUFFICIENT_PRIVILEGE:
        hint = (
            "Grant the user the right to create schemas in the database, or create the schema: "
            f"CREATE SCHEMA {address.schema} AUTHORIZATION …"
        )
    else:
        hint = "The log of the server has more details."
    return CatalogError(f"the catalog could not be used: {reason}", where=str(address), hint=hint)


def record_of(kind: type[R], row: Row[Any], **values: Any) -> R:
    """Return the record of a row with the same names of columns.  ``values`` has the fields that differ."""
    same = {each.name: getattr(row, each.name) for each in fields(cast("Any", kind)) if each.name not in values}
    return kind(**same, **values)
