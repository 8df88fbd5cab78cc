"""Count what a monitoring program watches.  Each figure is one statement that reads an index or few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, case, func, select

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.sharing import OWN


@dataclass(frozen=True)
class Figures:
    """The figures of a home.

    ``queries`` and ``channels`` are numbers by state: a channel is ``active``, ``failing``, ``muted`` or ``parked``.
    ``answers`` counts those of the installed queries.  ``due`` counts the active queries to which time alone adds an
    answer by now.  ``ticks`` counts committed ticks, and ``tick_us`` is the length of the last one (microseconds, None
    without a tick).  ``tick_at`` is the instant at which it was committed.  ``unsent`` counts messages.  ``leases`` are
    the instants at which the held leases were taken.
    """

    queries: Mapping[str, int]
    channels: Mapping[str, int]
    answers: int
    due: int
    ticks: int
    tick_us: int | None
    tick_at: int | None
    messages: int
    unsent: int
    quarantined: int
    failing_sources: int
    leases: Mapping[str, int]


_LAST: Final = (
    select(ddl.ticks.c.planned_at, ddl.ticks.c.committed_at)
    .where(ddl.ticks.c.state == "committed")
    .order_by(ddl.ticks.c.tick_id.desc())
    .limit(1)
)


def _due(now: int) -> Select[Any]:
    """Count the queries that are due.  One that shares the ``tau`` of its plan is never due by time alone."""
    query = ddl.queries.c
    return select(func.count()).where(query.state == "active", query.next_due <= now, OWN)


def read_figures(database: Database, at: int, now: int | None) -> Figures:
    """Return the figures at the instant ``at`` of the wall clock.  ``now`` is the time of the home's clock."""
    query, sub, tick, out = ddl.queries.c, ddl.subscriptions.c, ddl.ticks.c, ddl.outbox.c
    live = query.state != "removed"
    state = case(
        (sub.state == "parked", "parked"), (sub.muted == 1, "muted"), (sub.attempts > 0, "failing"), else_="active"
    )
    with database.reading() as connection:

        def one(wanted: Select[Any]) -> int:
            return int(connection.execute(wanted).scalar() or 0)

        def by_key(wanted: Select[Any]) -> dict[str, int]:
            return {str(key): int(count) for key, count in connection.execute(wanted)}

        last = connection.execute(_LAST).first()
        held = select(ddl.leases.c.name, ddl.leases.c.acquired_at).where(
            ddl.leases.c.holder.is_not(None), ddl.leases.c.expires_at > at
        )
        return Figures(
            queries=by_key(select(query.state, func.count()).where(live).group_by(query.state)),
            channels=by_key(
                select(state, func.count())
                .select_from(ddl.subscriptions.join(ddl.queries))
                .where(live, sub.state != "ended")
                .group_by(state)
            ),
            answers=one(select(func.sum(query.next_ordinal - 1)).where(live)),
            due=0 if now is None else one(_due(now)),
            ticks=one(select(func.count()).where(tick.state == "committed")),
            tick_us=None if last is None else last[1] - last[0],
            tick_at=None if last is None else last[1],
            messages=one(select(func.max(out.entry_id))),
            unsent=one(select(func.count()).where(out.state.not_in(("sent", "withdrawn")))),
            quarantined=one(select(func.count()).where(ddl.quarantine.c.state == "open")),
            failing_sources=one(select(func.count()).where(ddl.sources.c.trouble.is_not(None))),
            leases=by_key(held),
        )
