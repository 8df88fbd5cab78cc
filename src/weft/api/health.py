"""Report the state of a home, and maintain it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.api.arguments import length
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.catalog import CatalogParts
from weft.catalog.figures import Figures
from weft.catalog.records import QueryState, TickRecord
from weft.configuration import Setting, configuration, settings_of
from weft.execution.home import OpenHome
from weft.instants import MIN_INSTANT, format_instant, format_interval
from weft.printable import Brief, counted
from weft.rights.principal import Right
from weft.store import LEAST_FREE, free_bytes, local_store

if TYPE_CHECKING:
    from weft.api.copying import Copied
    from weft.api.destroying import Destroyed
    from weft.execution.maintenance import Step
    from weft.runtime.doctor import Check

_PARKED: Final = 100
"""The maximum number of parked channels that are named."""
MAX_LAG_US: Final = 15 * 60 * 1_000_000
"""The default limit (microseconds) for the time that new rows wait for a tick."""


@dataclass(frozen=True, repr=False)
class Health(Brief):
    """The state of a home at the instant ``at`` (microseconds UTC), with descriptions of its problems.

    ``lag_us`` is the time for which new rows have waited for a tick, or 0 if no rows wait.  In a replay home,
    ``lag_us`` is None because the clock stands still.  ``due``, ``failed``, ``parked`` and ``muted`` are numbers of
    subscriptions.  A due subscription has answers to deliver now.  A failed subscription waits for its next attempt.  A
    parked subscription waits for a person.  ``free_bytes`` is the free space on the disk of the home.  ``catalog`` is
    the file or the URL of the catalog.
    ``purged_until`` is the instant from which ``maintain`` deletes the files with purged answers, or None if there are
    no such files.
    """

    at: int
    catalog: str
    queries: Mapping[QueryState, int]
    last_tick: TickRecord | None
    lag_us: int | None
    due: int
    failed: int
    parked: int
    muted: int
    free_bytes: int
    purged_until: int | None
    problems: tuple[str, ...]

    def _brief(self) -> str:
        problems = "; ".join(self.problems) or "well"
        return f"{format_instant(self.at)}: {problems}"


def health_of(home: OpenHome, max_lag_us: int) -> Health:
    """Return the state of the home.  Report a problem if new rows wait longer than ``max_lag_us`` for a tick."""
    from weft.storage.attached_health import attached_problems

    catalog, at = home.catalog, home.clock()
    failed, parked, muted = catalog.subscriptions.troubles()
    free, _ = free_bytes(home.folder)
    queries = catalog.queries.counts()
    last_tick = next(iter(catalog.ticks.latest(1)), None)
    lag = _lag_us(home, last_tick, at)
    return Health(
        at=at,
        catalog=str(catalog.address),
        queries=queries,
        last_tick=last_tick,
        lag_us=lag,
        due=catalog.subscriptions.count_waiting(at, catalog.home().now_at(at)),
        failed=failed,
        parked=parked,
        muted=muted,
        free_bytes=free,
        purged_until=_purged_until(home),
        problems=(
            *_query_problems(queries.get("failed", 0), catalog.rechecks.paused(), lag, max_lag_us),
            *_channel_problems(catalog, parked),
            *attached_problems(catalog, at),
            *([] if free >= LEAST_FREE else [f"the disk of {home.folder} has only {free >> 20:,} MiB free"]),
        ),
    )


def _lag_us(home: OpenHome, last_tick: TickRecord | None, at: int) -> int | None:
    from weft.schedule.ticking import all_quiet

    catalog = home.catalog
    if catalog.home().clock != "wall":
        return None
    if all_quiet(catalog, at):
        return 0
    ready, due = catalog.queries.waiting_since(at)
    loaded = catalog.loads.first_since(last_tick.planned_at if last_tick else MIN_INSTANT)
    if loaded is None:  # polls of sources are not recorded as loads
        loaded = max((table.last_ts for table in catalog.tables.known() if table.last_ts is not None), default=None)
    news = min((each for each in (due, loaded) if each is not None), default=None)
    return max(at - max((each for each in (ready, news) if each is not None), default=at), 0)


def _purged_until(home: OpenHome) -> int | None:
    from weft.storage.cleaning import UNCOMMITTED_US

    last = home.catalog.queries.last_purge()
    return None if last is None else last + max(configuration(home.folder).retention_us, UNCOMMITTED_US)


def _channel_problems(catalog: CatalogParts, parked: int) -> Iterator[str]:
    shown = catalog.subscriptions.parked(_PARKED) if parked else ()
    for each, query in shown:
        yield f"{each.channel} of {query.name} is {each.trouble or 'parked'}"
    if parked > len(shown):
        more = parked - len(shown)
        yield f"{counted(more, 'more channel')} {'is' if more == 1 else 'are'} parked: see `weft deliveries`"


def _query_problems(failed: int, barred: int, lag: int | None, max_lag_us: int) -> Iterator[str]:
    if failed:
        yield f"{failed:,} quer{'y has' if failed == 1 else 'ies have'} failed: see `weft queries`"
    if barred:
        are = "query is" if barred == 1 else "queries are"
        yield f"{barred:,} {are} paused because the owner has lost a right: see `weft queries`"
    if lag is not None and lag > max_lag_us:
        yield f"new rows have waited {format_interval(lag // 1000000 * 1000000)} for a tick: is `weft run` running?"


class Maintaining(WeftMethods):
    """The methods of ``Weft`` that maintain the home."""

    @requires(Right.ADMIN)
    def maintain(self, *, dry_run: bool = False, retain: str | int | None = None) -> Iterator[Step]:
        """Maintain arrangements and data files, and yield each step.

        Weft deletes unneeded files after the retention time ``retain``, by default that of the settings.  With
        ``dry_run``, the method only lists the steps.  The method does not start Spark.  Raises LeaseBusy or
        StorageError.  Raises Refused if ``retain`` is more than a week.
        """
        from weft.execution.maintenance import maintain

        return maintain(self.opened, dry_run=dry_run, keep_us=None if retain is None else length(retain))

    @requires(Right.ADMIN, logged=False)
    def figures(self) -> Figures:
        """Return figures for a monitoring program, such as the number of answers and the length of the last tick."""
        catalog, at = self.opened.catalog, self.opened.clock()
        return catalog.figures(at, catalog.home().now_at(at))

    @requires(Right.ADMIN, logging=("to",))
    def copy(self, to: str | os.PathLike[str], *, store: str | None = None, catalog: str | None = None) -> Copied:
        """Copy this home to the folder ``to``, which must be new or empty, and verify the copy.

        ``store`` is the place on S3 for the data of the copy, by default the folder.  ``catalog`` is the URL of the
        PostgreSQL database for its catalog, by default a file in the folder.
        An interrupted copy continues when the method is called again.  This home works meanwhile, except at the end,
        when its leases are held.  Raises Conflict if a place of the target is in use.  Also raises LeaseBusy,
        StorageError and CatalogError.
        """
        from weft.api.copying import copy_home

        return copy_home(self.opened, Path(local_store(to).path), store=store, catalog=catalog)

    @requires(Right.ADMIN, logged=False)
    def destroy(self) -> Destroyed:
        """Delete this home with its data and its catalog, and close it.  Nothing restores it but a backup.

        The output of channels stays, as do files in the folder that Weft has not made.  If the method is interrupted,
        run `weft destroy` with the folder: it continues.  Raises LeaseBusy if a process writes or delivers, and
        Conflict if `weft run` or `weft serve` runs.  Also raises StorageError and CatalogError.
        """
        from weft.api.destroying import destroy_home

        return destroy_home(self.opened)

    @requires(Right.ADMIN, logged=False)
    def settings(self) -> tuple[Setting, ...]:
        """Return all settings of this home with their origins.  Raise Refused for an invalid setting."""
        from weft.delivery.registry import default_channels

        default_channels(self.opened.folder)
        return settings_of(self.opened.folder)

    @requires(Right.ADMIN, logged=False)
    def doctor(self) -> Iterator[Check]:
        """Check the installation and this home without starting Spark, and yield the result of each check."""
        from weft.delivery.registry import default_channels
        from weft.runtime.doctor import examine

        return examine(self.opened.folder, self.opened.clock(), default_channels)
