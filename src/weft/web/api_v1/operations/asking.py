"""Queries that run once, and explanations."""

from __future__ import annotations

import time
from typing import Annotated, Final

from pydantic import Field

from weft.api.json.answers import backtest_json, tried_json
from weft.api.json.explanations import explanation_json, synopsis_json
from weft.api.json.views import view_explanation_json
from weft.api.weft import Weft
from weft.planning.explain import Explanation
from weft.planning.synopsis_words import SynopsisExplanation
from weft.web.api_v1.operation import Dialect, Fields, Instant, Limit, Name, Operation, Sql
from weft.web.api_v1.operations.queries import Start


def try_query(weft: Weft, sql: Sql, now: Instant | None = None, limit: Limit = 20, dialect: Dialect = None) -> Fields:
    """Run a query once, on the present data."""
    began = time.monotonic()
    answer = weft.try_query(sql, now=now, limit=limit, dialect=dialect)
    return tried_json(answer, time.monotonic() - began)


def backtest_query(
    weft: Weft,
    sql: Sql,
    since: Annotated[
        Instant | None, Field(description="As if the query was installed then, with new answers only.")
    ] = None,
    until: Annotated[Instant | None, Field(description="The end of the window, exclusive.")] = None,
    limit: Limit = 20,
    dialect: Dialect = None,
) -> Fields:
    """Show what a query would have delivered, and when, if it had been installed."""
    began = time.monotonic()
    report = weft.backtest(sql, since=since, until=until, limit=limit, dialect=dialect)
    return backtest_json(report, time.monotonic() - began)


def explain_query(weft: Weft, sql: Sql, start: Start = "start", dialect: Dialect = None) -> Fields:
    """Explain what makes the answers of a query appear, before it is installed."""
    return explanation_json(weft.explain(sql, start=start, dialect=dialect))


def explain_installed(weft: Weft, name: Name) -> Fields:
    """Explain an installed query or a view."""
    explanation = weft.explain_installed(name)
    if isinstance(explanation, Explanation):
        return explanation_json(explanation)
    if isinstance(explanation, SynopsisExplanation):
        return synopsis_json(explanation)
    return view_explanation_json(explanation)


OPERATIONS: Final = (
    Operation("POST", "/try", try_query, "asking", "install"),
    Operation("POST", "/backtest", backtest_query, "asking", "install"),
    Operation("POST", "/explain", explain_query, "asking", "install"),
    Operation("GET", "/explanations/{name}", explain_installed, "asking", slow=True),
)
