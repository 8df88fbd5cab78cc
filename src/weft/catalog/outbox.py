"""Subscriptions and the outbox: how far each channel has come, and the one message that is under way."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import Connection, Row, func, insert, or_, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.queries import QUERY, query_record
from weft.catalog.records import OutboxEntry, QueryRecord, Subscription
from weft.errors import CatalogError, Conflict, NotFound


class Subscriptions:
    """What goes where, and how far each has come."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, query_id: int, channel: str, delivered: int = 0) -> Subscription:
        """Adds a channel to a query, from the answer after ``delivered`` on; raises Conflict where it has it."""
        with self._database.changing_under_lease() as connection:
            same = connection.execute(
                select(ddl.subscriptions.c.sub_id).where(
                    ddl.subscriptions.c.query_id == query_id, ddl.subscriptions.c.channel == channel
                )
            ).first()
            if same is not None:
                raise Conflict(f"the query goes to {channel} already")
            key = inserted_id(
                connection,
                insert(ddl.subscriptions).values(
                    query_id=query_id, channel=channel, delivered=delivered, state="active", attempts=0
                ),
            )
            return _read(connection, key)

    def all(self, query_id: int | None = None) -> tuple[Subscription, ...]:
        """The subscriptions of one query, or of all, in the order of their ids; those of removed queries too."""
        wanted = select(ddl.subscriptions).order_by(ddl.subscriptions.c.sub_id)
        if query_id is not None:
            wanted = wanted.where(ddl.subscriptions.c.query_id == query_id)
        with self._database.reading() as connection:
            return tuple(_subscription(row) for row in connection.execute(wanted))

    def waiting(self, at: int) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Those of live queries that have answers to take and may be tried at ``at``, in the order of their ids."""
        kept, query = ddl.subscriptions.c, ddl.queries.c
        wanted = (
            select(*QUERY, ddl.subscriptions.c.sub_id)
            .join_from(ddl.subscriptions, ddl.queries)
            .where(
                kept.state == "active",
                query.state != "removed",
                kept.delivered < query.next_ordinal - 1,
                or_(kept.next_attempt_at.is_(None), kept.next_attempt_at <= at),
            )
        )
        subscribed = select(ddl.subscriptions).where(kept.sub_id.in_(wanted.with_only_columns(kept.sub_id)))
        with self._database.reading() as connection:
            queries = {row[-1]: query_record(row) for row in connection.execute(wanted)}
            found = connection.execute(subscribed.order_by(kept.sub_id)).all() if queries else ()
            return tuple((_subscription(row), queries[row.sub_id]) for row in found)

    def by_id(self, sub_id: int) -> Subscription:
        """The subscription with that id; raises NotFound."""
        with self._database.reading() as connection:
            return _read(connection, sub_id)

    def note_failure(self, sub_id: int, error: str, next_attempt_at: int | None) -> Subscription:
        """As mark_failed, for a channel that failed with no message begun, or with its outcome still unknown."""
        with self._database.changing_under_lease("deliver") as connection:
            return _fail(connection, sub_id, error, next_attempt_at)

    def resume(self, sub_id: int) -> Subscription:
        """Lets a parked subscription be tried again at once, a message whose outcome is unknown too."""
        with self._database.changing_under_lease() as connection:
            _change(connection, sub_id, state="active", attempts=0, next_attempt_at=None, last_error=None)
            return _read(connection, sub_id)


class Outbox:
    """The messages that are under way: each subscription has at most one that is not sent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unsent(self) -> tuple[OutboxEntry, ...]:
        """The messages that were begun and are not known to be sent, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                select(ddl.outbox).where(ddl.outbox.c.state != "sent").order_by(ddl.outbox.c.entry_id)
            )
            return tuple(_entry(row) for row in rows)

    def of_subscription(self, sub_id: int, limit: int = 20) -> tuple[OutboxEntry, ...]:
        """The latest messages of a subscription, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                select(ddl.outbox)
                .where(ddl.outbox.c.sub_id == sub_id)
                .order_by(ddl.outbox.c.entry_id.desc())
                .limit(limit)
            )
            return tuple(_entry(row) for row in rows)

    def sent_ends(self, sub_id: int) -> tuple[OutboxEntry, ...]:
        """The first and the latest message of a subscription that were sent; one, or none, where there are no more."""
        ends = select(func.min(ddl.outbox.c.entry_id), func.max(ddl.outbox.c.entry_id)).where(
            ddl.outbox.c.sub_id == sub_id, ddl.outbox.c.state == "sent"
        )
        with self._database.reading() as connection:
            keys = {key for key in connection.execute(ends).one() if key is not None}
            return tuple(_read_entry(connection, key) for key in sorted(keys))

    def open(self, sub_id: int, first: int, last: int, position: str | None) -> OutboxEntry:
        """Logs, before it is tried, that the answers ``first`` to ``last`` are being sent from ``position`` on.

        A message that failed before is opened again under its own id: its range must be the same.  Raises
        CatalogError where the range does not follow what was delivered, or another message is under way.
        """
        with self._database.changing_under_lease("deliver") as connection:
            subscription = _read(connection, sub_id)
            if not subscription.delivered + 1 == first <= last:
                raise CatalogError(f"{first} to {last} does not follow the delivered {subscription.delivered}")
            kept = ddl.outbox.c
            row = connection.execute(select(ddl.outbox).where(kept.sub_id == sub_id, kept.state != "sent")).first()
            if row is None:
                key = inserted_id(
                    connection,
                    insert(ddl.outbox).values(
                        sub_id=sub_id,
                        first_ordinal=first,
                        last_ordinal=last,
                        state="pending",
                        position=position,
                        attempts=0,
                    ),
                )
                return _read_entry(connection, key)
            if (row.first_ordinal, row.last_ordinal) != (first, last):
                raise CatalogError(f"the message {row.first_ordinal} to {row.last_ordinal} is still under way")
            _change_entry(connection, row.entry_id, state="pending", position=position)
            return _read_entry(connection, row.entry_id)

    def mark_sent(self, entry_id: int, at: int) -> None:
        """Notes that a message has gone, and moves its subscription on, in one transaction."""
        with self._database.changing_under_lease("deliver") as connection:
            entry = _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state="sent", sent_at=at, last_error=None)
            _change(
                connection,
                entry.sub_id,
                delivered=entry.last_ordinal,
                attempts=0,
                next_attempt_at=None,
                last_error=None,
            )

    def mark_failed(self, entry_id: int, error: str, next_attempt_at: int | None) -> Subscription:
        """Notes that a message is known not to have gone, and when to try it again.

        Where ``next_attempt_at`` is None the subscription is parked until it is resumed.
        """
        with self._database.changing_under_lease("deliver") as connection:
            entry = _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state="failed", attempts=entry.attempts + 1, last_error=error)
            return _fail(connection, entry.sub_id, error, next_attempt_at)

    def settle(self, entry_id: int, state: Literal["failed", "unknown"]) -> None:
        """Says what became of a message that was ``pending``, and forgets its position.

        A channel undoes what a message left behind once only: later its place may be another's.
        """
        with self._database.changing_under_lease("deliver") as connection:
            _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state=state, position=None)


def _fail(connection: Connection, sub_id: int, error: str, next_attempt_at: int | None) -> Subscription:
    attempts = _read(connection, sub_id).attempts + 1
    state = "parked" if next_attempt_at is None else "active"
    _change(connection, sub_id, attempts=attempts, next_attempt_at=next_attempt_at, last_error=error, state=state)
    return _read(connection, sub_id)


def _change(connection: Connection, sub_id: int, **values: Any) -> None:
    connection.execute(update(ddl.subscriptions).where(ddl.subscriptions.c.sub_id == sub_id).values(**values))


def _change_entry(connection: Connection, entry_id: int, **values: Any) -> None:
    connection.execute(update(ddl.outbox).where(ddl.outbox.c.entry_id == entry_id).values(**values))


def _read(connection: Connection, sub_id: int) -> Subscription:
    row = connection.execute(select(ddl.subscriptions).where(ddl.subscriptions.c.sub_id == sub_id)).first()
    if row is None:
        raise NotFound(f"there is no subscription {sub_id}")
    return _subscription(row)


def _read_entry(connection: Connection, entry_id: int) -> OutboxEntry:
    row = connection.execute(select(ddl.outbox).where(ddl.outbox.c.entry_id == entry_id)).first()
    if row is None:
        raise CatalogError(f"there is no message {entry_id} in the outbox")
    return _entry(row)


def _unsent(connection: Connection, entry_id: int) -> OutboxEntry:
    entry = _read_entry(connection, entry_id)
    if entry.state == "sent":
        raise CatalogError(f"the message {entry_id} was sent already")
    return entry


def _subscription(row: Row[Any]) -> Subscription:
    return Subscription(**row._mapping)


def _entry(row: Row[Any]) -> OutboxEntry:
    return OutboxEntry(**row._mapping)
