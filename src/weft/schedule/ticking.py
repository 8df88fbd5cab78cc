"""One tick as a person or the runner asks for it: under the lease, its answers delivered after its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.catalog import Catalog, Writer
from weft.catalog.records import QueryRecord
from weft.delivery.outbox import Delivered, deliver
from weft.errors import CatalogError, LeaseLost, PlanMismatch
from weft.execution import due
from weft.execution.groups import Member, compiled, tau_of
from weft.execution.tick import TickReport, run_tick
from weft.runtime.session import plain_errors

Choice = Callable[[Sequence[QueryRecord]], Sequence[QueryRecord]]
"""Which of the home's queries a tick runs."""

_RENEW_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Ticked:
    """What one call did: its tick, after one that had died if there was one, and what went out to channels."""

    reports: tuple[TickReport, ...]
    delivered: tuple[Delivered, ...]


def tick(
    catalog: Catalog,
    home: Path,
    session: Callable[[], Any],
    choose: Choice,
    *,
    t: int | None,
    clock: Callable[[], int],
    wait_us: int,
) -> Ticked:
    """Ticks the chosen queries at ``t`` (None: the home's clock), then delivers; waits for the lease up to ``wait_us``.

    Raises LeaseBusy, ClockError, StorageError, ExecutionError (a dead JVM among the reasons).
    """
    with catalog.writing("tick", clock, wait_us=wait_us) as writer, kept(writer, clock), plain_errors("ticking"):
        reports = run_tick(writer, home, session, queries=choose(writer.queries.all()), t=t, at=clock())
    return Ticked(reports, tuple(deliver(catalog, home, clock(), clock=clock, wait_us=wait_us)))


@contextmanager
def kept(writer: Writer, clock: Callable[[], int]) -> Iterator[None]:
    """Renews the lease every minute while the block runs: a tick may take longer than a lease lasts."""
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


def all_quiet(catalog: Catalog, queries: Sequence[QueryRecord], t: int) -> bool:
    """Whether a tick of the queries at ``t`` would find nothing: nothing arrived, no instant of theirs is reached."""
    if catalog.ticks.planned() is not None:
        return False
    tables = {table.name: table for table in catalog.tables.all()}
    schemas = {name: table.schema for name, table in tables.items()}
    plans = {record.plan_id: record for record in catalog.queries.plans()}
    t0 = catalog.home().t0
    for query in queries:
        try:
            shape = compiled(plans[query.plan_id], schemas)
        except PlanMismatch:
            return False  # the tick says so, and sets it aside
        if not due.is_quiet(Member(query, tau_of(query, query.tau)), shape, tables, t, t0):
            return False
    return True
