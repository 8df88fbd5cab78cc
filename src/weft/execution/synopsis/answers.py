"""Convert answers of a synopsis to the ledger's general form (``execution.answers``)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.catalog.records import QueryRecord
from weft.planning.synopsis_events import ANSWER, VALUES, FormulaEvents
from weft.storage.ledger import ledger_schema
from weft.storage.temporal_sql import temporal_sql

LEDGER_COLUMNS: Final = ledger_schema("query_id", "first_at", "row_hash", "row")
_VERSION: Final = "1"
"""Version of the encoding that is hashed, as in ``execution.answers``."""


def ledger_rows(part: FormulaEvents, answers: pa.Table, points: pa.Table, query: QueryRecord) -> pa.Table:
    """Return the answers of one formula of a query as ledger rows, each once, with the ``ts`` of the first state at
    which it is an answer.

    ``answers`` has the columns ``tp, c1 … ck [, n]``. Raise ExecutionError if an output cannot be computed.
    """
    if not answers.num_rows:
        return LEDGER_COLUMNS.empty_table()
    with temporal_sql() as sql:
        sql.given("answers", answers)
        sql.given("points", points)
        rows = sql.rows(_select(part, query.query_id, counted="n" in answers.column_names))
    return rows.select(LEDGER_COLUMNS.names).cast(LEDGER_COLUMNS)


def _select(part: FormulaEvents, query_id: int, *, counted: bool) -> str:
    values = "".join(f", {text} AS v{number}" for number, text in enumerate(part.values, 1))
    inner = f"SELECT {ANSWER}.tp{', a.n' if counted else ''}{values} FROM answers AS {ANSWER}"
    outputs = "".join(f", {text} AS o{number}" for number, (text, _) in enumerate(part.outputs, 1))
    texts = [_stored(f"b.o{number}", type_) for number, (_, type_) in enumerate(part.outputs, 1)]
    rows = (
        f"SELECT points.ts AS first_at, {_hash(texts, [type_ for _, type_ in part.outputs])} AS row_hash, "
        f'[{", ".join(texts)}] AS "row" FROM (SELECT {VALUES}.tp{outputs} FROM ({inner}) AS {VALUES}) AS b '
        "JOIN points ON points.tp = b.tp"
    )
    return (
        f"SELECT CAST({query_id} AS BIGINT) AS query_id, MIN(first_at) AS first_at, row_hash, "
        f'ANY_VALUE("row") AS "row" FROM ({rows}) AS given GROUP BY row_hash'
    )


def _stored(value: str, type_: DataType) -> str:
    """Return DuckDB SQL that converts ``value`` to its stored form (``planning.plan.encoded``)."""
    match type_.name:
        case "STRING":
            return value
        case "TIMESTAMP":
            return f"CAST(UNIX_MICROS({value}) AS STRING)"
        case "DATE":
            return f"CAST({value} - DATE '1970-01-01' AS STRING)"
        case "BINARY":
            return f"BASE64({value})"
        case "DOUBLE" | "FLOAT":
            return f"CASE WHEN {value} = 0 THEN '0.0' ELSE CAST(CAST({value} AS {type_}) AS STRING) END"
        case _:
            return f"CAST(CAST({value} AS {type_}) AS STRING)"


def _hash(texts: list[str], types: list[DataType]) -> str:
    parts = []
    for text, type_ in zip(texts, types, strict=True):
        parts.append(f"COALESCE('{type_}:' || LENGTH({text}) || ':' || {text}, '{type_}:N')")
    return f"UNHEX(SUBSTRING(SHA256(CONCAT('{_VERSION};', {', '.join(parts)})), 1, 32))"
