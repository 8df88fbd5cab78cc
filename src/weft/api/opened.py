"""An open home: its catalog, its clock, and the Spark session that starts when it is first needed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.schema import TableSchema
from weft.catalog import Catalog, Writer
from weft.catalog.records import MIN_INSTANT
from weft.errors import ClockError, Refused
from weft.instants import from_datetime, parse_instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE_WAIT_US: Final = 60 * 1_000_000
"""How long an operation waits for another writer, a tick of ``weft run`` for example, in microseconds."""

Instant = int | str | dt.datetime
"""Microseconds since 1970-01-01 UTC, ISO 8601 text (UTC where it has no offset), or a datetime with a zone."""


def micros(instant: Instant) -> int:
    """An instant as microseconds UTC; raises Refused for text that is none and a datetime without a zone."""
    if isinstance(instant, str):
        return parse_instant(instant)
    if isinstance(instant, dt.datetime):
        if instant.tzinfo is None:
            raise Refused(f"{instant} has no zone", hint="Give it one: datetime(…, tzinfo=timezone.utc).")
        return from_datetime(instant)
    return instant


class Opened:
    """What every part of ``Weft`` works with."""

    def __init__(self, home: Path, catalog: Catalog, clock: Callable[[], int]) -> None:
        self.home = home
        self.catalog = catalog
        self.clock = clock

    def session(self) -> SparkSession:
        """This home's Spark session; a process's first call takes 5 to 15 seconds.  Raises ExecutionError."""
        from weft.runtime.session import spark_session

        return spark_session(self.home)

    def schemas(self) -> Mapping[str, TableSchema]:
        """The home's tables as queries see them, by name."""
        return {table.name: table.schema for table in self.catalog.tables.all()}

    def now(self) -> int:
        """The home's clock: the wall's time, or a replay home's last ``--now``, else its last ts.

        Raises ClockError for a replay home that has neither.
        """
        home = self.catalog.home()
        if home.clock == "wall":
            return self.clock()
        known = home.now if home.now is not None else home.last_ts
        if known == MIN_INSTANT:
            raise ClockError(
                "this home's clock is replay, and nothing has set it yet",
                hint="Load something, or set it: weft tick --now T.",
            )
        return known

    def open_instant(self) -> int:
        """The instant that ``from now`` means: on a replay home one that no stored row has reached."""
        home = self.catalog.home()
        if home.clock == "wall":
            return max(self.clock(), home.forward)
        return max(self.now(), home.last_ts + 1)

    @contextmanager
    def writing(self, purpose: str) -> Iterator[Writer]:
        """Holds the writer's lease, what dead writers left behind being settled; raises LeaseBusy."""
        with self.catalog.writing(purpose, self.clock, wait_us=LEASE_WAIT_US) as writer:
            if writer.reservations.still_open():
                from weft.execution.tables import settle

                settle(writer, self.home)
            yield writer
