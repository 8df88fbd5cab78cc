"""Answers and why they appeared, rows of queries that run once, and backtests as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.api.searching import FoundAnswer
    from weft.catalog.records import QueryRecord
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest
    from weft.execution.why import Why, Witness
    from weft.storage.ledger import ResultRow
    from weft.storage.typed_answers import Columns


def answer_json(row: ResultRow, columns: Columns) -> Fields:
    """Return an answer of a query with these ``columns``."""
    from weft.delivery.rendering import field_names, json_values

    return dict(zip(field_names([name for name, _ in columns]), json_values(row, columns), strict=True))


def news_json(query: QueryRecord, rows: Sequence[ResultRow], unread: int | None) -> Fields:
    """Return a query with its last ``rows``, the newest first, and with the number of unread answers."""
    return {
        "query": query.name,
        "query_id": query.query_id,
        "rows": query.rows,
        "unread": unread if unread is None else min(unread, query.rows),
        "last_first_at": iso(query.last_first_at),
        "answers": [answer_json(row, query.columns) for row in reversed(rows)],
    }


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


def why_json(found: Why) -> Fields:
    """Return why an answer appeared."""
    from weft.delivery.rendering import json_object

    return {
        "query": found.query,
        "ordinal": found.ordinal,
        "first_at": iso(found.first_at),
        "tick": found.tick,
        "answer": json_object(found.columns, found.values),
        "causes": [
            {
                "why": each.why,
                "witnesses": [_witness_json(witness) for witness in each.witnesses],
                "absent": list(each.absent),
            }
            for each in found.combinations
        ],
        "more": found.more,
        "hides": found.hides,
    }


def _witness_json(witness: Witness) -> Fields:
    from weft.delivery.rendering import json_object

    return {
        "role": witness.role,
        "table": witness.table,
        "alias": witness.alias,
        "row": json_object(witness.columns, witness.values) if not witness.is_hidden else None,
        "rows": witness.count,
        "members": [_witness_json(each) for each in witness.members],
    }
