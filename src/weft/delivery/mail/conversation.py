"""The conversation with the server that takes mail (RFC 5321), and what is known of a letter when it ends early.

Every answer of the server is waited for as long as the settings say, and the whole conversation four times as long:
a server that stalls, or that says one letter a second, holds nobody up for ever.  Until the end of the text was sent
no server can have taken the letter; from there to the server's answer nobody but the server knows.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, Literal

from weft.delivery.channel import Rejected, Unreachable
from weft.errors import DeliveryError
from weft.failpoint import failpoint

_WHOLE: Final = 4
"""How many times as long as one answer the whole conversation may take."""
_TOLD: Final = 300


class Lost(Unreachable):
    """The end of the text was sent and no answer came: the letter may have gone."""


@dataclass(frozen=True)
class Server:
    """A server that takes mail; ``timeout`` in seconds, ``ca_file`` None: the certificates that the system trusts."""

    host: str
    port: int
    tls: Literal["starttls", "implicit", "none"]
    ca_file: Path | None
    user: str | None
    password: str | None
    sender: str
    timeout: float

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def give(server: Server, recipients: Sequence[str], content: bytes) -> str:
    """Gives a letter (CRLF ends its lines) to the server, for all of the recipients or for none; the server's answer.

    Raises Unreachable where the server does not speak to the end, Rejected where it will not have the letter, Lost
    where nobody knows, DeliveryError where it did not go and may another time.
    """
    with _talking(server) as client:
        try:
            _envelope(client, server, recipients, content)
            client.send(_stuffed(content))
            failpoint("mail.data")
        except (smtplib.SMTPException, OSError) as error:
            raise Unreachable(f"the letter did not go: {_told(error)}", where=str(server)) from None
        try:
            client.send(b".\r\n")
            failpoint("mail.ended")
            code, answer = client.getreply()
        except (smtplib.SMTPException, OSError) as error:
            raise Lost(f"no answer came after the end of the text: {_told(error)}", where=str(server)) from None
        _require(server, "the text", code, answer)
        return _line(code, answer)


def _envelope(client: _Client, server: Server, recipients: Sequence[str], content: bytes) -> None:
    size = [f"size={len(content)}"] if client.has_extn("size") else []
    _require(server, f"the sender {server.sender}", *client.mail(server.sender, size))
    for recipient in recipients:  # one who is refused: nobody gets it, so that nobody gets it twice
        _require(server, recipient, *client.rcpt(recipient))
    failpoint("mail.accepted")
    code, answer = client.docmd("DATA")
    if code != 354:
        _require(server, "the text", code, answer)
        raise DeliveryError(f"the server answered {code} to DATA", where=str(server))


def _require(server: Server, given: str, code: int, answer: bytes) -> None:
    """Raises Rejected, or DeliveryError where another time may do, unless the server said yes."""
    if 200 <= code < 300:
        return
    told = f"the server does not take {given}: {_line(code, answer)}"
    if 500 <= code < 600:
        raise Rejected(told, where=str(server), hint="Mend that, then `weft resume` the query.")
    raise DeliveryError(told, where=str(server))


def _stuffed(content: bytes) -> bytes:
    """The text with a dot before each line that begins with one, its last line ended."""
    stuffed = re.sub(rb"(?m)^\.", b"..", content)
    return stuffed if stuffed.endswith(b"\r\n") else stuffed + b"\r\n"


class _Lines:
    """What the server says, line by line; one that breaks off is no answer, where smtplib takes ``25`` for one."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream

    def readline(self, most: int) -> bytes:
        """The next line, ``most`` bytes at most; nothing at the end.  Raises ConnectionResetError for half a line."""
        line = self._stream.readline(most)
        if line and not line.endswith(b"\n") and len(line) < most:
            raise ConnectionResetError("the answer broke off")
        return line

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class _Client(smtplib.SMTP):
    """The conversation; ``line`` is the connection below TLS, by which it can be ended from another thread."""

    line: socket.socket | None = None

    def __init__(self, server: Server, context: ssl.SSLContext | None) -> None:
        self._server, self._context = server, context
        # Without a name of its own to say it would ask the network for one, and may wait for that.
        super().__init__(local_hostname=server.sender.rpartition("@")[2], timeout=server.timeout)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = socket.create_connection((host, port), timeout)
        self.line = plain.dup()
        if self._server.tls != "implicit" or self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_hostname=host)

    def getreply(self) -> tuple[int, bytes]:
        """The server's answer."""
        if self.file is None and self.sock is not None:
            self.file = _Lines(self.sock.makefile("rb"))
        return super().getreply()

    def end(self) -> None:
        """Ends the connection, whatever is waited for."""
        if self.line is not None:
            with suppress(OSError):
                self.line.shutdown(socket.SHUT_RDWR)


@contextmanager
def _talking(server: Server) -> Iterator[_Client]:
    """A conversation as far as the server knows who speaks; raises Unreachable."""
    client = None
    timer = None
    try:
        try:
            context = None if server.tls == "none" else ssl.create_default_context(cafile=server.ca_file)
            client = _Client(server, context)
            timer = threading.Timer(server.timeout * _WHOLE, client.end)
            timer.daemon = True
            timer.start()
            _begin(client, server, context)
        except (smtplib.SMTPException, OSError, UnicodeError) as error:
            raise _unreachable(server, error) from None
        yield client
    finally:
        if timer is not None:
            timer.cancel()
        if client is not None:
            with suppress(smtplib.SMTPException, OSError):
                client.putcmd("quit")
            client.close()
            if client.line is not None:
                client.line.close()


def _begin(client: _Client, server: Server, context: ssl.SSLContext | None) -> None:
    # As connect() notes it: TLS is asked for the certificate of this name.
    client._host = server.host  # type: ignore[attr-defined]
    code, answer = client.connect(server.host, server.port)
    if code != 220:
        raise smtplib.SMTPConnectError(code, answer)
    client.ehlo_or_helo_if_needed()
    if server.tls == "starttls":
        code, answer = client.starttls(context=context)
        if code != 220:
            raise smtplib.SMTPResponseException(code, answer)
        client.ehlo_or_helo_if_needed()
    if server.user is not None:
        client.login(server.user, server.password or "")


def _unreachable(server: Server, error: Exception) -> Unreachable:
    where = str(server)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the server's certificate is not trusted: {_clean(error.verify_message)}",
            where=where,
            hint="Is smtp.host the name in its certificate? Another authority is trusted by smtp.ca_file.",
        )
    if isinstance(error, ssl.SSLError):
        return Unreachable(
            f"TLS did not begin: {_clean(error.reason or str(error))}",
            where=where,
            hint='smtp.tls is "implicit" (port 465) or "starttls" (port 587), as the server has it.',
        )
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Unreachable(
            f"the server refuses the credentials: {_told(error)}",
            where=where,
            hint="Look at smtp.user and its password.",
        )
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return Unreachable(
            f"the server does not offer what is asked: {_told(error)}", where=where, hint=_tls_hint(server)
        )
    return Unreachable(f"the server for mail is not to be reached: {_told(error)}", where=where)


def _tls_hint(server: Server) -> str:
    return f'smtp.tls is "{server.tls}": see what the server offers on its ports 587, 465 and 25.'


def _told(error: Exception) -> str:
    """What an error says, in one line; what the server said is not to be trusted with a terminal."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, smtplib.SMTPResponseException):
        return _line(error.smtp_code, error.smtp_error)
    if isinstance(error, smtplib.SMTPServerDisconnected):
        inner = error.__context__
        return "it did not answer in time" if isinstance(inner, TimeoutError) else "it ended the conversation"
    if isinstance(error, OSError) and error.strerror:
        return _clean(error.strerror)
    return _clean(str(error) or type(error).__name__)


def _line(code: int, answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return _clean(f"{code} {text}")


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_TOLD]
