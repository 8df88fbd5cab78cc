"""Header fields of mail and news as plain text, ids, groups and instants.

Fields are parsed by the standard library's ``email`` under a policy that gives every field as it was written and raises
for none; the structured parsers of ``policy.default`` refuse some real headers and are several times slower.  The
result holds no CR, LF, NUL or other control character, whatever an encoded word decodes to (design section 8).
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
    """Compat32, which gives fields with 8-bit bytes as objects that print them as U+FFFD, without doing that."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        """The field's text; bytes that are not ASCII are surrogates."""
        return value


AS_WRITTEN: Final = _AsWritten()
"""The policy by which all mail is parsed."""


def decode_bytes(raw: bytes, charset: str) -> str | None:
    """The bytes as text of that charset; None where they are not, or it is not one that mail may use."""
    if not is_charset(charset):
        return None
    try:
        text = raw.decode(charset)
        text.encode("utf-8")
    except (LookupError, ValueError):
        return None
    return text


def is_charset(name: str) -> bool:
    """Whether there is a codec of that name that mail may use.

    ``idna`` and ``punycode`` take quadratic time, ``unicode_escape`` invents characters: none is a charset of mail.
    """
    if name.strip().lower().replace("-", "_") in _NO_TEXT_CODECS:
        return False
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def undeclared(raw: bytes) -> str:
    """Bytes of no declared charset: UTF-8 where they are that, else Latin-1, the habit of news before MIME."""
    text = decode_bytes(raw, "utf-8")
    return raw.decode("latin-1") if text is None else text


def text_of(message: Message, name: str) -> str | None:
    """The first field of that name: RFC 2047 decoded, blanks and control characters folded; None where absent.

    An encoded word that does not decode stays as it was written (RFC 2047, section 6.3).
    """
    written = message.get(name)
    if written is None:
        return None
    # Unfolded first: the library loses the blank of a fold before an encoded word.
    text = " ".join(_plain_text(str(written)).split())
    if "=?" in text and len(text) <= _MAX_ENCODED:
        text = _decoded(text)
    return " ".join(_CONTROLS.sub(" ", text).split())


def _plain_text(written: str) -> str:
    """Undoes the parser's surrogates: raw 8-bit bytes in a header are read as ``undeclared`` does."""
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
        # The library gives unencoded neighbours as raw-unicode-escape bytes without a charset.
        piece = part.decode("raw-unicode-escape") if charset is None else decode_bytes(part, charset)
        if piece is None:
            return text
        decoded.append(piece)
    # Base64 that is none decodes to nothing, without an error.
    return "".join(decoded) or text


def message_id(message: Message) -> str | None:
    """The Message-ID without angle brackets and blanks; None where there is none, or an empty one.

    Archives that mask addresses write ids with blanks in them, so a missing ``@`` is no reason to refuse one.
    """
    written = text_of(message, "Message-ID")
    if not written:
        return None
    match = _OWN_ID.search(written)
    return _BLANKS.sub("", match[1] if match else written.strip("<>")) or None


def parent_id(message: Message) -> str | None:
    """The message it replies to: the last id of References, else the first id in In-Reply-To; None for no reply.

    In-Reply-To is often prose that names a person; an address followed by ``'s message`` is not an id.
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
    """The groups of the Newsgroups field, in order, each once; empty where there is no such field."""
    return _distinct(re.split(r"[,\s]+", text_of(message, "Newsgroups") or ""))


def list_id(message: Message) -> str | None:
    """The list's identifier in List-Id (RFC 2919), without its description."""
    written = text_of(message, "List-Id")
    if not written:
        return None
    match = _OWN_ID.search(written)
    return _BLANKS.sub("", match[1] if match else written.split()[-1]) or None


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def instant_of(written: str | None, at: int, future_us: int = DAY_US) -> int | str:
    """A Date field as microseconds UTC, or the reason why it is impossible.

    A date without a zone, or with a zone name that the library does not know, is UTC.  Impossible are: what does not
    parse, a day that the month has not, an offset beyond 14 hours, anything before 1970 or more than
    ``future_us`` after ``at``.
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
        # 60 is a leap second; time does not have it, so it is the second before.
        moment = datetime(*parsed[:5], min(parsed[5], 59))
    except (ValueError, OverflowError):
        return f"impossible date {written[:80]!r}"
    instant = from_datetime(moment) - offset * SECOND_US
    if instant < 0:
        return f"impossible date {written[:80]!r}: before 1970"
    if instant > at + future_us:
        return f"impossible date {written[:80]!r}: more than {format_interval(future_us)} ahead of the clock"
    return instant
