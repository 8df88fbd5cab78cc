"""Subscriptions, their messages and deliveries as values for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from weft.api.json.values import Fields, iso

if TYPE_CHECKING:
    from weft.api.delivering import Deliveries
    from weft.catalog.outbox import ListedMessage, OutboxEntry
    from weft.catalog.subscriptions import Subscription
    from weft.delivery.outbox import Delivered


def subscription_json(subscription: Subscription) -> Fields:
    """Return a subscription."""
    return {
        "channel": subscription.channel,
        "state": subscription.state,
        "muted": subscription.muted,
        "digest": subscription.digest,
        "zone": subscription.zone,
        "digest_at": iso(subscription.digest_at),
        "delivered": subscription.delivered,
        "attempts": subscription.attempts,
        "next_attempt_at": iso(subscription.next_attempt_at),
        "error": subscription.last_error,
    }


def deliveries_json(each: Deliveries) -> Fields:
    """Return a subscription with its query and its messages."""
    return {
        **redelivery_json(each),
        "waiting": each.waiting,
        "messages": [_message(message) for message in each.messages],
    }


def _message(message: OutboxEntry) -> Fields:
    return {
        "id": message.idempotency_key,
        "first": message.first_ordinal,
        "last": message.last_ordinal,
        "rows": message.rows,
        "state": message.state,
        "attempts": message.attempts,
        "sent_at": iso(message.sent_at),
        "reply": message.reply,
        "error": message.last_error,
    }


def message_json(each: ListedMessage) -> Fields:
    """Return a message with its query and its channel."""
    return {"query": each.query, "channel": each.channel, **_message(each.message)}


def redelivery_json(each: Deliveries) -> Fields:
    """Return a subscription with its query."""
    return {"query": each.query.name, **subscription_json(each.subscription)}


def delivered_json(deliveries: Iterable[Delivered] | None) -> list[Fields] | None:
    """Return what a delivery sent, or None if another process delivers."""
    if deliveries is None:
        return None
    return [
        {"query": each.query_name, "channel": each.channel, "rows": each.rows, "error": each.error}
        for each in deliveries
    ]
