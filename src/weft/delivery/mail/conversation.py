"""Submit a letter over SMTP (RFC 5321), and determine whether the server accepted the letter.

If the session ends before the end of the text, the server cannot have accepted the letter.  If the session ends between
the text and the reply, only the server knows the outcome.

The settings limit the time for each reply.  The limit for a whole session is four times the limit for a reply.  A slow
server therefore cannot block the outbox.
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

from weft.delivery.channel import Lost, Rejected, Unreachable
from weft.errors import DeliveryError
from weft.failpoint import failpoint

_SESSION_FACTOR: Final = 4
_REPLY_LENGTH: Final = 300


@dataclass(frozen=True)
class Server:
    """A mail server.  ``timeout`` is in seconds.  If ``ca_file`` is None, Weft uses the certificates of the system."""

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


def submit(server: Server, recipients: Sequence[str], content: bytes) -> str:
    """Submit a letter (with CRLF line ends) to all recipients, and return the last reply of the server.

    If the server refuses one recipient, no recipient receives the letter.

    Raises Unreachable if the session fails.  Raises Rejected if the server refuses the letter permanently.  Raises Lost
    if the outcome is unknown.  Raises DeliveryError if the letter was not sent but can be retried.
    """
    with _session(server) as client:
        try:
            _envelope(client, server, recipients, content)
            client.send(_stuffed(content))
            failpoint("mail.data")
        except (smtplib.SMTPException, OSError) as error:
            raise Unreachable(f"the message was not sent: {_reason(error)}", where=str(server)) from None
        try:
            client.send(b".\r\n")
            failpoint("mail.ended")
            code, answer = client.getreply()
        except (smtplib.SMTPException, OSError) as error:
            raise Lost(f"no reply after the end of the text: {_reason(error)}", where=str(server)) from None
        _require(server, "the text", code, answer)
        return _line(code, answer)


def _envelope(client: _Client, server: Server, recipients: Sequence[str], content: bytes) -> None:
    size = [f"size={len(content)}"] if client.has_extn("size") else []
    _require(server, f"the sender {server.sender}", *client.mail(server.sender, size))
    for recipient in recipients:  # all recipients or none, so that a retry duplicates nothing
        _require(server, recipient, *client.rcpt(recipient))
    failpoint("mail.accepted")
    code, answer = client.docmd("DATA")
    if code != 354:
        _require(server, "the text", code, answer)
        raise DeliveryError(f"the server replied {code} to DATA", where=str(server))


def _require(server: Server, what: str, code: int, answer: bytes) -> None:
    if 200 <= code < 300:
        return
    message = f"the server refused {what}: {_line(code, answer)}"
    if 500 <= code < 600:
        raise Rejected(message, where=str(server), hint="Correct the cause, then run `weft resume` for the query.")
    raise DeliveryError(message, where=str(server))


def _stuffed(content: bytes) -> bytes:
    """Double each dot at the start of a line, and end the text with CRLF."""
    stuffed = re.sub(rb"(?m)^\.", b"..", content)
    return stuffed if stuffed.endswith(b"\r\n") else stuffed + b"\r\n"


class _Lines:
    """A reader that raises an error for a truncated line.  smtplib would accept the truncated line ``25`` as a
    reply.
    """

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream

    def readline(self, most: int) -> bytes:
        line = self._stream.readline(most)
        if line and not line.endswith(b"\n") and len(line) < most:
            raise ConnectionResetError("the reply is incomplete")
        return line

    def close(self) -> None:
        self._stream.close()


class _Client(smtplib.SMTP):
    """An SMTP session.  Another thread can end the session through ``line``, the socket below TLS."""

    line: socket.socket | None = None

    def __init__(self, server: Server, context: ssl.SSLContext | None) -> None:
        self._server, self._context = server, context
        # Pass a local host name.  Otherwise smtplib would look up a name in the network, which may block.
        super().__init__(local_hostname=server.sender.rpartition("@")[2], timeout=server.timeout)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = socket.create_connection((host, port), timeout)
        self.line = plain.dup()
        if self._server.tls != "implicit" or self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_hostname=host)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Lines(self.sock.makefile("rb"))
        return super().getreply()

    def end(self) -> None:
        """Shut down the connection, even if another thread waits for a reply."""
        if self.line is not None:
            with suppress(OSError):
                self.line.shutdown(socket.SHUT_RDWR)


@contextmanager
def _session(server: Server) -> Iterator[_Client]:
    client = None
    timer = None
    try:
        try:
            context = None if server.tls == "none" else ssl.create_default_context(cafile=server.ca_file)
            client = _Client(server, context)
            timer = threading.Timer(server.timeout * _SESSION_FACTOR, client.end)
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
    # Set the host name as connect() does.  TLS compares the certificate with this name.
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
            hint=(
                "Check that the certificate contains the name in smtp.host. To trust another authority, set "
                "smtp.ca_file."
            ),
        )
    if isinstance(error, ssl.SSLError):
        return Unreachable(
            f"the TLS handshake failed: {_clean(error.reason or str(error))}",
            where=where,
            hint='Set smtp.tls to "implicit" (port 465) or "starttls" (port 587), as the server requires.',
        )
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Unreachable(
            f"the server refused the login: {_reason(error)}",
            where=where,
            hint="Check smtp.user and the password.",
        )
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return Unreachable(
            f"the server does not support the request: {_reason(error)}", where=where, hint=_tls_hint(server)
        )
    return Unreachable(f"the mail server cannot be reached: {_reason(error)}", where=where)


def _tls_hint(server: Server) -> str:
    return f'smtp.tls is "{server.tls}": check which encryption the server offers on its ports 587, 465 and 25.'


def _reason(error: Exception) -> str:
    """Remove control characters, because they could manipulate a terminal."""
    if isinstance(error, TimeoutError):
        return "the server did not reply in time"
    if isinstance(error, smtplib.SMTPResponseException):
        return _line(error.smtp_code, error.smtp_error)
    if isinstance(error, smtplib.SMTPServerDisconnected):
        inner = error.__context__
        return (
            "the server did not reply in time"
            if isinstance(inner, TimeoutError)
            else "the server closed the connection"
        )
    if isinstance(error, OSError) and error.strerror:
        return _clean(error.strerror)
    return _clean(str(error) or type(error).__name__)


def _line(code: int, answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return _clean(f"{code} {text}")


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_REPLY_LENGTH]
