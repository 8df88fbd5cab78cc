"""Deliver into a folder on an IMAP server: ``imaps://USER@HOST/FOLDER`` receives each message once, as a letter.

The channel searches the folder for the Message-ID of the letter before it appends the letter.  A repetition after an
interruption therefore has no effect.  The letters need no mail server that sends.
"""

from __future__ import annotations

import imaplib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from weft.configuration import Configuration
from weft.delivery.channel import DOUBLING, Message, Recovery, Unreachable
from weft.delivery.mail.letter import SHOWN_ROWS, letter, message_id
from weft.errors import DeliveryError
from weft.failpoint import failpoint
from weft.instants import to_datetime
from weft.mail_servers.address import MailPlace
from weft.mail_servers.imap import FAILURES, Refusal, folder_name, imap_session, quoted, reason, require
from weft.storage.ledger import Answers

_SENDER: Final = "weft@localhost"


class MailboxChannel:
    """A folder on an IMAP server.  The folder must exist."""

    shown_rows: Final = SHOWN_ROWS
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, place: MailPlace, chosen: Configuration) -> None:
        self._place = place
        self._sender = chosen.smtp_from or _SENDER

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return self._place.text

    @property
    def server(self) -> str:
        """The host and port of the IMAP server."""
        return self._place.server

    def require(self, answers: Answers) -> None:
        """Accept all columns."""

    def prepare(self) -> None:
        """Return no position, because the Message-ID identifies a letter."""

    def send(self, message: Message, position: str | None) -> str:
        """Append the letter unless the folder contains it.  Return the reply of the server."""
        content = letter(message, self.address, self._sender, [self._sender])
        folder = folder_name(self._place.name)
        with self._session() as client:
            if _contains(client, folder, message_id(message.key, message.about.home_id)):
                return "the folder already contains the letter"
            failpoint("imap.searched")
            date = imaplib.Time2Internaldate(to_datetime(message.about.at))
            reply = require(client.append(folder, "", date, content))
            failpoint("imap.appended")
        return bytes(reply[0] or b"").decode("utf-8", "replace") or "appended"

    def test(self, message: Message) -> str:
        """Append a letter marked as a test."""
        return f"{self._place.server} appended a message to {self._place.name}: {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone``, because the next ``send`` finds a letter that the folder contains."""
        return "undone"

    @contextmanager
    def _session(self) -> Iterator[imaplib.IMAP4]:
        try:
            with imap_session(self._place) as client:
                yield client
        except Refusal as refusal:
            raise DeliveryError(
                f"the IMAP server refused: {reason(refusal)}",
                where=self.address,
                hint="Correct the user, the password or the folder.",
            ) from None
        except FAILURES as error:
            raise Unreachable(f"the session with the IMAP server failed: {reason(error)}", where=self.address) from None


def _contains(client: imaplib.IMAP4, folder: str, key: str) -> bool:
    require(client.select(folder, readonly=True))
    found = require(client.uid("SEARCH", "HEADER", "Message-ID", quoted(key)))
    return any(each and each.split() for each in found)
