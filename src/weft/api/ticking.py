"""Ticks, the runner, deliveries, and the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.api.opened import LEASE_WAIT_US, Instant, Opened, micros
from weft.catalog.records import QueryRecord
from weft.errors import ClockError, Conflict, WeftError
from weft.instants import format_instant

if TYPE_CHECKING:
    from weft.delivery.outbox import Delivered
    from weft.runtime.doctor import Check
    from weft.schedule.runner import Stop
    from weft.schedule.ticking import Ticked


class Ticking(Opened):
    """Everything that moves time."""

    def tick(self, names: str | Sequence[str] = (), *, now: Instant | None = None) -> Ticked:
        """One tick of the named queries (none: all that are active), then their deliveries.

        ``now`` None is the home's clock; another instant is for replay homes.  Starts Spark only where there is
        something to compute.  Raises ClockError, NotFound, Conflict for a named query that is not active, LeaseBusy,
        StorageError, ExecutionError.
        """
        from weft.schedule.ticking import tick

        t = None if now is None else micros(now)
        self._check_clock(t)
        wanted = {self._active(name).query_id for name in ([names] if isinstance(names, str) else names)}

        def choose(queries: Sequence[QueryRecord]) -> Sequence[QueryRecord]:
            return [q for q in queries if q.state == "active" and (not wanted or q.query_id in wanted)]

        return tick(self.catalog, self.home, self.session, choose, t=t, clock=self.clock, wait_us=LEASE_WAIT_US)

    def run(
        self,
        stop: Stop,
        *,
        ticked: Callable[[Ticked], None],
        delivered: Callable[[list[Delivered]], None],
        troubled: Callable[[WeftError], None],
        pace_us: int | None = None,
    ) -> None:
        """Ticks by timeliness until ``stop``; see ``schedule.runner``."""
        from weft.schedule.runner import PACE_US, Runner

        pace = PACE_US if pace_us is None else pace_us
        Runner(self.catalog, self.home, self.session, self.clock, ticked, delivered, troubled, pace).run(stop)

    def deliver(self) -> list[Delivered]:
        """Sends what waits to the channels; raises LeaseBusy.  Starts no Spark."""
        from weft.delivery.outbox import deliver

        return deliver(self.catalog, self.home, self.clock(), clock=self.clock, wait_us=LEASE_WAIT_US)

    def time_driven(self, query: QueryRecord) -> bool:
        """Whether time alone can add rows to the query."""
        from weft.execution.groups import compiled

        return compiled(self.catalog.queries.plan(query.plan_id), self.schemas()).time_driven

    def doctor(self) -> Iterator[Check]:
        """Whether Weft and this home are well, check by check; starts no Spark."""
        return doctor(self.home, self.clock())

    def _active(self, name: str) -> QueryRecord:
        query = self.catalog.queries.named(name)
        if query.state != "active":
            raise Conflict(f"{query.name} is {query.state}", hint=f"`weft resume {query.name}` lets it go on.")
        return query

    def _check_clock(self, t: int | None) -> None:
        home = self.catalog.home()
        if t is None:
            return
        if t < home.forward:
            raise ClockError(
                f"this home has gone on to {format_instant(home.forward)}, and {format_instant(t)} is before it",
                hint="A clock never goes back: tick at a later instant.",
            )
        if home.clock == "wall" and t > self.clock():
            raise ClockError(
                f"{format_instant(t)} is in the future, and this home's clock is the wall's",
                hint="Only a home made with `weft init --clock replay` is ticked at an instant of your choice.",
            )


def doctor(home: Path | None, at: int) -> Iterator[Check]:
    """The checks, for a home that may not be one; ``at`` is the wall's instant."""
    from weft.runtime.doctor import examine

    return examine(home, at)
