"""Parse header fields of mail and news into plain text, ids, groups and times.

The standard library's ``email`` parses the fields. The parser policy returns every field as written and never raises an
error. The structured parsers of ``policy.default`` reject some real headers and are several times slower. Parsed text
contains no control characters (CR, LF, NUL …), even if an encoded word decodes to one (design section 8).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from datetime import datetime
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import Compat32
from email.utils import parsedate_tz
from typing import Final

from weft.instants import DAY_US, SECOND_US, format_interval, from_datetime

_MAX_OFFSET_S: Final = 14 * 3_600
_MAX_ENCODED: Final = 1 << 16
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ID: Final = re.compile(r"<([^<>\s]+)>")
_OWN_ID: Final = re.compile(r"<([^<>]*)>")
_SPEAKER: Final = re.compile(r"\s*(\([^)]*\)\s*)?'s\b|\s+(writes|wrote|said|says)\b")
_NO_TEXT_CODECS: Final = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)


class _AsWritten(Compat32):
    """The policy Compat32 without the conversion of 8-bit bytes to U+FFFD."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        """Return the text of the field. Non-ASCII bytes are surrogates."""
        return value


AS_WRITTEN: Final = _AsWritten()
"""The parser policy for all mail."""


def decode_bytes(raw: bytes, charset: str) -> str | None:
    """Return the decoded bytes, or None if they are invalid or mail may not use the charset."""
    if not is_charset(charset):
        return None
    try:
        text = raw.decode(charset)
        text.encode("utf-8")
    except (LookupError, ValueError):
        return None
    return text


def is_charset(name: str) -> bool:
    """Return whether a codec with this name exists and mail may use it.

    Mail may not use the codecs ``idna`` and ``punycode``, because decoding takes quadratic time. Mail may not use
    ``unicode_escape``, because this codec creates characters.
    """
    if name.strip().lower().replace("-", "_") in _NO_TEXT_CODECS:
        return False
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def undeclared(raw: bytes) -> str:
    """Return the text of bytes without a declared charset. Bytes that are not valid UTF-8 are read as Latin-1.

    News used Latin-1 before MIME.
    """
    text = decode_bytes(raw, "utf-8")
    return raw.decode("latin-1") if text is None else text


def text_of(message: Message, name: str) -> str | None:
    """Return the text of the first field with this name, or None if the message has no such field.

    Encoded words (RFC 2047) are decoded. Consecutive whitespace and control characters become one blank. An encoded
    word that cannot be decoded stays as written (RFC 2047, section 6.3).
    """
    written = message.get(name)
    if written is None:
        return None
    # Unfold first, because the library loses the blank of a fold before an encoded word.
    text = " ".join(_plain_text(str(written)).split())
    if "=?" in text and len(text) <= _MAX_ENCODED:
        text = _decoded(text)
    return " ".join(_CONTROLS.sub(" ", text).split())


def _plain_text(written: str) -> str:
    return written if written.isascii() else undeclared(written.encode("utf-8", "surrogateescape"))


def _decoded(text: str) -> str:
    try:
        parts = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    decoded: list[str] = []
    for part, charset in parts:
        if isinstance(part, str):
            decoded.append(part)
            continue
        # The library returns the unencoded text between encoded words as raw-unicode-escape bytes without a charset.
        piece = part.decode("raw-unicode-escape") if charset is None else decode_bytes(part, charset)
        if piece is None:
            return text
        decoded.append(piece)
    # Invalid base64 decodes to nothing without an error.
    return "".join(decoded) or text


def message_id(message: Message) -> str | None:
    """Return the Message-ID without angle brackets and blanks, or None if the field is absent or empty.

    Some archives mask addresses and write ids with blanks. An id therefore need not contain ``@``.
    """
    written = text_of(message, "Message-ID")
    if not written:
        return None
    match = _OWN_ID.search(written)
    return _BLANKS.sub("", match[1] if match else written.strip("<>")) or None


def parent_id(message: Message) -> str | None:
    """Return the id of the parent message: the last id in References, or else the first id in In-Reply-To.

    Return None if there is no id. In-Reply-To is often prose. An address before ``'s message`` is not an id.
    """
    references = _ID.findall(text_of(message, "References") or "")
    if references:
        return str(references[-1])
    prose = text_of(message, "In-Reply-To") or ""
    for match in _ID.finditer(prose):
        if not _SPEAKER.match(prose, match.end()):
            return match[1]
    return None


def newsgroups(message: Message) -> tuple[str, ...]:
    """Return the distinct groups in the Newsgroups field, in order. The result is empty if the field is absent."""
    return _distinct(re.split(r"[,\s]+", text_of(message, "Newsgroups") or ""))


def list_id(message: Message) -> str | None:
    """Return the identifier in the List-Id field (RFC 2919) without its description, or None if the field is absent."""
    written = text_of(message, "List-Id")
    if not written:
        return None
    match = _OWN_ID.search(written)
    return _BLANKS.sub("", match[1] if match else written.split()[-1]) or None


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def instant_of(written: str | None, at: int, future_us: int = DAY_US) -> int | str:
    """Return a Date field in microseconds UTC, or the reason for rejecting it.

    A date without a zone, or with an unknown zone name, is read as UTC. The function rejects text that does not parse,
    a day that does not exist, and an offset beyond 14 hours. The function also rejects a time before 1970, and a time
    more than ``future_us`` microseconds after ``at``.
    """
    if not written:
        return "no Date"
    try:
        parsed = parsedate_tz(written)
    except (ValueError, IndexError, TypeError, OverflowError):
        parsed = None
    if parsed is None:
        return f"impossible date {written[:80]!r}"
    offset = parsed[9] or 0
    if abs(offset) > _MAX_OFFSET_S:
        return f"impossible date {written[:80]!r}: an offset beyond 14 hours"
    try:
        # datetime has no leap seconds. Second 60 becomes 59.
        moment = datetime(*parsed[:5], min(parsed[5], 59))
    except (ValueError, OverflowError):
        return f"impossible date {written[:80]!r}"
    instant = from_datetime(moment) - offset * SECOND_US
    if instant < 0:
        return f"impossible date {written[:80]!r}: before 1970"
    if instant > at + future_us:
        return f"impossible date {written[:80]!r}: more than {format_interval(future_us)} ahead of the clock"
    return instant
