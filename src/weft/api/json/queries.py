"""Standing queries as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.deliveries import subscription_json
from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from weft.api.standing import Shown
    from weft.catalog.records import QueryRecord
    from weft.catalog.replaced_texts import ReplacedText
    from weft.catalog.saved_queries import SavedQuery
    from weft.execution.replacement_preview import Replacement


def query_json(query: QueryRecord) -> Fields:
    """Return a query."""
    return {
        "name": query.name,
        "id": query.query_id,
        "user": query.user,
        "sql": query.sql,
        "columns": columns_json(query.columns),
        "plan": query.plan_id,
        "every_us": query.every_us,
        "from": query.from_mode,
        "from_instant": iso(query.from_instant),
        "ticked_to": iso(query.tau),
        "rows": query.rows,
        "state": query.state,
        "reason": query.reason,
        "installed_at": iso(query.installed_at),
        "replaced_at": iso(query.replaced_at),
    }


def saved_json(saved: SavedQuery) -> Fields:
    """Return a saved query."""
    parameters = [{"name": each.name, "type": each.type, "default": each.default} for each in saved.parameters]
    return {
        "id": saved.saved_id,
        "name": saved.name,
        "sql": saved.sql,
        "parameters": parameters,
        "owner": saved.owner,
        "description": saved.description,
        "saved_at": iso(saved.saved_at),
    }


def listed_json(query: QueryRecord, channels: tuple[int, int]) -> Fields:
    """Return a query of a list.  ``channels`` are the numbers of all and of the parked channels."""
    return {**query_json(query), "channels": channels[0], "parked": channels[1]}


def shown_json(shown: Shown) -> Fields:
    """Return the details of a query."""
    return {
        **query_json(shown.query),
        "plan_signature": shown.plan.signature,
        "replaced": [_replaced(each) for each in shown.replaced],
        "queries_of_the_plan": shown.sharing,
        "reads": list(shown.reads),
        "read_by": list(shown.read_by),
        "stored": [
            {"name": each.name, "formula": each.formula, "rows": rows, "bound": each.bound}
            for each, rows in shown.stored
        ],
        "channels": [subscription_json(each) for each in shown.subscriptions],
        "ticks": [
            {"tick": t.tick_id, "from": iso(t.tau), "to": iso(t.t), "rows": t.rows, "reason": t.reason}
            for t in shown.ticks
        ],
    }


def _replaced(text: ReplacedText) -> Fields:
    return {
        "sql": text.sql,
        "from_instant": iso(text.from_instant),
        "since": iso(text.since),
        "until": iso(text.until),
        "ticked_to": iso(text.tau),
        "rows": text.rows,
    }


def replacement_json(preview: Replacement) -> Fields:
    """Return the effects that a replacement would have."""
    return {
        "name": preview.query.name,
        "answers": preview.query.rows,
        "new": preview.new,
        "known": preview.known,
        "only_old": preview.only_old,
        "from_instant": iso(preview.since),
        "now": iso(preview.until),
    }
