"""Send test messages, which show whether answers would arrive."""

from __future__ import annotations

from pathlib import Path

from weft.algebra.schema import STRING
from weft.configuration import configuration
from weft.delivery.channel import About, Message
from weft.delivery.registry import open_channel
from weft.errors import Refused
from weft.storage.ledger import ResultRow

_TEXT = "This is a test message from Weft: answers sent to this address arrive. It belongs to no query."


def send_test(text: str, home: Path, home_id: str, user: str, at: int) -> tuple[str, str]:
    """Send a test message to the channel ``text``; return its canonical name and a sentence about the outcome.

    ``at`` is the wall clock's time (microseconds UTC).  Raises Refused for an invalid channel, and DeliveryError if the
    channel does not accept the message.
    """
    channel = open_channel(text, home)
    if channel is None:
        raise Refused(
            "the cursor receives no messages", hint="Name another channel: file:PATH, delta:PATH or email:ADDRESS."
        )
    row = ResultRow(1, at, 0, (_TEXT,))
    zone = configuration(home).zone_of(user, channel.person)
    about = About(sql="-- no query", user=user, total=1, home=home, home_id=home_id, at=at, query_id=0, zone=zone)
    columns = (("message", STRING),)
    message = Message(f"test-{at}", "test message", columns, (row,), 1, about, is_test=True, attempt_at=at)
    return channel.address, channel.test(message)
