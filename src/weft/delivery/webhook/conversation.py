"""Send an HTTP request, and determine whether the server received the request.

The module resolves the host name once and checks each address before connecting.  A second look-up might return
addresses that were not checked.  The module does not follow redirects.  The settings limit the time for a response.
The limit for the whole exchange is four times the limit for a response.
"""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft.delivery.channel import Later, Lost, Rejected, Unreachable
from weft.delivery.webhook.destination import Destination, is_public
from weft.errors import DeliveryError
from weft.failpoint import failpoint

_EXCHANGE_FACTOR: Final = 4
_RESPONSE_LENGTH: Final = 300
_SECOND: Final = 1_000_000
_LONGEST_WAIT_US: Final = 24 * 3_600 * _SECOND


def post(
    to: Destination,
    body: bytes,
    headers: Mapping[str, str],
    *,
    at: int,
    timeout: float,
    private: bool,
    ca_file: Path | None,
) -> str:
    """Post the body.  Return the response of the server as one line.

    ``at`` is the time of the wall clock (microseconds UTC).  ``timeout`` is in seconds.  ``private`` allows addresses
    that are not public.

    Raises Rejected for a forbidden private address, or if the server accepts no more messages.  Raises Later if the
    server asks the sender to wait.  Raises Lost if the outcome is unknown.  Raises Unreachable if the request failed.
    Raises DeliveryError for other responses.  The caller can retry after every error except Rejected.
    """
    with _connected(to, timeout, private=private, ca_file=ca_file) as connection:
        try:
            connection.putrequest("POST", to.target, skip_host=True, skip_accept_encoding=True)
            named = {"Host": to.authority, "Content-Length": str(len(body)), "Connection": "close", **headers}
            for name, value in named.items():
                connection.putheader(name, value)
            connection.endheaders()
            failpoint("webhook.begun")
        except (http.client.HTTPException, OSError) as error:
            raise Unreachable(f"the request was not sent: {_reason(error)}", where=to.server) from None
        try:
            connection.send(body)
            failpoint("webhook.sent")
            response = connection.getresponse()
            reply = _line(f"{response.status} {response.reason}")
            with suppress(http.client.HTTPException, OSError):  # only the status is required
                reply = _line(f"{reply} {response.read(_RESPONSE_LENGTH).decode('utf-8', 'replace')}")
            failpoint("webhook.answered")
        except (http.client.HTTPException, OSError) as error:
            raise Lost(f"no response to the request: {_reason(error)}", where=to.server) from None
    _require(to, response, reply, at)
    return reply


def _require(to: Destination, response: http.client.HTTPResponse, reply: str, at: int) -> None:
    status = response.status
    if 200 <= status < 300:
        return
    message = f"the server responded {reply}"
    if status == 410:
        raise Rejected(
            message, where=to.server, hint="Check whether the receiver still wants messages; `weft resume` tries again."
        )
    if 300 <= status < 400:
        place = _line(response.headers.get("Location", "elsewhere"))
        raise DeliveryError(f"{message}: a redirect to {place}, and Weft follows no redirects", where=to.server)
    retry_after = response.headers.get("Retry-After")
    if status in (429, 503) and retry_after is not None:
        raise Later(message, where=to.server, wait_us=_retry_after(retry_after, at))
    raise DeliveryError(message, where=to.server)


def _retry_after(text: str, at: int) -> int:
    """Convert a Retry-After header (seconds or a date) to a pause in microseconds, at most one day."""
    wait = 0
    if text.strip().isdigit():
        wait = int(text.strip()[:9]) * _SECOND
    else:
        with suppress(ValueError, TypeError, OverflowError):
            wait = round(email.utils.parsedate_to_datetime(text).timestamp() * _SECOND) - at
    return min(max(wait, 0), _LONGEST_WAIT_US)


@contextmanager
def _connected(
    to: Destination, timeout: float, *, private: bool, ca_file: Path | None
) -> Iterator[http.client.HTTPConnection]:
    line: socket.socket | None = None
    timer = None
    connection = http.client.HTTPConnection(to.host, to.port, timeout=timeout)
    try:
        try:
            plain = _line_to(to, timeout, private=private)
            line = plain.dup()
            timer = threading.Timer(timeout * _EXCHANGE_FACTOR, _end, [line])
            timer.daemon = True
            timer.start()
            connection.sock = plain
            if to.scheme == "https":
                context = ssl.create_default_context(cafile=ca_file)
                connection.sock = context.wrap_socket(plain, server_hostname=to.host)
        except OSError as error:
            raise _unreachable(to, error) from None
        yield connection
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()
        if line is not None:
            line.close()


def _line_to(to: Destination, timeout: float, *, private: bool) -> socket.socket:
    resolved = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    allowed = [each for each in resolved if private or is_public(str(each[4][0]))]
    if not allowed:
        raise Rejected(
            f"{to.host} has the address {resolved[0][4][0]}, which is not public",
            where=to.server,
            hint="To allow hosts of your own network, set private = true in [webhook] of weft.toml.",
        )
    last: OSError | None = None
    for family, kind, protocol, _, address in allowed:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(timeout)
        try:
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            last = error
    raise last or OSError("the host has no address")


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _unreachable(to: Destination, error: OSError) -> Unreachable:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(f"the server's certificate is not trusted: {_line(error.verify_message)}", where=to.server)
    if isinstance(error, ssl.SSLError):
        return Unreachable(f"the TLS handshake failed: {_line(error.reason or str(error))}", where=to.server)
    return Unreachable(f"the server cannot be reached: {_reason(error)}", where=to.server)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server did not respond in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return _line(error.strerror)
    return _line(str(error) or type(error).__name__)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_RESPONSE_LENGTH]
