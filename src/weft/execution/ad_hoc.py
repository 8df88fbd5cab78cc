"""A query asked once, at one instant, as if the database were fixed: Q(s) (``weft try``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.algebra.relation import Output, Query
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import DataType
from weft.execution.answers import columns_by_table, guarded
from weft.execution.attempts import few_enough, limits, too_many
from weft.execution.groups import instant
from weft.execution.reader import Reader, held
from weft.execution.relations import Relation
from weft.execution.views import Views
from weft.location import Location
from weft.planning.plan import at_instant, columns_of, encoded
from weft.runtime.session import plain_errors
from weft.runtime.watchdog import limited
from weft.storage.values import Value, decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Answer:
    """Q(s): its distinct rows, at most as many as asked for, sorted; ``count`` counts them all; ``at`` is s."""

    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[tuple[Value, ...], ...]
    count: int
    at: int


def ask(
    spark: SparkSession, data: Location, tables: Mapping[str, Relation], query: Query, s: int, limit: int | None
) -> Answer:
    """Runs the query over the rows alive at ``s`` (microseconds UTC) with NOW = s; ``limit`` None: every row.

    Raises ExecutionError where Spark cannot run it, LimitExceeded (one, too) where it takes more than a query may in a
    tick, StorageError for a damaged table.
    """
    columns = columns_of(query)
    named = Query(query.input, tuple(Output(f"c{n}", output.value) for n, output in enumerate(query.outputs, 1)))
    branches = at_instant(named, instant(s))
    refs = [ColumnRef("q", output.name, output.value.type) for output in named.outputs]
    names = ", ".join(f"q.{ref.column}" for ref in refs)
    reader = Reader(spark, data, tables)
    allowed = limits()
    with (
        held(data, (table.path for table in tables.values())),
        plain_errors("asking the query"),
        limited(allowed.seconds),
        few_enough(allowed.rows),
    ):
        try:
            Views(reader, columns_by_table(branches)).register([p for b in branches for p in b.paths.values()], {})
            texts = [f"SELECT {names}\nFROM ({branch.sql}) AS q" for branch in branches]
            text = guarded("\nUNION ALL ".join(texts) or _nothing(named), allowed.rows)
            found = reader.keep(spark.sql(text).distinct())
            count = found.count()
            if count > allowed.rows:
                raise too_many(count, allowed.rows)
            ordered = found.orderBy(*found.columns)
            shown = (ordered if limit is None else ordered.limit(limit)).alias("q")
            rows = shown.selectExpr(f"ARRAY({', '.join(encoded(ref) for ref in refs)}) AS row").collect()
        finally:
            reader.release()
    types = [type_ for _, type_ in columns]
    return Answer(columns, tuple(decode(row["row"], types) for row in rows), count, s)


def _nothing(query: Query) -> str:
    """SQL of an answer that can have no row."""
    columns = (f"CAST(NULL AS {output.value.type}) AS {output.name}" for output in query.outputs)
    return f"SELECT {', '.join(columns)} WHERE FALSE"
