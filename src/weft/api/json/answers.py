"""Rows of queries that run once, and answers of a backtest, as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from weft.api.searching import FoundAnswer
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest
    from weft.storage.ledger import ResultRow
    from weft.storage.typed_answers import Columns


def answer_json(row: ResultRow, columns: Columns) -> Fields:
    """Return an answer of a query with these ``columns``."""
    from weft.delivery.rendering import field_names, json_values

    return dict(zip(field_names([name for name, _ in columns]), json_values(row, columns), strict=True))


def found_json(found: FoundAnswer) -> Fields:
    """Return an answer that a search found."""
    query = found.query
    return {
        "query": query.name,
        "query_id": query.query_id,
        "_ordinal": found.ordinal,
        "_first_at": iso(found.first_at),
        "text": found.text,
    }


def tried_json(answer: Answer, seconds: float) -> Fields:
    """Return the rows of a query that ran once, in ``seconds``."""
    from weft.delivery.rendering import json_object

    return {
        "columns": columns_json(answer.columns),
        "rows": [json_object(answer.columns, row) for row in answer.rows],
        "count": answer.count,
        "now": iso(answer.at),
        "seconds": round(seconds, 3),
    }


def backtest_json(report: Backtest, seconds: float) -> Fields:
    """Return the answers that a query would have delivered.  The backtest took ``seconds``."""
    from weft.delivery.rendering import json_object

    return {
        "columns": columns_json(report.columns),
        "answers": [{"_first_at": iso(at), **json_object(report.columns, row)} for at, row in report.answers],
        "count": report.count,
        "from": iso(report.since),
        "to": iso(report.until),
        "timeline": {"from": iso(report.begin), "to": iso(report.until), "counts": list(report.counts)},
        "seconds": round(seconds, 3),
        **({} if report.nothing is None else {"nothing": report.nothing}),
    }
