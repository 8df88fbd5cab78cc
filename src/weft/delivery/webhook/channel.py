"""Deliver to ``webhook:URL``: post answers as JSON signed by Standard Webhooks, or as text for Slack or Teams.

A post cannot be recalled.  Without a response, only the server knows whether it accepted the post.  Weft then repeats
the post with the same ``webhook-id``, by which the receiver recognizes the repetition.

The JSON has the envelope of Standard Webhooks.
"""

from __future__ import annotations

import json
import shlex
from typing import Final
from zoneinfo import ZoneInfo

from weft.configuration import Configuration
from weft.delivery.channel import Lost, Message, Recovery, Schedule
from weft.delivery.mail.letter import cell
from weft.delivery.rendering import field_names, json_values
from weft.delivery.webhook.conversation import post
from weft.delivery.webhook.destination import Destination
from weft.errors import DeliveryError, Refused
from weft.instants import format_rfc3339, to_datetime
from weft.storage.ledger import Answers

_SECOND: Final = 1_000_000
_HOUR: Final = 3_600 * _SECOND
_PAUSES: Final = (5 * _SECOND, 300 * _SECOND, _HOUR // 2, *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)))
STANDARD: Final = Schedule(_PAUSES)
"""The schedule in the specification of Standard Webhooks: nine pauses in three days."""


class WebhookChannel:
    """A channel that posts to one URL.  Raises Refused if a signature is required but no secret is set."""

    schedule: Final = STANDARD
    person: Final = None

    def __init__(self, to: Destination, chosen: Configuration) -> None:
        self._to = to
        self._chosen = chosen
        if to.form == "standard" and chosen.webhook_secret is None:
            raise Refused(
                "webhook.secret is not set, so no message can be signed",
                hint=(
                    'Write secret = "whsec_…" (base64) below [webhook] in weft.toml, or set WEFT_WEBHOOK_SECRET. '
                    "Slack and Teams need no secret: append #as=slack or #as=teams to the URL."
                ),
            )
        self._may_have_gone = True
        """The value is initially True, because an earlier process may have died while sending a request."""

    @property
    def shown_rows(self) -> int | None:
        """The maximum number of rows in a text for Slack or Teams, or None for signed JSON."""
        return None if self._to.form == "standard" else SHOWN_ROWS

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return self._to.text

    @property
    def server(self) -> str:
        """The host and port of the server."""
        return self._to.server

    def require(self, answers: Answers) -> None:
        """Accept all columns."""

    def prepare(self) -> None:
        """Return no position, because the receiver recognizes a message by its ID."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Post the message, and return the response of the server."""
        self._may_have_gone = False
        body, headers = self._request(message)
        chosen = self._chosen
        self._may_have_gone = True
        try:
            return post(
                *(self._to, body, headers),
                at=message.attempt_at,
                timeout=chosen.webhook_timeout,
                private=chosen.webhook_private,
                ca_file=chosen.webhook_ca_file,
            )
        except DeliveryError as error:
            self._may_have_gone = isinstance(error, Lost)
            raise

    def test(self, message: Message) -> str:
        """Post a message of type ``weft.test``.  For Slack and Teams, post a text marked as a test."""
        return f"{self._to.server} responded {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone`` only if the server responded, or if the request failed before it was sent."""
        return "again" if self._may_have_gone else "undone"

    def _request(self, message: Message) -> tuple[bytes, dict[str, str]]:
        about, headers = message.about, {"Content-Type": "application/json", "User-Agent": "Weft"}
        if self._to.form != "standard":
            return text_json(message).encode(), headers
        from standardwebhooks import Webhook

        key = f"{about.home_id}.{message.key}"
        body = answers_json(message)
        # Sign the time of the attempt, because receivers refuse a timestamp older than five minutes.
        signature = Webhook(self._chosen.webhook_secret or "").sign(key, to_datetime(message.attempt_at), body)
        stamp = str(message.attempt_at // _SECOND)
        return body.encode(), {
            **headers,
            "webhook-id": key,
            "webhook-timestamp": stamp,
            "webhook-signature": signature,
        }


SHOWN_ROWS: Final = 20
"""The maximum number of rows that a text shows."""


def answers_json(message: Message) -> str:
    """Return JSON with ``type``, ``timestamp`` and ``data`` (the query, its rows and their ordinals)."""
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
    """Return JSON with one line of text for each new answer.  Instants are in the time zone of the message."""
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
    """Escape text from the answers.  Slack and Teams then show the text without mentions and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
