"""The interface of channels: a channel sends messages and recovers from interrupted ones.

A failed channel is retried after growing pauses with random jitter.  The jitter prevents many subscriptions from
returning to one server at the same time.
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
"""The outcome of ``recover``.

``undone``: the channel holds nothing of the message, or recognizes a repeated one.  ``sent``: the message was sent.
``unknown``: it may have been sent, and a person decides.  ``again``: it may have been sent, and is sent again
automatically, since the receiver recognizes its id.
"""


@dataclass(frozen=True)
class About:
    """The contents of a message other than its answers, as of its creation.

    The outbox stores it with the message, so that every attempt sends the same.  ``sql``, ``user`` and ``query_id`` are
    the query's; ``total`` is the number of its answers.  ``home`` is the home's folder, and ``home_id`` its id, which
    stays when the home is moved.  ``at`` is when the message was created (wall clock, microseconds UTC).  ``before``
    are the keys of the first and the latest message sent through the same subscription.  ``zone`` is the time zone for
    showing instants.
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

    def as_json(self) -> str:
        """Return the text that the outbox stores."""
        return json.dumps({**asdict(self), "home": str(self.home)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> About:
        """Parse the text written by ``as_json``."""
        fields = json.loads(text)
        return cls(**{**fields, "home": Path(fields["home"]), "before": tuple(fields["before"])})


@dataclass(frozen=True)
class Message:
    """Consecutive answers of one query.  Every attempt has the same ``key``, and no other message of the home has it.

    ``count`` is the number of answers; ``rows`` are all of them, or the first ones for a channel that shows only some.
    ``is_test`` marks a test message, which belongs to no query.  ``attempt_at`` is the instant of this attempt (wall
    clock, microseconds UTC), for signatures; nothing else differs between attempts.
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
        """The ordinal of the message's last answer."""
        return self.rows[0].ordinal + self.count - 1

    @property
    def answers(self) -> Answers:
        """The query and home of the message's answers."""
        return Answers(self.about.home_id, self.about.query_id, self.query_name, self.columns)


class Rejected(DeliveryError):
    """A message that the receiver refuses permanently, until a person changes something there."""


class Later(DeliveryError):
    """A receiver that accepts nothing now; ``wait_us`` is how long it asks senders to wait (microseconds)."""

    def __init__(self, message: str, *, where: str, wait_us: int) -> None:
        super().__init__(message, where=where)
        self.wait_us = wait_us


class Unreachable(DeliveryError):
    """A server that cannot be reached, refuses the login, or stopped responding."""


class Lost(Unreachable):
    """A server that received the whole message but did not reply: it may have accepted the message."""


class Channel(Protocol):
    """A destination of answers; every method raises DeliveryError if the destination fails.

    For each message the outbox calls ``prepare``, stores the result, and only then calls ``send``.
    """

    @property
    def shown_rows(self) -> int | None:
        """The most rows that a message shows; None: it contains every row, and many rows are split into messages."""

    @property
    def server(self) -> str | None:
        """The server that several channels share; once it is Unreachable, a run skips the other channels too."""

    @property
    def schedule(self) -> Schedule:
        """The times of retries after failures."""

    @property
    def address(self) -> str:
        """The channel's canonical name, such as ``file:a.jsonl``."""

    @property
    def person(self) -> str | None:
        """The address of the person who receives the messages, as in the settings; None if no person does."""

    def require(self, answers: Answers) -> None:
        """Raise Refused if the destination belongs to others, or can never accept answers with these columns."""

    def prepare(self) -> str | None:
        """Return a position (JSON) from which ``recover`` can determine what an interrupted send left behind."""

    def send(self, message: Message, position: str | None) -> str | None:
        """Send the message durably, and return the receiver's reply, if any."""

    def recover(self, position: str | None) -> Recovery:
        """Undo what a failed or interrupted send left behind, if possible; may be called twice."""

    def test(self, message: Message) -> str:
        """Send a message that says it is a test, if possible, and return a sentence about the outcome."""


_SECOND: Final = 1_000_000
JITTER: Final = 0.25
"""The most by which a pause is lengthened, as a fraction of it."""


@dataclass(frozen=True)
class Schedule:
    """The pauses after consecutive failures, in microseconds; one more failure parks the subscription."""

    pauses: tuple[int, ...]

    @property
    def attempts(self) -> int:
        """The number of consecutive failures after which a subscription is parked."""
        return len(self.pauses) + 1

    def next_attempt(
        self, failures: int, at: int, *, asked: int = 0, drawn: Callable[[], float] = random.random
    ) -> int | None:
        """Return the instant of the next attempt after a failure at ``at`` that ``failures`` others preceded.

        ``asked`` is how long the receiver asks senders to wait (microseconds).  None means that the subscription is
        parked.

        >>> Schedule((10, 20)).next_attempt(1, 100, drawn=lambda: 1.0), Schedule((10, 20)).next_attempt(2, 100)
        (125, None)
        """
        if failures >= len(self.pauses):
            return None
        pause = max(self.pauses[failures], asked)
        return at + round(pause * (1 + JITTER * drawn()))


DOUBLING: Final = Schedule(tuple(min(10 << failures, 3_600) * _SECOND for failures in range(7)))
"""Ten seconds, then twice the previous pause."""
