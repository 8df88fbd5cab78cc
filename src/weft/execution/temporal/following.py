"""Eager views follow what they read: after a poll, or several of one command, each is maintained once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.errors import ClockError, QueryFault
from weft.execution.home import Home
from weft.execution.temporal.maintaining import Maintained, maintain_views, upkeep_of, with_read
from weft.faults import query_faults


def maintain_eager(home: Home, *, now: int | None = None) -> tuple[Maintained, ...]:
    """Maintains, at one instant, the eager views that read something which came after they were maintained last.

    The instant is ``now`` (µs UTC; None: the home's clock), or that of the last of those changes where it is later: a
    poll that died before its views were maintained is made good by the next.  Raises LeaseBusy, LeaseLost, ClockError,
    StorageError.
    """
    catalog = home.catalog
    views = catalog.views.all()
    if not views:
        return ()
    tables = {table.table_id: table for table in catalog.tables.all()}
    wanted = [view for view in behind(views, tables) if view.mode == "eager"]
    if not wanted:
        return ()
    if now is not None:
        below = {key for view in views for key in view.reads}
        now = max([now, catalog.home().forward, *(last for key in below if (last := tables[key].last_ts) is not None)])
    return maintain_views(home, (view.table_id for view in wanted), now=now)


def maintain_queried(home: Home, t: int | None = None) -> tuple[Maintained, ...]:
    """Maintains the views that standing queries read, for a tick at ``t`` (µs UTC; None: at the home's clock).

    That is at the instant before t, so that the tick sees what they gain.  Those are left out that nothing has come for
    and that time does not change.  Where no such instant is open nothing is done.  Raises LeaseBusy, StorageError.
    """
    catalog = home.catalog
    queried = {view.table_id for view in catalog.views.queried()}
    if not queried:
        return ()
    tables = {table.table_id: table for table in catalog.tables.all()}
    views = with_read(catalog.views.all(), queried)
    late = {view.table_id for view in behind(views, tables)}
    wanted = [view.table_id for view in views if view.table_id in late or _is_timely(view, tables)]
    if not wanted:
        return ()
    try:
        return maintain_views(home, wanted, now=None if t is None else t - 1)
    except ClockError:  # the tick says so itself
        return ()


def _is_timely(view: ViewRecord, tables: Mapping[int, TableRecord]) -> bool:
    """Whether the passing of time can change a view; one that cannot be read any more says so when it is maintained."""
    try:
        with query_faults():
            return upkeep_of(view, tables.values()).plan.needs_refresh
    except QueryFault:
        return True


def behind(views: Sequence[ViewRecord], tables: Mapping[int, TableRecord]) -> list[ViewRecord]:
    """The views that something came for after they were maintained last, into what they read or what that reads."""
    found: dict[int, ViewRecord] = {}
    for view in views:
        last = [at for key in view.reads if (at := tables[key].last_ts) is not None]
        if found.keys() & view.reads.keys() or any(view.tau is None or at > view.tau for at in last):
            found[view.table_id] = view
    return [*found.values()]
