"""Explanations of queries and synopses as values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from weft.execution.ticks.forecast import Forecast
    from weft.planning.explain import AskedOnce, BranchText, Explanation
    from weft.planning.state_text import StateText
    from weft.planning.synopsis_words import SynopsisExplanation
    from weft.planning.view_text import ViewText


def explanation_json(explanation: Explanation, assumed: str | None = None) -> Fields:
    """Return the explanation of a query.  ``assumed`` is the note on assumed tables, if any."""
    return {
        "query": explanation.query,
        "columns": columns_json(explanation.columns),
        "plan": explanation.signature,
        "parameters": [
            {"name": name, "type": str(type_), "value": value} for name, type_, value in explanation.parameters
        ],
        "from_now": explanation.from_now,
        "q_m": [_branch(each) for each in explanation.first],
        "q_m_closed": explanation.closed,
        "q_m_reason": explanation.closed_reason,
        "q_i": [_branch(each) for each in explanation.later],
        "views": [_view(each) for each in explanation.views],
        "states": [_state(each) for each in explanation.states],
        "q_m_states": [_state(each) for each in explanation.first_states],
        "rows_without_new_data": explanation.time_driven,
        "rows_may_leave": not explanation.lasting,
        "notes": [{"level": note.level, "text": note.text} for note in explanation.notes],
        "name": explanation.name,
        "brief": list(explanation.brief),
        "assumed": assumed,
    }


def _branch(each: BranchText) -> Fields:
    return {"driver": each.driver, "table": each.table, "why": each.why, "sql": each.sql}


def _view(each: ViewText) -> Fields:
    return {"name": each.name, "sql": each.sql}


def _state(each: StateText) -> Fields:
    steps = [{**_view(step), "engine": step.engine, "in_spark": step.in_spark} for step in each.steps]
    return {"name": each.name, "views": list(each.views), "rows": each.rows, "how": each.how, "steps": steps}


def asked_once_json(found: AskedOnce) -> Fields:
    """Return the SQL with which Weft evaluates a query at one instant."""
    states = [_state(each) for each in found.states]
    return {"query": found.query, "selects": list(found.selects), "states": states}


def synopsis_json(explanation: SynopsisExplanation, assumed: str | None = None) -> Fields:
    """Return the explanation of a synopsis.  ``assumed`` is the note on assumed tables, if any."""
    return {
        "plan": explanation.signature,
        "columns": [{"name": name, "type": str(type_)} for name, type_ in explanation.columns],
        "states": explanation.states,
        "formulas": list(explanation.formulas),
        "predicates": [asdict(each) for each in explanation.predicates],
        "relations": [
            {**asdict(each), "columns": [{"name": name, "type": str(type_)} for name, type_ in each.columns]}
            for each in explanation.relations
        ],
        "gamma": list(explanation.gamma),
        "delta": list(explanation.delta),
        "history": explanation.history,
        "verdict": explanation.verdict,
        "faults": [asdict(each) for each in explanation.faults],
        "assumed": assumed,
        "name": explanation.name,
        "brief": list(explanation.brief),
    }


def forecast_json(forecast: Forecast) -> Fields:
    """Return what the next tick of a query would read."""
    engine = forecast.engine
    return {
        "name": forecast.query.name,
        "tau": iso(forecast.tau),
        "t": iso(forecast.t),
        "reads_first": list(forecast.lower),
        "relations": [asdict(each) for each in forecast.relations],
        "known": {"by": forecast.known.by, "how": forecast.known.how},
        "way": forecast.way,
        "quiet": forecast.quiet,
        "engine": None if engine is None else {"by": engine.by, "why": engine.why},
    }
