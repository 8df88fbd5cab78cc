"""Deliver by email: ``email:ADDRESS`` receives one letter with all new answers, through the server in the settings.

A letter cannot be recalled.  If the sending is interrupted, only the server knows whether it accepted the letter.  Weft
therefore repeats the letter with the same Message-ID, or holds the letter until a person decides.  A mail program shows
only one of several letters with the same Message-ID.
"""

from __future__ import annotations

import os
from typing import Final

from weft.configuration import Configuration
from weft.delivery.channel import DOUBLING, Lost, Message, Recovery
from weft.delivery.mail.addresses import Recipients
from weft.delivery.mail.conversation import Server, submit
from weft.delivery.mail.letter import SHOWN_ROWS, letter
from weft.errors import DeliveryError, Refused
from weft.storage.ledger import Answers

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class EmailChannel:
    """A channel that sends letters to one or more addresses.  Raises Refused if the settings are incomplete."""

    shown_rows: Final = SHOWN_ROWS
    schedule: Final = DOUBLING

    def __init__(self, to: Recipients, chosen: Configuration) -> None:
        self._to = to
        self._server = server_of(chosen)
        self._may_have_gone = True
        """The value is initially True, because an earlier process may have died while sending a letter."""

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return self._to.text

    @property
    def server(self) -> str:
        """The host and port of the mail server."""
        return str(self._server)

    def require(self, answers: Answers) -> None:
        """Accept all columns."""
        return

    @property
    def person(self) -> str:
        """The address of the first recipient."""
        return self._to.addresses[0]

    def prepare(self) -> None:
        """Return no position, because the Message-ID identifies a letter."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Send a letter to the server.  Return the last reply of the server."""
        self._may_have_gone = False
        content = letter(message, self.address, self._server.sender, self._to.addresses)
        self._may_have_gone = True
        try:
            return submit(self._server, self._to.addresses, content)
        except DeliveryError as error:
            self._may_have_gone = isinstance(error, Lost)
            raise

    def test(self, message: Message) -> str:
        """Send a letter marked as a test."""
        return f"{self._server} accepted a message to {', '.join(self._to.addresses)}: {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone`` if the server refused the letter, or if the session failed before the end of the text."""
        if not self._may_have_gone:
            return "undone"
        return "again" if self._to.policy == "again" else "unknown"


def server_of(chosen: Configuration) -> Server:
    """Return the mail server of the settings, with its password.  Raise Refused if the settings are incomplete."""
    for key, value in (("smtp.host", chosen.smtp_host), ("smtp.from", chosen.smtp_from)):
        if value is None:
            raise Refused(
                f"{key} is not set, so no email can be sent",
                hint='Write into weft.toml in the home: [smtp], host = "mail.example.com", from = "weft@example.com".',
            )
    assert chosen.smtp_host is not None and chosen.smtp_from is not None
    if chosen.smtp_user is not None and chosen.smtp_tls == "none" and chosen.smtp_host not in _LOOPBACK:
        raise Refused(
            'smtp.user is set and smtp.tls is "none": the password would cross the network unencrypted',
            hint='Set smtp.tls to "starttls" or "implicit".',
        )
    return Server(
        host=chosen.smtp_host,
        port=chosen.mail_port,
        tls=chosen.smtp_tls,
        ca_file=chosen.smtp_ca_file,
        user=chosen.smtp_user,
        password=_password(chosen) if chosen.smtp_user is not None else None,
        sender=chosen.smtp_from,
        timeout=chosen.smtp_timeout,
    )


def _password(chosen: Configuration) -> str:
    if chosen.smtp_password is not None:
        return chosen.smtp_password
    if chosen.smtp_password_env is not None:
        password = os.environ.get(chosen.smtp_password_env)
        if not password:
            raise Refused(
                f"smtp.password_env names the variable {chosen.smtp_password_env}, but this variable is not set",
                hint="Set the variable in the environment of Weft; a service has an environment of its own.",
            )
        return password
    if chosen.smtp_password_file is not None:
        try:
            return chosen.smtp_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
            raise Refused(
                f"smtp.password_file cannot be read: {reason}", where=str(chosen.smtp_password_file)
            ) from None
    raise Refused(
        "smtp.user is set, but no password is set", hint="Set smtp.password_file, smtp.password_env or smtp.password."
    )
