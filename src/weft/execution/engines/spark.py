"""Run the SQL of views and synopses on Spark.

Each table is cut off (``cut_off``): Spark plans the table once, and the plan of a later query reads its rows. With
Spark's ordinary cache, each plan would contain the plans of all earlier tables, several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.execution.driver_reader import local_frame
from weft.execution.executor_files import write_files
from weft.execution.reader import cut_off, spark_schema, stored_frame
from weft.period_sql.notation import SPARK, Dialect
from weft.sql.rendering.render import quoted
from weft.storage.data_files import FileForm, NewFile
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class SparkEngine:
    """An engine that runs on Spark. Executors write its results.

    If ``probing`` is false, ``table`` does not check whether a table has rows, because the check needs a job.
    """

    session: SparkSession
    probing: bool
    dialect: Dialect = SPARK

    def stored(self, name: str, files: Sequence[DataFile], table: TableSchema, part: Slice | None = None) -> None:
        """Create the view ``name`` over the files of a stored table. Raise StorageError for a damaged file.

        Spark itself reads only what the conditions of the later queries need.
        """
        stored_frame(self.session, table, files).createOrReplaceTempView(name)

    def given(self, name: str, rows: pa.Table) -> None:
        """Create the view ``name`` over rows in memory."""
        local_frame(self.session, rows).createOrReplaceTempView(name)

    def table(self, name: str, sql: str) -> bool:
        """Create a table from a query. Return False if the table certainly has no rows."""
        frame = cut_off(self.session.sql(sql))
        frame.createOrReplaceTempView(name)
        return not (self.probing and frame.isEmpty())

    def size(self, name: str) -> int | None:
        """Return None, because counting the rows of a table needs a job."""
        return None

    def view(self, name: str, sql: str) -> None:
        """Create the view ``name`` from a query."""
        self.session.sql(sql).createOrReplaceTempView(name)

    def drop(self, name: str) -> None:
        """Drop a table. Spark frees the rows when no later table needs them."""
        self.session.catalog.dropTempView(name)

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query. The caller must bound their number."""
        return self.session.sql(sql).toArrow()

    def one(self, sql: str) -> Any:
        """Return the value of a query with one row and one column."""
        return self.session.sql(sql).collect()[0][0]

    def result(self, sql: str, table: TableSchema, form: Callable[[], FileForm]) -> list[NewFile]:
        """Let the executors write the rows of a query as files, in the form in which ``table`` stores them."""
        rows = self.session.sql(sql).select(*map(quoted, spark_schema(table).names))
        return write_files(rows, form())
