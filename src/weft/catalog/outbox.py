"""Record the messages of subscriptions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, exists, func, insert, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.subscriptions import Subscription, change_subscription, fail_subscription, read_subscription
from weft.errors import CatalogError, Conflict
from weft.printable import Brief

OutboxState = Literal["pending", "sent", "failed", "unknown", "withdrawn"]
_OVER = ("sent", "withdrawn")


@dataclass(frozen=True, repr=False)
class OutboxEntry(Brief):
    """A message with the answers ``first_ordinal`` to ``last_ordinal`` of a query.

    The states are:

    - ``pending``: the sending has started, and its outcome is not known yet.
    - ``failed``: the message was not delivered, and Weft will try again.
    - ``unknown``: the message may have been delivered.  If the recipient detects duplicates, Weft tries again at once.
      Otherwise Weft waits until a person requests a retry.
    - ``sent``: the message was delivered.
    - ``withdrawn``: a person moved the subscription to another ordinal.

    ``position`` (JSON) is the start of the message in the channel, for example an offset in a file.  ``attempts``
    counts the attempts that have started.  ``reply`` is the recipient's reply to a delivered message.  ``about`` (JSON)
    is the content of the message without the answers (``delivery.channel.About``).  ``about`` is None for a sent or
    withdrawn message.
    """

    entry_id: int
    sub_id: int
    first_ordinal: int
    last_ordinal: int
    state: OutboxState
    position: str | None
    attempts: int
    last_error: str | None
    sent_at: int | None
    round: int
    reply: str | None
    about: str | None

    @property
    def rows(self) -> int:
        """The number of answers in the message."""
        return self.last_ordinal - self.first_ordinal + 1

    @property
    def idempotency_key(self) -> str:
        """The key by which a recipient detects duplicates.  All attempts to send a message use the same key."""
        again = f"-{self.round}" if self.round else ""
        return f"{self.sub_id}-{self.first_ordinal}-{self.last_ordinal}{again}"

    def _brief(self) -> str:
        return f"message {self.entry_id}, {self.state}: answers {self.first_ordinal:,} to {self.last_ordinal:,}"


@dataclass(frozen=True)
class ListedMessage:
    """A message with its channel and its query."""

    message: OutboxEntry
    channel: str
    query_id: int
    query: str


class Outbox:
    """The messages of all subscriptions.  A subscription has at most one unsent message."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unsent(self) -> tuple[OutboxEntry, ...]:
        """Return the messages that are neither sent nor withdrawn, the oldest first."""
        rows = self._database.rows(select(ddl.outbox).where(ddl.UNSENT).order_by(ddl.outbox.c.entry_id))
        return tuple(_entry(row) for row in rows)

    def latest(self, sub_ids: Collection[int] | None, limit: int) -> tuple[OutboxEntry, ...]:
        """Return the latest messages, the newest first.  If ``sub_ids`` is None, include all live subscriptions."""
        outbox, query, subscribed = ddl.outbox.c, ddl.queries.c, ddl.subscriptions.c
        wanted = select(ddl.outbox).order_by(outbox.entry_id.desc()).limit(limit)
        if sub_ids is None:
            wanted = wanted.join_from(ddl.outbox, ddl.subscriptions).join(ddl.queries)
            wanted = wanted.where(query.state != "removed", subscribed.state != "ended")
        else:
            wanted = wanted.where(outbox.sub_id.in_(list(sub_ids)))
        return tuple(_entry(row) for row in self._database.rows(wanted))

    def page(
        self,
        *,
        before: int | None,
        limit: int,
        query_id: int | None = None,
        owner: str | None = None,
        unsent: bool = False,
    ) -> tuple[ListedMessage, ...]:
        """Return at most ``limit`` messages with IDs below ``before``, the newest first.

        With ``owner``, return only messages of her queries.  With ``unsent``, omit those that are sent or withdrawn.
        """
        outbox, subscribed, query = ddl.outbox.c, ddl.subscriptions.c, ddl.queries.c
        wanted = select(ddl.outbox, subscribed.channel, query.query_id, query.name)
        wanted = wanted.join_from(ddl.outbox, ddl.subscriptions).join(ddl.queries)
        if before is not None:
            wanted = wanted.where(outbox.entry_id < before)
        if query_id is not None:
            wanted = wanted.where(subscribed.query_id == query_id)
        if owner is not None:
            wanted = wanted.where(query.user == owner)
        if unsent:
            wanted = wanted.where(ddl.UNSENT)
        rows = self._database.rows(wanted.order_by(outbox.entry_id.desc()).limit(limit))
        return tuple(ListedMessage(OutboxEntry(*row[:-3]), *row[-3:]) for row in rows)

    def with_answer(self, query_id: int, ordinal: int) -> tuple[tuple[OutboxEntry, str], ...]:
        """Return (message, channel) for each message with this answer of a query, the oldest first."""
        outbox, subscribed = ddl.outbox.c, ddl.subscriptions.c
        wanted = (
            select(ddl.outbox, subscribed.channel)
            .join_from(ddl.outbox, ddl.subscriptions)
            .where(subscribed.query_id == query_id, outbox.first_ordinal <= ordinal, outbox.last_ordinal >= ordinal)
            .order_by(outbox.entry_id)
        )
        return tuple((OutboxEntry(*row[:-1]), row[-1]) for row in self._database.rows(wanted))

    def subscriptions_with_messages(self, sub_ids: Collection[int] | None = None) -> frozenset[int]:
        """Return the IDs of those subscriptions (default: all) that have a message, including ended subscriptions."""
        subscribed = ddl.subscriptions.c.sub_id
        begun = select(subscribed).where(exists().where(ddl.outbox.c.sub_id == subscribed))
        if sub_ids is not None:
            begun = begun.where(subscribed.in_(sub_ids))
        with self._database.reading() as connection:
            return frozenset(connection.execute(begun).scalars())

    def sent_ends(self, sub_id: int) -> tuple[OutboxEntry, ...]:
        """Return the first and the latest sent message of a subscription, without duplicates."""
        ends = select(func.min(ddl.outbox.c.entry_id), func.max(ddl.outbox.c.entry_id)).where(
            ddl.outbox.c.sub_id == sub_id, ddl.outbox.c.state == "sent"
        )
        with self._database.reading() as connection:
            keys = {key for key in connection.execute(ends).one() if key is not None}
            return tuple(_read_entry(connection, key) for key in sorted(keys))

    def open(self, subscription: Subscription, last: int, position: str | None, about: str) -> OutboxEntry:
        """Record a message with all answers up to ``last`` before an attempt to send the message.

        ``position`` is the start of the message in the channel.  A failed message keeps its ID, answers and content.
        ``about`` applies only to a new message.  Raise Conflict if the subscription has changed since the caller read
        it.  Raise CatalogError if another message is pending.
        """
        first = subscription.delivered + 1
        with self._database.changing_under_lease("deliver") as connection:
            current = read_subscription(connection, subscription.sub_id)
            if not current.is_served or (current.delivered, current.round) != (
                subscription.delivered,
                subscription.round,
            ):
                raise Conflict(f"another process changed the subscription to {current.channel} in the meantime")
            outbox = ddl.outbox.c
            row = connection.execute(select(ddl.outbox).where(outbox.sub_id == current.sub_id, ddl.UNSENT)).first()
            if row is None:
                range_ = {"first_ordinal": first, "last_ordinal": last, "round": current.round}
                values: dict[str, Any] = {"sub_id": current.sub_id, **range_}
                values |= {"position": position, "about": about}
                new_entry = insert(ddl.outbox).values(state="pending", attempts=1, **values)
                return _read_entry(connection, inserted_id(connection, new_entry))
            if (row.first_ordinal, row.last_ordinal) != (first, last):
                raise CatalogError(
                    f"the message with the answers {row.first_ordinal} to {row.last_ordinal} is still being delivered"
                )
            values = {"position": position, "attempts": row.attempts + 1}
            _change_entry(connection, row.entry_id, state="pending", **values)
            return _read_entry(connection, row.entry_id)

    def mark_sent(self, entry_id: int, at: int, reply: str | None = None, digest_at: int | None = None) -> None:
        """Record that a message was sent, and advance the subscription.  ``digest_at`` is the next digest's time."""
        with self._database.changing_under_lease("deliver") as connection:
            entry = _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state="sent", sent_at=at, last_error=None, reply=reply, about=None)
            values: dict[str, Any] = {"attempts": 0, "next_attempt_at": None, "last_error": None}
            if digest_at is not None:
                values["digest_at"] = digest_at
            change_subscription(connection, entry.sub_id, delivered=entry.last_ordinal, **values)

    def mark_failed(self, entry_id: int, error: str, next_attempt_at: int | None) -> Subscription:
        """Record that a message was not delivered.  Without ``next_attempt_at``, park the subscription."""
        with self._database.changing_under_lease("deliver") as connection:
            entry = _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state="failed", last_error=error)
            return fail_subscription(connection, entry.sub_id, error, next_attempt_at)

    def settle(self, entry_id: int, state: Literal["failed", "unknown"], why: str) -> None:
        """Record the outcome of a ``pending`` message and delete its position.

        A later message may use the same position, so the channel may remove the partial output only once.
        """
        with self._database.changing_under_lease("deliver") as connection:
            _unsent(connection, entry_id)
            _change_entry(connection, entry_id, state=state, position=None, last_error=why)


def _change_entry(connection: Connection, entry_id: int, **values: Any) -> None:
    connection.execute(update(ddl.outbox).where(ddl.outbox.c.entry_id == entry_id).values(**values))


def _read_entry(connection: Connection, entry_id: int) -> OutboxEntry:
    row = connection.execute(select(ddl.outbox).where(ddl.outbox.c.entry_id == entry_id)).first()
    if row is None:
        raise CatalogError(f"there is no message {entry_id} in the outbox")
    return _entry(row)


def _unsent(connection: Connection, entry_id: int) -> OutboxEntry:
    entry = _read_entry(connection, entry_id)
    if entry.state in _OVER:
        raise CatalogError(f"the message {entry_id} was already {entry.state}")
    return entry


def _entry(row: Row[Any]) -> OutboxEntry:
    return OutboxEntry(**row._mapping)
