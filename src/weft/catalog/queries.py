"""Standing queries and the plans that they share (design section 5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, update

from weft.algebra.schema import DataType
from weft.catalog import schema
from weft.catalog.database import Database, inserted_id
from weft.catalog.naming import folded, not_found, query_name
from weft.catalog.records import PlanRecord, QueryDefinition, QueryRecord, QueryState
from weft.catalog.reservations import go_forward
from weft.catalog.tables import record_version
from weft.errors import ClockError, Conflict, NotFound

PURGING: Final = "purging"
"""A removed query's reason while its answers are being taken out of the ledger."""


class Queries:
    """What is installed; a query's id is never used again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def install(self, query: QueryDefinition, at: int) -> QueryRecord:
        """Installs a query with its subscriptions, under the plan of its signature (made where there is none).

        With ``from_instant`` no later row gets a ts before it: what enters the answer from then on is all seen.  Raises
        Conflict where a live query has the name or writes to the same file, ClockError as ``go_forward``.
        """
        with self._database.changing_under_lease() as connection:
            if query.from_instant is not None:
                go_forward(connection, query.from_instant)
            _refuse_taken(connection, query_name(query.name), query.channels)
            key = inserted_id(
                connection,
                insert(schema.queries).values(
                    name=query.name,
                    folded=folded(query.name),
                    user=query.user,
                    sql=query.sql,
                    plan_id=_plan_of(connection, query.signature, query.plan_body),
                    parameters=json.dumps([list(each) for each in query.parameters]),
                    columns=json.dumps([[column, str(type_)] for column, type_ in query.columns]),
                    names=json.dumps(query.names),
                    every_us=query.every_us,
                    from_mode="start" if query.from_instant is None else "now",
                    from_instant=query.from_instant,
                    next_ordinal=1,
                    state="active",
                    installed_at=at,
                ),
            )
            _subscribe(connection, key, query.channels)
            return read_query(connection, key)

    def all(self, include_removed: bool = False) -> tuple[QueryRecord, ...]:
        """The installed queries in the order of their ids."""
        wanted = select(schema.queries).order_by(schema.queries.c.query_id)
        if not include_removed:
            wanted = wanted.where(schema.queries.c.state != "removed")
        with self._database.reading() as connection:
            return tuple(_record(row) for row in connection.execute(wanted))

    def named(self, name: str) -> QueryRecord:
        """The live query of that name in any case; raises NotFound with the nearest name."""
        with self._database.reading() as connection:
            return _named(connection, name)

    def by_id(self, query_id: int) -> QueryRecord:
        """The query with that id, removed ones too; raises NotFound."""
        with self._database.reading() as connection:
            return read_query(connection, query_id)

    def plan(self, plan_id: int) -> PlanRecord:
        """The plan with that id; raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.plans).where(schema.plans.c.plan_id == plan_id)).first()
        if row is None:
            raise NotFound(f"there is no plan {plan_id}")
        return PlanRecord(row.plan_id, row.signature, row.body)

    def plans(self) -> tuple[PlanRecord, ...]:
        """The plans that a live query has, in the order of their ids."""
        live = select(schema.queries.c.plan_id).where(schema.queries.c.state != "removed")
        with self._database.reading() as connection:
            rows = connection.execute(
                select(schema.plans).where(schema.plans.c.plan_id.in_(live)).order_by(schema.plans.c.plan_id)
            )
            return tuple(PlanRecord(row.plan_id, row.signature, row.body) for row in rows)

    def set_state(self, name: str, state: QueryState, reason: str | None = None) -> QueryRecord:
        """Pauses, resumes or fails a live query; ``reason`` is kept with it (None clears it)."""
        with self._database.changing_under_lease() as connection:
            query = _named(connection, name)
            return _change(connection, query.query_id, state=state, reason=reason)

    def remove(self, name: str, at: int, *, purge: bool = False) -> QueryRecord:
        """Removes a live query: its name is free again, its answers stay until they are purged.

        With ``purge`` they are marked to go: ``purging`` names it until ``purged`` is told.
        """
        with self._database.changing_under_lease() as connection:
            query = _named(connection, name)
            reason = PURGING if purge else None
            return _change(connection, query.query_id, state="removed", removed_at=at, reason=reason)

    def purging(self) -> tuple[QueryRecord, ...]:
        """The removed queries whose answers are to go from the ledger, and may be half gone."""
        return tuple(q for q in self.all(include_removed=True) if q.state == "removed" and q.reason == PURGING)

    def purged(self, query_ids: Iterable[int], stored: tuple[str, int, int] | None) -> None:
        """Notes that the queries' answers are gone, and (path, version, rows) of the ledger without them."""
        with self._database.changing_under_lease() as connection:
            for query_id in query_ids:
                _change(connection, query_id, reason="its answers were purged")
            if stored is not None:
                record_version(connection, *stored)

    def skip_to(self, name: str, instant: int) -> QueryRecord:
        """Lets the query go on from ``instant``: answers that appeared before are never given.

        No later row gets a ts before it.  Raises ClockError for an instant before the query's tau, and as
        ``go_forward``.
        """
        with self._database.changing_under_lease() as connection:
            query = _named(connection, name)
            go_forward(connection, instant)
            if query.tau is not None and instant < query.tau:
                raise ClockError(f"{query.name} was ticked up to {query.tau}: it cannot go back to {instant}")
            return _change(connection, query.query_id, tau=instant, next_due=None)


def read_query(connection: Connection, query_id: int) -> QueryRecord:
    """The query with that id as this transaction sees it; raises NotFound."""
    row = connection.execute(select(schema.queries).where(schema.queries.c.query_id == query_id)).first()
    if row is None:
        raise NotFound(f"there is no query #{query_id}")
    return _record(row)


def _change(connection: Connection, query_id: int, **values: Any) -> QueryRecord:
    connection.execute(update(schema.queries).where(schema.queries.c.query_id == query_id).values(**values))
    return read_query(connection, query_id)


def _named(connection: Connection, name: str) -> QueryRecord:
    kept = schema.queries.c
    row = connection.execute(select(schema.queries).where(kept.folded == folded(name), kept.state != "removed")).first()
    if row is None:
        names = connection.execute(select(kept.name).where(kept.state != "removed")).scalars()
        raise not_found("query", name, names)
    return _record(row)


def _refuse_taken(connection: Connection, name: str, channels: Sequence[str]) -> None:
    kept = schema.queries.c
    live = kept.state != "removed"
    if connection.execute(select(kept.query_id).where(kept.folded == folded(name), live)).first() is not None:
        raise Conflict(f"there is a query {name!r} already", hint="Choose another name, or remove that one.")
    subscribed = schema.subscriptions.c
    files = [channel for channel in channels if channel.startswith("file:")]
    owner = connection.execute(
        select(kept.name, subscribed.channel)
        .join_from(schema.subscriptions, schema.queries)
        .where(subscribed.channel.in_(files), live)
    ).first()
    if owner is not None:
        # A file is cut back to where a message began when its delivery died: it must be one query's alone.
        raise Conflict(f"{owner.channel} is where {owner.name!r} writes", hint="Give each query a file of its own.")


def _subscribe(connection: Connection, query_id: int, channels: Sequence[str]) -> None:
    for channel in dict.fromkeys(channels):
        connection.execute(
            insert(schema.subscriptions).values(
                query_id=query_id, channel=channel, delivered=0, state="active", attempts=0
            )
        )


def _plan_of(connection: Connection, signature: str, body: str) -> int:
    found = connection.execute(
        select(schema.plans.c.plan_id).where(schema.plans.c.signature == signature)
    ).scalar_one_or_none()
    if found is not None:
        return int(found)
    return inserted_id(connection, insert(schema.plans).values(signature=signature, body=body))


def _record(row: Row[Any]) -> QueryRecord:
    return QueryRecord(
        query_id=row.query_id,
        name=row.name,
        user=row.user,
        sql=row.sql,
        plan_id=row.plan_id,
        parameters=tuple((type_, value) for type_, value in json.loads(row.parameters)),
        columns=tuple((name, DataType.parse(type_)) for name, type_ in json.loads(row.columns)),
        names=tuple(json.loads(row.names)),
        every_us=row.every_us,
        from_mode=row.from_mode,
        from_instant=row.from_instant,
        tau=row.tau,
        next_ordinal=row.next_ordinal,
        state=row.state,
        reason=row.reason,
        installed_at=row.installed_at,
        next_due=row.next_due,
    )
