"""A batch's SQL on Spark: a fixed number of jobs for a formula, however many states the batch has.

A step runs when something reads it, and is kept from then on: answers and stored relations are what is asked for.
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
from weft.sql.points import SPARK, Dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Distributed:
    """Spark as an engine: each step is computed once at most, and read by the steps after it."""

    session: SparkSession
    dialect: Dialect = SPARK
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    computed: list[DataFrame] = field(default_factory=list)

    def given(self, name: str, rows: pa.Table) -> None:
        """Takes rows as the table ``name``."""
        given_rows(self.session, rows).createOrReplaceTempView(name)

    def made(self, sql: str) -> str | None:
        """The name of a table that holds what a query gives; that it is nothing would take a job to know."""
        frame = self.session.sql(sql).persist()
        self.computed.append(frame)
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
def distributed_engine(spark: SparkSession) -> Iterator[Distributed]:
    """One for the block, in a session of its own: its tables have names of their own.

    Arithmetic that leaves a type's range fails there, where the home's queries have NULL.
    """
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        session.conf.set(name, spark.conf.get(name) or "")
    session.conf.set("spark.sql.ansi.enabled", "true")
    engine = Distributed(session)
    try:
        yield engine
    finally:
        for frame in engine.computed:
            frame.unpersist()
