"""Record ticks.

Before Weft computes a tick, the catalog records the plan and the clock of the tick.  The commit records the outcome for
each query.  An interrupted tick runs again with its recorded clock and queries (design section 6).  The second run adds
the same rows, because no new row has a ``ts`` before the instant of the tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)

from weft.catalog import ddl
from weft.catalog.counting import count, settle_shared
from weft.catalog.database import Database, inserted_id
from weft.catalog.home_record import read_home, set_home
from weft.catalog.queries import QUERY, parameters, query_record, read_below
from weft.catalog.query_conditions import IS_FIRST, is_chosen, parts
from weft.catalog.records import Choice, Count, Parameter, QueryRecord, SharedPlan, TickOutput, TickQuery, TickRecord
from weft.catalog.reservations import earliest_reserved
from weft.catalog.sharing import OWN, SHARED, leave, share
from weft.catalog.subscriptions import mark_behind
from weft.catalog.tables import record_version
from weft.errors import CatalogError, ClockError, Conflict
from weft.instants import format_instant


class Ticks:
    """The ticks of a home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def plan(self, t: int, choice: Choice, at: int) -> TickRecord:
        """Plan a tick at the instant ``t`` and record the ``tau`` of each of its queries.

        The tick runs the chosen queries, and all active queries whose results the chosen queries read.  Raise
        ClockError if ``t`` is before the watermark or after the start of an open reservation.  With a wall clock, also
        raise ClockError if ``t`` is after the wall-clock time ``at``.  Raise Conflict if an earlier tick is unfinished.
        """
        with self._database.changing_under_lease() as connection:
            _check_clock(connection, t, at)
            if _planned(connection) is not None:
                raise Conflict(
                    "an earlier tick is not complete",
                    hint="Run `weft tick` again: it first completes the earlier tick.",
                )
            key = inserted_id(
                connection,
                insert(ddl.ticks).values(t=t, state="planned", token=self._database.token, planned_at=at),
            )
            query, plans = ddl.queries.c, ddl.plans.c
            if choice.query_ids is None and choice.first_of is None:
                shared = select(literal(key), plans.plan_id, plans.tau).where(SHARED)
                connection.execute(insert(ddl.tick_plans).from_select(["tick_id", "plan_id", "tau"], shared))
            else:
                leave(connection, is_chosen(choice))
            chosen = select(literal(key), query.query_id, query.tau).where(is_chosen(choice), OWN)
            connection.execute(insert(ddl.tick_queries).from_select(["tick_id", "query_id", "tau"], chosen))
            _add_what_is_read(connection, key)
            home = read_home(connection)
            if home.t0 is None:
                set_home(connection, t0=t)
            return _read_tick(connection, key)

    def first_deliveries(self, choice: Choice) -> tuple[int, ...]:
        """Return the plans of the chosen queries whose next tick is a first delivery, in the order of their strata."""
        query = ddl.queries.c
        plans = select(query.plan_id).where(is_chosen(choice), IS_FIRST).group_by(query.plan_id)
        return tuple(row[0] for row in self._database.rows(plans.order_by(func.min(query.stratum), query.plan_id)))

    def members(self, tick_id: int, without: Collection[int] = ()) -> tuple[tuple[QueryRecord, int | None], ...]:
        """Return (query, tau before the tick) for each query of a tick, ordered by ID.  Omit removed queries.

        Also omit the queries that share the ``tau`` of a plan in ``without``.
        """
        member, plan, query = ddl.tick_queries.c, ddl.tick_plans.c, ddl.queries.c
        own = (
            select(*QUERY, member.tau.label("before"))
            .join_from(ddl.tick_queries, ddl.queries)
            .where(member.tick_id == tick_id, query.state != "removed")
        )
        shared = (
            select(*QUERY, plan.tau.label("before"))
            .join_from(ddl.tick_plans, ddl.queries, plan.plan_id == query.plan_id)
            .where(plan.tick_id == tick_id, ~OWN, plan.plan_id.not_in(sorted(without)))
        )
        with self._database.reading() as connection:
            rows = [*connection.execute(own), *connection.execute(shared)]
        return tuple((query_record(row), row[-1]) for row in sorted(rows, key=itemgetter(0)))

    def shared(self, tick_id: int) -> tuple[SharedPlan, ...]:
        """Return the plans of a tick whose ``tau`` queries share."""
        member, plan = ddl.tick_plans.c, ddl.plans.c
        wanted = select(plan.plan_id, member.tau, plan.sharing, plan.version).join_from(ddl.tick_plans, ddl.plans)
        rows = self._database.rows(wanted.where(member.tick_id == tick_id, SHARED).order_by(plan.plan_id))
        return tuple(SharedPlan(*row) for row in rows)

    def constants(self, plan_id: int) -> tuple[tuple[int, ...], tuple[tuple[Parameter, ...], ...]]:
        """Return the IDs and the constants of the queries that share the ``tau`` of a plan, ordered by ID."""
        query = ddl.queries.c
        wanted = select(query.query_id, query.parameters).where(query.plan_id == plan_id, ~OWN)
        rows = self._database.rows(wanted.order_by(query.query_id))
        return tuple(row[0] for row in rows), tuple(parameters(row[1]) for row in rows)

    def planned(self) -> TickRecord | None:
        """Return the planned tick, or None."""
        return self._database.read(_planned)

    def commit(
        self,
        tick_id: int,
        counts: Mapping[int, Count],
        versions: Iterable[tuple[str, int, int]],
        at: int,
        *,
        together: Mapping[int, str | None] = MappingProxyType({}),
        alike: Collection[int] = (),
    ) -> None:
        """Commit a planned tick in one transaction.  All outputs of the tick must be written.

        ``counts`` maps query IDs to outcomes.  A query without an outcome keeps its tau.  ``versions`` contains (path,
        Delta version, number of rows) for each table that the tick read or wrote.

        ``together`` maps plans to a reason: each query that shares the tau of the plan and has no outcome in ``counts``
        ran up to the tick's t and has no new answer for this reason.  ``alike`` are the plans whose queries may share a
        tau from now on, because the instant of their next answer never depends on their constants.
        """
        with self._database.changing_under_lease() as connection:
            tick = _require_planned(connection, tick_id)
            members = ddl.tick_queries.c
            own = settle_shared(connection, tick, counts, together)
            planned = set(connection.execute(select(members.query_id).where(members.tick_id == tick_id)).scalars())
            if strangers := set(own) - planned:
                raise CatalogError(f"the tick {tick_id} was not planned for the queries {sorted(strangers)}")
            connection.execute(
                update(ddl.ticks).where(ddl.ticks.c.tick_id == tick_id).values(state="committed", committed_at=at)
            )
            count(connection, tick, own, planned)
            gained = select(members.query_id).where(members.tick_id == tick_id, ddl.GAINED)
            mark_behind(connection, ddl.subscriptions.c.query_id.in_(gained))
            share(connection, tick_id, tick.t, alike)
            for path, version, rows in versions:
                connection.execute(
                    insert(ddl.tick_versions).values(tick_id=tick_id, path=path, version=version, rows=rows)
                )
                record_version(connection, path, version, rows)
            home = read_home(connection)
            set_home(connection, watermark=max(home.watermark, tick.t), now=tick.t if home.clock == "replay" else None)

    def open_outputs(self, tick_id: int, outputs: Iterable[tuple[str, str]]) -> None:
        """Record the outputs (name, path) that a planned tick will write.  Earlier recorded outputs stay."""
        written = ddl.tick_outputs.c
        with self._database.changing_under_lease() as connection:
            _require_planned(connection, tick_id)
            known = set(connection.execute(select(written.name).where(written.tick_id == tick_id)).scalars())
            new = [{"name": name, "path": path} for name, path in outputs if name not in known]
            if new:
                connection.execute(insert(ddl.tick_outputs).values(tick_id=tick_id, state="open"), new)

    def outputs_written(self, tick_id: int, outputs: Iterable[tuple[str, int, tuple[str, int, int]]]) -> None:
        """Record outputs that are written to Delta.  Raise CatalogError for an output that was not opened.

        Each output is a tuple (name, rows added, (path, version, rows) of the table).
        """
        columns = ddl.tick_outputs.c
        with self._database.changing_under_lease() as connection:
            _require_planned(connection, tick_id)
            for name, rows, stored in outputs:
                changed = connection.execute(
                    update(ddl.tick_outputs)
                    .where(columns.tick_id == tick_id, columns.name == name)
                    .values(state="written", version=stored[1], rows=rows)
                )
                if changed.rowcount != 1:
                    raise CatalogError(f"the tick {tick_id} has no output {name!r}")
                record_version(connection, *stored)

    def outputs(self, tick_id: int) -> tuple[TickOutput, ...]:
        """Return the outputs of a tick, ordered by name."""
        outputs = ddl.tick_outputs
        rows = self._database.rows(select(outputs).where(outputs.c.tick_id == tick_id).order_by(outputs.c.name))
        return tuple(TickOutput(**row._mapping) for row in rows)

    def set_aside(self, tick_id: int, failed: Mapping[int, str]) -> None:
        """Remove failed queries from a planned tick.  Mark each query as failed and record the reason."""
        members, queries = ddl.tick_queries, ddl.queries
        with self._database.changing_under_lease() as connection:
            parameters = [{"which": query_id, "why": reason} for query_id, reason in failed.items()]
            if parameters:
                for some in parts(list(failed)):
                    leave(connection, queries.c.query_id.in_(some))
                connection.execute(
                    delete(members).where(members.c.tick_id == tick_id, members.c.query_id == bindparam("which")),
                    parameters,
                )
                connection.execute(
                    update(queries)
                    .where(queries.c.query_id == bindparam("which"))
                    .values(state="failed", reason=bindparam("why")),
                    parameters,
                )

    def abandon(self, tick_id: int) -> None:
        """Abandon a planned tick without written outputs.  Another tick may then run at the same instant."""
        with self._database.changing_under_lease() as connection:
            _require_planned(connection, tick_id)
            connection.execute(update(ddl.ticks).where(ddl.ticks.c.tick_id == tick_id).values(state="abandoned"))

    def latest(self, limit: int = 20) -> tuple[TickRecord, ...]:
        """Return the latest ticks, the newest first."""
        rows = self._database.rows(_TICKS.order_by(ddl.ticks.c.tick_id.desc()).limit(limit))
        return tuple(TickRecord(**row._mapping) for row in rows)

    def of_query(self, query_id: int, limit: int = 20) -> tuple[TickQuery, ...]:
        """Return the outcomes of the latest ticks for one query, the newest first."""
        wanted = {"of_query": query_id, "most": limit}
        with self._database.reading() as connection:
            found = {row.tick_id: TickQuery(**row._mapping) for row in connection.execute(_OWN_TICKS, wanted)}
            for row in connection.execute(_SHARED_TICKS, wanted):
                rows = 0 if row.state == "committed" else None
                other = TickQuery(query_id=query_id, rows=rows, **row._mapping)
                found.setdefault(other.tick_id, other)
        return tuple(found[key] for key in sorted(found, reverse=True)[:limit])

    def news_since(self, tick_id: int, query_ids: Collection[int]) -> dict[int, int]:
        """Return the number of answers that ticks after ``tick_id`` found, by the ID of the query."""
        member = ddl.tick_queries.c
        wanted = select(member.query_id, func.sum(member.rows)).where(
            member.query_id.in_(query_ids), member.tick_id > tick_id, ddl.GAINED
        )
        return {row[0]: int(row[1]) for row in self._database.rows(wanted.group_by(member.query_id))}

    def with_answers(self, query_id: int, first: int, last: int) -> tuple[int, ...] | None:
        """Return the ticks that found the answers ``first`` to ``last`` of a query, in order.

        Return None if the catalog does not have all of these ticks.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_WITH_ANSWERS, {"of_query": query_id, "first": first, "last": last}).all()
        return tuple(row.tick_id for row in rows) if rows and rows[0].reached else None

    def rows_of(self, paths: Collection[str], limit: int) -> tuple[tuple[int, str, int], ...]:
        """Return (instant of the tick, path, number of rows) of these tables at the latest ``limit`` ticks, the oldest
        first.
        """
        versions, tick = ddl.tick_versions.c, ddl.ticks.c
        latest = select(tick.tick_id).where(tick.state == "committed").order_by(tick.tick_id.desc()).limit(limit)
        wanted = (
            select(tick.t, versions.path, versions.rows)
            .join_from(ddl.tick_versions, ddl.ticks)
            .where(versions.path.in_(paths), versions.tick_id.in_(latest))
            .order_by(versions.tick_id)
        )
        return tuple((row[0], row[1], row[2]) for row in self._database.rows(wanted))

    def versions(self, tick_id: int) -> tuple[tuple[str, int, int], ...]:
        """Return (path, Delta version, number of rows) for each table that the tick recorded."""
        versions = ddl.tick_versions.c
        rows = self._database.rows(
            select(versions.path, versions.version, versions.rows)
            .where(versions.tick_id == tick_id)
            .order_by(versions.path)
        )
        return tuple((row.path, row.version, row.rows) for row in rows)


def _with_answers() -> Select[Any]:
    """Count the answers of a query from its last one backwards.

    Each tick has at least one, which bounds the number of ticks.
    The answers of later ticks count, too, because the statement sees the present number of answers.
    """
    queries, member = ddl.queries.c, ddl.tick_queries.c
    of_query, first, last = (bindparam(name, type_=queries.next_ordinal.type) for name in ("of_query", "first", "last"))
    total = select(queries.next_ordinal - 1).where(queries.query_id == of_query).scalar_subquery()
    latest = select(member.tick_id, member.rows).where(member.query_id == of_query, ddl.GAINED)
    some = latest.order_by(member.tick_id.desc()).limit(total - first + 1).subquery()
    so_far = func.sum(some.c.rows).over(order_by=some.c.tick_id.desc())
    counted = select(some.c.tick_id, some.c.rows, so_far.label("so_far")).subquery()
    wanted = and_(counted.c.so_far > total - last, counted.c.so_far - counted.c.rows <= total - first)
    reached = (counted.c.so_far > total - first).label("reached")  # by the first tick
    return select(counted.c.tick_id, reached).where(wanted).order_by(counted.c.tick_id)


_WITH_ANSWERS: Final = _with_answers()


def _check_clock(connection: Connection, t: int, at: int) -> None:
    home = read_home(connection)
    if t < home.watermark:
        raise ClockError(
            f"the home was already ticked up to {format_instant(home.watermark)}, which is later than "
            f"{format_instant(t)}",
            hint="A clock never goes back: tick at a later instant.",
        )
    if home.clock == "wall" and t > at:
        raise ClockError(
            f"{format_instant(t)} is in the future, and this home uses the wall clock",
            hint=(
                "Omit the instant. Only a home created with `weft init --clock replay` can be ticked at an "
                "instant of your choice."
            ),
        )
    reserved = earliest_reserved(connection)
    if reserved is not None and t > reserved:
        raise ClockError(
            f"a running load may add rows from {format_instant(reserved)} on, which is before {format_instant(t)}",
            hint="Wait until the load has ended, or tick at an earlier instant.",
        )


def _add_what_is_read(connection: Connection, tick_id: int) -> None:
    member, query = ddl.tick_queries.c, ddl.queries.c
    there = select(member.query_id).where(member.tick_id == tick_id)
    below = [each.query_id for each in read_below(connection, query.query_id.in_(there)) if each.state == "active"]
    if below:
        shared = select(ddl.tick_plans.c.plan_id).where(ddl.tick_plans.c.tick_id == tick_id)
        leave(connection, and_(query.query_id.in_(below), query.plan_id.not_in(shared)))
        more = select(literal(tick_id), query.query_id, query.tau).where(
            query.query_id.in_(below), query.query_id.not_in(there), OWN
        )
        connection.execute(insert(ddl.tick_queries).from_select(["tick_id", "query_id", "tau"], more))


def _own_ticks() -> Select[Any]:
    """Select the ticks of a query, the newest first."""
    member, tick = ddl.tick_queries.c, ddl.ticks.c
    t = func.coalesce(member.until, tick.t).label("t")
    return (
        select(member.tick_id, member.query_id, t, member.tau, tick.state, member.rows, member.reason)
        .join_from(ddl.tick_queries, ddl.ticks)
        .where(member.query_id == bindparam("of_query"))
        .order_by(member.tick_id.desc())
        .limit(bindparam("most", type_=Integer))
    )


def _shared_ticks() -> Select[Any]:
    """Select the ticks of the plans whose ``tau`` a query shared, the newest first."""
    query, past, member, tick = ddl.queries.c, ddl.shared_ticks.c, ddl.tick_plans.c, ddl.ticks.c
    spans = union_all(
        select(query.plan_id, query.shared_since.label("after"), literal(None, Integer).label("upto")).where(
            query.query_id == bindparam("of_query"), ~OWN
        ),
        select(past.plan_id, past.after, past.upto).where(past.query_id == bindparam("of_query")),
    ).subquery()
    return (
        select(member.tick_id, tick.t, tick.state, member.tau, member.reason)
        .join_from(ddl.tick_plans, ddl.ticks)
        .join(spans, and_(member.plan_id == spans.c.plan_id, member.tick_id > spans.c.after))
        .where(or_(spans.c.upto.is_(None), member.tick_id <= spans.c.upto))
        .order_by(member.tick_id.desc())
        .limit(bindparam("most", type_=Integer))
    )


_OWN_TICKS: Final = _own_ticks()
_SHARED_TICKS: Final = _shared_ticks()
_TICKS: Final = select(*(ddl.ticks.c[name] for name in ("tick_id", "t", "state", "planned_at", "committed_at")))
_PLANNED: Final = _TICKS.where(ddl.ticks.c.state == "planned")


def _planned(connection: Connection) -> TickRecord | None:
    row = connection.execute(_PLANNED).first()
    return None if row is None else TickRecord(**row._mapping)


def _require_planned(connection: Connection, tick_id: int) -> TickRecord:
    tick = _read_tick(connection, tick_id)
    if tick.state != "planned":
        raise CatalogError(f"the tick {tick_id} is already {tick.state}")
    return tick


def _read_tick(connection: Connection, tick_id: int) -> TickRecord:
    row = connection.execute(_TICKS.where(ddl.ticks.c.tick_id == tick_id)).first()
    if row is None:
        raise CatalogError(f"there is no tick {tick_id}")
    return TickRecord(**row._mapping)
