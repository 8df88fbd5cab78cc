"""Give access to all parts of a home's catalog.  The module does not need Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType

from weft.catalog import ddl
from weft.catalog.address import CatalogAddress
from weft.catalog.audit import Audit
from weft.catalog.copying import copied_catalog
from weft.catalog.database import Database
from weft.catalog.dialects import drop_tables
from weft.catalog.figures import Figures, read_figures
from weft.catalog.grants import Grants
from weft.catalog.home_record import make_link_key, open_database, read_home, read_link_key
from weft.catalog.lease import LEASE_TTL_US, Leases
from weft.catalog.loads import LoadHistory, Loads, Quarantine
from weft.catalog.marks import Marks
from weft.catalog.outbox import Outbox
from weft.catalog.queries import Queries
from weft.catalog.query_list import QueryList
from weft.catalog.rechecking import Rechecks
from weft.catalog.records import Clock, HomeRecord, Lease, LeaseName
from weft.catalog.replaced_texts import Replacements
from weft.catalog.reservations import Reservations, Revisions
from weft.catalog.saved_queries import SavedQueries
from weft.catalog.secrets import Secrets
from weft.catalog.sources import Sources
from weft.catalog.subscriptions import Subscriptions
from weft.catalog.table_changes import TableChanges
from weft.catalog.tables import Tables
from weft.catalog.ticks import Ticks
from weft.catalog.users import Users
from weft.catalog.views import Views
from weft.errors import ExecutionError, LeaseLost, StorageError, WeftError
from weft.store import Store


class CatalogParts:
    """The parts of a home's catalog, which share one database."""

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
        self.query_list = QueryList(database)
        self.replacements = Replacements(database)
        self.ticks = Ticks(database)
        self.subscriptions = Subscriptions(database)
        self.outbox = Outbox(database)
        self.users = Users(database)
        self.grants = Grants(database)
        self.secrets = Secrets(database)
        self.audit = Audit(database)
        self.marks = Marks(database)
        self.rechecks = Rechecks(database)
        self.saved = SavedQueries(database)

    @property
    def path(self) -> Path:
        """The home's folder."""
        return self._database.home

    @property
    def address(self) -> CatalogAddress:
        """The place of the catalog."""
        return self._database.address

    @property
    def data(self) -> Store:
        """The data location of the home.  Paths in the catalog are relative to this location."""
        return self.address.data

    def figures(self, at: int, now: int | None) -> Figures:
        """Return the figures for a monitoring program: see ``read_figures``."""
        return read_figures(self._database, at, now)

    def link_key(self) -> str:
        """Return the key that signs the links in letters.  The first call creates it."""
        with self._database.reading() as connection:
            known = read_link_key(connection)
        if known is not None:
            return known
        with self._database.changing() as connection:
            return read_link_key(connection) or make_link_key(connection)

    def one_state(self) -> AbstractContextManager[None]:
        """Let this thread read one consistent state: see ``Database.one_state``."""
        return self._database.one_state()

    def home(self) -> HomeRecord:
        """Return the home's record."""
        return self._database.read(read_home)


class Writer(CatalogParts):
    """A catalog under a lease.  Each change checks the lease, and raises LeaseLost if the lease is lost."""

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database.under(lease))
        self.lease = lease
        self._leases = Leases(database, lease.name)
        self._at_release: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost."""
        self._leases.check(self.lease)

    def lost(self) -> LeaseLost | None:
        """Return the error for a lost lease.  Return None if the lease is held, or if the catalog cannot be read."""
        try:
            self.check()
        except LeaseLost as lost:
            return lost
        except WeftError:
            return None
        return None

    def copying_to(self, target: CatalogAddress) -> AbstractContextManager[Mapping[str, int]]:
        """Copy the catalog: see ``copied_catalog``."""
        return copied_catalog(self._database, target)

    def drop_catalog(self) -> None:
        """Drop the tables of the catalog, and the schema on a server unless others use it.  No lease is left."""
        with self._database.changing_under_lease() as connection:
            drop_tables(connection, ddl.metadata, self.address.schema)

    def renew(self, at: int, ttl_us: int = LEASE_TTL_US) -> None:
        """Extend the lease to ``at + ttl_us``.  Raise LeaseLost if another writer has taken the lease."""
        self._leases.renew(self.lease, at, ttl_us)

    def at_release(self, call: Callable[[], None]) -> None:
        """Call a function before the lease is released."""
        self._at_release.append(call)

    def release(self) -> None:
        """Release the lease if no other writer has taken it."""
        for call in self._at_release:
            call()
        self._leases.release(self.lease)


class Catalog(CatalogParts):
    """A home's catalog.  Reading needs no lease; most changes need a ``Writer``.

    ``joins`` is true if the folder has just become that of a home which existed, as a further machine has it.
    """

    def __init__(self, database: Database, *, joins: bool = False) -> None:
        super().__init__(database)
        self.joins = joins

    @property
    def clock(self) -> Callable[[], int] | None:
        """The clock of the database server, in microseconds UTC.  None for SQLite, which has no server.

        Processes on several machines share this clock, so none of them takes a lease too early.
        """
        return self._database.clock

    def lease(self, name: LeaseName = "write") -> Lease | None:
        """Return the lease called ``name``, even if it has expired.  Return None if nobody holds the lease."""
        return Leases(self._database, name).held()

    def writer(self, purpose: str, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Writer:
        """Acquire the write lease, or raise LeaseBusy.  ``at`` is the wall-clock time in microseconds UTC."""
        return Writer(self._database, Leases(self._database, "write").acquire(purpose, holder, at, ttl_us))

    def sender(self, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Writer:
        """Acquire the delivery lease, or raise LeaseBusy.  ``at`` is the wall-clock time in microseconds UTC."""
        return Writer(self._database, Leases(self._database, "deliver").acquire("deliver", holder, at, ttl_us))

    @contextmanager
    def writing(self, purpose: str, clock: Callable[[], int], *, wait_us: int = 0) -> Iterator[Writer]:
        """Hold the write lease during the ``with`` block.

        ``wait_us`` is the longest wait for the lease, in microseconds.  ``clock`` returns the wall-clock time in
        microseconds.  Raise LeaseBusy if another process still holds the lease after the wait.
        """
        with self._holding("write", purpose, clock, wait_us) as writer:
            yield writer

    @contextmanager
    def delivering(self, clock: Callable[[], int], *, wait_us: int = 0) -> Iterator[Writer]:
        """Hold the delivery lease during the ``with`` block.  The parameters are those of ``writing``."""
        with self._holding("deliver", "deliver", clock, wait_us) as writer:
            yield writer

    @contextmanager
    def _holding(self, name: LeaseName, purpose: str, clock: Callable[[], int], wait_us: int) -> Iterator[Writer]:
        writer = Writer(self._database, Leases(self._database, name).acquire_within(wait_us, purpose, clock))
        try:
            yield writer
        except (StorageError, ExecutionError) as error:
            # After a loss of the lease, changes by the other writer would look like damage.
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
    home: Path,
    *,
    create: bool = False,
    clock: Clock = "wall",
    at: int,
    url: str | None = None,
    store: str | None = None,
    copying: bool = False,
) -> Catalog:
    """Open the catalog of the home in the folder ``home``.  Migrate a home of an older format.

    With ``create``, create a missing home.  ``clock`` applies only to a new home.  ``at`` is the wall-clock time of
    this machine in microseconds UTC.  ``url`` names the PostgreSQL database for the catalog of a new home.  The
    settings of the home then contain the URL.  Without a URL, the catalog is a SQLite file in the home.  ``store``
    names the place on S3 for the data of a new home, in the same way.  The unfinished copy of a home can be opened only
    with ``copying``.

    Raise CatalogError if the folder is not a home, if the home is damaged, or if this version of Weft does not read its
    format.  Raise CatalogUnreachable, a CatalogError, if the database server cannot be reached.  Raise Refused for an
    invalid URL, and Conflict if the home has another catalog, or the catalog another home.  Raise StorageError if the
    object store of a new home cannot be used.
    """
    address = CatalogAddress.of(Path(home), url, store)
    engine, joins = open_database(address, create=create, clock=clock, at=at, copying=copying)
    return Catalog(Database(address, engine), joins=joins)
