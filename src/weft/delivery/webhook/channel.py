"""``webhook:URL``: answers posted as JSON, signed as Standard Webhooks has it, or as a text for Slack or Teams.

What was posted cannot be taken back, and whether a request without an answer was taken only its server knows.  So it
is posted again under the same ``webhook-id``, by which whoever gets it can tell.
"""

from __future__ import annotations

from typing import Final

from weft.configuration import Configuration
from weft.delivery.channel import Message, Recovery
from weft.delivery.retrying import Schedule
from weft.delivery.webhook.content import SHOWN_ROWS, answers_json, text_json
from weft.delivery.webhook.conversation import Lost, post
from weft.delivery.webhook.destination import Destination
from weft.errors import DeliveryError, Refused
from weft.instants import to_datetime
from weft.storage.ledger import Answers

_SECOND: Final = 1_000_000
_HOUR: Final = 3_600 * _SECOND
_PAUSES: Final = (5 * _SECOND, 300 * _SECOND, _HOUR // 2, *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)))
STANDARD: Final = Schedule(_PAUSES)
"""As the Standard Webhooks specification proposes it: nine pauses in three days."""


class WebhookChannel:
    """Posts to one URL; raises Refused where a signature is to be made and there is no secret."""

    schedule: Final = STANDARD
    person: Final = None

    def __init__(self, to: Destination, chosen: Configuration) -> None:
        self._to = to
        self._chosen = chosen
        if to.form == "standard" and chosen.webhook_secret is None:
            raise Refused(
                "webhook.secret is not set, so no message can be signed",
                hint='Write secret = "whsec_…" (base64) below [webhook] in weft.toml, or set WEFT_WEBHOOK_SECRET; '
                "Slack and Teams take #as=slack and #as=teams without.",
            )
        self._may_have_gone = True
        """Of a process that died nobody knows how far it came."""

    @property
    def shown_rows(self) -> int | None:
        """Programs get every row, people some."""
        return None if self._to.form == "standard" else SHOWN_ROWS

    @property
    def address(self) -> str:
        """The channel's one name."""
        return self._to.text

    @property
    def server(self) -> str:
        """The server that is posted to."""
        return self._to.server

    def require(self, answers: Answers) -> None:
        """Any answers can be posted."""

    def prepare(self) -> None:
        """Nothing has to be noted: a message is known by its id."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Posts the message; what the server answered."""
        self._may_have_gone = False
        body, headers = self._written(message)
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
        """Posts a message of the type ``weft.test``, or a text that says so."""
        return f"{self._to.server} answered {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Whether a message was taken is known only where the conversation ended before its end, or by an answer."""
        return "again" if self._may_have_gone else "undone"

    def _written(self, message: Message) -> tuple[bytes, dict[str, str]]:
        about, headers = message.about, {"Content-Type": "application/json", "User-Agent": "Weft"}
        if self._to.form != "standard":
            return text_json(message).encode(), headers
        from standardwebhooks import Webhook

        key = f"{about.home_id}.{message.key}"
        body = answers_json(message)
        # Receivers refuse a timestamp that is older than five minutes: it is the attempt's, as the standard says.
        signature = Webhook(self._chosen.webhook_secret or "").sign(key, to_datetime(message.attempt_at), body)
        stamp = str(message.attempt_at // _SECOND)
        return body.encode(), {
            **headers,
            "webhook-id": key,
            "webhook-timestamp": stamp,
            "webhook-signature": signature,
        }
