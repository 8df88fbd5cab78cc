"""Convert the answers of a synopsis to the form of the ledger (``execution.answers``).

An engine computes the values of the answers. This process writes the values as text, because Spark and DuckDB write
some numbers differently, and the hash of an answer must not depend on the engine.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.catalog.records import QueryRecord
from weft.execution.spark_runner import too_many
from weft.execution.synopsis.evaluating import Step
from weft.planning.plan import hash_in_duckdb
from weft.planning.synopsis_events import ANSWER, VALUES, FormulaEvents
from weft.storage.ledger import ledger_schema
from weft.storage.temporal_sql import temporal_sql

LEDGER_COLUMNS: Final = ledger_schema("query_id", "first_at", "row_hash", "row")


def ledger_rows(
    part: FormulaEvents, step: Step, number: int, query: QueryRecord, *, after: int | None = None, most: int
) -> pa.Table:
    """Return the answers of the formula with this number as ledger rows without duplicates.

    ``first_at`` is the ``ts`` of the first state with the answer. The engine of the step has the states as the table
    ``points``. Only answers after the time point ``after`` count. Raise LimitExceeded for more than ``most`` answers.
    Raise ExecutionError if the computation of an output fails.
    """
    answers = step.answers[number]
    if answers is None:
        return LEDGER_COLUMNS.empty_table()
    query_text = _values(part, answers, after, counted=step.synopsis.semantics != "set")
    rows = step.engine.rows(f"{query_text} LIMIT {most + 1}")
    if rows.num_rows > most:
        raise too_many(int(step.engine.one(f"SELECT COUNT(*) FROM ({query_text}) AS every_answer")), most)
    if not rows.num_rows:
        return LEDGER_COLUMNS.empty_table()
    with temporal_sql() as sql:
        sql.given("answers", rows)
        stored = sql.rows(_as_stored([type_ for _, type_ in part.outputs], query.query_id))
    return stored.select(LEDGER_COLUMNS.names).cast(LEDGER_COLUMNS)


def _values(part: FormulaEvents, answers: str, after: int | None, *, counted: bool) -> str:
    """Return a query for the distinct answers: ``first_at``, then the outputs ``o1 … ok``."""
    values = "".join(f", {text} AS v{number}" for number, text in enumerate(part.values, 1))
    later = "" if after is None else f" WHERE {ANSWER}.tp > {after}"
    inner = f"SELECT {ANSWER}.tp{f', {ANSWER}.n' if counted else ''}{values} FROM ({answers}) AS {ANSWER}{later}"
    outputs = "".join(f", {text} AS o{number}" for number, (text, _) in enumerate(part.outputs, 1))
    names = ", ".join(f"o{number}" for number in range(1, len(part.outputs) + 1))
    return (
        f"SELECT MIN(points.ts) AS first_at, {names} FROM (SELECT {VALUES}.tp{outputs} FROM ({inner}) AS {VALUES}) "
        f"AS b JOIN points ON points.tp = b.tp GROUP BY {names}"
    )


def _as_stored(types: list[DataType], query_id: int) -> str:
    texts = [_stored(f"b.o{number}", type_) for number, type_ in enumerate(types, 1)]
    row = f'{hash_in_duckdb(texts, types)} AS row_hash, [{", ".join(texts)}] AS "row"'
    rows = f"SELECT first_at, {row} FROM answers AS b"
    return (
        f"SELECT CAST({query_id} AS BIGINT) AS query_id, MIN(first_at) AS first_at, row_hash, "
        f'ANY_VALUE("row") AS "row" FROM ({rows}) AS given GROUP BY row_hash'
    )


def _stored(value: str, type_: DataType) -> str:
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
