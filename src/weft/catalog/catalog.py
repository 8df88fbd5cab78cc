"""Give access to all parts of a home's catalog, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from weft.catalog import layout
from weft.catalog.database import Database
from weft.catalog.home_record import open_database, read_home
from weft.catalog.lease import LEASE_TTL_US, Leases
from weft.catalog.loads import LoadHistory, Loads, Quarantine
from weft.catalog.outbox import Outbox
from weft.catalog.queries import Queries
from weft.catalog.records import Clock, HomeRecord, Lease, LeaseName
from weft.catalog.replaced_texts import Replacements
from weft.catalog.reservations import Reservations, Revisions
from weft.catalog.sources import Sources
from weft.catalog.subscriptions import Subscriptions
from weft.catalog.table_changes import TableChanges
from weft.catalog.tables import Tables
from weft.catalog.ticks import Ticks
from weft.catalog.views import Views
from weft.errors import ExecutionError, LeaseLost, StorageError, WeftError
from weft.location import Location


class CatalogParts:
    """The parts of the catalog over one database; each part is documented in its own module."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tables = Tables(database)
        self.sources = Sources(database)
        self.views = Views(database)
        self.loads = Loads(database)
        self.load_history = LoadHistory(database)
        self.table_changes = TableChanges(database)
        self.quarantine = Quarantine(database)
        self.reservations = Reservations(database)
        self.revisions = Revisions(database)
        self.queries = Queries(database)
        self.replacements = Replacements(database)
        self.ticks = Ticks(database)
        self.subscriptions = Subscriptions(database)
        self.outbox = Outbox(database)

    @property
    def path(self) -> Path:
        """The home's folder."""
        return self._database.home

    @property
    def data(self) -> Location:
        """The location of the home's tables, ledger and quarantine; paths in the catalog are relative to this
        location.
        """
        return layout.data(self.path)

    def home(self) -> HomeRecord:
        """Return the home's record: its id, its clock and its watermark."""
        with self._database.reading() as connection:
            return read_home(connection)


class Writer(CatalogParts):
    """A catalog that the holder of a lease can change.

    Every change checks in its own transaction that the lease is still held, and otherwise raises LeaseLost.
    """

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database.under(lease))
        self.lease = lease
        self._leases = Leases(database, lease.name)

    def check(self) -> None:
        """Raise LeaseLost unless the lease is still held."""
        self._leases.check(self.lease)

    def lost(self) -> LeaseLost | None:
        """Return the error if the lease is lost; None if the lease is held or the catalog cannot be read."""
        try:
            self.check()
        except LeaseLost as lost:
            return lost
        except WeftError:
            return None
        return None

    def renew(self, at: int, ttl_us: int = LEASE_TTL_US) -> None:
        """Extend the lease to ``at + ttl_us``; raise LeaseLost if another writer has taken it."""
        self._leases.renew(self.lease, at, ttl_us)

    def release(self) -> None:
        """Release the lease, unless another writer has taken it."""
        self._leases.release(self.lease)


class Catalog(CatalogParts):
    """A home's catalog; everyone can read it, and most changes need a ``Writer``."""

    def lease(self, name: LeaseName = "write") -> Lease | None:
        """Return the lease held under ``name``, even if it has expired; None if nobody holds it."""
        return Leases(self._database, name).held()

    def writer(self, purpose: str, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Writer:
        """Acquire the write lease at the wall-clock time ``at``; the caller must release it.

        Raises LeaseBusy if another process holds the lease.
        """
        return Writer(self._database, Leases(self._database, "write").acquire(purpose, holder, at, ttl_us))

    def sender(self, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Writer:
        """Acquire the delivery lease as ``writer`` acquires the write lease."""
        return Writer(self._database, Leases(self._database, "deliver").acquire("deliver", holder, at, ttl_us))

    @contextmanager
    def writing(self, purpose: str, clock: Callable[[], int], *, wait_us: int = 0) -> Iterator[Writer]:
        """Wait at most ``wait_us`` for the write lease, and hold it during the ``with`` block.

        ``clock`` returns the wall-clock time in microseconds.  Raises LeaseBusy if the lease is still held after the
        wait.
        """
        with self._holding("write", purpose, clock, wait_us) as writer:
            yield writer

    @contextmanager
    def delivering(self, clock: Callable[[], int], *, wait_us: int = 0) -> Iterator[Writer]:
        """Hold the delivery lease during the ``with`` block; the parameters are those of ``writing``.

        The two leases are independent of each other.
        """
        with self._holding("deliver", "deliver", clock, wait_us) as writer:
            yield writer

    @contextmanager
    def _holding(self, name: LeaseName, purpose: str, clock: Callable[[], int], wait_us: int) -> Iterator[Writer]:
        writer = Writer(self._database, Leases(self._database, name).acquire_within(wait_us, purpose, clock))
        try:
            yield writer
        except (StorageError, ExecutionError) as error:
            # After the loss of the lease, the other writer's changes would look like damage.
            lost = writer.lost()
            if lost is not None:
                raise lost from error
            raise
        finally:
            writer.release()

    def close(self) -> None:
        """Close the database connections."""
        self._database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_catalog(
    home: Path, *, create: bool = False, clock: Clock = "wall", at: int, database: str | None = None
) -> Catalog:
    """Open the catalog of the folder ``home``; with ``create``, create the home if it does not exist.

    ``clock`` applies to a new home only.  ``at`` is the wall-clock time in microseconds UTC.  ``database`` is the URL
    of a PostgreSQL database for the catalog; without a URL, the catalog is a SQLite file in the home.  A home of an
    older format is migrated.  Raises CatalogError if the folder is not a home, if the home is damaged, or if a newer
    Weft wrote the home.
    """
    folder = Path(home)
    return Catalog(Database(folder, open_database(folder, database, create=create, clock=clock, at=at)))
