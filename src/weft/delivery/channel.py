"""What a channel is: something that takes messages, and can say what became of one that was interrupted."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from weft.algebra.schema import DataType
from weft.delivery.retrying import Schedule
from weft.errors import DeliveryError
from weft.storage.ledger import Answers, ResultRow

Recovery = Literal["undone", "sent", "unknown", "again"]
"""What ``recover`` found: nothing of the message is left (or it may be sent again, the place knowing what it has), all
of it went, or nobody can tell: then a person decides
(``unknown``), or it is sent again unasked (``again``), where whoever receives it can tell that it is the same."""


@dataclass(frozen=True)
class About:
    """What a message says beside its answers, as of the instant at which it was created.

    The outbox stores it with the message: every attempt says the same.  ``sql``, ``user`` and ``query_id`` are the
    query's; ``total`` is the number of its answers; ``home`` is the home's folder and ``home_id`` its id, the same
    wherever it is moved; ``at`` is when the message was created (wall clock, microseconds UTC).  ``before`` are the
    keys of the first and of the latest message that went the same way before.  ``zone`` is the time zone in which
    instants are shown.
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
        """The text that the outbox stores."""
        return json.dumps({**asdict(self), "home": str(self.home)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> About:
        """What ``as_json`` wrote."""
        found = json.loads(text)
        return cls(**{**found, "home": Path(found["home"]), "before": tuple(found["before"])})


@dataclass(frozen=True)
class Message:
    """Answers of one query, in order; ``key`` is the same at every attempt and for no other message of the home.

    ``count`` is how many answers it is about; ``rows`` are the first of them for a channel that shows only some.
    ``is_test``: it is about no query, and says that it is a test.  ``attempt_at`` is the instant of this attempt (wall
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
        """The ordinal of the last answer that it is about."""
        return self.rows[0].ordinal + self.count - 1

    @property
    def answers(self) -> Answers:
        """Whose answers they are."""
        return Answers(self.about.home_id, self.about.query_id, self.query_name, self.columns)


class Rejected(DeliveryError):
    """A message that its place does not take, now or later, unless a person changes something there."""


class Later(DeliveryError):
    """A place that takes nothing now; ``wait_us`` is how long it asks to be left alone (microseconds)."""

    def __init__(self, message: str, *, where: str, wait_us: int) -> None:
        super().__init__(message, where=where)
        self.wait_us = wait_us


class Unreachable(DeliveryError):
    """The place where a channel's messages are handed over cannot be reached, lets nobody in, or stopped answering."""


class Channel(Protocol):
    """A place that answers go to; every method raises DeliveryError where the place does not do its part.

    For each message the outbox calls ``prepare``, stores what it says, and only then ``send``.
    """

    @property
    def shown_rows(self) -> int | None:
        """How many rows a message shows, of as many as there are; None: it has every row, and is divided."""

    @property
    def server(self) -> str | None:
        """What several channels hand their messages to; where it is Unreachable the others do not wait for it, too."""

    @property
    def schedule(self) -> Schedule:
        """When it is tried again after it failed."""

    @property
    def address(self) -> str:
        """The channel's one name (``file:a.jsonl``), whichever way it was written."""

    @property
    def person(self) -> str | None:
        """The address of whoever gets the messages, by which the settings know them; None: it is no person."""

    def require(self, answers: Answers) -> None:
        """Raises Refused where what is there is not theirs, or can never take answers of such columns."""

    def prepare(self) -> str | None:
        """A note (JSON) from which ``recover`` can later tell what an interrupted send left behind."""

    def send(self, message: Message, position: str | None) -> str | None:
        """Sends the message; when it returns, the message is there for good.  What the place answered, if it did."""

    def recover(self, position: str | None) -> Recovery:
        """Undoes what a send that failed or was interrupted left behind, where it can be; may be called twice."""

    def test(self, message: Message) -> str:
        """Sends a message that says it is a test, where one can be sent; what came of it, in words."""
