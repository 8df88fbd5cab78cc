"""Provide an open home with a folder, a catalog, a clock, and a Spark session that starts on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.schema import TableSchema
from weft.catalog import Catalog, Writer
from weft.catalog.seen import Seen
from weft.errors import CatalogError, ClockError, LeaseLost
from weft.rights.principal import OWNER, Principal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE_WAIT_US: Final = 60 * 1_000_000
"""The longest time that an operation waits for another writer, in microseconds."""
_RENEW_SECONDS: Final = 15.0


@dataclass
class OpenHome:
    """An open home, the context of every operation, on behalf of a principal.

    ``clock`` returns the wall clock time in microseconds UTC.
    """

    folder: Path
    catalog: Catalog
    clock: Callable[[], int]
    principal: Principal = OWNER

    def seen(self) -> Seen:
        """Return what the principal may see and do at present."""
        return Seen(self.catalog, self.catalog.grants.rights_of(self.principal))

    def session(self) -> SparkSession:
        """Return this home's Spark session. The first call in a process takes 5 to 15 seconds. Raise ExecutionError."""
        from weft.runtime.session import spark_session

        return spark_session(self.folder)

    def schemas(self, *texts: str) -> Mapping[str, TableSchema]:
        """Return the schemas of the home's tables, and of the query results that ``texts`` mention.

        Tables and results that the principal may not read are left out. If a query mentions a view that depends on
        NOW, the schema of the view includes the view's definition.
        """
        return self.seen().schemas(*texts)

    def now(self) -> int:
        """Return the time of the home's clock, by default the wall clock time.

        A replay home's clock shows the last ``--now``, or the last ts if ``--now`` was never given. Raise ClockError if
        a replay home has neither ``--now`` nor a ts.
        """
        known = self.catalog.home().now_at(self.clock())
        if known is None:
            raise ClockError(
                "this home has a replay clock, which is not set yet",
                hint="Load rows, or set the clock: weft tick --now T.",
            )
        return known

    def open_instant(self) -> int:
        """Return the time of the home's clock as the instant of ``from now``.

        For a replay home without ``--now``, return the first instant after the last ts.
        """
        home = self.catalog.home()
        if home.clock == "wall":
            return max(self.clock(), home.watermark)
        return self.now() if home.now is not None else self.now() + 1

    @contextmanager
    def writing(self, purpose: str, wait_us: int = LEASE_WAIT_US) -> Iterator[Writer]:
        """Hold the write lease while the block runs, after settling reservations and ticks of dead writers.

        Wait up to ``wait_us`` microseconds for the lease. Raise LeaseBusy.
        """
        with self.catalog.writing(purpose, self.clock, wait_us=wait_us) as writer, renewing_lease(writer, self.clock):
            writer.loads.forget_dead(self.clock())
            if writer.reservations.still_open() or writer.load_history.being_undone():
                from weft.writing.reserved import settle

                settle(writer)
            if writer.ticks.planned() is not None:
                from weft.execution.ticks.tick import settle_tick

                settle_tick(writer, self.clock(), self.session)
            if writer.queries.purging():
                from weft.writing.removals import finish_purges

                finish_purges(writer, self.clock())
            yield writer

    def close(self) -> None:
        """Close the catalog and release the Spark session. The JVM continues, because other homes may share it."""
        from weft.runtime.session import release_session

        release_session(self.folder)
        self.catalog.close()


def renewing_lease(writer: Writer, clock: Callable[[], int]) -> AbstractContextManager[None]:
    """Renew the lease every 15 seconds while the block runs.

    A tick may last longer than a lease. A restart of the catalog's server also makes a living holder look dead
    (``catalog.liveness``), until it renews its lease.
    """
    return renewing(lambda: writer.renew(clock()))


@contextmanager
def renewing(renew: Callable[[], None]) -> Iterator[None]:
    """Call ``renew`` every 15 seconds, in a thread, while the block runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(_RENEW_SECONDS):
            # If the lease is lost, the next transaction raises an error that the caller can handle.
            with suppress(LeaseLost, CatalogError):
                renew()

    thread = threading.Thread(target=repeat, name="weft-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
