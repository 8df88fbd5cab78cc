"""A test message: what a person sends to see whether answers would reach a place."""

from __future__ import annotations

from pathlib import Path

from weft.algebra.schema import STRING
from weft.configuration import configuration
from weft.delivery.channel import About, Message
from weft.delivery.registry import open_channel
from weft.errors import Refused
from weft.storage.ledger import ResultRow

_TEXT = "This is a test message of Weft: answers that are sent to this place arrive. It is about no query."


def send_test(text: str, home: Path, home_id: str, user: str, at: int) -> tuple[str, str]:
    """Sends a test message to the channel ``text``: the channel's one name, and what came of it in words.

    ``at`` is the wall's time (microseconds UTC).  Raises Refused for a channel that cannot be, DeliveryError where it
    does not take the message.
    """
    channel = open_channel(text, home)
    if channel is None:
        raise Refused("nothing is sent to the cursor", hint="Name file:PATH, delta:PATH or email:ADDRESS.")
    row = ResultRow(1, at, 0, (_TEXT,))
    zone = configuration(home).zone_of(user, channel.person)
    about = About(sql="-- no query", user=user, total=1, home=home, home_id=home_id, at=at, query_id=0, zone=zone)
    columns = (("message", STRING),)
    message = Message(f"test-{at}", "test message", columns, (row,), 1, about, is_test=True, attempt_at=at)
    return channel.address, channel.test(message)
