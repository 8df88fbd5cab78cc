"""One letter: what is new as text and as HTML, and headers by which mail programs know it, thread it and file it.

Texts come from data.  In headers and in the text nothing is left that a terminal or a mail program would obey, the HTML
escapes everything, and every line is ASCII, so that no server on the way has to change one.
"""

from __future__ import annotations

import datetime as dt
import decimal
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
from weft.instants import from_datetime, to_datetime
from weft.printable import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Template

SHOWN_ROWS: Final = 100
"""How many rows a letter shows."""

_CELL: Final = 500
_NAME: Final = 120
_WIDEST: Final = 100
_JOINERS: Final = "\u200c\u200d"
_MAILTO: Final = 900
"""How long the address of List-Unsubscribe may be: with its name below the 998 of a line (RFC 5322, 2.1.1)."""
_FOLDED: Final = 78
_TEMPLATE: Final = Path(__file__).with_name("letter.html")


class _InTheClear(UnstructuredHeader):
    """A header that programs read: ids and addresses of ASCII, with blanks between them.

    What is longer than a line Python's email package writes as encoded words, which nobody decodes where a header is
    structured (RFC 2047, section 5): so lines end here at blanks only, and a long word stays whole.
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
    for name in ("message-id", "in-reply-to", "references", "list-id", "list-unsubscribe"):
        headers.map_to_type(name, _InTheClear)  # type: ignore[arg-type]
    return SMTP.clone(cte_type="7bit", max_line_length=_FOLDED, header_factory=headers)


_POLICY: Final = _policy()


def letter(message: Message, channel: str, sender: str, recipients: Sequence[str]) -> bytes:
    """The letter in MIME, CRLF at the ends of its lines; the same bytes for the same arguments.

    ``channel`` is the name of the channel, for the line that says why it was sent.
    """
    told = _told(message, channel)
    written = EmailMessage(policy=_POLICY)
    for name, value in _headers(message, channel, sender, recipients).items():
        written[name] = value
    written.set_content(_text(told), cte="quoted-printable")
    written.add_alternative(_template().render(told), subtype="html", cte="quoted-printable")
    written.set_boundary(f"=_{message.key}")  # no line of quoted-printable text has "=_" (RFC 2045, section 6.7)
    return written.as_bytes()


def message_id(key: str, home_id: str) -> str:
    """The Message-ID of a message of a home: the same at every attempt, and for no other message anywhere.

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
        "Subject": f"[weft] {name}",  # always the same: some mail programs thread only by it
        "Date": format_datetime(to_datetime(about.at)),
        "Message-ID": message_id(message.key, about.home_id),
        **({"In-Reply-To": before[-1], "References": " ".join(before)} if before else {}),
        "List-Id": f"<{_label(message.query_name)}.{about.home_id}.weft>",
        "List-Unsubscribe": f"<{_mailto(sender, _header(_typed('unsubscribe', message, channel)))}>",
        "Auto-Submitted": "auto-generated",
    }


def _mailto(address: str, subject: str) -> str:
    """The address of a letter with that subject (RFC 6068), all of it ASCII; a long subject is cut."""
    begin = f"mailto:{quote(address, safe='@')}?subject="
    rest = subject
    while len(begin) + len(quote(rest)) > _MAILTO and rest:
        rest = rest[:-1]
    return begin + quote(rest)


def _header(text: str) -> str:
    """Text from data on one line of a header.

    Python's email package decodes an encoded word (``=?utf-8?q?a=0d=0aBcc:…?=``) that it is given, line ends among it,
    and writes what it got: so none may begin here.
    """
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words.replace("=?", "= ?")[:_NAME] or "-"


def _label(text: str) -> str:
    """A query's name as a part of a List-Id."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in text.lower())[:60] or "query"


def _told(message: Message, channel: str) -> dict[str, Any]:
    """What both forms of the letter say."""
    about, place = message.about, ZoneInfo(message.about.zone)
    home = f" --home {shlex.quote(str(about.home))}"
    last = message.rows[-1].ordinal
    return {
        "name": _line(message.query_name),
        "count": message.count,
        "total": about.total,
        "columns": ["first an answer", *(_line(column) for column, _ in message.columns)],
        "rows": [
            [cell(to_datetime(row.first_at), place), *(cell(each, place) for each in row.values)]
            for row in message.rows
        ],
        "zone": about.zone,
        "more": message.last_ordinal - last,
        "see": _line(f"weft results {shlex.quote(message.query_name)} --after {last}{home}"),
        "sql": _block(about.sql),
        "why": _why(message, channel),
        "mute": None if message.is_test else _line(_typed("mute", message, channel) + home),
        "unsubscribe": None if message.is_test else _line(_typed("unsubscribe", message, channel) + home),
    }


def _why(message: Message, channel: str) -> str:
    if message.is_test:
        return f"This is a test message, sent once by `weft channel test {_line(channel)}`; no query stands behind it."
    name, user = _line(message.query_name), _line(message.about.user)
    return f"You get this because the query {name} of {user} delivers to {_line(channel)}."


def _typed(command: str, message: Message, channel: str) -> str:
    """What whoever gets the letter has typed to hear no more."""
    return f"weft {command} {shlex.quote(message.query_name)} --to {shlex.quote(channel)}"


def _text(told: dict[str, Any]) -> str:
    """The letter as plain text."""
    some = "1 new answer" if told["count"] == 1 else f"{told['count']:,} new answers"
    more = [f"… and {told['more']:,} more: {told['see']}", ""] if told["more"] else []
    parts = [
        f"{told['name']}: {some}, {told['total']:,} in all. Instants are in {told['zone']}.",
        "",
        *_rows(told["columns"], told["rows"]),
        "",
        *more,
        "The query:",
        *(f"    {line}" for line in told["sql"].splitlines()),
        "",
        told["why"],
        *([f"To stop it for a while: {told['mute']}"] if told["mute"] else []),
        *([f"To stop it for good:    {told['unsubscribe']}"] if told["unsubscribe"] else []),
    ]
    return "\n".join(parts) + "\n"


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as a table, or one under another where a table would be too wide to read."""
    widths = [max(len(cells[n]) for cells in (columns, *rows)) for n in range(len(columns))]
    if sum(widths) + 2 * len(widths) <= _WIDEST:
        lines = [columns, ["-" * width for width in widths], *rows]
        return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    width = max(map(len, columns))
    return [f"{c.ljust(width)}  {v}".rstrip() for row in rows for c, v in [*zip(columns, row, strict=True), ("", "")]][
        :-1
    ]


def cell(value: object, zone: ZoneInfo) -> str:
    """One value on one line, in words that a person reads.

    >>> cell(dt.datetime(2026, 7, 1, 10, tzinfo=dt.timezone.utc), ZoneInfo("Europe/Paris")), cell(None, ZoneInfo("UTC"))
    ('2026-07-01 12:00:00+02:00', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return _local(value, zone)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _line(value.hex())
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return _line(str(value))


def _local(value: dt.datetime, zone: ZoneInfo) -> str:
    aware = to_datetime(from_datetime(value))
    try:
        return aware.astimezone(zone).isoformat(sep=" ")
    except OverflowError:  # at the ends of the calendar
        return aware.isoformat(sep=" ")


def _line(text: str) -> str:
    """Text from data on one line, control characters made visible, cut where it is long."""
    return one_line(text, _CELL, kept=_JOINERS)


def _block(text: str) -> str:
    return "\n".join(visible(line.expandtabs(4), kept=_JOINERS) for line in text[:20_000].splitlines())


@cache
def _template() -> Template:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
