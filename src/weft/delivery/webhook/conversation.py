"""One request to a server of the web, and what is known of it when it ends early.

The name is looked up once, and each address is judged before it is connected to: what a name means may change between
two look-ups.  Redirects are not followed.  An answer is waited for as long as the settings say, the whole conversation
four times as long.
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

from weft.delivery.channel import Later, Rejected, Unreachable
from weft.delivery.webhook.addresses import is_public
from weft.delivery.webhook.destination import Destination
from weft.errors import DeliveryError
from weft.failpoint import failpoint

_WHOLE: Final = 4
_TOLD: Final = 300
_SECOND: Final = 1_000_000
_LONGEST_WAIT_US: Final = 24 * 3_600 * _SECOND


class Lost(Unreachable):
    """The request was sent and no answer came: it may have been taken."""


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
    """Posts the body; the server's answer in a line.  ``at`` is the wall's time (microseconds), ``timeout`` in seconds.

    ``private`` allows addresses that are not public.  Raises Rejected where that is not so or the server wants no more,
    Later, Lost, Unreachable, and DeliveryError where it did not go and may another time.
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
            raise Unreachable(f"the request did not go: {_told(error)}", where=to.server) from None
        try:
            connection.send(body)
            failpoint("webhook.sent")
            response = connection.getresponse()
            said = _line(f"{response.status} {response.reason}")
            with suppress(http.client.HTTPException, OSError):  # its status is what counts
                said = _line(f"{said} {response.read(_TOLD).decode('utf-8', 'replace')}")
            failpoint("webhook.answered")
        except (http.client.HTTPException, OSError) as error:
            raise Lost(f"no answer came to the request: {_told(error)}", where=to.server) from None
    _require(to, response, said, at)
    return said


def _require(to: Destination, response: http.client.HTTPResponse, said: str, at: int) -> None:
    """Raises what the status says, unless it says yes."""
    status = response.status
    if 200 <= status < 300:
        return
    told = f"the server answered {said}"
    if status == 410:
        raise Rejected(told, where=to.server, hint="It wants no more messages; `weft resume` tries it all the same.")
    if 300 <= status < 400:
        place = _line(response.headers.get("Location", "elsewhere"))
        raise DeliveryError(f"{told}: it redirects to {place}, which is not followed", where=to.server)
    asked = response.headers.get("Retry-After")
    if status in (429, 503) and asked is not None:
        raise Later(told, where=to.server, wait_us=_asked(asked, at))
    raise DeliveryError(told, where=to.server)


def _asked(text: str, at: int) -> int:
    """How long a server asks to be left alone, in seconds or up to an instant; a day at most."""
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
            timer = threading.Timer(timeout * _WHOLE, _end, [line])
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
    """A connection to the first address of the host that answers, of those that may be connected to."""
    found = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    allowed = [each for each in found if private or is_public(str(each[4][0]))]
    if not allowed:
        raise Rejected(
            f"{to.host} is at {found[0][4][0]}, which is no public address",
            where=to.server,
            hint="A host of your own network is reached with private = true in [webhook] of weft.toml.",
        )
    last: OSError | None = None
    for family, kind, protocol, _, address in allowed:
        made = socket.socket(family, kind, protocol)
        made.settimeout(timeout)
        try:
            made.connect(address)
            return made
        except OSError as error:
            made.close()
            last = error
    raise last or OSError("there is no address")


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _unreachable(to: Destination, error: OSError) -> Unreachable:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(f"the server's certificate is not trusted: {_line(error.verify_message)}", where=to.server)
    if isinstance(error, ssl.SSLError):
        return Unreachable(f"TLS did not begin: {_line(error.reason or str(error))}", where=to.server)
    return Unreachable(f"the server is not to be reached: {_told(error)}", where=to.server)


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "it ended the conversation"
    if isinstance(error, OSError) and error.strerror:
        return _line(error.strerror)
    return _line(str(error) or type(error).__name__)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_TOLD]
