"""Eager views follow what they read: after a poll, or several of one command, each is maintained once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.execution.home import Home
from weft.execution.temporal.maintaining import Maintained, maintain_views


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


def behind(views: Sequence[ViewRecord], tables: Mapping[int, TableRecord]) -> list[ViewRecord]:
    """The views that something came for after they were maintained last, into what they read or what that reads."""
    found: dict[int, ViewRecord] = {}
    for view in views:
        last = [at for key in view.reads if (at := tables[key].last_ts) is not None]
        if found.keys() & view.reads.keys() or any(view.tau is None or at > view.tau for at in last):
            found[view.table_id] = view
    return [*found.values()]
