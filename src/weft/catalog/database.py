"""Connect to the catalog's database and run transactions that read or write.

A writing transaction excludes all other writers until it commits, so the values that it reads stay current.  A writing
transaction also checks the writer's fencing token (design section 6).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, Insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from weft.catalog import ddl, layout
from weft.catalog.dialects import to_write
from weft.catalog.liveness import Liveness
from weft.catalog.records import Lease, LeaseName
from weft.errors import CatalogError, HomeClosed, LeaseLost
from weft.printable import require_text
from weft.store import FULL, free_bytes


class Database:
    """The folder and the database connection of a home.

    Writing transactions check ``lease`` if it is set.  After ``close``, every use of the object raises HomeClosed.
    """

    def __init__(
        self,
        home: Path,
        engine: Engine,
        lease: Lease | None = None,
        closed: threading.Event | None = None,
        liveness: Liveness | None = None,
    ) -> None:
        self.home = home
        self.liveness = Liveness(layout.holders_folder(home)) if liveness is None else liveness
        self._engine = engine
        self._lease = lease
        self._closed = threading.Event() if closed is None else closed

    def under(self, lease: Lease) -> Database:
        """Return a copy of this object for writing under ``lease``."""
        return Database(self.home, self._engine, lease, self._closed, self.liveness)

    @property
    def token(self) -> int | None:
        """The token of the lease, or None without a lease."""
        return None if self._lease is None else self._lease.token

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a transaction that reads one consistent state."""
        self._require_open()
        with catalog_errors(self.home), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Run a transaction that excludes all other writers.  Raise LeaseLost if another writer took the lease."""
        self._require_open()
        with catalog_errors(self.home), self._engine.connect() as plain:
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

    def close(self) -> None:
        """Close the database connections.  A second call does nothing."""
        self._closed.set()
        self._engine.dispose()
        self.liveness.close()

    def _require_open(self) -> None:
        # SQLAlchemy would silently reconnect a disposed engine.
        if self._closed.is_set():
            raise home_closed(self.home)


def home_closed(home: Path) -> HomeClosed:
    """Return the error for a use of a home after ``close``."""
    return HomeClosed(f"the home {home} was closed", hint=f"Open the home again: Weft.open({str(home)!r})")


def inserted_id(connection: Connection, statement: Insert) -> int:
    """Insert one row and return the ID that the database assigned."""
    key = connection.execute(statement).inserted_primary_key
    if key is None:
        raise CatalogError("the catalog gave no id to a new row")
    return int(key[0])


def require_held(connection: Connection, lease: Lease) -> None:
    """Raise LeaseLost if another writer has taken ``lease``.  An expired lease that nobody took is valid."""
    leases = ddl.leases.c
    current = connection.execute(select(leases.token, leases.holder).where(leases.name == lease.name)).one()
    if current.token == lease.token and current.holder is not None:
        return
    if current.token == lease.token:
        raise LeaseLost(f"the lease with token {lease.token} was already released", hint="Acquire the lease again.")
    raise LeaseLost(
        f"another writer took this home over (its lease has the token {current.token}; the lease of this "
        f"writer has {lease.token})",
        hint="Nothing more was written. Run the command again; it continues after the last commit.",
    )


@contextmanager
def catalog_errors(home: Path) -> Iterator[None]:
    """Convert database errors to CatalogError.  Raise Refused for text that UTF-8 cannot encode."""
    try:
        yield
    except UnicodeEncodeError as error:
        require_text(error.object, "a text to be stored")
        raise
    except IntegrityError as error:
        raise CatalogError(
            f"the catalog refused a change that violates a constraint: {error.orig}", where=str(home)
        ) from error
    except DBAPIError as error:
        raise _explained(error, home) from error
    except SQLAlchemyError as error:
        raise CatalogError(f"the catalog could not be used: {error}", where=str(home)) from error


def _explained(error: DBAPIError, home: Path) -> CatalogError:
    reason = str(error.orig)
    if "is full" in reason or ("disk I/O" in reason and free_bytes(home)[0] < FULL):
        # SQLite reports an I/O error if its write-ahead log cannot grow.
        return CatalogError(
            f"the disk of the catalog is full, with {free_bytes(home)[0]:,} bytes free",
            where=str(home),
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
    return CatalogError(f"the catalog could not be used: {reason}", where=str(home), hint=hint)
