"""Register each kind of channel under the scheme of its names.  A new kind of channel needs one module, and one line in
this module.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from weft.algebra.schema import STRING
from weft.catalog.channel_folders import shared_root
from weft.configuration import FILE, configuration
from weft.delivery.channel import About, Channel, Message
from weft.delivery.file import FileChannel
from weft.delivery.mail.addresses import parse_recipients
from weft.errors import Refused
from weft.storage.ledger import Answers, ResultRow

CURSOR: Final = "cursor"
"""The channel from which clients fetch answers.  Every query has this channel, and the outbox skips this channel."""


def _file(address: str, home: Path, home_id: str | None) -> FileChannel:
    return FileChannel(address, shared_root("file", home, home_id))


def _email(address: str, home: Path, _: str | None) -> Channel:
    from weft.delivery.mail.channel import EmailChannel

    chosen = configuration(home)
    return EmailChannel(parse_recipients(address, chosen), chosen)


def _delta(address: str, home: Path, home_id: str | None) -> Channel:
    from weft.delivery.delta import DeltaChannel

    return DeltaChannel(address, shared_root("delta", home, home_id))


def _webhook(address: str, home: Path, _: str | None) -> Channel:
    from weft.delivery.webhook.channel import WebhookChannel
    from weft.delivery.webhook.destination import parse_destination

    chosen = configuration(home)
    return WebhookChannel(parse_destination(address, chosen), chosen)


def _exec(address: str, home: Path, _: str | None) -> Channel:
    from weft.delivery.program import ProgramChannel

    return ProgramChannel(address, home, configuration(home))


def _feed(address: str, home: Path, home_id: str | None) -> Channel:
    from weft.delivery.feed import FeedChannel

    return FeedChannel(address, home, shared_root("file", home, home_id))


def _mailbox(scheme: str, address: str, home: Path, _: str | None) -> Channel:
    from weft.delivery.mail.mailbox import MailboxChannel
    from weft.mail_servers.address import mail_place

    return MailboxChannel(mail_place(f"{scheme}:{address}", "imap"), configuration(home))


_CHANNELS: Final[Mapping[str, Callable[[str, Path, str | None], Channel]]] = {
    "file": _file,
    "delta": _delta,
    "email": _email,
    "webhook": _webhook,
    "exec": _exec,
    "feed": _feed,
    "imap": partial(_mailbox, "imap"),
    "imaps": partial(_mailbox, "imaps"),
}


def canonical(text: str, home: Path) -> str:
    """Return the canonical name of a channel.  Raise Refused for an unknown or invalid channel."""
    if text.strip().lower() == CURSOR:
        return CURSOR
    return _parse_channel(text, home, None).address


def default_channels(home: Path) -> tuple[str, ...]:
    """Return the canonical names of the default channels.  Raise Refused if ``install.to`` has an invalid channel."""
    try:
        return tuple(canonical(each, home) for each in configuration(home).install_to)
    except Refused as error:
        error.where = error.where or f"install.to of {home / FILE}"
        raise


def require_accepted(channels: Iterable[str], home: Path, answers: Answers) -> None:
    """Raise Refused if one of the channels cannot accept the answers."""
    for each in channels:
        channel = open_channel(each, home, answers.home_id)
        if channel is not None:
            channel.require(answers)


def open_channel(text: str, home: Path, home_id: str) -> Channel | None:
    """Return the channel with the name ``text``, or None for the cursor.

    Raise Refused for an invalid channel.  Raise FolderElsewhere, a Refused, if this machine lacks its folder.
    """
    return None if text.strip().lower() == CURSOR else _parse_channel(text, home, home_id)


def _parse_channel(text: str, home: Path, home_id: str | None) -> Channel:
    scheme, colon, address = text.strip().partition(":")
    make = _CHANNELS.get(scheme.lower()) if colon else None
    if make is None:
        near = difflib.get_close_matches(scheme.lower(), [CURSOR, *_CHANNELS], 1, 0.6)
        meant = "" if not near else f": did you mean {near[0]}{'' if near[0] == CURSOR else ':…'}?"
        kinds = ", ".join(f"{each}:…" for each in _CHANNELS)
        raise Refused(f"{text!r} is not a channel{meant}", hint=f"Use one of the channels {CURSOR}, {kinds}")
    return make(address, home, home_id)


_TEXT = "This is a test message from Weft: answers sent to this address arrive. It belongs to no query."


def send_test(text: str, home: Path, home_id: str, user: str, at: int) -> tuple[str, str]:
    """Send a test message to a channel.

    Return the canonical name of the channel, and a sentence about the outcome.  ``at`` is the time of the wall clock
    (microseconds UTC).  Raises Refused for an invalid channel.  Raises DeliveryError if the channel does not accept the
    message.
    """
    channel = open_channel(text, home, home_id)
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
