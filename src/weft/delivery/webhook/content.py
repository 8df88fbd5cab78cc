"""Write the body of a post: answers as JSON in the envelope of Standard Webhooks, or text for Slack and Teams."""

from __future__ import annotations

import json
import shlex
from typing import Final
from zoneinfo import ZoneInfo

from weft.delivery.channel import Message
from weft.delivery.mail.letter import cell
from weft.delivery.rendering import field_names, json_values
from weft.instants import format_rfc3339, to_datetime

SHOWN_ROWS: Final = 20
"""The most rows that a text shows."""


def answers_json(message: Message) -> str:
    """Return JSON with ``type``, ``timestamp`` and ``data``: the query, its rows, and their range of ordinals."""
    names = field_names(name for name, _ in message.columns)
    body = {
        "type": "weft.test" if message.is_test else "weft.answers",
        "timestamp": format_rfc3339(message.about.at),
        "data": {
            "query": message.query_name,
            "user": message.about.user,
            "home": message.about.home_id,
            "first": message.rows[0].ordinal,
            "last": message.last_ordinal,
            "total": message.about.total,
            "rows": [dict(zip(names, json_values(row, message.columns), strict=True)) for row in message.rows],
        },
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def text_json(message: Message) -> str:
    """Return JSON with ``text``: the new answers, one per line, as Slack and Teams expect; instants in the message's
    zone.
    """
    place = ZoneInfo(message.about.zone)
    names = [name for name, _ in message.columns]
    lines = []
    for row in message.rows:
        values = (f"{name}: {cell(value, place)}" for name, value in zip(names, row.values, strict=True))
        lines.append(" · ".join((cell(to_datetime(row.first_at), place), *values)))
    more = message.last_ordinal - message.rows[-1].ordinal
    if more:
        see = f"weft results {shlex.quote(message.query_name)} --after {message.rows[-1].ordinal}"
        lines.append(f"… and {more:,} more: {see}")
    count = "1 new answer" if message.count == 1 else f"{message.count:,} new answers"
    head = f"{message.query_name}: {count}, {message.about.total:,} in all"
    if message.is_test:
        head = "Weft: test message"
    return json.dumps({"text": "\n".join(_escaped(line) for line in (head, *lines))}, ensure_ascii=False)


def _escaped(text: str) -> str:
    """Escape text from data so that Slack and Teams show it literally: it mentions nobody and contains no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
