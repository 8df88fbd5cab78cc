"""Find the new answers among the rows of branches.

Each new row occurs once, with its first instant, and is not in the ledger. If all input rows are in the driver's
memory, DuckDB or one Spark job computes the branches, and ``arrow_answers`` does the rest. DuckDB computes most first
deliveries and other large windows (``duckdb_answers``). Otherwise Spark does all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.algebra.sort_key import Key
from weft.execution import arrow_answers
from weft.execution.answers import candidates, union
from weft.execution.driver_reader import ReadBounds, count_text, over_bound, rows_of
from weft.execution.duckdb_answers import LargeAnswers, goes_to_duckdb, large_answers
from weft.execution.groups import Group, Member
from weft.execution.guarded import COLLECTED, in_memory
from weft.execution.look_ups import ANSWER, LookUpResult, LookUps
from weft.execution.ordering import Columns, by_keys, duckdb_keys, kinds_of, spark_keys, spark_order
from weft.execution.phases import COMPUTING, SETTLING, phase
from weft.execution.reader import Reader
from weft.execution.states import StateReader
from weft.execution.temp_views import NotSmall
from weft.runtime.settings import scanning
from weft.storage.columns import conformed
from weft.storage.data_files import FileForm, NewFile, check_data_file, read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.ledger import Added, ledger_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


Writing: TypeAlias = Callable[[FileForm], Sequence[NewFile]]
"""A function that writes rows in the ledger's form into files."""
Rows: TypeAlias = "DataFrame | pa.Table | Writing"
_NEW: Final = ledger_schema("query_id", "first_at", "row_hash", "row")


@dataclass(frozen=True)
class NewAnswers:
    """The new rows of several queries: ``rows``, and those of large windows that DuckDB computed.

    ``added`` has the number of new rows of each query. ``first`` has the first instant of each query's new rows, in
    microseconds.
    """

    rows: DataFrame | pa.Table
    added: Mapping[int, Added]
    first: Mapping[int, int]
    delivered: LargeAnswers | None = None

    @property
    def count(self) -> int:
        """The number of new answers of all queries."""
        return sum(each.rows for each in self.added.values())

    def first_rows(self, types: Sequence[DataType], limit: int | None, keys: Sequence[Key] = ()) -> pa.Table:
        """Return the columns first_at and row of the first ``limit`` answers, if query 0 is the only query.

        The answers are sorted by ``keys``, then in the order of ``execution.ordering``. ``types`` are those of the
        query's columns. If ``limit`` is None, return all answers.
        """
        if self.delivered is not None:
            return self.delivered.first_rows(duckdb_keys(types, keys), limit)
        if isinstance(self.rows, pa.Table):
            return by_keys(self.rows, types, keys).slice(0, limit).select(["first_at", "row"])
        from pyspark.sql import functions as F

        order: list[Column | str] = [
            *spark_keys(types, keys),
            "first_at",
            *map(F.expr, spark_order(kinds_of({0: types}))),
        ]
        ordered = self.rows.orderBy(*order).select("first_at", "row")
        return (ordered if limit is None else ordered.limit(limit)).toArrow()

    def by_interval(self, begin: int, length: int) -> dict[int, int]:
        """Count the answers by interval. Interval 0 begins at ``begin``. Both arguments are microseconds."""
        if self.delivered is not None:
            return self.delivered.by_interval(begin, length)
        if isinstance(self.rows, pa.Table):
            parts = pc.divide(pc.subtract(self.rows.column("first_at").cast(pa.int64()), begin), length)
            return {each["values"]: each["counts"] for each in pc.value_counts(parts).to_pylist()}
        part = self.rows.selectExpr(f"(UNIX_MICROS(first_at) - {begin}) DIV {length} AS part").groupBy("part").count()
        return {row["part"]: row["count"] for row in part.collect()}

    def without(self, queries: Collection[int]) -> NewAnswers:
        """Return the new answers of all queries except ``queries``."""
        added = {key: value for key, value in self.added.items() if key not in queries}
        first = {key: value for key, value in self.first.items() if key not in queries}
        delivered = None if self.delivered is None else self.delivered.without(queries)
        return replace(self, rows=_without(self.rows, queries), added=added, first=first, delivered=delivered)

    def numbered(self, members: Sequence[Member], tick_id: int) -> list[Rows]:
        """Number the rows of each query in the order of ``execution.ordering``. Return them in the ledger's form."""
        queries = [member.query for member in members if member.query.query_id in self.added]
        before = {query.query_id: query.rows for query in queries}
        columns = {query.query_id: query.types for query in queries}
        rows: Rows
        if isinstance(self.rows, pa.Table):
            rows = arrow_answers.numbered(self.rows, before, columns, tick_id)
        else:
            rows = _numbered(self.rows, before, columns, tick_id)
        return [rows] if self.delivered is None else [rows, partial(self.delivered.written, tick_id=tick_id)]


def new_answers(
    reader: Reader,
    *windows: Sequence[Group],
    most: int | None,
    apart: bool = False,
    small_only: bool = False,
    by_duckdb: bool = False,
    states: StateReader | None = None,
) -> NewAnswers:
    """Return the new rows of the queries in the groups. The groups of one window are computed together.

    With ``apart``, compute one group after the other. A query may add at most ``most`` rows. If ``most`` is None, the
    number of rows is not limited. With ``small_only``, raise NotSmall if the input rows are not in the driver's memory.
    With ``by_duckdb``, DuckDB may compute rows, and large windows (``delivered``). ``states`` reads the states.
    """
    groups = [group for window in windows for group in window]
    states = states or StateReader(reader, small_only, by_files=by_duckdb and not small_only)
    if by_duckdb and groups and not small_only and (new := _with_large(reader, windows, most, states)) is not None:
        return new
    sets = [[group] for group in groups] if apart else windows
    compute = partial(candidates, reader, most=most, states=states)
    parts = [compute(each, collected=COLLECTED, small_only=small_only, by_duckdb=by_duckdb) for each in sets]
    if groups and not any(each.branches for each in parts):
        return _nothing()
    known_to = [query_id for group in groups for query_id in group.with_answers]
    if all(each.small for each in parts):
        collected = _collected(reader, [each.rows for each in parts], apart=apart)
        if collected is not None:
            with phase(SETTLING):
                rows = arrow_answers.each_once(collected)
                rows = arrow_answers.without_known(rows, _known_locally(reader, rows, known_to))
                return NewAnswers(rows, arrow_answers.added(rows), arrow_answers.first_instants(rows))
    if small_only:
        raise NotSmall
    frames = [each.rows for each in parts if not isinstance(each.rows, pa.Table)]
    if len(frames) < len(sets) or all(each.small for each in parts):
        # Spark computes all, and decides whether a query has too many rows.
        frames = [each.rows for each in map(compute, sets)]
    with phase(COMPUTING):
        return _by_spark(reader, frames, known_to, apart=apart)


def _nothing() -> NewAnswers:
    return NewAnswers(_NEW.empty_table(), {}, {})


def _with_large(
    reader: Reader, windows: Sequence[Sequence[Group]], most: int | None, states: StateReader
) -> NewAnswers | None:
    """Let DuckDB compute large windows. Return None if no window is large, or if DuckDB cannot compute any."""
    small = replace(states, small_only=True)  # the two share the states that they have read
    try:
        return new_answers(reader, *windows, most=most, small_only=True, by_duckdb=True, states=small)
    except NotSmall:
        chosen = [group for each in windows for group in each if goes_to_duckdb(reader.driver, group)]
    if not chosen:
        return None
    rest = [left for each in windows if (left := [group for group in each if group not in chosen])]
    others = new_answers(reader, *rest, most=most, states=states) if rest else _nothing()
    files = answer_files(reader.ledger, [query_id for group in chosen for query_id in group.with_answers])
    if rows_of(files) > reader.bounds.large:
        return None
    with phase(COMPUTING):
        delivered = large_answers(reader, chosen, read_data_files(files, ANSWER), small)
    if delivered is None:
        return None
    added, first = {**others.added, **delivered.added}, {**others.first, **delivered.first}
    return replace(others, added=added, first=first, delivered=delivered)


def _collected(reader: Reader, parts: Sequence[DataFrame | pa.Table], *, apart: bool) -> pa.Table | None:
    tables = [each for each in parts if isinstance(each, pa.Table)]
    frames = [each for each in parts if not isinstance(each, pa.Table)]
    if frames or not tables:
        with phase(COMPUTING):
            results = [in_memory(reader.spark, each) for each in _united(reader, frames, apart=apart)]
        if any(each is None for each in results):
            return None
        tables += [each for each in results if each is not None]
    return pa.concat_tables(conformed(each, _NEW) for each in tables)


def _united(reader: Reader, frames: Sequence[DataFrame], *, apart: bool) -> Sequence[DataFrame]:
    return frames if apart and frames else [union(reader.spark, frames)]


def _known_locally(reader: Reader, rows: pa.Table, queries: Sequence[int]) -> pa.Table:
    """The result may contain other answers of the ledger."""
    keys = rows.select(ANSWER.names)
    look_up = known_answers(reader.ledger, queries, keys, reader.bounds, reader.look_ups)
    if look_up.rows is not None:
        return look_up.rows
    known = _known(reader, queries)
    if known is None:
        return ANSWER.empty_table()
    from pyspark.sql import functions as F

    with scanning(reader.spark):
        wanted = F.broadcast(reader.spark.createDataFrame(keys))
        return known.join(wanted, ANSWER.names, "left_semi").toArrow().cast(ANSWER)


def _by_spark(reader: Reader, parts: Sequence[DataFrame], known_to: Sequence[int], *, apart: bool) -> NewAnswers:
    from pyspark.sql import functions as F

    if apart:
        for part in parts:
            reader.keep(part).count()
    rows = _fresh(reader, union(reader.spark, parts), known_to)
    first, last = F.unix_micros(F.min("first_at")).alias("first"), F.unix_micros(F.max("first_at")).alias("last")
    counted = rows.groupBy("query_id").agg(F.count("*").alias("rows"), first, last).collect()
    added = {row["query_id"]: Added(row["rows"], row["last"]) for row in counted}
    return NewAnswers(rows, added, {row["query_id"]: row["first"] for row in counted})


def _without(rows: DataFrame | pa.Table, queries: Collection[int]) -> DataFrame | pa.Table:
    if isinstance(rows, pa.Table):
        return rows.filter(pc.invert(pc.is_in(rows.column("query_id"), value_set=pa.array(queries, pa.int64()))))
    return rows.where(~rows["query_id"].isin(list(queries)))


def _fresh(reader: Reader, candidate_rows: DataFrame, known_to: Sequence[int]) -> DataFrame:
    from pyspark.sql import functions as F

    # Most rows occur once. After a repartitioning, Spark sorts the rows once instead of twice.
    once = (
        candidate_rows.repartition("query_id", "row_hash")
        .groupBy("query_id", "row_hash")
        .agg(F.min("first_at").alias("first_at"), F.any_value("row").alias("row"))
    )
    once = reader.keep(once)
    known = _known(reader, known_to)
    if known is None:
        return once
    with scanning(reader.spark):
        # The candidates are few and the ledger is long. First reduce the ledger to the keys of the candidates.
        keys = once.select("query_id", "row_hash")
        met = reader.keep(known.join(F.broadcast(keys), ["query_id", "row_hash"], "left_semi").repartition(1))
    return reader.keep(once.join(met, ["query_id", "row_hash"], "left_anti"))


def _known(reader: Reader, queries: Sequence[int]) -> DataFrame | None:
    from pyspark.sql import functions as F

    files = answer_files(reader.ledger, queries)
    if not files:
        return None
    for file in files:
        check_data_file(file)
    stored = reader.spark.read.schema("query_id BIGINT, row_hash BINARY").parquet(*(f.location.spark for f in files))
    return stored.where(F.col("query_id").between(min(queries), max(queries)))


def _numbered(rows: DataFrame, before: Mapping[int, int], columns: Columns, tick_id: int) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # Use an Arrow table, because Spark sends a list of rows through a Python process.
    kinds = kinds_of(columns)
    kind = {query_id: number for number, queries in enumerate(kinds.values()) for query_id in queries}
    counted = {"query_id": list(before), "before": list(before.values()), "kind": [kind[each] for each in before]}
    base = rows.sparkSession.createDataFrame(pa.table(counted))
    order = Window.partitionBy("query_id").orderBy("first_at", *map(F.expr, spark_order(kinds, "kind")))
    return (
        rows.join(F.broadcast(base), "query_id")
        .withColumn("ordinal", F.row_number().over(order) + F.col("before"))
        .withColumn("tick", F.lit(tick_id).cast("bigint"))
        .select("query_id", "ordinal", "first_at", "tick", "row_hash", "row")
    )


def known_answers(
    ledger: Sequence[DataFile], queries: Sequence[int], keys: pa.Table, bounds: ReadBounds, look_ups: LookUps | None
) -> LookUpResult:
    """Return those ``keys`` (query ID and hash) that are in the ledger's files.

    All ``keys`` belong to ``queries``. The result may contain other answers.
    """
    files = answer_files(ledger, queries)
    rows = rows_of(files)
    if not files or rows <= bounds.filtered:
        how = f"the whole ledger, {count_text(rows)} in {count_text(len(files), 'file')}" if files else "nothing so far"
        return LookUpResult("driver", how, read_data_files(files, ANSWER))
    if look_ups is None:
        return LookUpResult("Spark", f"no arrangement, and {over_bound(rows, bounds.filtered)}")
    return look_ups.answers(ledger, keys)


def answer_files(ledger: Sequence[DataFile], queries: Sequence[int]) -> list[DataFile]:
    """Return the files of the ledger that may have answers of ``queries``."""
    if not queries:
        return []
    low, high = min(queries), max(queries)
    return [
        file
        for file in ledger
        if file.least.get("query_id", low) <= high and file.greatest.get("query_id", high) >= low
    ]
