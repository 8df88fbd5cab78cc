"""Store subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, case, false, func, insert, or_, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id, record_of
from weft.catalog.queries import OF_ONE_QUERY, QUERY, query_record, refuse_taken_files
from weft.catalog.records import QueryRecord
from weft.errors import Conflict, NotFound
from weft.printable import Brief

SubscriptionState = Literal["active", "parked", "ended"]


@dataclass(frozen=True, repr=False)
class Subscription(Brief):
    """The delivery of a query's answers to one channel.

    ``delivered`` is the ordinal of the last delivered answer (0: none).  ``attempts`` is the number of consecutive
    failures.  ``next_attempt_at`` is the time of the next attempt (None: at once).  A ``parked`` subscription has
    failed too often and waits for a person.  An ``ended`` subscription sends no new messages.  A ``muted`` subscription
    sends nothing until a user unmutes it.  ``round`` increases each time that Weft must send answers again.

    ``digest`` is the schedule for ``delivery.digest`` (None: Weft sends answers at once).  ``zone`` is the time zone of
    the schedule (None: the zone in the person's settings).  ``digest_at`` is the due time of the next digest in
    microseconds (None: unknown).
    """

    sub_id: int
    query_id: int
    channel: str
    delivered: int
    state: SubscriptionState
    attempts: int
    next_attempt_at: int | None
    last_error: str | None
    muted: bool
    round: int
    digest: str | None = None
    zone: str | None = None
    digest_at: int | None = None

    @property
    def is_served(self) -> bool:
        """Whether Weft sends new answers to the channel, at once or after a pause."""
        return self.state == "active" and not self.muted

    @property
    def trouble(self) -> str | None:
        """One line with the reason why Weft does not send new answers at once, or None."""
        if self.last_error is None:
            return "muted" if self.muted else None
        why = self.last_error.splitlines()[0]
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"parked: {why}" if self.state == "parked" else f"failed {times}: {why}"

    def _brief(self) -> str:
        trouble = "" if self.trouble is None else f", {self.trouble}"
        return f"{self.channel}, {self.state}{trouble}: answers up to {self.delivered:,} delivered"


class Subscriptions:
    """The subscriptions of a home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, query_id: int, channel: str, delivered: int = 0, *, digest: str | None = None, zone: str | None = None
    ) -> Subscription:
        """Subscribe a channel to a query.  The delivery starts with the answer after ``delivered``.

        Raise Conflict if the query already has the channel, or if another query writes to the same file.  Also raise
        Conflict if an earlier subscription of the query to this channel has a pending message.
        """
        return self.add_all(query_id, [channel], delivered, digest=digest, zone=zone)[0]

    def add_all(
        self,
        query_id: int,
        channels: Sequence[str],
        delivered: int = 0,
        *,
        digest: str | None = None,
        zone: str | None = None,
    ) -> tuple[Subscription, ...]:
        """Subscribe several channels to a query in one transaction, as ``add`` does."""
        times = {"digest": digest, "zone": zone, "digest_at": None}
        with self._database.changing_under_lease() as connection:
            return tuple(_added(connection, query_id, each, delivered, times) for each in channels)

    def end(self, sub_id: int) -> Subscription:
        """End the subscription.  Weft still delivers a pending message."""
        return self._changed(sub_id, state="ended", muted=0, next_attempt_at=None, last_error=None)

    def end_by_link(self, sub_id: int) -> Subscription:
        """End the subscription without a lease, because its receiver does not wait for other writers."""
        with self._database.changing() as connection:
            change_subscription(connection, sub_id, state="ended", muted=0, next_attempt_at=None, last_error=None)
            return read_subscription(connection, sub_id)

    def set_muted(self, sub_id: int, muted: bool) -> Subscription:
        """Mute or unmute the subscription.  An unmuted subscription continues after the last delivered answer."""
        return self._changed(sub_id, muted=int(muted))

    def set_digest(self, sub_id: int, digest: str | None, zone: str | None) -> Subscription:
        """Change the schedule of a subscription.  Undelivered answers wait for the new schedule."""
        return self._changed(sub_id, digest=digest, zone=zone, digest_at=None)

    def resume(self, sub_id: int) -> Subscription:
        """Allow an immediate new attempt for a parked subscription, even if the outcome of a message is unknown."""
        return self._changed(sub_id, state="active", attempts=0, next_attempt_at=None, last_error=None)

    def _changed(self, sub_id: int, **values: Any) -> Subscription:
        with self._database.changing_under_lease() as connection:
            change_subscription(connection, sub_id, **values)
            return read_subscription(connection, sub_id)

    def go_to(self, sub_id: int, delivered: int) -> Subscription:
        """Continue after the answer ``delivered``, and unmute.  Raise Conflict if a message is pending."""
        with self._database.changing_under_lease("deliver") as connection:
            return _restarted(connection, sub_id, delivered)

    def all(self, query_id: int | None = None) -> tuple[Subscription, ...]:
        """Return the subscriptions of one or all queries, including removed queries, ordered by ID."""
        subscriptions = ddl.subscriptions.c
        wanted = select(ddl.subscriptions).where(subscriptions.state != "ended").order_by(subscriptions.sub_id)
        if query_id is not None:
            wanted = wanted.where(subscriptions.query_id == query_id)
        return tuple(_subscription(row) for row in self._database.rows(wanted))

    def of_live_queries(
        self, query_id: int | None = None, *, owner: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for one or all installed queries, ordered by subscription ID.

        With ``owner``, return only those of her queries.  Return at most ``limit`` with IDs above ``after``.
        """
        conditions = [ddl.subscriptions.c.sub_id > after]
        conditions += [] if query_id is None else [ddl.subscriptions.c.query_id == query_id]
        conditions += [] if owner is None else [ddl.queries.c.user == owner]
        return self._with_queries(*conditions, limit=limit)

    def parked(self, limit: int) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for at most ``limit`` parked subscriptions, ordered by ID."""
        return self._with_queries(ddl.UNWELL, ddl.subscriptions.c.state == "parked", limit=limit)

    def troubles(self) -> tuple[int, int, int]:
        """Return the numbers of subscriptions of live queries that wait for a new attempt, are parked, or are muted."""
        subscribed = ddl.subscriptions.c
        failed = and_(subscribed.attempts > 0, subscribed.state == "active", subscribed.muted == 0)
        each = (failed, subscribed.state == "parked", subscribed.muted == 1)
        wanted = (
            select(*(func.coalesce(func.sum(case((kind, 1), else_=0)), 0) for kind in each))
            .join_from(ddl.subscriptions, ddl.queries)
            .where(*_LIVE, ddl.UNWELL)
        )
        with self._database.reading() as connection:
            failed_count, parked, muted = connection.execute(wanted).one()
            return int(failed_count), int(parked), int(muted)

    def to_channel(self, channel: str) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for each installed query with this channel (its canonical name)."""
        return self._with_queries(ddl.subscriptions.c.channel == channel)

    def waiting(self, at: int, now: int | None) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for each subscription that can send answers now, ordered by subscription ID.

        A pause is over if its end is not after the wall-clock time ``at``.  A digest is due if its due time is not
        after ``now``, the time of the home's clock (None: no time yet).  Both times are in microseconds UTC.
        """
        return self._with_queries(*_waiting(at, now))

    def count_waiting(self, at: int, now: int | None) -> int:
        """Return the number of subscriptions that ``waiting`` returns."""
        wanted = select(func.count()).select_from(ddl.subscriptions).join(ddl.queries)
        return int(self._database.value(wanted.where(*_LIVE, *_waiting(at, now))))

    def troubled(
        self, after: int, limit: int, owner: str | None = None
    ) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for at most ``limit`` subscriptions that failed last, with IDs above
        ``after``.  With ``owner``, return only those of her queries.
        """
        subscriptions = ddl.subscriptions.c
        failed = select(subscriptions.sub_id).where(
            ddl.UNWELL, subscriptions.last_error.is_not(None), subscriptions.sub_id > after
        )
        if owner is not None:
            failed = failed.where(
                subscriptions.query_id.in_(select(ddl.queries.c.query_id).where(ddl.queries.c.user == owner, ddl.LIVE))
            )
        some = failed.order_by(subscriptions.sub_id).limit(limit)
        return self._with_queries(subscriptions.sub_id.in_(some))

    def digests_due(self, now: int) -> tuple[tuple[Subscription, QueryRecord], ...]:
        """Return (subscription, query) for each due digest of a live query.

        A digest is due if its due time is unknown, or not after ``now``.  ``now`` is the time of the home's clock.
        """
        subscriptions = ddl.subscriptions.c
        return self._with_queries(
            subscriptions.digest.is_not(None),
            or_(subscriptions.digest_at.is_(None), subscriptions.digest_at <= now),
            subscriptions.state == "active",
        )

    def next_due(self, at: int) -> int | None:
        """Return the first instant after ``at`` at which a digest or a new attempt is due."""
        subscriptions = ddl.subscriptions.c
        later = (case((when > at, when)) for when in (subscriptions.digest_at, subscriptions.next_attempt_at))
        wanted = select(*(func.min(each) for each in later)).join_from(ddl.subscriptions, ddl.queries)
        wanted = wanted.where(subscriptions.state == "active", ddl.queries.c.state != "removed")
        with self._database.reading() as connection:
            return min((each for each in connection.execute(wanted).one() if each is not None), default=None)

    def _with_queries(
        self, *conditions: ColumnElement[bool], limit: int | None = None
    ) -> tuple[tuple[Subscription, QueryRecord], ...]:
        subscriptions = ddl.subscriptions.c
        wanted = (
            select(*QUERY, subscriptions.sub_id).join_from(ddl.subscriptions, ddl.queries).where(*_LIVE, *conditions)
        )
        if limit is not None:
            wanted = wanted.order_by(subscriptions.sub_id).limit(limit)
        subscribed = select(ddl.subscriptions).where(
            subscriptions.sub_id.in_(wanted.with_only_columns(subscriptions.sub_id))
        )
        with self._database.reading() as connection:
            queries = {row[-1]: query_record(row) for row in connection.execute(wanted)}
            rows = connection.execute(subscribed.order_by(subscriptions.sub_id)).all() if queries else ()
            return tuple((_subscription(row), queries[row.sub_id]) for row in rows)

    def by_id(self, sub_id: int) -> Subscription:
        """Return the subscription with this ID.  Raise NotFound for an unknown ID."""
        return self._database.read(read_subscription, sub_id)

    def counts(self) -> dict[int, tuple[int, int]]:
        """Return (number of channels, number of parked channels) by query ID."""
        subscriptions = ddl.subscriptions.c
        wanted = select(subscriptions.query_id, subscriptions.state, func.count()).where(subscriptions.state != "ended")
        counts: dict[int, tuple[int, int]] = {}
        for query_id, state, count in self._database.rows(wanted.group_by(subscriptions.query_id, subscriptions.state)):
            every, parked = counts.get(query_id, (0, 0))
            counts[query_id] = (every + count, parked + count * (state == "parked"))
        return counts

    def set_digest_at(self, sub_id: int, digest_at: int) -> None:
        """Record the due time of the next digest."""
        with self._database.changing_under_lease("deliver") as connection:
            change_subscription(connection, sub_id, digest_at=digest_at)

    def note_failure(self, sub_id: int, error: str, next_attempt_at: int | None) -> Subscription:
        """Record a failure that occurred before a message was recorded."""
        with self._database.changing_under_lease("deliver") as connection:
            return fail_subscription(connection, sub_id, error, next_attempt_at)


_LIVE: Final = (ddl.LIVE, ddl.subscriptions.c.state != "ended")


def _waiting(at: int, now: int | None) -> tuple[ColumnElement[bool], ...]:
    subscriptions = ddl.subscriptions.c
    return (
        ddl.BEHIND,
        subscriptions.state == "active",
        subscriptions.muted == 0,
        or_(ddl.queries.c.state != "paused", ddl.queries.c.reason.is_(None)),  # its owner has all rights
        or_(subscriptions.next_attempt_at.is_(None), subscriptions.next_attempt_at <= at),
        or_(subscriptions.digest.is_(None), false() if now is None else subscriptions.digest_at <= now),
    )


def fail_subscription(connection: Connection, sub_id: int, error: str, next_attempt_at: int | None) -> Subscription:
    """Count a failure and record the time of the next attempt.  If the time is None, park the subscription."""
    subscription = read_subscription(connection, sub_id)
    if subscription.state == "ended":
        return subscription
    state = "parked" if next_attempt_at is None else "active"
    values = {"next_attempt_at": next_attempt_at, "last_error": error, "state": state}
    change_subscription(connection, sub_id, attempts=subscription.attempts + 1, **values)
    return read_subscription(connection, sub_id)


def change_subscription(connection: Connection, sub_id: int, **values: Any) -> None:
    """Update columns of a subscription."""
    which = ddl.subscriptions.c.sub_id == sub_id
    connection.execute(update(ddl.subscriptions).where(which).values(**values))
    if values.keys() & {"delivered", "state"}:
        mark_behind(connection, which)


def mark_behind(connection: Connection, which: ColumnElement[bool]) -> None:
    """Record which of these subscriptions are behind: they have not ended, and a live query has further answers."""
    subscriptions, queries = ddl.subscriptions.c, ddl.queries.c
    last = select(queries.next_ordinal - 1).where(queries.query_id == subscriptions.query_id, ddl.LIVE)
    further = and_(subscriptions.state != "ended", subscriptions.delivered < last.scalar_subquery())
    behind = case((further, 1), else_=0)
    connection.execute(update(ddl.subscriptions).where(which).values(behind=behind))


def read_subscription(connection: Connection, sub_id: int) -> Subscription:
    """Return the subscription in the caller's transaction.  Raise NotFound for an unknown ID."""
    row = connection.execute(select(ddl.subscriptions).where(ddl.subscriptions.c.sub_id == sub_id)).first()
    if row is None:
        raise NotFound(f"there is no subscription {sub_id}")
    return _subscription(row)


def _added(
    connection: Connection, query_id: int, channel: str, delivered: int, times: Mapping[str, str | None]
) -> Subscription:
    subscriptions = ddl.subscriptions.c
    same = connection.execute(
        select(subscriptions.sub_id, subscriptions.state).where(
            subscriptions.query_id == query_id, subscriptions.channel == channel
        )
    ).first()
    if same is not None and same.state != "ended":
        raise Conflict(
            f"{channel} is already a channel of the query", hint="See which answers were delivered: `weft deliveries`."
        )
    if channel.startswith(OF_ONE_QUERY):
        refuse_taken_files(connection, [channel])
    if same is not None:
        change_subscription(connection, same.sub_id, **times)
        return _restarted(connection, same.sub_id, delivered)
    values = {"query_id": query_id, "channel": channel, "delivered": delivered, **times}
    key = inserted_id(connection, insert(ddl.subscriptions).values(state="active", attempts=0, **values))
    mark_behind(connection, ddl.subscriptions.c.sub_id == key)
    return read_subscription(connection, key)


def _restarted(connection: Connection, sub_id: int, delivered: int) -> Subscription:
    outbox, subscription = ddl.outbox.c, read_subscription(connection, sub_id)
    of_this = outbox.sub_id == sub_id
    if connection.execute(select(outbox.entry_id).where(of_this, outbox.state == "pending")).first() is not None:
        raise Conflict(
            f"a message to {subscription.channel} is still being delivered",
            hint="Try again after the delivery; `weft tick` completes it.",
        )
    unsent = update(ddl.outbox).where(of_this, outbox.state.in_(("failed", "unknown")))
    connection.execute(unsent.values(state="withdrawn", about=None))
    values = {"state": "active", "attempts": 0, "next_attempt_at": None, "last_error": None, "muted": 0}
    change_subscription(connection, sub_id, delivered=delivered, round=subscription.round + 1, **values)
    return read_subscription(connection, sub_id)


def _subscription(row: Row[Any]) -> Subscription:
    return record_of(Subscription, row, muted=bool(row.muted))
