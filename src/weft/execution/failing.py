"""Which plan Spark refuses: one query that cannot run must not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import ExecutionError
from weft.execution.answers import candidates
from weft.execution.reader import Reader
from weft.execution.shapes import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def failing_groups(spark: SparkSession, reader: Reader, groups: Sequence[Group], error: Exception) -> dict[int, str]:
    """The queries of the groups that fail when run alone, each with Spark's reason.

    Raises ExecutionError where Spark itself is in trouble, or none fails alone.
    """
    from pyspark.errors import PySparkException

    _require_alive(spark, error)
    faulty: dict[int, str] = {}
    for group in groups:
        try:
            candidates(spark, reader, [group]).count()
        except PySparkException as problem:
            faulty |= {member.query.query_id: first_line(problem) for member in group.members}
        finally:
            reader.release()
    if not faulty:
        raise ExecutionError(
            f"the tick failed: {first_line(error)}", hint="Spark's log in the home's logs/ has the whole story."
        ) from error
    _require_alive(spark, error)
    return faulty


def first_line(error: Exception) -> str:
    """The first line of an error, which is what a person can use."""
    text = str(error).strip()
    return text.splitlines()[0][:500] if text else type(error).__name__


def _require_alive(spark: SparkSession, error: Exception) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark.range(1).count()
    except (PySparkException, Py4JError, OSError) as problem:
        raise ExecutionError(
            f"Spark stopped working during the tick: {first_line(error)}",
            hint="Nothing is lost: the next tick does this one again.",
        ) from problem
