"""Eager views follow what they read: after a poll, or several of one command, each is maintained once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.errors import ClockError
from weft.execution.home import Home
from weft.execution.temporal.refresh_views import Maintained, maintain_views, with_read


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
        now = max(
            [now, catalog.home().watermark, *(last for key in below if (last := tables[key].last_ts) is not None)]
        )
    return maintain_views(home, (view.table_id for view in wanted), now=now)


def maintain_queried(home: Home, t: int | None = None) -> tuple[Maintained, ...]:
    """Maintains the views that standing queries read, for a tick at ``t`` (µs UTC; None: at the home's clock).

    That is at the instant before t, so that the tick sees what they gain.  Those are left out that nothing has come
    for: time alone changes none of them, since a query has the definition of a view that depends on NOW.  Where no such
    instant is open nothing is done.  Raises LeaseBusy, StorageError.
    """
    catalog = home.catalog
    queried = {view.table_id for view in catalog.views.queried()}
    if not queried:
        return ()
    tables = {table.table_id: table for table in catalog.tables.all()}
    views = with_read(catalog.views.all(), queried)
    wanted = [view.table_id for view in behind(views, tables)]
    if not wanted:
        return ()
    try:
        return maintain_views(home, wanted, now=None if t is None else t - 1)
    except ClockError:  # the tick says so itself
        return ()


def behind(views: Sequence[ViewRecord], tables: Mapping[int, TableRecord]) -> list[ViewRecord]:
    """The views that something came for after they were maintained last, into what they read or what that reads."""
    found: dict[int, ViewRecord] = {}
    for view in views:
        last = [at for key in view.reads if (at := tables[key].last_ts) is not None]
        if found.keys() & view.reads.keys() or any(view.tau is None or at > view.tau for at in last):
            found[view.table_id] = view
    return [*found.values()]
