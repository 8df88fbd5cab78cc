"""Spark as the engine of the oracle's cases, as a home uses it, or with settings for a few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.execution.engines.spark import SparkEngine
from weft.execution.spark_runner import spark_faults
from weft.runtime.settings import plan_for, rows_only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_engine(
    spark: SparkSession, *, few: bool, strict: bool = False, probing: bool = True
) -> Iterator[SparkEngine]:
    """An engine in a session of its own; with ``few``, it plans for one partition and generates no code."""
    session = spark.newSession()
    plan_for(session, 0, strict=strict)
    engine = SparkEngine(session, probing)
    with spark_faults():
        if few:
            with rows_only(session):
                yield engine
        else:
            yield engine
