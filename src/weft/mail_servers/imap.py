"""Open sessions with IMAP servers (RFC 3501), and read their replies. The client is the standard library's imaplib."""

from __future__ import annotations

import base64
import imaplib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from weft.mail_servers.address import TIMEOUT, MailPlace

FAILURES: Final = (imaplib.IMAP4.error, OSError, EOFError)
"""The errors that a session raises. ``reason`` describes them."""


class Refusal(imaplib.IMAP4.error):
    """The error for a command that the server answered with NO or BAD."""


@contextmanager
def imap_session(place: MailPlace) -> Iterator[imaplib.IMAP4]:
    """Log in, yield the session, and log out. Raise one of FAILURES, or Refused if the password is missing."""
    password = None if place.user is None else place.password()
    if place.tls == "implicit":
        client: imaplib.IMAP4 = imaplib.IMAP4_SSL(
            place.host, place.port, ssl_context=place.tls_context(), timeout=TIMEOUT
        )
    else:
        client = imaplib.IMAP4(place.host, place.port, timeout=TIMEOUT)
    try:
        if place.tls == "starttls":
            client.starttls(ssl_context=place.tls_context())
        if place.user is not None and password is not None:
            _log_in(client, place.user, password)
        yield client
    finally:
        with suppress(*FAILURES):
            client.logout()
        with suppress(*FAILURES):
            client.shutdown()


def _log_in(client: imaplib.IMAP4, user: str, password: str) -> None:
    if "AUTH=PLAIN" in client.capabilities:
        require(client.authenticate("PLAIN", lambda _: b"\0".join([b"", user.encode(), password.encode()])))
    else:
        require(client.login(user, password))


def require(reply: tuple[str, Sequence[Any]]) -> Sequence[Any]:
    """Return the data of a reply. Raise Refusal if the reply is not OK."""
    status, data = reply
    if status != "OK":
        raise Refusal(_text(data[0] if data else ""))
    return data


def reason(error: BaseException) -> str:
    """Return the reason of one of FAILURES in one line."""
    if isinstance(error, imaplib.IMAP4.error):
        return _text(error.args[0] if error.args else "") or "the server ended the session"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _text(given: object) -> str:
    text = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
    return "".join(c if c.isprintable() else " " for c in text)[:300].strip()


def quoted(text: str) -> str:
    """Return a quoted string for a command."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def folder_name(name: str) -> str:
    """Return the name of a folder for a command: quoted, in modified UTF-7.

    >>> folder_name("Entwürfe & mehr")
    '"Entw&APw-rfe &- mehr"'
    """
    pieces = re.findall(r"[\x20-\x25\x27-\x7e]+|&|[^\x20-\x7e]+", name)
    return quoted("".join("&-" if each == "&" else each if each.isascii() else _shifted(each) for each in pieces))


def _shifted(text: str) -> str:
    return "&" + base64.b64encode(text.encode("utf-16-be")).rstrip(b"=").replace(b"/", b",").decode("ascii") + "-"


_UID: Final = re.compile(rb"\bUID (\d+)")
_SIZE: Final = re.compile(rb"\bRFC822\.SIZE (\d+)")


def sizes_by_uid(data: Sequence[Any]) -> dict[int, int]:
    """Return the sizes of messages in bytes from the reply to ``FETCH (UID RFC822.SIZE)``."""
    found: dict[int, int] = {}
    for each in data:
        if isinstance(each, bytes) and (uid := _UID.search(each)) and (size := _SIZE.search(each)):
            found[int(uid[1])] = int(size[1])
    return found


def texts_by_uid(data: Sequence[Any]) -> dict[int, bytes]:
    """Return the texts of messages from the reply to ``FETCH (UID BODY.PEEK[])``.

    The UID of a message may come before or after its text.
    """
    found: dict[int, bytes] = {}
    for number, each in enumerate(data):
        if not isinstance(each, tuple):
            continue
        after = data[number + 1] if number + 1 < len(data) and isinstance(data[number + 1], bytes) else b""
        uid = _UID.search(each[0]) or _UID.search(after)
        if uid is not None:
            found[int(uid[1])] = each[1]
    return found
