"""Run a batch's SQL on Spark. The number of jobs depends on the formula, not on the number of states.

Each step is a lazy local checkpoint: Spark plans the step once, computes it when a later step reads it, and caches the
result. Later steps see rows without lineage. A cached query would keep its lineage: the plan of each step would contain
the plans of all earlier steps, and Spark would compare this plan with everything in its cache.
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
from weft.runtime.settings import rows_only, scanning
from weft.sql.points import SPARK, Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class SparkEngine:
    """An engine that runs on Spark and computes each step at most once."""

    session: SparkSession
    dialect: Dialect = SPARK
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def register(self, name: str, rows: pa.Table) -> None:
        """Register ``rows`` as the table ``name``."""
        local_frame(self.session, rows).createOrReplaceTempView(name)

    def create_table(self, sql: str) -> str | None:
        """Create a table with the rows of a query and return its name.

        Never return None, since checking whether the query has rows would take a job.
        """
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
    """Provide an engine in a separate Spark session, so that its table names do not collide with others.

    If batches have ``few`` rows (some thousands), planning takes most of the time, so the engine uses one partition and
    no generated code. Arithmetic overflow raises an error here, whereas the home's queries yield NULL.
    """
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        session.conf.set(name, spark.conf.get(name) or "")
    session.conf.set("spark.sql.ansi.enabled", "true")
    # Do not broadcast: a broadcast is a separate job, and Spark decides on broadcasts by its estimate of the row count.
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    with rows_only(session) if few else scanning(session):
        yield SparkEngine(session)
