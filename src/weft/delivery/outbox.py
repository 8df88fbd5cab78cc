"""Deliver each answer to the channels of its query, once and in order (design section 6).

The outbox stores a message with its range of ordinals and the channel's position.  The outbox then sends the message
and marks the message as sent.  If the process dies before the message is marked, the next run undoes the message
through the channel.  After each failure of a channel, the outbox waits longer before the next attempt.  The failure
after the last pause parks the subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from weft.catalog import Catalog, Writer, layout
from weft.catalog.outbox import OutboxEntry
from weft.catalog.records import QueryRecord
from weft.catalog.subscriptions import Subscription
from weft.configuration import configuration
from weft.delivery.channel import (
    DOUBLING,
    About,
    Channel,
    Foreign,
    Later,
    Message,
    Recovery,
    Rejected,
    Schedule,
    Unreachable,
)
from weft.delivery.digest import next_digest, parse_digest
from weft.delivery.registry import open_channel
from weft.errors import Conflict, DeliveryError, FolderElsewhere, NotFound, Refused
from weft.failpoint import failpoint
from weft.faults import is_of_the_home, isolated_error
from weft.instants import parse_interval
from weft.rights.secrets import signed
from weft.storage.ledger import ResultRow, read_rows

MESSAGE_ROWS: Final = 10_000
"""The maximum number of rows in one message."""

_MESSAGE_CHARACTERS: Final = 32 * 1024 * 1024


@dataclass(frozen=True)
class Delivered:
    """The result of one run for one subscription.

    ``rows`` is the number of sent answers.  ``last_ordinal`` is the ordinal of the last answer sent so far.  ``error``
    is the error that stopped the run, or None.
    """

    query_name: str
    channel: str
    rows: int
    last_ordinal: int
    error: str | None
    parked: bool


def deliver(
    catalog: Catalog,
    home: Path,
    at: int,
    *,
    sender: Writer | None = None,
    queries: Collection[int] | None = None,
    clock: Callable[[], int] | None = None,
    wait_us: int = 0,
) -> list[Delivered]:
    """Send the due answers to the subscriptions of ``queries``, and return the results.

    If ``queries`` (IDs) is None, the run includes all queries.

    ``at`` is the time of the wall clock at the start (microseconds UTC).  ``clock`` reads the wall clock during the
    run.  If ``clock`` is None, the time stays at ``at``.  The home's clock determines which digests are due.

    The run uses the lease of ``sender``.  Without ``sender``, the run takes its own lease.  If another process holds
    the lease for more than ``wait_us``, the run raises LeaseBusy.  With ``clock``, the run renews the lease before each
    message.  The run stores and returns the errors of channels, but does not raise them.  The results omit
    subscriptions without answers to send.
    """
    own = catalog.delivering(clock or (lambda: at), wait_us=wait_us) if sender is None else nullcontext(sender)
    with own as writer:
        writer.rechecks.run()
        run = _Run(writer, home, at, clock)
        run.recover()
        run.reschedule_empty_digests()
        results = (
            run.send_all(subscription, query)
            for subscription, query in run.waiting()
            if queries is None or query.query_id in queries
        )
        return [each for each in results if each is not None]


def settle(sender: Writer, home: Path, at: int) -> None:
    """Undo the messages that were opened but not marked as sent, or record their outcomes.  Use the lease of
    ``sender``.
    """
    _Run(sender, home, at, None).recover()


class _Run:
    def __init__(self, sender: Writer, home: Path, at: int, clock: Callable[[], int] | None) -> None:
        self._sender = sender
        self._home = home
        self._begun = at
        record = sender.home()
        self._home_id = record.home_id
        self._now = record.now_at(at)
        """The time of the home's clock.  If the clock was never set, the time is None and no digest is due."""
        self._clock = clock
        self._zones = sender.users.zones()
        self._blocked: set[str] = set()
        self._down: set[str] = set()

    def recover(self) -> None:
        """Undo the messages that were opened but not marked as sent, or record their outcomes.

        Include messages of removed queries and parked subscriptions, because another query may soon use the
        destination.
        """
        for entry in self._sender.outbox.unsent():
            if entry.state != "pending":
                continue
            subscription = self._sender.subscriptions.by_id(entry.sub_id)
            try:
                with self._isolated(subscription):
                    channel = open_channel(subscription.channel, self._home, self._home_id)
                    outcome = "undone" if channel is None else self._recovered(channel, entry.position)
            except FolderElsewhere:
                self._blocked.add(subscription.channel)  # another machine settles the message
                continue
            except (DeliveryError, Refused) as error:
                self._block(subscription, DOUBLING, error)
                continue
            failpoint("delivery.recovered")
            if outcome == "undone":
                self._sender.outbox.settle(entry.entry_id, "failed", "sending was interrupted")
            else:
                schedule = DOUBLING if channel is None else channel.schedule
                self._settle(entry, schedule, outcome, "sending was interrupted")

    def _recovered(self, channel: Channel, position: str | None) -> Recovery:
        """Undo a message.  Raise LeaseLost if another process has taken over, which may have sent it meanwhile."""
        self._sender.check()
        return channel.recover(position)

    def _wall(self) -> int:
        return self._begun if self._clock is None else max(self._clock(), self._begun)

    def waiting(self) -> tuple[tuple[Subscription, QueryRecord], ...]:
        return self._sender.subscriptions.waiting(self._begun, self._now)

    def reschedule_empty_digests(self) -> None:
        if self._now is None:
            return
        for subscription, query in self._sender.subscriptions.digests_due(self._now):
            waits = subscription.is_served and subscription.delivered < query.rows
            if subscription.digest_at is None or not waits:
                # Ignore an unknown channel here.  ``send_all`` reports the error.
                with suppress(Refused, DeliveryError):
                    with self._isolated(subscription):
                        digest_at = self._next_digest(subscription, query, self._now)
                    self._sender.subscriptions.set_digest_at(subscription.sub_id, digest_at)
                    failpoint("digest.noted")

    def _next_digest(self, subscription: Subscription, query: QueryRecord, now: int) -> int:
        zone = subscription.zone
        if zone is None:
            channel = open_channel(subscription.channel, self._home, self._home_id)
            zone = self._zone(query, None if channel is None else channel.person)
        return next_digest(parse_digest(subscription.digest or ""), zone, now)

    def _zone(self, query: QueryRecord, person: str | None) -> str:
        own = self._zones.get(query.user)
        return own or configuration(self._home).zone_of(query.user, person)

    def send_all(self, subscription: Subscription, query: QueryRecord) -> Delivered | None:
        """Return None if no message was due."""
        if subscription.channel in self._blocked:
            return None
        before, error = subscription.delivered, None
        try:
            with self._isolated(subscription):
                channel = open_channel(subscription.channel, self._home, self._home_id)
        except FolderElsewhere as elsewhere:  # it is no attempt: a machine with the folder delivers
            channel, error = None, str(elsewhere)
        except (Refused, DeliveryError) as refused:
            channel, error = None, str(refused)
            again = self._next_attempt(subscription, DOUBLING)
            self._sender.subscriptions.note_failure(subscription.sub_id, error, again)
        if channel is not None and channel.server in self._down:
            return None  # another subscription has waited for the server: try again in the next run
        current = subscription
        # Read the rows of all messages in one pass over the ledger.
        rows = read_rows(self._sender.data, query, before)
        last = self._last(channel, subscription, query)
        while channel is not None and error is None and current.delivered < last:
            try:
                error = self._send_next(channel, current, query, rows, last)
            except (Conflict, NotFound):  # muted, ended or removed meanwhile: the next run sees that
                break
            current = self._sender.subscriptions.by_id(current.sub_id)
        if channel is None and error is None:  # the cursor
            return None
        return Delivered(
            query.name, current.channel, current.delivered - before, current.delivered, error, current.state == "parked"
        )

    def _send_next(
        self, channel: Channel, subscription: Subscription, query: QueryRecord, answers: Iterator[ResultRow], end: int
    ) -> str | None:
        if self._clock is not None:
            self._sender.renew(self._wall())
        digest_at = None
        try:
            own = self._sender.queries.purge_reported(query.query_id)
            with self._isolated(subscription, of_channel=False), own:
                rows, last = self._next_rows(channel, subscription, query, answers)
                about = self._about(subscription, query, channel.person).as_json()
                if subscription.digest and self._now is not None and last >= end:
                    digest_at = self._next_digest(subscription, query, self._now)
            with self._isolated(subscription):
                position = channel.prepare()
        except DeliveryError as error:
            again = self._next_attempt(subscription, channel.schedule)
            self._sender.subscriptions.note_failure(subscription.sub_id, str(error), again)
            return str(error)
        entry = self._sender.outbox.open(subscription, last, position, about)
        failpoint("delivery.opened")
        try:
            with self._isolated(subscription):
                message = self._message(entry, query, rows)
                self._sender.check()  # another process may have taken over, undone the entry, and not yet sent
                reply = channel.send(message, position)
        except DeliveryError as error:
            if isinstance(error, Unreachable) and channel.server is not None:
                self._down.add(channel.server)
            self._undo(channel, subscription, entry, error)
            return str(error)
        failpoint("delivery.written")
        self._sender.outbox.mark_sent(entry.entry_id, self._wall(), reply, digest_at)
        failpoint("delivery.marked")
        return None

    @contextmanager
    def _isolated(self, subscription: Subscription, *, of_channel: bool = True) -> Iterator[None]:
        """Convert errors of this subscription to DeliveryError, so that the run continues with the other subscriptions.

        With ``of_channel``, also convert errors of the operating system.
        """
        try:
            yield
        except (DeliveryError, Refused):
            raise
        except Exception as error:
            if is_of_the_home(error) and not (of_channel and isinstance(error, OSError)):
                raise
            doing = f"delivering to {subscription.channel}"
            own = isolated_error(error, layout.logs_folder(self._home), self._wall, doing)
            raise DeliveryError(own.message, where=own.where or subscription.channel, hint=own.hint) from error

    def _unsent(self, subscription: Subscription) -> OutboxEntry | None:
        unsent = self._sender.outbox.unsent()
        return next((entry for entry in unsent if entry.sub_id == subscription.sub_id), None)

    def _last(self, channel: Channel | None, subscription: Subscription, query: QueryRecord) -> int:
        """Return the ordinal of the last answer to send.  A retry of a failed digest sends the same answers."""
        unsent = self._unsent(subscription) if subscription.digest and channel and channel.shown_rows else None
        return query.rows if unsent is None else unsent.last_ordinal

    def _about(self, subscription: Subscription, query: QueryRecord, person: str | None) -> About:
        url = configuration(self._home).web_url
        return About(
            query_id=query.query_id,
            sql=query.sql,
            user=query.user,
            total=query.rows,
            home=self._home,
            home_id=self._sender.home().home_id,
            at=self._wall(),
            before=tuple(each.idempotency_key for each in self._sender.outbox.sent_ends(subscription.sub_id)),
            zone=self._zone(query, person),
            unsubscribe=self._unsubscribe_link(subscription),
            page=None if url is None else f"{url}/queries/{query.query_id}",
        )

    def _unsubscribe_link(self, subscription: Subscription) -> str | None:
        """Return the signed address of a letter to one person.  One of several people does not decide for all."""
        chosen, channel = configuration(self._home), subscription.channel
        url = chosen.web_url
        if url is None or not channel.startswith("email:") or "," in channel:
            return None
        until = self._wall() + parse_interval(chosen.web_unsubscribe)
        return f"{url}/unsubscribe/{signed(self._sender.link_key(), f'{subscription.sub_id}-{until}')}"

    def _message(self, entry: OutboxEntry, query: QueryRecord, rows: tuple[ResultRow, ...]) -> Message:
        assert entry.about is not None
        about = About.from_json(entry.about)
        contents = (entry.idempotency_key, query.name, query.columns, rows, entry.rows, about)
        return Message(*contents, attempt_at=self._wall())

    def _next_rows(
        self, channel: Channel, subscription: Subscription, query: QueryRecord, answers: Iterator[ResultRow]
    ) -> tuple[tuple[ResultRow, ...], int]:
        """Return the rows of the next message, and the ordinal of its last answer.

        A retry of a failed message sends the same answers.  A new message contains as many rows as the limits allow.
        If the channel shows a limited number of rows, the message covers all answers but contains only the first rows.
        """
        unsent = self._unsent(subscription)
        shown = channel.shown_rows
        limit = MESSAGE_ROWS if shown is None else query.rows - subscription.delivered
        if unsent is not None:
            limit = unsent.last_ordinal - unsent.first_ordinal + 1
        rows: list[ResultRow] = []
        characters = last = 0
        for row in islice(answers, limit):
            last = row.ordinal
            if shown is not None and len(rows) == shown:
                continue
            rows.append(row)
            characters += sum(len(value) for value in row.values if isinstance(value, str | bytes))
            if unsent is None and shown is None and characters > _MESSAGE_CHARACTERS:
                break
        return tuple(rows), last

    def _undo(self, channel: Channel, subscription: Subscription, entry: OutboxEntry, error: DeliveryError) -> None:
        try:
            with self._isolated(subscription):
                outcome = "unknown" if isinstance(error, Foreign) else self._recovered(channel, entry.position)
        except DeliveryError as worse:
            self._block(subscription, channel.schedule, worse)
            return
        if outcome == "undone":
            asked = error.wait_us if isinstance(error, Later) else 0
            again = channel.schedule.next_attempt(subscription.attempts, self._wall(), asked=asked)
            pause_end = None if isinstance(error, Rejected) else again
            self._sender.outbox.mark_failed(entry.entry_id, str(error), pause_end)
        else:
            self._settle(entry, channel.schedule, outcome, str(error))

    def _settle(
        self, entry: OutboxEntry, schedule: Schedule, outcome: Literal["sent", "unknown", "again"], why: str
    ) -> None:
        if outcome == "sent":
            self._sender.outbox.mark_sent(entry.entry_id, self._wall())
            return
        subscription = self._sender.subscriptions.by_id(entry.sub_id)
        pause_end = self._next_attempt(subscription, schedule) if outcome == "again" else None
        then = (
            "Weft sends the answers again under the same id."
            if pause_end is not None
            else "`weft resume` sends the answers again."
        )
        reason = f"the answers {entry.first_ordinal} to {entry.last_ordinal} may have been sent: {why}. {then}"
        self._sender.outbox.settle(entry.entry_id, "unknown", why)
        self._sender.subscriptions.note_failure(entry.sub_id, reason, pause_end)

    def _block(self, subscription: Subscription, schedule: Schedule, error: DeliveryError | Refused) -> None:
        self._blocked.add(subscription.channel)
        again = self._next_attempt(subscription, schedule)
        self._sender.subscriptions.note_failure(subscription.sub_id, str(error), again)

    def _next_attempt(self, subscription: Subscription, schedule: Schedule) -> int | None:
        return schedule.next_attempt(subscription.attempts, self._wall())
