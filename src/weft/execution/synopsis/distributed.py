"""Run the SQL of a batch on Spark. The number of jobs depends on the formula alone.

Each step is a lazy local checkpoint. Spark plans a step once, computes the step when a later step reads it, and caches
the result. The plan of a later step reads the cached result. With Spark's ordinary cache, each plan would contain the
plans of all earlier steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import ExecutionError
from weft.execution.driver_reader import local_frame
from weft.execution.synopsis.engine import hint_for
from weft.period_sql.notation import SPARK, Dialect
from weft.runtime.settings import rows_only, scanning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class SparkEngine:
    """An engine that runs on Spark and computes each step at most once."""

    session: SparkSession
    dialect: Dialect = SPARK
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as a table with this name."""
        local_frame(self.session, rows).createOrReplaceTempView(name)

    def create_table(self, sql: str) -> str | None:
        """Create a table and return its name. The result is never None, because a check for rows would need a job."""
        frame = self.session.sql(sql).localCheckpoint(eager=False)
        name = f"step_{next(self.numbers)}"
        frame.createOrReplaceTempView(name)
        return name

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        from pyspark.errors import PySparkException

        try:
            return self.session.sql(sql).toArrow()
        except PySparkException as error:
            message = str(error).splitlines()[0]
            raise ExecutionError(f"a batch of states cannot be evaluated: {message}", hint=hint_for(message)) from error


@contextmanager
def spark_engine(spark: SparkSession, *, few: bool = False) -> Iterator[SparkEngine]:
    """Provide an engine in its own Spark session, which prevents collisions of table names.

    Set ``few`` if batches have at most some thousands of rows. The engine then uses one partition and no generated
    code, because planning takes most of the time. In this session, an arithmetic overflow raises an error.
    """
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        session.conf.set(name, spark.conf.get(name) or "")
    session.conf.set("spark.sql.ansi.enabled", "true")
    # Each broadcast would be a separate job, and Spark would choose broadcasts by estimated row counts.
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    with rows_only(session) if few else scanning(session):
        yield SparkEngine(session)
