"""Parse a message into rows of ``msgs``, one for each newsgroup, or into the reason for rejecting the message.

The following messages are rejected, and therefore quarantined:

- a message with NUL bytes, or without a header or a Message-ID
- a message with an invalid or missing Date (:func:`weft.extraction.mail.headers.instant_of`)
- inconsistent MIME: a multipart without its boundary, or invalid base64
- a body that is invalid in its declared charset
- a message with a line over :data:`~weft.extraction.batches.MAX_LINE`
- a message beyond ``MAX_HEADER``, ``MAX_LINES`` or ``MAX_PARTS``

Raw 8-bit text without a declared charset is accepted. A multipart without its last boundary is accepted, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email import errors
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from typing import Final

from weft.algebra.schema import STRING, TIMESTAMP, DataType
from weft.extraction.batches import RawRecord
from weft.extraction.mail.headers import (
    AS_WRITTEN,
    decode_bytes,
    instant_of,
    is_charset,
    list_id,
    message_id,
    newsgroups,
    parent_id,
    text_of,
    undeclared,
)
from weft.instants import DAY_US

MAIL_COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("msgid", STRING),
    ("sender", STRING),
    ("subject", STRING),
    ("date", TIMESTAMP),
    ("newsgroup", STRING),
    ("inreplyto", STRING),
    ("body", STRING),
)
"""The columns of a mail table, before ``ts``. Ids have no angle brackets."""

MAIL_KEY: Final = ("msgid", "newsgroup")
"""The key of a mail table."""

MAX_GROUPS: Final = 1_000
"""The maximum number of groups of one message. Each group is a row with the whole body, so more groups are abuse."""

MAX_HEADER: Final = 1 << 20
"""The maximum size of a message's header, in bytes."""

MAX_LINES: Final = 2_000_000
MAX_PARTS: Final = 20_000
"""The maximum number of lines that start with ``--``, as MIME parts do. ``MAX_LINES`` is the maximum number of lines.
Both limits apply only to messages that need a MIME parser. The parser creates an object for each part.
"""

_HEADER_END: Final = re.compile(rb"\r?\n\r?\n")
_WHOLE: Final = BytesParser(policy=AS_WRITTEN)
_HEADERS: Final = BytesHeaderParser(policy=AS_WRITTEN)
_UNSAID: Final = frozenset({"", "us-ascii", "ascii", "ansi_x3.4-1968", "unknown-8bit", "x-unknown", "unknown"})
_FATAL: Final = (
    errors.NoBoundaryInMultipartDefect,
    errors.StartBoundaryNotFoundDefect,
    errors.MultipartInvariantViolationDefect,
    errors.InvalidMultipartContentTransferEncodingDefect,
    errors.InvalidBase64CharactersDefect,
    errors.InvalidBase64LengthDefect,
)


@dataclass(frozen=True, slots=True)
class MailOptions:
    """Options of a load of mail.

    ``newsgroup`` is the group of messages that name no group. ``at`` is the time of reading, in microseconds UTC. A
    Date may be at most ``future_us`` microseconds after ``at``.
    """

    newsgroup: str | None
    at: int
    future_us: int = DAY_US


class _Unreadable(Exception):
    """The error for a rejected message."""


def read_message(record: RawRecord, stem: str, options: MailOptions) -> list[dict[str, object]] | str:
    """Return the rows of a message, or the reason for rejecting it. ``date`` is in microseconds UTC.

    The groups come from the first of these that is present: Newsgroups, ``options.newsgroup``, List-Id, ``stem``. The
    contents of a message never raise an error.
    """
    if record.problem is not None:
        return record.problem
    try:
        return _rows(record.raw, stem, options)
    except _Unreadable as reason:
        return str(reason)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError) as error:
        # Crafted messages (deeply nested parts, odd parameters) make the parser fail. Reject the message, but continue
        # the load.
        return f"the mail parser failed: {type(error).__name__}"


def _rows(raw: bytes, stem: str, options: MailOptions) -> list[dict[str, object]]:
    raw = raw.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if not raw:
        raise _Unreadable("empty")
    if b"\0" in raw:
        raise _Unreadable("NUL bytes")
    message, simple_body = _parse(raw)
    if not message.keys():
        raise _Unreadable("no header: not a message")
    msgid = message_id(message)
    if msgid is None:
        raise _Unreadable("no Message-ID")
    date = instant_of(text_of(message, "Date"), options.at, options.future_us)
    if isinstance(date, str):
        raise _Unreadable(date)
    groups = newsgroups(message) or (options.newsgroup or list_id(message) or stem,)
    if len(groups) > MAX_GROUPS:
        raise _Unreadable(f"cross-posted to more than {MAX_GROUPS} groups")
    row: dict[str, object] = {
        "msgid": msgid,
        "sender": text_of(message, "From"),
        "subject": text_of(message, "Subject"),
        "date": date,
        "inreplyto": parent_id(message),
        "body": _body(message) if simple_body is None else _text(simple_body, message),
    }
    return [{**row, "newsgroup": group} for group in groups]


def _parse(raw: bytes) -> tuple[Message, bytes | None]:
    """Return the message and the bytes of its body. The bytes are None unless the body is one unencoded part.

    Most bodies are one unencoded part and need no MIME parser.
    """
    end = _HEADER_END.search(raw)
    if (len(raw) if end is None else end.start()) > MAX_HEADER:
        raise _Unreadable(f"a header of more than {MAX_HEADER >> 20} MiB")
    if end is not None:
        message = _HEADERS.parsebytes(raw[: end.end()])
        if not message.defects and _is_plain(message):
            return message, raw[end.end() :]
    if raw.count(b"\n") > MAX_LINES or raw.count(b"\n--") > MAX_PARTS:
        raise _Unreadable(f"more than {MAX_LINES:,} lines, or {MAX_PARTS:,} lines that may start a part")
    return _WHOLE.parsebytes(raw), None


def _is_plain(message: Message) -> bool:
    encoding = str(message.get("Content-Transfer-Encoding", "")).strip().lower()
    return message.get_content_maintype() == "text" and encoding in ("", "7bit", "8bit", "binary")


def _body(message: Message) -> str | None:
    """Return the text of the first text/plain part, or else of the first text part. Attachments are skipped."""
    texts: list[Message] = []
    for part in message.walk():
        _refuse_defects(part)
        if part.get_content_maintype() == "text" and part.get_content_disposition() != "attachment":
            texts.append(part)
    plain = next((part for part in texts if part.get_content_type() == "text/plain"), None)
    chosen = plain or next(iter(texts), None)
    if chosen is None:
        return None
    content = chosen.get_payload(decode=True)
    _refuse_defects(chosen)
    if not isinstance(content, bytes):
        raise _Unreadable("invalid MIME structure: a text part contains parts")
    return _text(content, chosen)


def _refuse_defects(part: Message) -> None:
    fatal = next((defect for defect in part.defects if isinstance(defect, _FATAL)), None)
    if fatal is not None:
        raise _Unreadable(f"invalid MIME structure: {_words(type(fatal).__name__)}")


def _words(name: str) -> str:
    """Return the class name of a defect in words.

    >>> _words("StartBoundaryNotFoundDefect")
    'start boundary not found'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Defect")).lower()


def _text(content: bytes, part: Message) -> str:
    """Return the decoded text with LF line ends. Reject bytes that are invalid in the declared charset.

    If the charset is missing, ASCII or unknown-8bit, decode as ``undeclared`` does. For an unknown charset, try UTF-8.
    """
    charset = (part.get_content_charset() or "").strip("\"' ")
    if charset in _UNSAID:
        text: str | None = undeclared(content)
    else:
        text = decode_bytes(content, charset)
        if text is None and not is_charset(charset):
            text = decode_bytes(content, "utf-8")
    if text is None:
        raise _Unreadable(f"broken encoding: the body is invalid in its declared charset {charset[:40]!r}")
    if "\0" in text:
        raise _Unreadable("NUL bytes in the decoded body")
    return text.replace("\r\n", "\n")
