"""The interface of channels.  A channel sends messages and recovers from interruptions.

After each failure of a channel, Weft waits longer before the next attempt.  The pauses have random jitter, so that many
subscriptions do not return to the same server together.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from weft.algebra.schema import DataType
from weft.errors import DeliveryError
from weft.storage.ledger import Answers, ResultRow

Recovery = Literal["undone", "sent", "unknown", "again"]
"""The outcome of ``recover``.  ``undone`` means that the destination contains no part of the message, or ignores a
repetition.  ``sent`` means that the message was sent.  ``unknown`` means that the message may have been sent, and that
a person decides whether Weft repeats it.  ``again`` means that the message may have been sent, and that Weft can repeat
it because the receiver recognizes its ID.
"""


@dataclass(frozen=True)
class About:
    """The contents of a message apart from its answers.  Every attempt sends the same stored contents.

    ``sql``, ``user`` and ``query_id`` describe the query.  ``total`` is the number of the query's answers.  ``home`` is
    the folder of the home.  ``home_id`` stays the same when the folder moves.  ``at`` is the creation time of the
    message (wall clock, microseconds UTC).  ``before`` contains the keys of the first and the last message that the
    subscription has sent.  ``zone`` is the time zone in which the message shows instants.  ``unsubscribe`` is the
    address at which the receiver of a letter unsubscribes by one click, or None.  ``page`` is the address of the query
    on the page, or None if the settings do not name the page.
    """

    sql: str
    user: str
    total: int
    home: Path
    home_id: str
    at: int
    before: tuple[str, ...] = ()
    query_id: int = field(kw_only=True)
    zone: str = field(kw_only=True)
    unsubscribe: str | None = field(default=None, kw_only=True)
    page: str | None = field(default=None, kw_only=True)

    def as_json(self) -> str:
        """Return the contents as JSON."""
        return json.dumps({**asdict(self), "home": str(self.home)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> About:
        """Parse the JSON that ``as_json`` returned."""
        fields = json.loads(text)
        return cls(**{**fields, "home": Path(fields["home"]), "before": tuple(fields["before"])})


@dataclass(frozen=True)
class Message:
    """Consecutive answers of one query.  Every attempt has the same ``key``, which is unique in the home.

    ``count`` is the number of answers.  ``rows`` contains all answers, or only the first ones if the channel limits the
    rows of a message.  ``is_test`` marks a test message, which belongs to no query.  ``attempt_at`` is the time of this
    attempt (wall clock, microseconds UTC).  Signatures contain ``attempt_at``.
    """

    key: str
    query_name: str
    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[ResultRow, ...]
    count: int
    about: About
    is_test: bool = False
    attempt_at: int = field(kw_only=True)

    @property
    def last_ordinal(self) -> int:
        """The ordinal of the last answer in the message."""
        return self.rows[0].ordinal + self.count - 1

    @property
    def answers(self) -> Answers:
        """The query of the message, and the ID of the home."""
        return Answers(self.about.home_id, self.about.query_id, self.query_name, self.columns)


class Rejected(DeliveryError):
    """The error for a permanent refusal.  A person must change the receiver."""


class Later(DeliveryError):
    """The error for a receiver that asks the sender to wait ``wait_us`` microseconds."""

    def __init__(self, message: str, *, where: str, wait_us: int) -> None:
        super().__init__(message, where=where)
        self.wait_us = wait_us


class Unreachable(DeliveryError):
    """The error for a server that cannot be reached, refuses the login, or no longer responds."""


class Lost(Unreachable):
    """The error for a server that received the whole message but did not reply.  The outcome is unknown."""


class Foreign(DeliveryError):
    """The error for a destination to which another program has written.  Recovery would remove what it wrote."""


class Channel(Protocol):
    """A destination of answers.  Every method raises DeliveryError if the destination fails.

    For each message, the outbox calls ``prepare``, stores the returned position, and only then calls ``send``.
    """

    @property
    def shown_rows(self) -> int | None:
        """The maximum number of rows that a message shows, or None if a message shows all rows."""

    @property
    def server(self) -> str | None:
        """The server of the channel, or None.  After ``Unreachable``, the outbox skips all channels of the server until
        the next run.
        """

    @property
    def schedule(self) -> Schedule:
        """The lengths of the pauses before retries."""

    @property
    def address(self) -> str:
        """The canonical name of the channel, such as ``file:a.jsonl``."""

    @property
    def person(self) -> str | None:
        """The receiver's address as written in the settings, or None if the receiver is not a person."""

    def require(self, answers: Answers) -> None:
        """Raise Refused if another writer owns the destination, or if the destination cannot accept the columns."""

    def prepare(self) -> str | None:
        """Return a position (JSON).  ``recover`` needs the position to undo an interrupted ``send``."""

    def send(self, message: Message, position: str | None) -> str | None:
        """Send the message durably.  Return the reply of the receiver, if any."""

    def recover(self, position: str | None) -> Recovery:
        """Undo a failed or interrupted ``send`` if possible.  A second call has no further effect."""

    def test(self, message: Message) -> str:
        """Send a test message if the channel supports test messages.  Return a sentence about the outcome."""


_SECOND: Final = 1_000_000
JITTER: Final = 0.25
"""The maximum jitter, as a fraction of the pause."""


@dataclass(frozen=True)
class Schedule:
    """The lengths of the pauses after failures (microseconds).  A failure after the last pause parks the
    subscription.
    """

    pauses: tuple[int, ...]

    @property
    def attempts(self) -> int:
        """The number of consecutive failures after which a subscription is parked."""
        return len(self.pauses) + 1

    def next_attempt(
        self, failures: int, at: int, *, asked: int = 0, drawn: Callable[[], float] = random.random
    ) -> int | None:
        """Return the time of the next attempt after a failure at ``at``.  Return None if this failure parks the
        subscription.

        ``failures`` is the number of consecutive failures before this failure.  ``asked`` is the pause that the
        receiver requests (microseconds).

        >>> Schedule((10, 20)).next_attempt(1, 100, drawn=lambda: 1.0), Schedule((10, 20)).next_attempt(2, 100)
        (125, None)
        """
        if failures >= len(self.pauses):
            return None
        pause = max(self.pauses[failures], asked)
        return at + round(pause * (1 + JITTER * drawn()))


DOUBLING: Final = Schedule(tuple(min(10 << failures, 3_600) * _SECOND for failures in range(7)))
"""The first pause is ten seconds.  Each later pause is twice as long as the previous one, up to one hour."""
