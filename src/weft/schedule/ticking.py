"""Run one tick under the lease, and check beforehand whether the tick would find an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog import Catalog
from weft.catalog.records import ATTACHED, Choice
from weft.errors import QueryFault
from weft.execution.groups import Member, shape_of, window_start
from weft.execution.home import OpenHome, renewing_lease
from weft.execution.relations import relations
from weft.execution.ticks.due import is_plan_quiet, is_quiet
from weft.faults import query_faults
from weft.printable import Brief, counted
from weft.runtime.session import plain_errors

if TYPE_CHECKING:
    from weft.delivery.outbox import Delivered
    from weft.execution.ticks.tick_report import TickReport


@dataclass(frozen=True, repr=False)
class Ticked(Brief):
    """The reports of one call of ``tick``, and the answers that this call delivered to channels.

    The report of an interrupted earlier tick comes first. If first deliveries are large, each of their batches has a
    report of its own. If another process was delivering, ``delivered`` is None, and
    the other process also delivers the new answers.
    """

    reports: tuple[TickReport, ...]
    delivered: tuple[Delivered, ...] | None = ()

    def _brief(self) -> str:
        ticks = "; ".join(each._brief() for each in self.reports)
        sent = sum(each.rows for each in self.delivered or ())
        return (ticks or "no tick") + (f"; {counted(sent, 'answer')} delivered" if sent else "")


def bring_up_to_date(home: OpenHome, t: int | None) -> None:
    """Take the new versions of attached tables, and refresh the views that queries read, before a tick at ``t``.

    Errors of one table or view are recorded there. Raise LeaseBusy, LeaseLost or StorageError.
    """
    if any(source.kind == ATTACHED for source in home.catalog.sources.all()):
        from weft.extraction.sources.attached import take_new_versions

        take_new_versions(home)
    if home.catalog.views.queried():
        from weft.execution.temporal.refresh_views import refresh_queried

        refresh_queried(home, t)


def tick(home: OpenHome, choice: Choice, *, t: int | None, wait_us: int) -> Ticked:
    """Run a tick of the chosen queries at ``t`` (None: the time of the home's clock), and return its result.

    The caller has brought attached tables and views up to date (``bring_up_to_date``, ``schedule.runner``).
    Wait up to ``wait_us`` microseconds for the lease. Raise LeaseBusy, ClockError, StorageError or ExecutionError (for
    example if the JVM ended).
    """
    from weft.execution.ticks.tick import run_tick

    with (
        home.catalog.writing("tick", home.clock, wait_us=wait_us) as writer,
        renewing_lease(writer, home.clock),
        plain_errors("ticking"),
    ):
        return Ticked(run_tick(writer, home.session, choice=choice, t=t, at=home.clock()))


def recheck(home: OpenHome, wait_us: int) -> None:
    """Pause the queries whose owners have lost a right, also if no query is to be ticked. Raise LeaseBusy."""
    with home.catalog.writing("check rights", home.clock, wait_us=wait_us) as writer:
        writer.rechecks.run()


def all_quiet(catalog: Catalog, t: int) -> bool:
    """Return whether a tick of the due queries at ``t`` would find no answer.

    A tick finds no answer if no row arrived in the tables of the queries and time alone adds no answer. The check runs
    once for each plan, not for each query.
    """
    if catalog.ticks.planned() is not None:
        return False
    waiting = catalog.queries.due_plans(t)
    if not waiting:
        return True
    lower = catalog.queries.read_by_plans([each.plan_id for each in waiting])
    tables = relations(catalog, {key for query in lower for key in (query.query_id, *query.reads)})
    schemas = {name: table.schema for name, table in tables.items()}
    wanted = {*(each.plan_id for each in waiting), *(query.plan_id for query in lower)}
    plans = {record.plan_id: record for record in catalog.queries.plans(wanted)}
    t0 = catalog.home().t0
    try:
        with query_faults():
            shapes = {key: shape_of(record, schemas) for key, record in plans.items()}
            # A tick also runs the queries whose results the due queries read.
            below = [Member(query, window_start(query, query.tau), t) for query in lower if query.state == "active"]
            return all(is_plan_quiet(each, shapes[each.plan_id], tables, t, t0) for each in waiting) and all(
                is_quiet(each, shapes[each.query.plan_id], tables, t0) for each in below
            )
    except QueryFault:
        return False  # the tick sets the query aside, with the reason
