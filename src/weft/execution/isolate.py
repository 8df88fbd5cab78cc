"""Which queries Spark refuses: one that cannot run must not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.errors import ExecutionError
from weft.execution.answers import candidates
from weft.execution.groups import Group
from weft.execution.reader import Reader
from weft.runtime.session import root_cause, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def failing_queries(spark: SparkSession, reader: Reader, groups: Sequence[Group], error: Exception) -> dict[int, str]:
    """The queries of the groups that fail when run alone, each with Spark's reason.

    Raises ExecutionError where Spark itself is in trouble, or none fails alone.
    """
    _require_alive(spark, error)
    faulty = {query_id: why for group in groups for query_id, why in _failing(spark, reader, group)}
    if not faulty:
        raise ExecutionError(
            f"the tick failed: {root_cause(error)}", hint="Spark's log in the home's logs/ has the whole story."
        ) from error
    _require_alive(spark, error)
    return faulty


def _failing(spark: SparkSession, reader: Reader, group: Group) -> Iterator[tuple[int, str]]:
    """Queries of one plan may differ in a constant that Spark chokes on: halves are tried until one is left."""
    try:
        # Every column is computed, which counting the rows would not do.
        candidates(spark, reader, [group]).write.format("noop").mode("overwrite").save()
    except spark_errors() as problem:
        reader.release()
        if len(group.members) == 1:
            yield group.members[0].query.query_id, root_cause(problem)
            return
        _require_alive(spark, problem)
        half = len(group.members) // 2
        for part in (group.members[:half], group.members[half:]):
            yield from _failing(spark, reader, replace(group, members=part))
    finally:
        reader.release()


def _require_alive(spark: SparkSession, error: Exception) -> None:
    try:
        spark.range(1).count()
    except spark_errors() as problem:
        raise ExecutionError(
            f"Spark stopped working during the tick: {root_cause(error)}",
            hint="Nothing is lost: the next tick does this one again.",
        ) from problem
