"""Refresh the views that must be current: eager views after a poll, and views that standing queries read before a
tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.errors import ClockError
from weft.execution.home import OpenHome
from weft.execution.temporal.refresh_views import Refreshed, refresh_views, with_read


def refresh_eager(home: OpenHome, *, now: int | None = None) -> tuple[Refreshed, ...]:
    """Refresh, at one instant, the eager views whose inputs have changed since their last refresh.

    The instant is ``now`` (µs UTC; None: the home's clock), or that of the last change if it is later. A poll that died
    before the refresh is thus repaired by the next poll. Raise LeaseBusy, LeaseLost, ClockError or StorageError.
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
    """Refresh the views that standing queries read, for a tick at ``t`` (µs UTC; None: at the home's clock).

    The refresh is at the instant before t, so that the tick sees its rows. Views whose inputs have not changed are
    skipped: time alone changes none of them, since a query inlines the definition of a view that depends on NOW. If
    that instant is past, nothing is done. Raise LeaseBusy or StorageError.
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
    """Return the views whose inputs, direct or indirect, have changed since their last refresh."""
    by_id: dict[int, ViewRecord] = {}
    for view in views:
        last = [at for key in view.reads if (at := tables[key].last_ts) is not None]
        if by_id.keys() & view.reads.keys() or any(view.tau is None or at > view.tau for at in last):
            by_id[view.table_id] = view
    return [*by_id.values()]
