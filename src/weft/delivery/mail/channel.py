"""``email:ADDRESS``: one letter for all that is new, by the server of the settings.

A letter cannot be taken back, and whether one that was interrupted has gone only its server knows.  So it goes again
under the same Message-ID, by which mail programs show it once, or is held until a person says so.
"""

from __future__ import annotations

import os
from typing import Final

from weft.configuration import Configuration
from weft.delivery.channel import Message, Recovery
from weft.delivery.mail.addresses import Addressed
from weft.delivery.mail.conversation import Lost, Server, give
from weft.delivery.mail.letter import SHOWN_ROWS, letter
from weft.delivery.retrying import DOUBLING
from weft.errors import DeliveryError, Refused
from weft.storage.ledger import Answers

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class EmailChannel:
    """Letters to one or several addresses; raises Refused where the settings do not say enough to send any."""

    shown_rows: Final = SHOWN_ROWS
    schedule: Final = DOUBLING

    def __init__(self, to: Addressed, chosen: Configuration) -> None:
        self._to = to
        self._server = server_of(chosen)
        self._may_have_gone = True
        """Of a process that died nobody knows how far it came."""

    @property
    def address(self) -> str:
        """The channel's one name."""
        return self._to.text

    @property
    def server(self) -> str:
        """The server that takes the letters."""
        return str(self._server)

    def require(self, answers: Answers) -> None:
        """A letter takes any answers."""
        return

    @property
    def person(self) -> str:
        """Whoever gets the letter; of several the first."""
        return self._to.addresses[0]

    def prepare(self) -> None:
        """Nothing has to be noted: a letter is known by its Message-ID."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Writes the letter and gives it to the server; the server's last answer."""
        self._may_have_gone = False
        content = letter(message, self.address, self._server.sender, self._to.addresses)
        self._may_have_gone = True
        try:
            return give(self._server, self._to.addresses, content)
        except DeliveryError as error:
            self._may_have_gone = isinstance(error, Lost)
            raise

    def test(self, message: Message) -> str:
        """Sends a letter that says it is a test."""
        return f"{self._server} took a letter to {', '.join(self._to.addresses)}: {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Whether a letter has gone is known only where the conversation ended before its end, or after the answer."""
        if not self._may_have_gone:
            return "undone"
        return "again" if self._to.policy == "again" else "unknown"


def server_of(chosen: Configuration) -> Server:
    """The server that the settings name, with its password; raises Refused where they do not say enough."""
    for key, value in (("smtp.host", chosen.smtp_host), ("smtp.from", chosen.smtp_from)):
        if value is None:
            raise Refused(
                f"{key} is not set, so no mail can be sent",
                hint='Write into weft.toml in the home: [smtp], host = "mail.example.com", from = "weft@example.com".',
            )
    assert chosen.smtp_host is not None and chosen.smtp_from is not None
    if chosen.smtp_user is not None and chosen.smtp_tls == "none" and chosen.smtp_host not in _LOOPBACK:
        raise Refused(
            'smtp.user is set and smtp.tls is "none": the password would go over the network for everybody to read',
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
        found = os.environ.get(chosen.smtp_password_env)
        if not found:
            raise Refused(
                f"the variable {chosen.smtp_password_env} is not set, which smtp.password_env names",
                hint="Set it where Weft runs; a service has an environment of its own.",
            )
        return found
    if chosen.smtp_password_file is not None:
        try:
            return chosen.smtp_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise Refused(
                f"smtp.password_file cannot be read: {reason}", where=str(chosen.smtp_password_file)
            ) from None
    raise Refused(
        "smtp.user is set, and no password", hint="Set smtp.password_file, smtp.password_env or smtp.password."
    )
