"""Write a letter: the new answers as text and HTML, with headers for identification, threading and filing.

A letter contains text from the answers, which may be hostile.  The HTML therefore escapes every text.  Headers and
plain text contain no control characters.  Every line is ASCII, so that no mail server changes the line.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from email.headerregistry import HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from weft.delivery.channel import Message
from weft.instants import from_datetime, to_datetime, value_text
from weft.printable import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Template

SHOWN_ROWS: Final = 100
"""The maximum number of rows that a letter shows."""

_CELL: Final = 500
_NAME: Final = 120
_WIDEST: Final = 100
_JOINERS: Final = "\u200c\u200d"
_MAILTO: Final = 900
"""The maximum length of the URL in List-Unsubscribe.  A header line has at most 998 characters (RFC 5322, 2.1.1)."""
_FOLDED: Final = 78
_TEMPLATE: Final = Path(__file__).with_name("letter.html")


class _StructuredHeader(UnstructuredHeader):
    """A header with ASCII IDs and addresses, separated by spaces.

    Python's email package writes long lines as encoded words.  Mail programs do not decode encoded words in structured
    headers (RFC 2047, section 5).  This class therefore breaks lines only at spaces.
    """

    def fold(self, *, policy: Policy) -> str:
        lines = [f"{self.name}:"]  # type: ignore[attr-defined]
        for word in str(self).split():
            if lines[-1].endswith(":") or len(lines[-1]) + 1 + len(word) <= _FOLDED:
                lines[-1] += f" {word}"
            else:
                lines.append(f" {word}")
        return policy.linesep.join(lines) + policy.linesep


def _policy() -> Policy:
    headers = HeaderRegistry()
    for name in ("message-id", "in-reply-to", "references", "list-id", "list-unsubscribe", "list-unsubscribe-post"):
        headers.map_to_type(name, _StructuredHeader)  # type: ignore[arg-type]
    return SMTP.clone(cte_type="7bit", max_line_length=_FOLDED, header_factory=headers)


_POLICY: Final = _policy()


def letter(message: Message, channel: str, sender: str, recipients: Sequence[str]) -> bytes:
    """Return the letter as MIME with CRLF line ends.  The same arguments give the same bytes.

    The letter names its ``channel``, so that the recipient knows the reason for the letter.
    """
    contents = _contents(message, channel)
    mail = EmailMessage(policy=_POLICY)
    for name, value in _headers(message, channel, sender, recipients).items():
        mail[name] = value
    mail.set_content(_text(contents), cte="quoted-printable")
    mail.add_alternative(_template().render(contents), subtype="html", cte="quoted-printable")
    mail.set_boundary(f"=_{message.key}")  # no line of quoted-printable text has "=_" (RFC 2045, section 6.7)
    return mail.as_bytes()


def message_id(key: str, home_id: str) -> str:
    """Return the Message-ID of a message.  The ID is globally unique and the same in every attempt.

    >>> message_id("3-1-20", "5f0c")
    '<3-1-20@5f0c.weft>'
    """
    return f"<{key}@{home_id}.weft>"


def _headers(message: Message, channel: str, sender: str, recipients: Sequence[str]) -> dict[str, str]:
    about = message.about
    name = _header(message.query_name)
    before = [message_id(key, about.home_id) for key in about.before]
    return {
        "From": f"Weft <{sender}>",
        "To": ", ".join(recipients),
        "Subject": f"[weft] {name}",  # constant, since some mail programs thread by it alone
        "Date": format_datetime(to_datetime(about.at)),
        "Message-ID": message_id(message.key, about.home_id),
        **({"In-Reply-To": before[-1], "References": " ".join(before)} if before else {}),
        "List-Id": f"<{_label(message.query_name)}.{about.home_id}.weft>",
        **_unsubscribing(message, channel, sender),
        "Auto-Submitted": "auto-generated",
    }


def _unsubscribing(message: Message, channel: str, sender: str) -> dict[str, str]:
    """One click needs HTTPS (RFC 8058).  A mail program without it writes a letter."""
    link, mailto = message.about.unsubscribe, _mailto(sender, _header(_command("unsubscribe", message, channel)))
    if link is None:
        return {"List-Unsubscribe": f"<{mailto}>"}
    post = {"List-Unsubscribe-Post": "List-Unsubscribe=One-Click"} if link.startswith("https://") else {}
    return {"List-Unsubscribe": f"<{link}>, <{mailto}>", **post}


def _mailto(address: str, subject: str) -> str:
    """Return an ASCII mailto URL (RFC 6068).  Cut a long subject."""
    begin = f"mailto:{quote(address, safe='@')}?subject="
    rest = subject
    while len(begin) + len(quote(rest)) > _MAILTO and rest:
        rest = rest[:-1]
    return begin + quote(rest)


def _header(text: str) -> str:
    """Return text from the answers as one line of a header.

    Python's email package decodes an encoded word (``=?utf-8?q?a=0d=0aBcc:…?=``), including its line ends.  The decoded
    text could add a header.  This function therefore inserts a space into the start of every encoded word.
    """
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words.replace("=?", "= ?")[:_NAME] or "-"


def _label(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in text.lower())[:60] or "query"


def _contents(message: Message, channel: str) -> dict[str, Any]:
    about, place = message.about, ZoneInfo(message.about.zone)
    home = f" --home {shlex.quote(str(about.home))}"
    last, leaving = message.rows[-1].ordinal, _command("unsubscribe", message, channel)
    link = about.unsubscribe or about.page
    return {
        "name": _line(message.query_name),
        "count": message.count,
        "total": about.total,
        "columns": ["answer since", *(_line(column) for column, _ in message.columns)],
        "rows": [
            [cell(to_datetime(row.first_at), place), *(cell(each, place) for each in row.values)]
            for row in message.rows
        ],
        "zone": about.zone,
        "more": message.last_ordinal - last,
        "see": about.page or _line(f"weft results {shlex.quote(message.query_name)} --after {last}{home}"),
        "sql": _block(about.sql),
        "why": _why(message, channel),
        "mute": None if message.is_test else about.page or _line(_command("mute", message, channel) + home),
        "leave": None if message.is_test else link or _line(leaving + home),
        "link": link,
        "page": about.page,
    }


def _why(message: Message, channel: str) -> str:
    if message.is_test:
        return f"This is a test message, sent once by `weft channel test {_line(channel)}`; it belongs to no query."
    name, user = _line(message.query_name), _line(message.about.user)
    return f"You receive this because the query {name} of {user} delivers to {_line(channel)}."


def _command(command: str, message: Message, channel: str) -> str:
    return f"weft {command} {shlex.quote(message.query_name)} --to {shlex.quote(channel)}"


def _text(contents: dict[str, Any]) -> str:
    count = "1 new answer" if contents["count"] == 1 else f"{contents['count']:,} new answers"
    more = [f"… and {contents['more']:,} more: {contents['see']}", ""] if contents["more"] else []
    parts = [
        f"{contents['name']}: {count}, {contents['total']:,} in all. Instants are in {contents['zone']}.",
        "",
        *_rows(contents["columns"], contents["rows"]),
        "",
        *more,
        "The query:",
        *(f"    {line}" for line in contents["sql"].splitlines()),
        "",
        contents["why"],
        *([f"To pause these messages: {contents['mute']}"] if contents["mute"] else []),
        *([f"To unsubscribe:          {contents['leave']}"] if contents["leave"] else []),
    ]
    return "\n".join(parts) + "\n"


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cells[n]) for cells in (columns, *rows)) for n in range(len(columns))]
    if sum(widths) + 2 * len(widths) <= _WIDEST:
        lines = [columns, ["-" * width for width in widths], *rows]
        return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    width = max(map(len, columns))
    return [f"{c.ljust(width)}  {v}".rstrip() for row in rows for c, v in [*zip(columns, row, strict=True), ("", "")]][
        :-1
    ]


def cell(value: object, zone: ZoneInfo) -> str:
    """Return a value as readable text on one line.  Instants are in the time zone ``zone``.

    >>> cell(dt.datetime(2026, 7, 1, 10, tzinfo=dt.timezone.utc), ZoneInfo("Europe/Paris")), cell(None, ZoneInfo("UTC"))
    ('2026-07-01 12:00:00+02:00', 'NULL')
    """
    return _local(value, zone) if isinstance(value, dt.datetime) else _line(value_text(value))


def _local(value: dt.datetime, zone: ZoneInfo) -> str:
    aware = to_datetime(from_datetime(value))
    try:
        return aware.astimezone(zone).isoformat(sep=" ")
    except OverflowError:  # near the ends of the calendar
        return aware.isoformat(sep=" ")


def _line(text: str) -> str:
    """Return text from the answers as one line of at most 500 characters.  Escape control characters."""
    return one_line(text, _CELL, allowed=_JOINERS)


def _block(text: str) -> str:
    return "\n".join(visible(line.expandtabs(4), allowed=_JOINERS) for line in text[:20_000].splitlines())


@cache
def _template() -> Template:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
