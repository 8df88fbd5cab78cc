"""Refresh temporal views.

A view is refreshed at one instant t, after the inputs of the view. One commit records the change. A refresh at t reads
the records up to t. If an input changes after the start of the refresh, the change is recorded after t. An interrupted
refresh is repeated, unless the commit is found in Delta (design law 6).

A poll refreshes the eager views. A tick first refreshes the views that standing queries read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.catalog.naming import folded
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.errors import ClockError, Refused, StorageError, WeftError
from weft.execution.current_rows_cache import cached_open_rows, current_rows, update_cache
from weft.execution.engines.engine import number_of
from weft.execution.home import OpenHome
from weft.execution.look_ups import LookUps
from weft.execution.reader import stored_files
from weft.execution.temporal.computing import RefreshInput, ViewChange
from weft.execution.temporal.running import Computation, refresh_choice
from weft.failpoint import failpoint
from weft.faults import is_of_the_home, isolated_error
from weft.instants import format_instant
from weft.planning.view_plan import ViewPlan, restored_view
from weft.printable import Brief, counted
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.table import Table
from weft.writing.reserved import commit, ensure, record


@dataclass(frozen=True, repr=False)
class Refreshed(Brief):
    """The result of refreshing the view ``name`` at ``t`` (µs UTC).

    ``changed`` is the number of periods that are new or have a different end. ``gone`` is the number of periods that no
    longer exist. ``by`` is the engine that computed the change. After a failure, ``trouble`` explains why no change was
    recorded.
    """

    name: str
    t: int
    changed: int = 0
    gone: int = 0
    by: Literal["driver", "Spark"] = "driver"
    trouble: WeftError | None = None

    def _brief(self) -> str:
        counts = f"{counted(self.changed, 'period')} changed, {self.gone:,} gone"
        return (
            f"view {self.name} at {format_instant(self.t)}: {counts if self.trouble is None else self.trouble.message}"
        )


def view_plan_of(view: ViewRecord, tables: Iterable[TableRecord]) -> ViewPlan:
    """Return the view's plan. Raise PlanMismatch if the plan no longer matches an input."""
    return restored_view(view.form, [table.schema for table in tables], view.reads, auxiliary=view.auxiliary)


def with_read(views: Sequence[ViewRecord], wanted: Iterable[int]) -> tuple[ViewRecord, ...]:
    """Return the views with the given IDs, and the views that these views read. Inputs come first."""
    by_id = {view.table_id: view for view in views}
    ids: set[int] = set()
    for key in sorted(set(wanted) & by_id.keys(), reverse=True):
        stack = [key]
        while stack:
            each = stack.pop()
            if each in by_id and each not in ids:
                ids.add(each)
                stack += by_id[each].reads
    return tuple(by_id[key] for key in sorted(ids))


def is_current(view: ViewRecord, tables: dict[int, TableRecord], t: int) -> bool:
    """Return whether the view is up to date at ``t``.

    An up-to-date view was refreshed at t - 1 or later, and no input has changed since the refresh.
    """
    if view.tau is None or view.tau + 1 < t:
        return False
    return all((tables[key].last_ts or view.tau) <= view.tau for key in view.reads)


def _not_current(views: Iterable[ViewRecord], tables: dict[int, TableRecord], t: int) -> tuple[ViewRecord, ...]:
    """Return the outdated views, and the views that read them."""
    by_id: dict[int, ViewRecord] = {}
    for view in views:
        if by_id.keys() & view.reads.keys() or not is_current(view, tables, t):
            by_id[view.table_id] = view
    return tuple(by_id.values())


def refresh_views(home: OpenHome, wanted: Iterable[int], *, now: int | None = None) -> tuple[Refreshed, ...]:
    """Refresh the views with the given IDs at one instant. The inputs of a view are refreshed before the view. Return
    the results.

    If ``now`` is None, the instant is the time of the home's clock, and an up-to-date view is skipped. If a view fails,
    its record states the reason, and the readers of the view are not refreshed. Raise ClockError if ``now`` is past and
    a view was not refreshed up to ``now``. Raise LeaseBusy, LeaseLost or StorageError.
    """
    ids = tuple(wanted)
    if not ids or not with_read(home.catalog.views.all(), ids):
        return ()
    with home.writing("refresh views") as writer:
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


def refresh_up_to(home: OpenHome, views: Sequence[ViewRecord], at: int, *, exact: bool) -> int:
    """Refresh views before a read at ``at`` (µs UTC). Return the instant at which to read the views.

    If ``exact`` is true, return ``at``, otherwise the instant of the last refresh. No view can be refreshed at an
    instant before the watermark F. If ``at`` is before F, the views are refreshed at the time of the home's clock. The
    refreshed views still contain earlier periods. Raise the error of a failed refresh, LeaseBusy or StorageError.
    """
    later = exact and at >= home.catalog.home().watermark
    if not exact or later or any(view.tau is None or view.tau < at for view in views):
        done = refresh_views(home, [view.table_id for view in views], now=at if later else None)
        for each in done:
            if each.trouble is not None:
                raise each.trouble
    if exact:
        return at
    ids = {view.table_id for view in views}
    return max([each.tau for each in home.catalog.views.all() if each.table_id in ids and each.tau is not None])


def refresh_named(home: OpenHome, name: str) -> None:
    """Refresh the view with this name at the time of the home's clock, if the view exists and the clock is set."""
    views = [view for view in home.catalog.views.all() if folded(view.name) == folded(name)]
    with suppress(ClockError):
        if views:
            refresh_up_to(home, views, home.now(), exact=False)


def _instant(home: OpenHome, writer: Writer, now: int | None) -> int:
    """Return the instant of a refresh: ``now`` if given, otherwise the time of the home's clock.

    On a replay home without ``now``, the instant is at least the instant of the last arrival. If no row has arrived
    since the last refresh of views, the instant of the last refresh is used again.
    """
    if now is not None:
        return now
    record = writer.home()
    if record.clock == "wall":
        return max(home.now(), record.watermark)
    return writer.views.present(max(home.now(), record.watermark, record.last_ts))


def _each(home: OpenHome, writer: Writer, views: Sequence[ViewRecord], t: int) -> Iterable[Refreshed]:
    """Refresh the views in order, and yield the result of each view except auxiliary views.

    If a view fails, all readers of the view fail as well.
    """
    failed: dict[int, tuple[ViewRecord, WeftError]] = {}
    for view in views:
        try:
            below = next((failed[key] for key in view.reads if key in failed), None)
            if below is not None:
                raise _because_of(*below)
            done = refresh_view(home, writer, view, t)
        except Exception as raised:
            # Continue with the other views. The damaged file belongs to this view or to one of its inputs.
            if is_of_the_home(raised) and not isinstance(raised, StorageError):
                raise
            logs = layout.logs_folder(writer.path)
            error = isolated_error(raised, logs, home.clock, f"refreshing the view {view.name}")
            failed[view.table_id] = view, error
            writer.views.troubled(view.table_id, error.message)
            done = Refreshed(view.name, t, trouble=error)
        if not view.auxiliary:
            yield done


def _because_of(view: ViewRecord, error: WeftError) -> WeftError:
    if view.auxiliary:
        return Refused(f"{error.message} (in the auxiliary view {view.sql})", hint=error.hint)
    return Refused(
        f"the view {view.name}, which this view reads, could not be refreshed",
        hint=f"See the cause with `weft view show {view.name}`.",
    )


def refresh_view(home: OpenHome, writer: Writer, view: ViewRecord, t: int) -> Refreshed:
    """Refresh one view at ``t`` (µs UTC) and return the result.

    Call this function after ``Views.begin`` and after the refreshes of all inputs. Raise LeaseLost, StorageError,
    ExecutionError or PlanMismatch.
    """
    tables = {table.table_id: table for table in writer.tables.all()}
    own = tables[view.table_id]
    snapshots: dict[str, DeltaSnapshot | None] = {}
    files = {key: stored_files(writer.data, tables[key].path, snapshots) for key in (view.table_id, *view.reads)}
    since = writer.home().t0
    assert since is not None, "the home's time has begun"
    look_ups = LookUps(layout.arrangements_folder(writer.path))
    queried = writer.views.is_queried(view.table_id)
    opened: dict[int, pa.Table] = {}
    reading = RefreshInput(tables, files, since, view.tau, t, partial(_present, writer, own, opened))
    plan = view_plan_of(view, tables.values())
    choice = refresh_choice(view, {key: table.name for key, table in tables.items()}, files)
    form = partial(_form, writer, own)
    change, choice = Computation(plan, own, reading, look_ups, queried, form).run(choice, home.session)
    if change is None:
        writer.views.unchanged(view.table_id, t)
        return Refreshed(view.name, t, by=choice.by)
    _record(writer, view, own, change, t, home.clock())
    if opened and isinstance(change.rows, pa.Table):
        update_cache(writer, own.table_id, opened[own.table_id], change.rows)
    return Refreshed(view.name, t, number_of(change.rows) - change.gone, change.gone, choice.by)


def _present(
    writer: Writer, own: TableRecord, opened: dict[int, pa.Table], table: TableRecord, few: bool
) -> pa.Table | None:
    """Return the open rows of a table, as ``RefreshInput.present`` does. If they are those of the view, add them to
    ``opened``.
    """
    if table.table_id != own.table_id:
        return cached_open_rows(writer.path, table)
    if few:
        opened[own.table_id] = current_rows(writer, table)
    return opened.get(own.table_id)


def _form(writer: Writer, own: TableRecord) -> FileForm:
    ensure(writer, own)
    return Table(writer.data / own.path).form()


def _record(writer: Writer, view: ViewRecord, own: TableRecord, change: ViewChange, t: int, at: int) -> None:
    """Commit the change of a view at ``t``. ``at`` is the wall clock time (both µs UTC)."""
    failpoint("view.computed")
    ensure(writer, own)
    load_id = writer.loads.begin(own.table_id, view.name, "view", None, at)
    if change.begins is not None and (view.tau is None or change.begins <= view.tau):
        writer.revisions.intend(own.table_id, load_id, change.begins)
    reservation = writer.views.reserve(own.table_id, load_id, t)
    failpoint("view.reserved")
    committed = commit(writer, own, change.rows, reservation)
    failpoint("view.written")
    record(writer, reservation, committed, t, t)
    failpoint("view.committed")
    writer.views.settle([view.table_id])
    writer.loads.finish(load_id, committed.rows, 0, 0, 0, at)


def refresh_eager(home: OpenHome, *, now: int | None = None) -> tuple[Refreshed, ...]:
    """Refresh, at one instant, the eager views whose inputs have changed since the last refresh.

    The instant is the later of ``now`` (µs UTC) and the last change. If ``now`` is None, the instant is the time of the
    home's clock. If a poll dies before the refresh, the next poll refreshes the views. Raise LeaseBusy, LeaseLost,
    ClockError or StorageError.
    """
    catalog = home.catalog
    views = catalog.views.all()
    if not views:
        return ()
    tables = {table.table_id: table for table in catalog.tables.all()}
    wanted = [view for view in outdated(views, tables) if view.mode == "eager"]
    if not wanted:
        return ()
    if now is not None:
        below = {key for view in views for key in view.reads}
        now = max(
            [now, catalog.home().watermark, *(last for key in below if (last := tables[key].last_ts) is not None)]
        )
    return refresh_views(home, (view.table_id for view in wanted), now=now)


def refresh_queried(home: OpenHome, t: int | None = None) -> tuple[Refreshed, ...]:
    """Refresh the views that standing queries read, for a tick at ``t`` (µs UTC).

    If ``t`` is None, the tick is at the time of the home's clock. The refresh is at the instant before the tick,
    because the tick must see the new rows of the views. If the clock does not allow the refresh, do nothing. Skip views
    whose inputs have not changed. Time alone never changes these views, because queries inline the definitions of views
    that depend on NOW. Raise LeaseBusy or StorageError.
    """
    catalog = home.catalog
    queried = {view.table_id for view in catalog.views.queried()}
    if not queried:
        return ()
    tables = {table.table_id: table for table in catalog.tables.all()}
    views = with_read(catalog.views.all(), queried)
    wanted = [view.table_id for view in outdated(views, tables)]
    if not wanted:
        return ()
    try:
        return refresh_views(home, wanted, now=None if t is None else t - 1)
    except ClockError:  # the tick reports the clock error itself
        return ()


def outdated(views: Sequence[ViewRecord], tables: Mapping[int, TableRecord]) -> list[ViewRecord]:
    """Return the views with a direct or indirect input that changed after their last refresh."""
    by_id: dict[int, ViewRecord] = {}
    for view in views:
        last = [at for key in view.reads if (at := tables[key].last_ts) is not None]
        if by_id.keys() & view.reads.keys() or any(view.tau is None or at > view.tau for at in last):
            by_id[view.table_id] = view
    return [*by_id.values()]
