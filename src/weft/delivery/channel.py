"""What a channel is: something that takes messages, and can say what became of one that was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from weft.algebra.schema import DataType
from weft.storage.ledger import ResultRow

Recovery = Literal["undone", "sent", "unknown"]
"""What ``recover`` found: nothing of the message is left, all of it went, or nobody can tell."""


@dataclass(frozen=True)
class Message:
    """Answers of one query, in order; ``key`` is the same at every attempt and for no other message."""

    key: str
    query_name: str
    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[ResultRow, ...]


class Channel(Protocol):
    """A place that answers go to; every method raises DeliveryError where the place does not do its part.

    For each message the outbox calls ``prepare``, stores what it says, and only then ``send``.
    """

    @property
    def address(self) -> str:
        """The channel's one name (``file:a.jsonl``), whichever way it was written."""

    def prepare(self) -> str | None:
        """A note (JSON) from which ``recover`` can later tell what an interrupted send left behind."""

    def send(self, message: Message, position: str | None) -> None:
        """Sends the message; when it returns, the message is there for good."""

    def recover(self, position: str | None) -> Recovery:
        """Undoes what a send that was interrupted left behind, where that can be done; may be called twice."""
