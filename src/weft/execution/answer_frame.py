"""Read a query's answers from the ledger as a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weft.algebra.scalar import Literal
from weft.algebra.schema import STRING, DataType
from weft.catalog import layout
from weft.catalog.naming import distinct
from weft.catalog.records import FIRST_AT, ORDINAL, QueryRecord
from weft.execution.relations import decoded, may_hold_answers
from weft.location import Location
from weft.sql.render import literal
from weft.sql.render import quoted
from weft.storage.delta_log import delta_snapshot, has_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORED: Final = "query_id BIGINT, ordinal BIGINT, first_at TIMESTAMP, tick BIGINT, row ARRAY<STRING>"
_OWN: Final = ((ORDINAL, "ordinal"), (FIRST_AT, "first_at"), ("_tick", "tick"))


def answer_frame(
    session: Callable[[], SparkSession], data: Location, query: QueryRecord, after: int, last: int
) -> DataFrame | None:
    """Return the answers with ordinals from ``after`` + 1 to ``last``, unordered, or None if no file has any.

    The columns are ``_ordinal``, ``_first_at``, ``_tick`` and the query's columns; a repeated name gets a number.
    """
    ledger = data / layout.LEDGER
    files = delta_snapshot(ledger, check_files=False).files if has_commits(ledger) else ()
    own = [file.location.spark for file in files if may_hold_answers(file, query.query_id)]
    if not own:
        return None
    values = [*(there for _, there in _OWN), *(_typed(f"row[{n}]", kind) for n, (_, kind) in enumerate(query.columns))]
    names = distinct([*(name for name, _ in _OWN), *(name for name, _ in query.columns)])
    stored = session().read.schema(_STORED).parquet(*own)
    these = stored.where(f"query_id = {query.query_id} AND ordinal > {after} AND ordinal <= {last}")
    return these.selectExpr(*(f"{value} AS {quoted(name)}" for value, name in zip(values, names, strict=True)))


def _typed(stored: str, kind: DataType) -> str:
    value = decoded(stored, kind)
    return value if kind.shape is None else f"FROM_JSON({value}, {literal(Literal(str(kind.shape), STRING))})"
