"""Record ticks.

Before Weft computes a tick, the catalog records the plan and the clock of the tick.  The commit records the outcome for
each query.  An interrupted tick runs again with its recorded clock and queries (design section 6).  The second run adds
the same rows, because no new row has a ``ts`` before the instant of the tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, literal, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.home_record import read_home, set_home
from weft.catalog.queries import QUERY, query_record, read_below
from weft.catalog.query_conditions import is_chosen
from weft.catalog.records import Choice, Count, QueryRecord, TickOutput, TickQuery, TickRecord
from weft.catalog.reservations import earliest_reserved
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
            query = ddl.queries.c
            chosen = select(literal(key), query.query_id, query.tau).where(is_chosen(choice))
            connection.execute(insert(ddl.tick_queries).from_select(["tick_id", "query_id", "tau"], chosen))
            _add_what_is_read(connection, key)
            home = read_home(connection)
            if home.t0 is None:
                set_home(connection, t0=t)
            return _read_tick(connection, key)

    def members(self, tick_id: int) -> tuple[tuple[QueryRecord, int | None], ...]:
        """Return (query, tau before the tick) for each query of a tick, ordered by ID.  Omit removed queries."""
        member, query = ddl.tick_queries.c, ddl.queries.c
        wanted = (
            select(*QUERY, member.tau.label("before"))
            .join_from(ddl.tick_queries, ddl.queries)
            .where(member.tick_id == tick_id, query.state != "removed")
            .order_by(member.query_id)
        )
        with self._database.reading() as connection:
            return tuple((query_record(row), row[-1]) for row in connection.execute(wanted))

    def planned(self) -> TickRecord | None:
        """Return the planned tick, or None."""
        with self._database.reading() as connection:
            return _planned(connection)

    def commit(
        self,
        tick_id: int,
        counts: Mapping[int, Count],
        versions: Iterable[tuple[str, int, int]],
        at: int,
    ) -> None:
        """Commit a planned tick in one transaction.  All outputs of the tick must be written.

        ``counts`` maps query IDs to outcomes.  A query without an outcome keeps its tau.  ``versions`` contains (path,
        Delta version, number of rows) for each table that the tick read or wrote.
        """
        with self._database.changing_under_lease() as connection:
            tick = _require_planned(connection, tick_id)
            members = ddl.tick_queries.c
            planned = set(connection.execute(select(members.query_id).where(members.tick_id == tick_id)).scalars())
            if strangers := set(counts) - planned:
                raise CatalogError(f"the tick {tick_id} was not planned for the queries {sorted(strangers)}")
            connection.execute(
                update(ddl.ticks).where(ddl.ticks.c.tick_id == tick_id).values(state="committed", committed_at=at)
            )
            _count(connection, tick, counts, planned)
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
        with self._database.reading() as connection:
            rows = connection.execute(select(outputs).where(outputs.c.tick_id == tick_id).order_by(outputs.c.name))
            return tuple(TickOutput(**row._mapping) for row in rows)

    def set_aside(self, tick_id: int, failed: Mapping[int, str]) -> None:
        """Remove failed queries from a planned tick.  Mark each query as failed and record the reason."""
        members, queries = ddl.tick_queries, ddl.queries
        with self._database.changing_under_lease() as connection:
            parameters = [{"which": query_id, "why": reason} for query_id, reason in failed.items()]
            if parameters:
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
        with self._database.reading() as connection:
            rows = connection.execute(_TICKS.order_by(ddl.ticks.c.tick_id.desc()).limit(limit))
            return tuple(TickRecord(**row._mapping) for row in rows)

    def of_query(self, query_id: int, limit: int = 20) -> tuple[TickQuery, ...]:
        """Return the outcomes of the latest ticks for one query, the newest first."""
        member, tick = ddl.tick_queries.c, ddl.ticks.c
        with self._database.reading() as connection:
            rows = connection.execute(
                select(
                    member.tick_id,
                    member.query_id,
                    func.coalesce(member.until, tick.t).label("t"),
                    member.tau,
                    tick.state,
                    member.rows,
                    member.reason,
                )
                .join_from(ddl.tick_queries, ddl.ticks)
                .where(member.query_id == query_id)
                .order_by(member.tick_id.desc())
                .limit(limit)
            )
            return tuple(TickQuery(**row._mapping) for row in rows)

    def news_since(self, tick_id: int, query_ids: Collection[int]) -> dict[int, int]:
        """Return the number of answers that ticks after ``tick_id`` found, by the ID of the query."""
        member = ddl.tick_queries.c
        wanted = select(member.query_id, func.sum(member.rows)).where(
            member.query_id.in_(query_ids), member.tick_id > tick_id, member.rows > 0
        )
        with self._database.reading() as connection:
            return {row[0]: int(row[1]) for row in connection.execute(wanted.group_by(member.query_id))}

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
        with self._database.reading() as connection:
            return tuple((row[0], row[1], row[2]) for row in connection.execute(wanted))

    def versions(self, tick_id: int) -> tuple[tuple[str, int, int], ...]:
        """Return (path, Delta version, number of rows) for each table that the tick recorded."""
        versions = ddl.tick_versions.c
        with self._database.reading() as connection:
            rows = connection.execute(
                select(versions.path, versions.version, versions.rows)
                .where(versions.tick_id == tick_id)
                .order_by(versions.path)
            )
            return tuple((row.path, row.version, row.rows) for row in rows)


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
        more = select(literal(tick_id), query.query_id, query.tau).where(
            query.query_id.in_(below), query.query_id.not_in(there)
        )
        connection.execute(insert(ddl.tick_queries).from_select(["tick_id", "query_id", "tau"], more))


def _count(connection: Connection, tick: TickRecord, counts: Mapping[int, Count], planned: set[int]) -> None:
    """The most common outcome needs only one SQL statement."""
    together = {query_id: count for query_id, count in counts.items() if count.until == tick.t}
    if together:
        _count_together(connection, tick, together, everything=together.keys() == planned)
    apart = {query_id: count for query_id, count in counts.items() if count.until != tick.t}
    if apart:
        _count_one_by_one(connection, tick, apart)
    queries = ddl.queries
    last = [{"which": key, "last": c.last_first_at} for key, c in counts.items() if c.last_first_at is not None]
    if last:
        # After a replacement of its text, a query may add answers that start before its existing answers.
        this = bindparam("last", type_=queries.c.last_first_at.type)
        greatest = case((queries.c.last_first_at > this, queries.c.last_first_at), else_=this)
        connection.execute(
            update(queries).where(queries.c.query_id == bindparam("which")).values(last_first_at=greatest), last
        )


def _count_together(connection: Connection, tick: TickRecord, counts: Mapping[int, Count], *, everything: bool) -> None:
    """Record the outcomes of queries whose windows end at the instant of the tick."""
    members, queries = ddl.tick_queries, ddl.queries
    common = Counter((c.rows, c.reason, c.next_due) for c in counts.values()).most_common(1)[0][0]
    rows, reason, due = common
    counted = members.c.tick_id == tick.tick_id
    if not everything:
        counted = and_(counted, members.c.query_id.in_(list(counts)))
    moved = {"tau": tick.t, "next_run": tick.t + queries.c.every_us, "next_due": due}
    connection.execute(update(members).where(counted).values(rows=rows, reason=reason))
    connection.execute(
        update(queries)
        .where(queries.c.query_id.in_(select(members.c.query_id).where(counted)))
        .values(**moved, next_ordinal=queries.c.next_ordinal + rows)
    )
    others = [
        {"which": key, "gained": c.rows, "more": c.rows - rows, "why": c.reason, "due": c.next_due}
        for key, c in counts.items()
        if (c.rows, c.reason, c.next_due) != common
    ]
    if others:
        connection.execute(
            update(members)
            .where(members.c.tick_id == tick.tick_id, members.c.query_id == bindparam("which"))
            .values(rows=bindparam("gained"), reason=bindparam("why")),
            others,
        )
        connection.execute(
            update(queries)
            .where(queries.c.query_id == bindparam("which"))
            .values(next_ordinal=queries.c.next_ordinal + bindparam("more"), next_due=bindparam("due")),
            others,
        )


def _count_one_by_one(connection: Connection, tick: TickRecord, counts: Mapping[int, Count]) -> None:
    """Record the outcomes of queries whose windows end before the instant of the tick."""
    members, queries = ddl.tick_queries, ddl.queries
    for query_id, count in counts.items():
        connection.execute(
            update(members)
            .where(members.c.tick_id == tick.tick_id, members.c.query_id == query_id)
            .values(rows=count.rows, reason=count.reason, until=count.until)
        )
        values: dict[str, object] = {"next_ordinal": queries.c.next_ordinal + count.rows, "next_due": count.next_due}
        if count.until is not None:
            values |= {"tau": count.until, "next_run": count.until + queries.c.every_us}
        connection.execute(update(queries).where(queries.c.query_id == query_id).values(**values))


_TICKS: Final = select(*(ddl.ticks.c[name] for name in ("tick_id", "t", "state", "planned_at", "committed_at")))


def _planned(connection: Connection) -> TickRecord | None:
    row = connection.execute(_TICKS.where(ddl.ticks.c.state == "planned")).first()
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
