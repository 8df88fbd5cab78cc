"""Keeping temporal views: each maintained at one instant, after all that it reads, its change recorded as one.

A maintenance reads what was recorded up to its instant t; from before it begins nothing comes into what the view reads
that is not after t.  One that died is made again, unless its commit is found in Delta (design law 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc

from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.catalog import Writer, layout
from weft.catalog.naming import folded
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.errors import ClockError, Refused, StorageError, WeftError
from weft.execution.append_rows import commit_rows, properties
from weft.execution.current_rows_cache import open_if_kept
from weft.execution.home import Home
from weft.execution.look_ups import LookUps
from weft.execution.reader import stored_files
from weft.execution.temporal.computing import Reading, gained
from weft.failpoint import failpoint
from weft.faults import is_of_the_home, isolated_error
from weft.instants import format_instant
from weft.planning.view_plan import ViewPlan, restored_view
from weft.printable import Brief, counted
from weft.storage.columns import stored_schema
from weft.storage.commit import require_table
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.fence import make_durable


@dataclass(frozen=True, repr=False)
class Maintained(Brief):
    """What a maintenance of the view ``name`` at ``t`` (µs UTC) recorded: periods that came or have another end.

    ``gone`` counts the periods of which nothing is left; ``trouble`` says why nothing was recorded (None: it was).
    """

    name: str
    t: int
    changed: int = 0
    gone: int = 0
    trouble: WeftError | None = None

    def _brief(self) -> str:
        told = f"{counted(self.changed, 'period')} changed, {self.gone:,} gone"
        return f"view {self.name} at {format_instant(self.t)}: {told if self.trouble is None else self.trouble.message}"


def view_plan_of(view: ViewRecord, tables: Iterable[TableRecord]) -> ViewPlan:
    """The view as it was bound; raises PlanMismatch where what it reads is not as it was."""
    return restored_view(view.form, [table.schema for table in tables], view.reads, auxiliary=view.auxiliary)


def with_read(views: Sequence[ViewRecord], wanted: Iterable[int]) -> tuple[ViewRecord, ...]:
    """The views with these ids and the views that they read, each after all that it reads."""
    by_id = {view.table_id: view for view in views}
    found: set[int] = set()
    for key in sorted(set(wanted) & by_id.keys(), reverse=True):
        left = [key]
        while left:
            each = left.pop()
            if each in by_id and each not in found:
                found.add(each)
                left += by_id[each].reads
    return tuple(by_id[key] for key in sorted(found))


def is_current(view: ViewRecord, tables: dict[int, TableRecord], t: int) -> bool:
    """Whether nothing can have changed since the view's last maintenance, which was at t or the instant before it."""
    if view.tau is None or view.tau + 1 < t:
        return False
    return all((tables[key].last_ts or view.tau) <= view.tau for key in view.reads)


def _not_current(views: Iterable[ViewRecord], tables: dict[int, TableRecord], t: int) -> tuple[ViewRecord, ...]:
    """Those that something can have changed in, and those that read them."""
    found: dict[int, ViewRecord] = {}
    for view in views:
        if found.keys() & view.reads.keys() or not is_current(view, tables, t):
            found[view.table_id] = view
    return tuple(found.values())


def maintain_views(home: Home, wanted: Iterable[int], *, now: int | None = None) -> tuple[Maintained, ...]:
    """Maintains views by their ids, and before each what it reads, at one instant: ``now``, or the home's clock.

    A view that fails leaves the others alone, but for those that read it; why is in its record, too.  One that is
    current at the clock is left as it is.  Raises ClockError for a ``now`` that is past and to which one of them was
    not maintained, LeaseBusy, LeaseLost, StorageError.
    """
    ids = tuple(wanted)
    if not ids or not with_read(home.catalog.views.all(), ids):
        return ()
    with home.writing("maintain views") as writer:
        writer.views.settle()
        views = with_read(writer.views.all(), ids)
        tables = {table.table_id: table for table in writer.tables.all()}
        t = _instant(home, writer, now)
        if now is None:
            views = _not_current(views, tables, t)
        else:
            views = tuple(view for view in views if view.tau is None or view.tau < now)
        if not views:
            return ()
        writer.views.begin(t)
        failpoint("view.begun")
        return tuple(_each(home, writer, views, t))


def bring_up_to(home: Home, views: Sequence[ViewRecord], at: int, *, told: bool) -> int:
    """Maintains views so that they can be read at ``at`` (µs UTC): the instant at which to read them.

    That is ``at`` where it was ``told``, else the last one at which they were maintained.  What lies before F cannot be
    maintained as of then: they are maintained at the clock, and have the past in their periods.  Raises what a
    maintenance failed with, LeaseBusy, StorageError.
    """
    later = told and at >= home.catalog.home().watermark
    if not told or later or any(view.tau is None or view.tau < at for view in views):
        done = maintain_views(home, [view.table_id for view in views], now=at if later else None)
        for each in done:
            if each.trouble is not None:
                raise each.trouble
    if told:
        return at
    ids = {view.table_id for view in views}
    return max([each.tau for each in home.catalog.views.all() if each.table_id in ids and each.tau is not None])


def bring_up(home: Home, name: str) -> None:
    """Maintains the view of that name at the home's clock; where none has it, or there is no clock yet, nothing."""
    views = [view for view in home.catalog.views.all() if folded(view.name) == folded(name)]
    with suppress(ClockError):
        if views:
            bring_up_to(home, views, home.now(), told=False)


def _instant(home: Home, writer: Writer, now: int | None) -> int:
    """The instant of a maintenance that is asked for ``now``; at the clock of a replay home all that came is there.

    Such a home's clock stays where views were maintained last, as long as nothing has come since.
    """
    if now is not None:
        return now
    found = writer.home()
    if found.clock == "wall":
        return max(home.now(), found.watermark)
    return writer.views.present(max(home.now(), found.watermark, found.last_ts))


def _each(home: Home, writer: Writer, views: Sequence[ViewRecord], t: int) -> Iterable[Maintained]:
    """The outcomes of all but auxiliary views; what one of those fails with is told of each view that reads it."""
    failed: dict[int, tuple[ViewRecord, WeftError]] = {}
    for view in views:
        try:
            below = next((failed[key] for key in view.reads if key in failed), None)
            if below is not None:
                raise _because_of(*below)
            done = maintain(writer, view, t, home.clock())
        except Exception as raised:
            # A damaged file is of a table that this view reads or has: the others go on.
            if is_of_the_home(raised) and not isinstance(raised, StorageError):
                raise
            logs = layout.logs_folder(writer.path)
            error = isolated_error(raised, logs, home.clock(), f"maintaining the view {view.name}")
            failed[view.table_id] = view, error
            writer.views.troubled(view.table_id, error.message)
            done = Maintained(view.name, t, trouble=error)
        if not view.auxiliary:
            yield done


def _because_of(view: ViewRecord, error: WeftError) -> WeftError:
    """Why a view that reads one that failed could not be maintained."""
    if view.auxiliary:
        return Refused(f"{error.message}, in its auxiliary view {view.sql}", hint=error.hint)
    return Refused(f"{view.name}, which it reads, could not be maintained", hint=f"See: weft view show {view.name}")


def maintain(writer: Writer, view: ViewRecord, t: int, at: int) -> Maintained:
    """Maintains one view at ``t``, which was begun (``Views.begin``), all that it reads having been.

    ``at`` is the wall's instant, both µs UTC.  Raises LeaseLost, StorageError, ExecutionError, PlanMismatch.
    """
    tables = {table.table_id: table for table in writer.tables.all()}
    own = tables[view.table_id]
    snapshots: dict[str, DeltaSnapshot | None] = {}
    files = {key: stored_files(writer.data, tables[key].path, snapshots) for key in (view.table_id, *view.reads)}
    since = writer.home().t0
    assert since is not None, "the home's time has begun"
    look_ups = LookUps(layout.arrangements_folder(writer.path))
    queried = writer.views.is_queried(view.table_id)
    reading = Reading(tables, files, since, view.tau, t, partial(open_if_kept, writer.path))
    change = gained(view_plan_of(view, tables.values()), own, reading, look_ups, dated=queried)
    found = change.rows
    if not found.num_rows:
        writer.views.unchanged(view.table_id, t)
        return Maintained(view.name, t)
    place = writer.data / own.path
    writer.check()
    require_table(place, stored_schema(own.stored), properties(own))
    load_id = writer.loads.begin(own.table_id, view.name, "view", None, at)
    if change.begins is not None and (view.tau is None or change.begins <= view.tau):
        writer.revisions.intend(own.table_id, load_id, change.begins)
    reservation = writer.views.reserve(own.table_id, load_id, t)
    failpoint("view.reserved")
    version = commit_rows(writer, place, found, reservation)
    failpoint("view.written")
    make_durable(place, version)
    writer.reservations.commit(reservation.reservation_id, version, found.num_rows, t, t)
    failpoint("view.committed")
    writer.views.settle([view.table_id])
    writer.loads.finish(load_id, found.num_rows, 0, 0, 0, at)
    gone = pc.sum(pc.fill_null(pc.equal(found.column(VALID_FROM), found.column(VALID_TO)), False)).as_py()
    return Maintained(view.name, t, found.num_rows - gone, gone)
