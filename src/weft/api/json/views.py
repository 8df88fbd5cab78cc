"""Temporal views as values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from weft.api.viewing import ShownView
    from weft.catalog.views import ViewRecord
    from weft.execution.temporal.refresh_views import Refreshed
    from weft.execution.temporal.showing import ShownAuxiliary
    from weft.planning.view_plan_words import ViewExplanation


def view_json(view: ViewRecord) -> Fields:
    """Return a view."""
    return {
        "name": view.name,
        "sql": view.sql,
        "mode": view.mode,
        "maintained_at": iso(view.tau),
        "added_at": iso(view.added_at),
        "trouble": view.trouble,
    }


def shown_view_json(shown: ShownView) -> Fields:
    """Return the details of a view."""
    return {
        **view_json(shown.view),
        "columns": columns_json(shown.columns),
        "reads": shown.reads,
        "read_by": shown.readers,
        "auxiliaries": [
            {"name": each.name, "of": each.of, "sql": each.sql, "shared_with": each.shared, **_counts(each)}
            for each in shown.auxiliaries
        ],
        **_counts(shown),
        "next_refreshes": [{"what": what, **asdict(choice)} for what, choice in shown.next_refreshes],
    }


def _counts(shown: ShownView | ShownAuxiliary) -> Fields:
    return {"periods": shown.periods, "open": shown.open, "recorded": shown.recorded, "bytes": shown.size}


def refreshed_json(outcome: Refreshed) -> Fields:
    """Return the outcome of a refresh."""
    trouble = outcome.trouble
    return {
        "name": outcome.name,
        "at": iso(outcome.t),
        "changed": outcome.changed,
        "gone": outcome.gone,
        "by": outcome.by,
        "trouble": None if trouble is None else trouble.message,
    }


def view_explanation_json(explanation: ViewExplanation) -> Fields:
    """Return the explanation of a view."""
    return {
        "view": explanation.view,
        "reads": [{"as": alias, "table": table_name} for alias, table_name in explanation.sources],
        "auxiliaries": [{"name": part, "sql": text} for part, text in explanation.parts],
        "events": [{"event": each.event, "lines": each.lines} for each in explanation.events],
        "brief": list(explanation.brief),
    }
