"""Manage the subscriptions of queries, their messages, and the actions after a failed delivery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from weft.api.acting import preferred_digest, require_owner_rights
from weft.api.arguments import digest_times, texts
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog import Writer
from weft.catalog.outbox import OutboxEntry
from weft.catalog.records import QueryRecord
from weft.catalog.subscriptions import Subscription
from weft.errors import Conflict, NotFound, Refused
from weft.execution.home import LEASE_WAIT_US, OpenHome
from weft.printable import Brief
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.api.health import Health

T = TypeVar("T")
Channels: TypeAlias = list[str] | tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Deliveries(Brief):
    """A subscription with its query and its latest messages, the newest first."""

    query: QueryRecord
    subscription: Subscription
    messages: tuple[OutboxEntry, ...]
    has_messages: bool

    @property
    def waiting(self) -> int:
        """The number of undelivered answers, including the answers in an unfinished message."""
        return max(self.query.rows - self.subscription.delivered, 0)

    def _brief(self) -> str:
        return f"{self.query.name} to {self.subscription._brief()}, {self.waiting:,} waiting"


class Delivering(WeftMethods):
    """The methods of ``Weft`` that manage channels and deliveries."""

    @overload
    def subscribe(
        self, name: str, to: str, *, from_start: bool = False, digest: str | None = None, zone: str | None = None
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        name: str,
        to: Channels,
        *,
        from_start: bool = False,
        digest: str | None = None,
        zone: str | None = None,
    ) -> tuple[Subscription, ...]: ...

    @requires(Right.OWN, query="name", channel="to")
    def subscribe(
        self,
        name: str,
        to: str | Channels,
        *,
        from_start: bool = False,
        digest: str | None = None,
        zone: str | None = None,
    ) -> Subscription | tuple[Subscription, ...]:
        """Send the future answers of a query to one or several further channels.

        Returns a subscription if ``to`` is a single channel, otherwise a tuple.  With ``from_start``, Weft first sends
        the existing answers.  ``digest`` is the time at which Weft sends the collected answers: ``hourly``,
        ``daily@08:00`` or ``weekly@mon-08:00``.  ``zone`` is the time zone of the digest (default: the zone in the
        settings).  Raises NotFound.  Raises Refused for an invalid channel or digest.  Raises Conflict if the query
        already has the channel.
        """
        from weft.delivery.registry import CURSOR, canonical, require_accepted
        from weft.storage.ledger import Answers

        channels = [canonical(each, self.opened.folder) for each in texts(to)]
        times = digest_times(preferred_digest(self.opened, digest), zone)
        if CURSOR in channels:
            raise Refused(
                "cursor is not a channel that can be subscribed: every query has a cursor",
                hint=f"Print the answers with `weft results {name}`.",
            )
        with self.opened.writing(f"subscribe {name}") as writer:
            query = self.opened.seen().query(name, Right.OWN)
            answers = Answers(writer.home().home_id, query.query_id, query.name, query.columns)
            require_accepted(channels, self.opened.folder, answers)
            require_owner_rights(self.opened, [query], channels)
            delivered = 0 if from_start else query.rows
            add_all = writer.subscriptions.add_all
            added = add_all(query.query_id, channels, delivered, digest=times[0], zone=times[1])
        return added[0] if isinstance(to, str) else added

    @overload
    def unsubscribe(self, name: str, to: str) -> Subscription: ...

    @overload
    def unsubscribe(self, name: str, to: Channels) -> tuple[Subscription, ...]: ...

    @requires(Right.OWN, query="name")
    def unsubscribe(self, name: str, to: str | Channels) -> Subscription | tuple[Subscription, ...]:
        """Stop sending a query's answers to one or several channels.  Weft still delivers a pending message.

        Returns the ended subscription if ``to`` is a single channel, otherwise a tuple.  Raises NotFound.
        """
        with self.opened.writing(f"unsubscribe {name}") as writer:
            ended = tuple(
                writer.subscriptions.end(each.sub_id) for each in _subscriptions(self.opened, writer, name, to)
            )
        return ended[0] if isinstance(to, str) else ended

    @requires(Right.OWN, query="name")
    def mute(self, name: str, to: str | Channels | None = None) -> tuple[Subscription, ...]:
        """Stop sending to some channels of a query (default: all) until ``unmute``.  The ticks of the query continue.

        Raises NotFound.  Raises Conflict if all of the channels are already muted.
        """
        with self.opened.writing(f"mute {name}") as writer:
            subscriptions = _subscriptions(self.opened, writer, name, to)
            if all(each.muted for each in subscriptions):
                raise Conflict(
                    f"{_channels(subscriptions)} of {name} is already muted", hint=f"See `weft deliveries {name}`."
                )
            return tuple(writer.subscriptions.set_muted(each.sub_id, True) for each in subscriptions)

    @requires(Right.OWN, query="name")
    def unmute(self, name: str, to: str | Channels | None = None, *, skip: bool = False) -> tuple[Subscription, ...]:
        """Unmute some channels of a query (default: all), and send the answers that arrived in the meantime.

        With ``skip``, Weft omits the answers that arrived in the meantime.  Raises NotFound.  Raises Conflict if none
        of the channels is muted.
        """
        if not skip:
            with self.opened.writing(f"unmute {name}") as writer:
                muted = _require_muted(name, _subscriptions(self.opened, writer, name, to))
                return tuple(writer.subscriptions.set_muted(each.sub_id, False) for each in muted)

        def skip_to_last(sender: Writer) -> tuple[Subscription, ...]:
            rows = self.opened.seen().query(name, Right.OWN).rows
            muted = _require_muted(name, _subscriptions(self.opened, sender, name, to))
            return tuple(sender.subscriptions.go_to(each.sub_id, rows) for each in muted)

        return self._after_settling(skip_to_last)

    @requires(Right.OWN, query="name")
    def redeliver(
        self, name: str, to: str | Channels | None = None, *, from_ordinal: int = 1
    ) -> tuple[Deliveries, ...]:
        """Send answers again to some channels of a query (default: all), starting at the ordinal ``from_ordinal``.

        The next delivery sends the answers in messages with new IDs.  Raises NotFound.  Raises Refused if no answer has
        the ordinal ``from_ordinal``.  Raises Conflict if a channel is muted.  Also raises Conflict if Weft cannot
        determine whether a channel received its last message.
        """

        def restart(sender: Writer) -> tuple[Deliveries, ...]:
            query = self.opened.seen().query(name, Right.OWN)
            if not 1 <= from_ordinal <= query.rows:
                raise Refused(
                    f"{query.name} has no answer number {from_ordinal}",
                    hint=f"Choose a number from 1 to {query.rows}." if query.rows else "The query has no answers yet.",
                )
            subscriptions = _subscriptions(self.opened, sender, name, to)
            muted = [each for each in subscriptions if each.muted]
            if muted:
                hint = f"Unmute the channel first: weft unmute {name} --to {muted[0].channel}"
                raise Conflict(f"{_channels(muted)} of {query.name} is muted", hint=hint)
            restarted = [sender.subscriptions.go_to(each.sub_id, from_ordinal - 1) for each in subscriptions]
            served = sender.outbox.subscriptions_with_messages()
            return tuple(Deliveries(query, each, (), each.sub_id in served) for each in restarted)

        return self._after_settling(restart)

    @requires(Right.OWN, query="name", logged=False)
    def deliveries(
        self, name: str | None = None, *, limit: int = 20, after: int = 0, channels: int | None = None
    ) -> tuple[Deliveries, ...]:
        """Return the subscriptions of one query, or of all queries of the principal, with at most ``limit`` messages in
        total.

        Return at most ``channels`` subscriptions with IDs above ``after``.  Raise NotFound.
        """
        catalog, seen = self.opened.catalog, self.opened.seen()
        query_id = None if name is None else seen.query(name, Right.OWN).query_id
        every = seen.rights.reaches_all(Right.OWN)
        found = catalog.subscriptions.of_live_queries(
            query_id, owner=None if every else seen.rights.principal.name or "", after=after, limit=channels
        )
        subscriptions = found if every else tuple(each for each in found if seen.among([each[1]], Right.OWN))
        whole = every and query_id is None and channels is None and not after
        ids = None if whole else [subscription.sub_id for subscription, _ in subscriptions]
        messages: dict[int, list[OutboxEntry]] = {}
        for entry in catalog.outbox.latest(ids, limit):
            messages.setdefault(entry.sub_id, []).append(entry)
        served = catalog.outbox.subscriptions_with_messages(ids)
        return tuple(
            Deliveries(query, each, tuple(messages.get(each.sub_id, ())), each.sub_id in served)
            for each, query in subscriptions
        )

    @requires(Right.READ)
    def channel_counts(self) -> Mapping[int, tuple[int, int]]:
        """Return (number of channels, number of parked channels) by query ID.  Omit queries without channels."""
        counts, seen = self.opened.catalog.subscriptions.counts(), self.opened.seen()
        if seen.rights.reaches_all(Right.READ):
            return counts
        return {each.query_id: counts[each.query_id] for each in seen.queries() if each.query_id in counts}

    @requires(Right.READ)
    def feed(self, name: str) -> bytes:
        """Return the Atom feed (RFC 4287) of the channel ``feed:NAME``, for those who may read its query.

        Raises NotFound or DeliveryError.
        """
        from weft.delivery.atom import FeedHead
        from weft.delivery.feed import FeedChannel
        from weft.delivery.registry import open_channel
        from weft.storage.ledger import Answers

        home = self.opened
        channel = open_channel(f"feed:{name}", home.folder, home.catalog.home().home_id)
        found = [query for _, query in home.catalog.subscriptions.to_channel(f"feed:{name}")]
        shown = [query for query in found if home.seen().shows_query(query.name)]
        if not shown or not isinstance(channel, FeedChannel):
            raise NotFound(f"there is no feed {name!r}", hint=f"Make it: weft subscribe QUERY --to feed:{name}")
        query = home.seen().query(shown[0].name)
        answers = Answers(home.catalog.home().home_id, query.query_id, query.name, query.columns)
        return channel.content(FeedHead(answers, query.sql, query.user, query.installed_at, None))

    @requires(Right.CHANNEL, channel="to")
    def test_channel(self, to: str, user: str = "weft") -> tuple[str, str]:
        """Send a test message to a channel.  Return the canonical name of the channel, and a sentence about the
        outcome.  The message names ``user``, or the principal if she is a user.

        The message is marked as a test and belongs to no query.  Raises Refused or DeliveryError.
        """
        from weft.delivery.registry import send_test

        home_id = self.opened.catalog.home().home_id
        named = self.opened.principal.name or user
        return send_test(to, self.opened.folder, home_id, named, self.opened.clock())

    @requires(Right.ADMIN, logged=False)
    def health(self, *, max_lag_us: int | None = None) -> Health:
        """Return the state of the home: its queries, ticks, deliveries, disk space and problems.

        ``max_lag_us`` is the time that new rows may wait for a tick (microseconds, default: 15 minutes).  The state
        lists a longer wait as a problem.  The method does not start Spark.
        """
        from weft.api.health import MAX_LAG_US, health_of

        return health_of(self.opened, MAX_LAG_US if max_lag_us is None else max_lag_us)

    def _after_settling(self, change: Callable[[Writer], T]) -> T:
        from weft.delivery.outbox import settle

        home = self.opened
        with home.catalog.delivering(home.clock, wait_us=LEASE_WAIT_US) as sender:
            settle(sender, home.folder, home.clock())
            return change(sender)


def _subscriptions(home: OpenHome, catalog: Writer, name: str, to: str | Channels | None) -> tuple[Subscription, ...]:
    from weft.delivery.registry import canonical

    query = home.seen().query(name, Right.OWN)
    subscriptions = catalog.subscriptions.all(query.query_id)
    if not subscriptions:
        raise NotFound(
            f"the answers of {query.name} go to no channel",
            hint=f"Add a channel: weft subscribe {query.name} --to CHANNEL",
        )
    if to is None:
        return subscriptions
    chosen: dict[int, Subscription] = {}
    for one in texts(to):
        wanted = {one.strip(), _canonical_or(one, home, canonical)}
        those = {each.sub_id: each for each in subscriptions if each.channel in wanted}
        if not those:
            raise NotFound(
                f"the answers of {query.name} do not go to {one}", hint=f"The answers go to {_channels(subscriptions)}."
            )
        chosen |= those
    return tuple(chosen.values())


def _canonical_or(to: str, home: OpenHome, canonical: Callable[..., str]) -> str:
    """Let users unsubscribe from a channel that the settings no longer allow."""
    try:
        return canonical(to, home.folder)
    except Refused:
        return to.strip()


def _require_muted(name: str, subscriptions: tuple[Subscription, ...]) -> list[Subscription]:
    muted = [each for each in subscriptions if each.muted]
    if not muted:
        raise Conflict(f"{_channels(subscriptions)} of {name} is not muted", hint=f"See `weft deliveries {name}`.")
    return muted


def _channels(subscriptions: tuple[Subscription, ...] | list[Subscription]) -> str:
    return ", ".join(each.channel for each in subscriptions)
