"""An open home: its folder, its catalog, its clock, and the Spark session that starts when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.schema import TableSchema
from weft.catalog import Catalog, Writer
from weft.catalog.definitions import schemas
from weft.errors import CatalogError, ClockError, LeaseLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE_WAIT_US: Final = 60 * 1_000_000
"""How long an operation waits for another writer, a tick of ``weft run`` for example, in microseconds."""
_RENEW_SECONDS: Final = 60.0


@dataclass
class Home:
    """What every operation on a home works with; ``clock`` is the wall's, in microseconds UTC."""

    folder: Path
    catalog: Catalog
    clock: Callable[[], int]

    def session(self) -> SparkSession:
        """This home's Spark session; a process's first call takes 5 to 15 seconds.  Raises ExecutionError."""
        from weft.runtime.session import spark_session

        return spark_session(self.folder, kafka=self._follows_topics)

    def kafka_session(self) -> SparkSession:
        """As ``session``, and it has the connector for Kafka; raises ExecutionError where it was started without."""
        from weft.runtime.session import require_connector, spark_session

        found = spark_session(self.folder, kafka=lambda: True)
        require_connector()
        return found

    def _follows_topics(self) -> bool:
        return any("topic" in source.options for source in self.catalog.sources.all())

    def schemas(self, *texts: str) -> Mapping[str, TableSchema]:
        """The home's tables as the queries ``texts`` see them, by name, and the results that these may name."""
        return schemas(self.catalog, *texts)

    def now(self) -> int:
        """The home's clock: the wall's time, or a replay home's last ``--now``, else its last ts.

        Raises ClockError for a replay home that has neither.
        """
        known = self.catalog.home().now_at(self.clock())
        if known is None:
            raise ClockError(
                "this home's clock is replay, and nothing has set it yet",
                hint="Load something, or set it: weft tick --now T.",
            )
        return known

    def open_instant(self) -> int:
        """The instant that ``from now`` means: the home's clock; on a replay home without one, after the last ts."""
        home = self.catalog.home()
        if home.clock == "wall":
            return max(self.clock(), home.watermark)
        return self.now() if home.now is not None else self.now() + 1

    @contextmanager
    def writing(self, purpose: str, wait_us: int = LEASE_WAIT_US) -> Iterator[Writer]:
        """Holds the lease to write, what dead writers left behind being settled, a tick among it; raises LeaseBusy."""
        from weft.execution.tick import settle_tick

        with self.catalog.writing(purpose, self.clock, wait_us=wait_us) as writer, kept(writer, self.clock):
            writer.loads.forget_dead(self.clock())
            if writer.reservations.still_open() or writer.load_history.being_undone():
                from weft.execution.append_rows import settle

                settle(writer)
            settle_tick(writer, self.clock())
            finish_purges(writer, self.clock())
            yield writer

    def close(self) -> None:
        """Lets go of the catalog and of the home's Spark session; the JVM, which other homes may share, stays."""
        from weft.runtime.session import release_session

        release_session(self.folder)
        self.catalog.close()


def finish_purges(writer: Writer, at: int) -> None:
    """Takes the answers of removed queries out of the ledger; what somebody still reads is left for the next time."""
    going = [each.query_id for each in writer.queries.purging()]
    if going:
        from weft.storage.purge import purge as take_out
        from weft.storage.removing import Remover

        done = take_out(writer.data, going, Remover(writer.lease.token, writer.check), at)
        if done.complete:
            writer.queries.purged(going, done.version)
        elif done.version is not None:
            writer.tables.record_versions([done.version])


@contextmanager
def kept(writer: Writer, clock: Callable[[], int]) -> Iterator[None]:
    """Renews the lease every minute while the block runs: a tick may take longer than a lease lasts, and building an
    arrangement, too."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(_RENEW_SECONDS):
            # A lease that was lost is noticed by the next transaction, where something can be done about it.
            with suppress(LeaseLost, CatalogError):
                writer.renew(clock())

    thread = threading.Thread(target=renew, name="weft-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
