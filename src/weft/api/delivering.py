"""Who gets a query's answers, what became of each message, and what a person may do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from weft.api.arguments import digest_times, texts
from weft.api.weft_methods import WeftMethods
from weft.catalog import Writer
from weft.catalog.outbox import OutboxEntry
from weft.catalog.records import QueryRecord
from weft.catalog.subscriptions import Subscription
from weft.errors import Conflict, NotFound, Refused
from weft.execution.home import LEASE_WAIT_US, OpenHome
from weft.printable import Brief
from weft.storage.ledger import Answers

if TYPE_CHECKING:
    from weft.api.health import Health

Made = TypeVar("Made")
Several: TypeAlias = list[str] | tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Deliveries(Brief):
    """A subscription with its query and those of its messages that are among the latest, the newest first.

    ``has_messages``: whether it has any at all.
    """

    query: QueryRecord
    subscription: Subscription
    messages: tuple[OutboxEntry, ...]
    has_messages: bool

    @property
    def waiting(self) -> int:
        """How many answers have not gone there yet, those of a message that did not go among them."""
        return max(self.query.rows - self.subscription.delivered, 0)

    def _brief(self) -> str:
        return f"{self.query.name} to {self.subscription._brief()}, {self.waiting:,} waiting"


class Delivering(WeftMethods):
    """The part of an open home that is about who gets answers."""

    @overload
    def subscribe(
        self, name: str, to: str, *, from_start: bool = False, digest: str | None = None, zone: str | None = None
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        name: str,
        to: Several,
        *,
        from_start: bool = False,
        digest: str | None = None,
        zone: str | None = None,
    ) -> tuple[Subscription, ...]: ...

    def subscribe(
        self,
        name: str,
        to: str | Several,
        *,
        from_start: bool = False,
        digest: str | None = None,
        zone: str | None = None,
    ) -> Subscription | tuple[Subscription, ...]:
        """Has a query's answers go to one more channel, or to several, those that come from now on.

        With ``from_start`` those that it has had so far go there first.  ``digest`` (``hourly``, ``daily@08:00``,
        ``weekly@mon-08:00``) has them wait for that time, in ``zone`` or the person's in the settings.  Raises
        NotFound, Refused for a channel or a digest that cannot be, Conflict where they go there already.
        """
        from weft.delivery.registry import CURSOR, canonical, require_taken

        channels, times = [canonical(each, self.opened.folder) for each in texts(to)], digest_times(digest, zone)
        if CURSOR in channels:
            raise Refused("every query has the cursor", hint=f"`weft results {name}` fetches its answers.")
        with self.opened.writing(f"subscribe {name}") as writer:
            query = writer.queries.named(name)
            answers = Answers(writer.home().home_id, query.query_id, query.name, query.columns)
            require_taken(channels, self.opened.folder, answers)
            delivered = 0 if from_start else query.rows
            add_all = writer.subscriptions.add_all
            made = add_all(query.query_id, channels, delivered, digest=times[0], zone=times[1])
        return made[0] if isinstance(to, str) else made

    @overload
    def unsubscribe(self, name: str, to: str) -> Subscription: ...

    @overload
    def unsubscribe(self, name: str, to: Several) -> tuple[Subscription, ...]: ...

    def unsubscribe(self, name: str, to: str | Several) -> Subscription | tuple[Subscription, ...]:
        """Sends a query's answers there no more; what is under way is brought to its end.  Raises NotFound."""
        with self.opened.writing(f"unsubscribe {name}") as writer:
            found = _subscribed(self.opened, writer, name, to)
            ended = tuple(writer.subscriptions.end(each.sub_id) for each in found)
        return ended[0] if isinstance(to, str) else ended

    def mute(self, name: str, to: str | Several | None = None) -> tuple[Subscription, ...]:
        """Has the query's ticks go on and sends nothing to its channels, or to some; raises NotFound, Conflict."""
        with self.opened.writing(f"mute {name}") as writer:
            found = _subscribed(self.opened, writer, name, to)
            if all(each.muted for each in found):
                raise Conflict(f"{_channels(found)} of {name} is muted already", hint=f"See `weft deliveries {name}`.")
            return tuple(writer.subscriptions.set_muted(each.sub_id, True) for each in found)

    def unmute(self, name: str, to: str | Several | None = None, *, skip: bool = False) -> tuple[Subscription, ...]:
        """Sends what came while the query's channels, or some of them, were muted; with ``skip`` leaves it out.

        Raises NotFound, Conflict where none is muted.
        """
        if not skip:
            with self.opened.writing(f"unmute {name}") as writer:
                found = _muted(name, _subscribed(self.opened, writer, name, to))
                return tuple(writer.subscriptions.set_muted(each.sub_id, False) for each in found)

        def skipped(sender: Writer) -> tuple[Subscription, ...]:
            rows = sender.queries.named(name).rows
            found = _muted(name, _subscribed(self.opened, sender, name, to))
            return tuple(sender.subscriptions.go_to(each.sub_id, rows) for each in found)

        return self._settled(skipped)

    def redeliver(self, name: str, to: str | Several | None = None, *, from_ordinal: int = 1) -> tuple[Deliveries, ...]:
        """Has a query's answers from an ordinal on sent again to its channels, or to some, as messages with new ids.

        They go with the next delivery.  Raises NotFound, Refused for an ordinal that the query does not have,
        Conflict where they are muted or a message there cannot be settled.
        """

        def begun(sender: Writer) -> tuple[Deliveries, ...]:
            query = sender.queries.named(name)
            if not 1 <= from_ordinal <= query.rows:
                raise Refused(
                    f"{query.name} has no answer {from_ordinal}",
                    hint=f"It has the answers 1 to {query.rows}." if query.rows else "It has no answer yet.",
                )
            found = _subscribed(self.opened, sender, name, to)
            muted = [each for each in found if each.muted]
            if muted:
                hint = f"weft unmute {name} --to {muted[0].channel}"
                raise Conflict(f"{_channels(muted)} of {query.name} is muted", hint=f"First: {hint}")
            anew = [sender.subscriptions.go_to(each.sub_id, from_ordinal - 1) for each in found]
            served = sender.outbox.subscriptions_with_messages()
            return tuple(Deliveries(query, each, (), each.sub_id in served) for each in anew)

        return self._settled(begun)

    def deliveries(self, name: str | None = None, *, limit: int = 20) -> tuple[Deliveries, ...]:
        """Where a query's answers go, or those of all, with the latest ``limit`` messages; raises NotFound."""
        catalog = self.opened.catalog
        query_id = None if name is None else catalog.queries.named(name).query_id
        found = catalog.subscriptions.of_live_queries(query_id)
        ids = None if query_id is None else [subscription.sub_id for subscription, _ in found]
        messages: dict[int, list[OutboxEntry]] = {}
        for entry in catalog.outbox.latest(ids, limit):
            messages.setdefault(entry.sub_id, []).append(entry)
        served = catalog.outbox.subscriptions_with_messages()
        return tuple(
            Deliveries(query, each, tuple(messages.get(each.sub_id, ())), each.sub_id in served)
            for each, query in found
        )

    def test_channel(self, to: str, user: str = "weft") -> tuple[str, str]:
        """Sends a test message to a channel: its one name, and what came of it in words; raises Refused, DeliveryError.

        It says in its text that it is a test, and is about no query.
        """
        from weft.delivery.trial import send_test

        home_id = self.opened.catalog.home().home_id
        return send_test(to, self.opened.folder, home_id, user, self.opened.clock())

    def health(self, *, max_lag_us: int | None = None) -> Health:
        """How the home does: its queries, ticks, deliveries and disk, and what is not well; starts no Spark."""
        from weft.api.health import MAX_LAG_US, examined

        return examined(self.opened, MAX_LAG_US if max_lag_us is None else max_lag_us)

    def _settled(self, change: Callable[[Writer], Made]) -> Made:
        """What ``change`` gives while nobody delivers, messages of a process that died being settled."""
        from weft.delivery.outbox import settle

        home = self.opened
        with home.catalog.delivering(home.clock, wait_us=LEASE_WAIT_US) as sender:
            settle(sender, home.folder, home.clock())
            return change(sender)


def _subscribed(home: OpenHome, catalog: Writer, name: str, to: str | Several | None) -> tuple[Subscription, ...]:
    """The subscriptions of a query, or those to some channels; raises NotFound with those that there are."""
    from weft.delivery.registry import canonical

    query = catalog.queries.named(name)
    found = catalog.subscriptions.all(query.query_id)
    if not found:
        raise NotFound(
            f"the answers of {query.name} go to no channel",
            hint=f"weft subscribe {query.name} --to CHANNEL sends them.",
        )
    if to is None:
        return found
    chosen: dict[int, Subscription] = {}
    for one in texts(to):
        wanted = {one.strip(), _canonical_or(one, home, canonical)}
        those = {each.sub_id: each for each in found if each.channel in wanted}
        if not those:
            raise NotFound(f"the answers of {query.name} do not go to {one}", hint=f"They go to {_channels(found)}.")
        chosen |= those
    return tuple(chosen.values())


def _canonical_or(to: str, home: OpenHome, canonical: Callable[..., str]) -> str:
    """A channel's one name; as it is given where the settings do not know it any more: it can still be ended."""
    try:
        return canonical(to, home.folder)
    except Refused:
        return to.strip()


def _muted(name: str, found: tuple[Subscription, ...]) -> list[Subscription]:
    muted = [each for each in found if each.muted]
    if not muted:
        raise Conflict(f"{_channels(found)} of {name} is not muted", hint=f"See `weft deliveries {name}`.")
    return muted


def _channels(found: tuple[Subscription, ...] | list[Subscription]) -> str:
    return ", ".join(each.channel for each in found)
