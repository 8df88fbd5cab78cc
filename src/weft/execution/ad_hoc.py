"""Run a query once at one instant, without installing it (``weft try``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.algebra.relation import Output, Query
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import DataType
from weft.algebra.sort_key import Key
from weft.catalog import CatalogParts
from weft.execution.groups import instant
from weft.execution.guarded import COLLECTED, guarded, in_memory
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import Limits, ad_hoc_reader, too_many
from weft.execution.states import StateReader
from weft.execution.tabular import Columns, Tabular, columns_text
from weft.instants import format_instant
from weft.planning.plan import Branch, at_instant, columns_of, encoded
from weft.printable import counted
from weft.storage.values import Value, decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class Answer(Tabular):
    """The answer of a query at one instant: distinct, sorted rows.

    ``rows`` has at most ``limit`` rows; ``count`` is the number of all rows. ``at`` is the instant (µs UTC).
    ``session`` is the Spark session that ran the query.
    """

    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[tuple[Value, ...], ...]
    count: int
    at: int
    session: SparkSession = field(compare=False)

    def _typed(self) -> Columns:
        return self.columns

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return iter(self.rows)

    def _total(self) -> int:
        return self.count

    def _session(self) -> SparkSession:
        return self.session

    def _brief(self) -> str:
        shown = "" if len(self.rows) == self.count else f", {len(self.rows):,} of them here"
        return f"{counted(self.count, 'row')}{shown}, as of {format_instant(self.at)}: {columns_text(self.columns)}"


def ask(
    spark: SparkSession,
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    query: Query,
    s: int,
    limit: int | None,
    order: Sequence[Key] = (),
    *,
    allowed: Limits | None = None,
) -> Answer:
    """Run the query at the instant ``s`` (microseconds UTC) and return its answer.

    NOW equals ``s``. The query reads the rows that are alive at ``s``. If ``limit`` is None, the answer contains all
    rows. The rows are sorted by the keys of ``order``, then by all columns.

    Raise ExecutionError if Spark cannot run the query. Raise LimitExceeded, a subclass of ExecutionError, if the query
    exceeds the limits of a tick. Raise StorageError if a table is damaged.
    """
    columns = columns_of(query)
    named = Query(query.input, tuple(Output(f"c{n}", output.value) for n, output in enumerate(query.outputs, 1)))
    branches = at_instant(named, instant(s))
    with ad_hoc_reader(spark, catalog, tables, allowed) as (reader, within):
        views = StateReader(reader).views(branches)
        views.read([path for branch in branches for path in branch.paths.values()], {})
        views.register()
        request = _Request(named, branches, limit, within.rows, order)
        result = _from_memory(reader, request) if views.small else None
        rows, count = result or _from_files(reader, request)
    types = [type_ for _, type_ in columns]
    return Answer(columns, tuple(decode(row, types) for row in rows), count, s, spark)


@dataclass(frozen=True)
class _Request:
    """``limit`` is the number of rows to return. A query with more than ``most`` rows fails."""

    query: Query
    branches: Sequence[Branch]
    limit: int | None
    most: int
    order: Sequence[Key]

    def sorted(self, rows: DataFrame) -> DataFrame:
        return rows.orderBy(*(_sorting(rows, key) for key in self.order), *rows.columns)


def _sorting(rows: DataFrame, key: Key) -> Column:
    column = rows[rows.columns[key.column]]
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _from_memory(reader: Reader, request: _Request) -> tuple[list[list[str | None]], int] | None:
    """Return None if the result is too large for the driver."""
    distinct = reader.spark.sql(_text(request.query, request.branches, min(request.most, COLLECTED))).distinct()
    result = in_memory(reader.spark, _encoded(request.query, request.sorted(distinct)))
    if result is None:
        return None
    if result.num_rows > request.most:
        raise too_many(result.num_rows, request.most)
    return result.slice(0, request.limit).column("row").to_pylist(), result.num_rows


def _from_files(reader: Reader, request: _Request) -> tuple[list[list[str | None]], int]:
    result = reader.keep(reader.spark.sql(_text(request.query, request.branches, request.most)).distinct())
    count = result.count()
    if count > request.most:
        raise too_many(count, request.most)
    ordered = request.sorted(result)
    shown = _encoded(request.query, ordered if request.limit is None else ordered.limit(request.limit))
    return [row["row"] for row in shown.collect()], count


def _text(query: Query, branches: Sequence[Branch], most: int) -> str:
    names = ", ".join(f"q.{output.name}" for output in query.outputs)
    texts = [f"SELECT {names}\nFROM ({branch.sql}) AS q" for branch in branches]
    return guarded("\nUNION ALL ".join(texts) or _nothing(query), most)


def _encoded(query: Query, rows: DataFrame) -> DataFrame:
    refs = (ColumnRef("q", output.name, output.value.type) for output in query.outputs)
    return rows.alias("q").selectExpr(f"ARRAY({', '.join(encoded(ref) for ref in refs)}) AS row")


def _nothing(query: Query) -> str:
    columns = (f"CAST(NULL AS {output.value.type}) AS {output.name}" for output in query.outputs)
    return f"SELECT {', '.join(columns)} WHERE FALSE"
