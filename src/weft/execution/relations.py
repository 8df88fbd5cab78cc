"""The relations that a query reads by name: the home's tables, and the results of other queries.

The results of a query are the query's answers in the ledger, as a Spark DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from weft.algebra.scalar import Literal
from weft.algebra.schema import INTERVAL, STRING, DataType, TableSchema
from weft.catalog import CatalogParts, layout
from weft.catalog.naming import distinct
from weft.catalog.records import FIRST_AT, ORDINAL, QueryRecord, TableRecord
from weft.sql.rendering.render import interval, literal, quoted
from weft.storage.delta_log import DataFile
from weft.storage.table import Table
from weft.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ResultsTable:
    """The first ``rows`` answers of a query, as a table. ``last_ts`` is the greatest first instant of these answers."""

    query: QueryRecord
    rows: int
    last_ts: int | None
    path: str = layout.LEDGER
    first_ts: None = None

    @property
    def schema(self) -> TableSchema:
        """The schema of ``results.NAME``."""
        return self.query.results

    def extended(self, rows: int, last_ts: int | None) -> ResultsTable:
        """Add ``rows`` answers to the results. ``last_ts`` is the greatest first instant of these answers."""
        known = [each for each in (self.last_ts, last_ts) if each is not None]
        return replace(self, rows=self.rows + rows, last_ts=max(known, default=None))


Relation: TypeAlias = "TableRecord | ResultsTable"


def relations(catalog: CatalogParts, read: Iterable[int]) -> dict[str, Relation]:
    """Map relation names to the home's tables and to query results. ``read`` has the IDs of the queries."""
    by_name: dict[str, Relation] = {table.name: table for table in catalog.tables.all()}
    for query in catalog.queries.by_ids(read):
        results = ResultsTable(query, query.rows, query.last_first_at)
        by_name[results.schema.name] = results
    return by_name


_LEDGER_SCHEMA: Final = "query_id BIGINT, ordinal BIGINT, first_at TIMESTAMP, row ARRAY<STRING>"
LEDGER_COLUMNS: Final = {FIRST_AT: "first_at", ORDINAL: "ordinal"}
"""Maps each additional column of query results to the name of the column in the ledger."""


def typed_answers(spark: SparkSession, files: Sequence[DataFile], results: ResultsTable) -> DataFrame:
    """Read answers from the ledger files. The result has the query's columns, ``_first_at`` and ``_ordinal``."""
    from pyspark.sql import functions as F

    stored = spark.read.schema(_LEDGER_SCHEMA).parquet(*(file.location.spark for file in files))
    own = stored.where((F.col("query_id") == results.query.query_id) & (F.col("ordinal") <= results.rows))
    return own.selectExpr(*answer_columns(results))


def answer_columns(results: ResultsTable) -> list[str]:
    """Return SQL expressions over the ledger's columns, one for each column of ``results.NAME``."""
    columns = results.schema.columns[: len(results.query.columns)]
    values = [f"{decoded(f'row[{n}]', column.type)} AS {quoted(column.name)}" for n, column in enumerate(columns)]
    return [*values, *(f"{there} AS {here}" for here, there in LEDGER_COLUMNS.items())]


def may_hold_answers(file: DataFile, query_id: int) -> bool:
    """Return whether a ledger file may contain answers of the query, according to the file statistics."""
    return file.may_hold("query_id", query_id, query_id)


def decoded(text: str, type_: DataType) -> str:
    """Return SQL that decodes the stored form of a value without loss. ``text`` is SQL for the stored form.

    The inverse is ``planning.plan.encoded``.

    >>> decoded("row[0]", DataType("DATE"))
    'DATE_FROM_UNIX_DATE(CAST(row[0] AS INT))'
    """
    match type_.name:
        case "STRING":
            return text
        case "TIMESTAMP":
            return f"TIMESTAMP_MICROS(CAST({text} AS BIGINT))"
        case "DATE":
            return f"DATE_FROM_UNIX_DATE(CAST({text} AS INT))"
        case "BINARY":
            return f"UNBASE64({text})"
        case _:
            return f"CAST({text} AS {type_})"


_STORED: Final = "query_id BIGINT, ordinal BIGINT, first_at TIMESTAMP, tick BIGINT, row ARRAY<STRING>"
_OWN: Final = ((ORDINAL, "ordinal"), (FIRST_AT, "first_at"), ("_tick", "tick"))


def answer_frame(
    session: Callable[[], SparkSession], data: Store, query: QueryRecord, after: int, last: int
) -> DataFrame | None:
    """Return the answers with ordinals from ``after`` + 1 to ``last``, in any order.

    Return None if no file has these answers. The columns are ``_ordinal``, ``_first_at``, ``_tick`` and the query's
    columns. A repeated column name gets a number.
    """
    files = Table(data / layout.LEDGER).files()
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
    if kind.shape == INTERVAL:
        return f"{value} * {interval(1)}"
    return value if kind.json is None else f"FROM_JSON({value}, {literal(Literal(str(kind.json), STRING))})"
