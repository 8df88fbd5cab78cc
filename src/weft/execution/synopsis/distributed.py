"""A batch's SQL on Spark: a fixed number of jobs for a formula, however many states the batch has.

A step is planned once, runs when something reads it, and is kept from then on: answers and stored relations are what is
asked for.  To what reads it a step is rows without a past.  Were it a query that Spark keeps, the plan of each step
would hold the plans of all before it, as often as they are read, and be compared with all that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import ExecutionError
from weft.execution.driver_reader import given_rows
from weft.execution.synopsis.engine import hint_for
from weft.runtime.settings import rows_only, scanning
from weft.sql.points import SPARK, Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Distributed:
    """Spark as an engine: each step is computed once at most, and read by the steps after it."""

    session: SparkSession
    dialect: Dialect = SPARK
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def given(self, name: str, rows: pa.Table) -> None:
        """Takes rows as the table ``name``."""
        given_rows(self.session, rows).createOrReplaceTempView(name)

    def made(self, sql: str) -> str | None:
        """The name of a table that holds what a query gives; that it is nothing would take a job to know."""
        frame = self.session.sql(sql).localCheckpoint(eager=False)
        name = f"step_{next(self.numbers)}"
        frame.createOrReplaceTempView(name)
        return name

    def rows(self, sql: str) -> pa.Table:
        """What a query gives."""
        from pyspark.errors import PySparkException

        try:
            return self.session.sql(sql).toArrow()
        except PySparkException as error:
            told = str(error).splitlines()[0]
            raise ExecutionError(f"a batch of states cannot be evaluated: {told}", hint=hint_for(told)) from error


@contextmanager
def distributed_engine(spark: SparkSession, *, few: bool = False) -> Iterator[Distributed]:
    """One for the block, in a session of its own: its tables have names of their own.

    Where batches have ``few`` rows, some thousands, planning is what takes time: then there is one partition of them,
    and no code is generated.  Arithmetic that leaves a type's range fails there, where the home's queries have NULL.
    """
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        session.conf.set(name, spark.conf.get(name) or "")
    session.conf.set("spark.sql.ansi.enabled", "true")
    # A broadcast is a job of its own, and whether there is one depends on how many rows Spark expects.
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    with rows_only(session) if few else scanning(session):
        yield Distributed(session)
