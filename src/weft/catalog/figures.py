"""Count the figures for a monitoring program.  Each figure is one statement that reads an index or few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, case, func, literal_column, select

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.query_conditions import STATES
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
_STATES: Final = (
    select(ddl.queries.c.state, func.count())
    .where(ddl.LIVE, ddl.queries.c.state.in_(STATES))
    .group_by(ddl.queries.c.state)
)
_ANSWERS: Final = select(func.sum(ddl.queries.c.next_ordinal - 1)).where(
    ddl.queries.c.next_ordinal > literal_column("1"), ddl.LIVE
)
_KEPT: Final = select(func.count()).select_from(ddl.subscriptions).where(ddl.KEPT)
_OF_REMOVED: Final = ddl.subscriptions.c.query_id.in_(
    select(ddl.queries.c.query_id).where(ddl.queries.c.state == literal_column("'removed'"))
)


def _unwell() -> Select[Any]:
    sub = ddl.subscriptions.c
    state = case(
        (sub.state == "parked", "parked"), (sub.muted == 1, "muted"), (sub.attempts > 0, "failing"), else_="active"
    )
    found = select(state, func.count()).join_from(ddl.subscriptions, ddl.queries)
    return found.where(ddl.UNWELL, ddl.LIVE).group_by(state)


_UNWELL: Final = _unwell()


def _channels(every: int, unwell: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of channels by state.  All that are not ``unwell`` are active."""
    states = {state: count for state, count in unwell.items() if state != "active"}
    return {"active": every - sum(states.values()), **states}


def _due(now: int) -> Select[Any]:
    """Count the queries that are due.  One that shares the ``tau`` of its plan is never due by time alone."""
    query = ddl.queries.c
    return select(func.count()).where(query.state == "active", query.next_due <= now, OWN)


def read_figures(database: Database, at: int, now: int | None) -> Figures:
    """Return the figures at the instant ``at`` of the wall clock.  ``now`` is the time of the home's clock."""
    tick, out = ddl.ticks.c, ddl.outbox.c
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
            queries=by_key(_STATES),
            channels=_channels(one(_KEPT) - one(_KEPT.where(_OF_REMOVED)), by_key(_UNWELL)),
            answers=one(_ANSWERS),
            due=0 if now is None else one(_due(now)),
            ticks=one(select(func.count()).where(tick.state == "committed")),
            tick_us=None if last is None else last[1] - last[0],
            tick_at=None if last is None else last[1],
            messages=one(select(func.max(out.entry_id))),
            unsent=one(select(func.count()).where(ddl.UNSENT)),
            quarantined=one(select(func.count()).where(ddl.quarantine.c.state == "open")),
            failing_sources=one(select(func.count()).where(ddl.sources.c.trouble.is_not(None))),
            leases=by_key(held),
        )
