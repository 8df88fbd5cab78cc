"""Read the new articles of a group on a news server (RFC 3977). The number of an article identifies it.

The client is Weft's own: the standard library has none since Python 3.13, and its old one refuses lines of more than
2048 bytes, although articles have such lines.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from weft.errors import ExtractionError, NotFound
from weft.extraction.batches import MAX_RECORD
from weft.extraction.sources.new_messages import MOST_BYTES, MOST_MESSAGES, NewMessages, whole
from weft.interruption import stop_here
from weft.mail_servers.address import TIMEOUT, MailPlace

_MOST_LINE: Final = 1 << 16
"""The maximum length of a reply line in bytes, apart from the lines of an article. RFC 3977 allows 512."""


def check_nntp(place: MailPlace) -> None:
    """Raise NotFound for a missing group, or ExtractionError if the server does not answer."""
    with _group(place):
        pass


def read_nntp(place: MailPlace, seen: Mapping[str, Any]) -> Generator[NewMessages, None, None]:
    """Yield the articles after the position ``seen``. Raise NotFound, ExtractionError or Refused.

    If the greatest number in the group is less than the position, the group was made again, and is read from its start.
    """
    with _group(place) as (session, count, high):
        last = int(seen.get("number", 0))
        if count and high < last:
            last = 0
        records = []
        size = 0
        for taken, number in enumerate(session.numbers(place.name, last + 1, high), 1):
            stop_here()
            raw = session.article(number)
            if raw is not None:
                records += whole(raw, f"article {number}")
                size += len(raw)
            last = number
            if taken % MOST_MESSAGES == 0 or size >= MOST_BYTES:
                yield NewMessages(records, {"number": last}, place.name)
                records, size = [], 0
        yield NewMessages(records, {"number": last}, place.name)


class _Refusal(Exception):
    """The server refused a command."""


class _Session:
    """A session with a news server."""

    def __init__(self, place: MailPlace) -> None:
        self._socket: socket.socket = socket.create_connection((place.host, place.port), TIMEOUT)
        if place.tls == "implicit":
            self._encrypt(place)
        self._stream = self._socket.makefile("rb")

    def _encrypt(self, place: MailPlace) -> None:
        self._socket = place.tls_context().wrap_socket(self._socket, server_hostname=place.host)

    def begin(self, place: MailPlace) -> None:
        """Read the greeting, encrypt the session, log in, and ask for a reader's session."""
        self._reply("200", "201")
        if place.tls == "starttls":
            # A server that other servers use, too, first changes to the mode for readers (RFC 3977, section 3.4.2).
            if self.command("STARTTLS", "382", "401").startswith("401"):
                self.command("MODE READER", "200", "201")
                self.command("STARTTLS", "382")
            self._stream.close()
            self._encrypt(place)
            self._stream = self._socket.makefile("rb")
        # A server for readers only need not know the command.
        self.command("MODE READER", "200", "201", "500", "501", "502", "503")
        if place.user is not None:
            password = place.password()
            if self.command(f"AUTHINFO USER {place.user}", "281", "381").startswith("381"):
                self.command(f"AUTHINFO PASS {password}", "281")

    def command(self, text: str, *expected: str) -> str:
        """Send a command, and return the reply. Raise _Refusal for a reply with a code that is not expected."""
        if "\r" in text or "\n" in text:
            raise _Refusal("a command must be one line")
        self._socket.sendall(text.encode("utf-8") + b"\r\n")
        return self._reply(*expected)

    def _reply(self, *expected: str) -> str:
        line = self._line(_MOST_LINE).decode("utf-8", "replace").rstrip("\r\n")
        if line[:3] not in expected:
            raise _Refusal("".join(c if c.isprintable() else " " for c in line)[:300])
        return line

    def _line(self, most: int) -> bytes:
        line = self._stream.readline(most)
        if not line.endswith(b"\n") and len(line) < most:
            raise EOFError("the server ended the session")
        return line

    def _text(self) -> Iterator[bytes]:
        """Yield the pieces of a reply of several lines, without the dots that RFC 3977 adds. A line may be cut."""
        begins = True
        while True:
            piece = self._line(_MOST_LINE)
            if begins and piece in (b".\r\n", b".\n"):
                return
            yield piece[1:] if begins and piece.startswith(b"..") else piece
            begins = piece.endswith(b"\n")

    def numbers(self, group: str, first: int, last: int) -> list[int]:
        """Return the numbers of the articles from ``first`` to ``last`` in rising order."""
        if first > last:
            return []
        self.command(f"LISTGROUP {group} {first}-{last}", "211")
        listed = [int(each) for each in self._text()]
        return sorted(each for each in listed if first <= each <= last)

    def article(self, number: int) -> bytes | None:
        """Return an article with LF line ends, or None if it is gone. A larger one than MAX_RECORD is cut."""
        try:
            self.command(f"ARTICLE {number}", "220")
        except _Refusal as error:
            if str(error)[:3] in ("423", "430"):
                return None
            raise
        pieces, size = [], 0
        for piece in self._text():
            if size <= MAX_RECORD:
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)[: MAX_RECORD + 1].replace(b"\r\n", b"\n")

    def close(self) -> None:
        """End the session."""
        with suppress(OSError, EOFError, _Refusal):
            self.command("QUIT", "205")
        self._stream.close()
        self._socket.close()


@contextmanager
def _group(place: MailPlace) -> Iterator[tuple[_Session, int, int]]:
    """Open the group. Yield the session, the number of articles, and the greatest number of an article."""
    try:
        session = _Session(place)
        try:
            session.begin(place)
            reply = _opened(session, place)
            _, count, _, high, *_ = reply.split()
            yield session, int(count), int(high)
        finally:
            session.close()
    except (_Refusal, OSError, EOFError, ValueError, ssl.SSLError) as error:
        reason = str(getattr(error, "strerror", None) or error) or type(error).__name__
        raise ExtractionError(
            f"the news server cannot be read: {reason}",
            where=place.server,
            hint="Nothing was lost: the next poll continues after the articles that are stored.",
        ) from None


def _opened(session: _Session, place: MailPlace) -> str:
    try:
        return session.command(f"GROUP {place.name}", "211")
    except _Refusal as error:
        if not str(error).startswith("411"):
            raise
        raise NotFound(
            f"the server has no group {place.name!r}", where=place.server, hint="Check the name of the group."
        ) from None
