"""Read the tables of one tick as Spark relations. The reader lists the files of each table once.

``storage`` reads the Delta log without a Spark job, and Spark reads the files directly. A Delta scan would cost one job
per filter. The jobs of Delta scans would take most of the time of a small tick (design section 5). Weft's own tables
have no deletion vectors, no column mapping and no partitions. If a file is older than a column, the column reads as
NULL in this file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from weft.algebra.access import Key
from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.arrangement.state_store import StateStore
from weft.catalog import layout
from weft.catalog.records import TableRecord
from weft.execution import driver_reader
from weft.execution.attached_frames import attached_frame
from weft.execution.driver_reader import DriverReader, LocalRows, ReadBounds, log_slices, may_look_up, news_files
from weft.execution.look_ups import LookUps
from weft.execution.relations import Relation, ResultsTable, may_hold_answers, typed_answers
from weft.execution.whole_tables import WholeTables
from weft.runtime.session import grant_access, spark_errors
from weft.runtime.settings import in_one_process, scanning, small
from weft.sql.rendering.render import quoted
from weft.storage.data_files import check_data_file, unreadable_file
from weft.storage.delta_log import DataFile, DeltaSnapshot, distrust
from weft.storage.slices import Slice
from weft.storage.table import Table
from weft.storage.temporal_sql import temporal_sql
from weft.storage.time_limit import interrupted_in_time
from weft.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def spark_schema(table: TableSchema, names: Iterable[str] | None = None) -> StructType:
    """Return the table's columns as a Spark schema. If ``names`` is given, return only these columns."""
    from pyspark.sql.types import StructType

    wanted = None if names is None else {name.lower() for name in names}
    columns = [c for c in table.columns if wanted is None or c.name.lower() in wanted]
    quoted = ", ".join(f"`{c.name.replace('`', '``')}` {c.type}" for c in columns)
    schema = StructType.fromDDL(quoted)
    assert isinstance(schema, StructType)
    return schema


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as F

    return spark.range(0).select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in schema.fields))


def stored_frame(
    spark: SparkSession, table: TableSchema, files: Sequence[DataFile], names: Iterable[str] | None = None
) -> DataFrame:
    """Return all rows in the files of a stored table. If ``names`` is given, return only these columns.

    Raise StorageError for a missing or damaged file.
    """
    schema = spark_schema(table, names)
    if not files:
        return _empty(spark, schema)
    for file in files:  # a damaged file is the home's error, not a query's
        check_data_file(file)
    if any(file.attached for file in files):
        return attached_frame(spark, files, spark_schema(table), schema.names)
    grant_access(spark, files[0].location)  # the session of one computation does not have it
    return spark.read.schema(schema).parquet(*(file.location.spark for file in files))


def cut_off(rows: DataFrame) -> DataFrame:
    """Return a DataFrame whose plan only reads the rows, which Spark computes at the first use and keeps.

    Spark cannot compute them again, so on a cluster two executors hold each row. If both end, ``repeated`` repeats the
    computation.
    """
    from pyspark import StorageLevel

    alone = in_one_process(str(rows.sparkSession.sparkContext.master))
    level = StorageLevel.MEMORY_AND_DISK if alone else StorageLevel.MEMORY_AND_DISK_2
    return rows.localCheckpoint(eager=False, storageLevel=level)


def stored_files(data: Store, path: str, snapshots: dict[str, DeltaSnapshot | None]) -> tuple[DataFile, ...]:
    """Return the files of the Delta table at ``path``, or an empty tuple if the table has no commit.

    ``snapshots`` maps paths to snapshots. If the snapshot of ``path`` is missing, add the current snapshot.
    """
    if path not in snapshots:
        table = Table(data / path)
        snapshots[path] = table.snapshot() if table.exists() else None
    snapshot = snapshots[path]
    return () if snapshot is None else snapshot.files


def files_of(data: Store, table: Relation, snapshots: dict[str, DeltaSnapshot | None]) -> tuple[DataFile, ...]:
    """Return the files that may have rows of the relation. ``snapshots`` is as in ``stored_files``."""
    files = stored_files(data, table.path, snapshots)
    if isinstance(table, ResultsTable):
        return tuple(file for file in files if may_hold_answers(file, table.query.query_id))
    return files


@contextmanager
def removals_reported(data: Store, snapshots: Mapping[str, DeltaSnapshot | None]) -> Iterator[None]:
    """If the block fails and a file of the snapshots has been deleted meanwhile, raise FilesRemoved.

    Readers without the lease use this context manager, because Spark and DuckDB do not say why a file is missing.
    ``snapshots`` maps paths to snapshots, and may change during the block.
    """
    try:
        yield
    except SparkNeeded:
        raise
    except Exception as error:
        for path, before in snapshots.items():
            distrust(data / path)
            named = {file.location for file in Table(data / path).files()}
            for file in () if before is None else before.files:
                if file.location not in named and not file.location.exists():
                    raise unreadable_file(file.location, error) from error
        raise


class SparkNeeded(Exception):
    """Raised by a computation without a Spark session that needs one. No user sees this error."""


@dataclass
class Reader:
    """A reader that reads each table at one version. The first use of a table determines this version.

    A reader without a ``session`` raises SparkNeeded where Spark must read.
    """

    session: SparkSession | None
    data: Store
    tables: Mapping[str, Relation]
    snapshots: dict[str, DeltaSnapshot | None] = field(default_factory=dict)
    cached: list[DataFrame] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)
    bounds: ReadBounds = field(default_factory=lambda: driver_reader.BOUNDS)
    look_ups: LookUps | None = None
    state_store: StateStore | None = None
    deepest: int = 100
    """The most steps of a recursion."""
    opened: ExitStack = field(default_factory=ExitStack)
    """The DuckDB connections that are open until ``release``."""
    whole_opened: list[WholeTables] = field(default_factory=list)
    """The whole tables, if a computation has read any. Readers of the same versions share them."""
    ahead: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The columns, by table, that the whole tables copy at first (``WholeTables``)."""

    @property
    def spark(self) -> SparkSession:
        """The session of the reader. Raise SparkNeeded if the reader has none."""
        if self.session is None:
            raise SparkNeeded
        return self.session

    @cached_property
    def driver(self) -> DriverReader:
        """The reader that reads small relations of the same files in the driver."""
        return DriverReader(self.tables, self.files, self.bounds, self.look_ups)

    def advanced(self, tables: Mapping[str, Relation]) -> Reader:
        """Return a reader with the same versions of the home's tables but with the current results of queries."""
        same = {name for name, table in tables.items() if not isinstance(table, ResultsTable)}
        paths = {tables[name].path for name in same}
        snapshots = {path: snapshot for path, snapshot in self.snapshots.items() if path in paths}
        frames = {name: frame for name, frame in self.frames.items() if name in same}
        return replace(self, tables=tables, snapshots=snapshots, frames=frames)

    def again(self, spark: SparkSession) -> Reader:
        """Return a reader of the same versions in another session, for use after the JVM of this reader ended."""
        return replace(self, session=spark, cached=[], frames={})

    def files(self, name: str) -> tuple[DataFile, ...]:
        """Return the files that may have rows of the relation. Before the first commit, the tuple is empty."""
        return files_of(self.data, self.tables[name], self.snapshots)

    @property
    def ledger(self) -> tuple[DataFile, ...]:
        """The files of the ledger."""
        return stored_files(self.data, layout.LEDGER, self.snapshots)

    def whole(self, name: str, columns: Iterable[str]) -> DataFrame:
        """Read all rows of a relation. The result has the given columns and the start column."""
        if name not in self.frames:  # Spark lists every file once for each relation, which adds up
            self.frames[name] = self._frame(name, self.files(name), None)
        table = self.tables[name].schema
        return self.frames[name].select(*map(quoted, spark_schema(table, {*columns, table.start}).names))

    def news(self, name: str, slices: Sequence[Slice], columns: Iterable[str]) -> DataFrame:
        """Return the rows of a relation that lie in any of the slices, and cache these rows."""
        from pyspark.sql import functions as F

        table = self.tables[name]
        wanted = log_slices(table, slices)
        files = news_files(table, self.files(name), wanted)
        names = {*columns, *(part.column for part in slices)}
        data = self._frame(name, files, names)
        if not isinstance(table, ResultsTable) and wanted != tuple(slices):
            recorded = reduce(or_, (_inside(F.col(quoted(part.column)), part) for part in wanted))
            data = recorded_periods(stored_frame(self.spark, table.stored, files).where(recorded), table).select(
                *map(quoted, data.columns)
            )
        with small(self.spark):  # the filter contains the window, so generated code would serve this tick only
            inside = data.where(reduce(or_, (_inside(F.col(quoted(part.column)), part) for part in slices)))
            return self.keep(inside.repartition(1))

    def lookup(self, name: str, keys: Mapping[Key, Sequence[DataFrame]], columns: Iterable[str]) -> DataFrame:
        """Return the rows that match at least one of the keys.

        ``keys`` maps each key to DataFrames with one column. One pass over the relation looks up all keys. NULL matches
        NULL.
        """
        from pyspark.sql import functions as F

        table = self.tables[name]
        of_keys = {key.column for key in keys}
        data, shown = self.whole(name, {*columns, *of_keys}), None
        if not isinstance(table, ResultsTable) and table.tracked and may_look_up(table, of_keys):
            shown, data = data.columns, stored_frame(self.spark, table.stored, self.files(name))
        marks = []
        for number, (key, parts) in enumerate(keys.items()):
            wanted = reduce(lambda a, b: a.union(b), (part.toDF("_key") for part in parts))
            wanted = wanted.distinct().withColumn(f"_met{number}", F.lit(True))
            same = key_column(data, key).eqNullSafe(wanted["_key"])
            data = data.join(F.broadcast(wanted), same, "left").drop("_key")
            marks.append(F.col(f"_met{number}"))
        met = data.where(reduce(or_, (mark.isNotNull() for mark in marks)))
        met = met.drop(*(f"_met{number}" for number in range(len(marks))))
        if shown is not None and not isinstance(table, ResultsTable):
            met = recorded_periods(met, table).select(*map(quoted, shown))
        with scanning(self.spark):
            rows = met.repartition(1)
            # Cut the plan off here. Look-ups depend on each other step by step, and each step names the previous step
            # several times. Spark took minutes to analyze plans that contained all previous steps.
            return cut_off(rows)

    def release(self) -> None:
        """Release the cached relations, and close the connections.

        Ignore Spark's errors, because a JVM that ended has no cache.
        """
        if self.cached:
            with suppress(*spark_errors()):
                for data in self.cached:
                    data.unpersist()
            self.cached.clear()
        self.opened.close()
        self.whole_opened.clear()

    def keep(self, data: DataFrame) -> DataFrame:
        """Cache ``data`` in memory (or on disk) until ``release``."""
        cached = data.persist()
        self.cached.append(cached)
        return cached

    def is_large(self, rows: LocalRows) -> bool:
        """Return whether the rows are too large for a Spark job over rows in the driver's memory."""
        return bool(rows.data.num_rows > self.bounds.inputs or rows.data.nbytes > self.bounds.size)

    def stored(self, name: str) -> TableSchema:
        """Return the stored columns of a table."""
        table = self.tables[name]
        assert not isinstance(table, ResultsTable)
        return table.stored

    @contextmanager
    def whole_tables(self) -> Iterator[WholeTables]:
        """Yield the tables that DuckDB reads whole. An enclosing ``time_limit`` interrupts its statements."""
        if not self.whole_opened:
            self.whole_opened.append(WholeTables(self.opened.enter_context(temporal_sql()), self.ahead))
        with interrupted_in_time(self.whole_opened[0].sql.connection):
            yield self.whole_opened[0]

    def _frame(self, name: str, files: Sequence[DataFile], columns: Iterable[str] | None) -> DataFrame:
        spark, table = self.spark, self.tables[name]
        names = None if columns is None else {*columns, table.schema.start}
        shown = list(map(quoted, spark_schema(table.schema, names).names))
        if not isinstance(table, ResultsTable):
            if not table.tracked:
                return stored_frame(spark, table.schema, files, names)
            return recorded_periods(stored_frame(spark, table.stored, files), table).select(*shown)
        for file in files:
            check_data_file(file)
        if not files:
            return _empty(spark, spark_schema(table.schema, names))
        return typed_answers(spark, files, table).select(*shown)


def key_column(rows: DataFrame, key: Key) -> Column:
    """Return the values of a key as a column of the DataFrame."""
    from pyspark.sql import functions as F

    column = rows[quoted(key.column)]
    for number, name in enumerate(key.fields):
        column = (column if number else F.from_json(column, str(key.shape))).getField(name)
    return column


def recorded_periods(log: DataFrame, table: TableRecord) -> DataFrame:
    """Return the periods (``storage.periods``) in the log rows of a tracked table."""
    from pyspark.sql import functions as F

    end = F.col(VALID_TO)
    same = [F.col(quoted(each.name)) for each in table.schema.columns if each.name != VALID_TO]
    last = log.groupBy(*same).agg(F.max_by(end, F.col(table.stored.start)).alias(VALID_TO))
    return last.where(end.isNull() | (end != F.col(VALID_FROM)))


def _inside(column: Column, part: Slice) -> Column:
    from pyspark.sql import functions as F

    below = column < F.timestamp_micros(F.lit(part.high))
    return below if part.low is None else (column >= F.timestamp_micros(F.lit(part.low))) & below
