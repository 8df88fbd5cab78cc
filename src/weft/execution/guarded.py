"""Collect small results of Spark in the driver, with a limit on the rows of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.period_sql.notation import SPARK
from weft.planning.guard import guarded
from weft.runtime.session import error_text, spark_errors
from weft.runtime.settings import rows_only

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MANY: Final = "a task of Weft gave too many rows"
"""Error message of a Spark task that produces too many rows."""

_RAISED: Final = "USER_RAISED_EXCEPTION"
"""Spark's error condition for RAISE_ERROR. Queries cannot call RAISE_ERROR."""

COLLECTED: Final = 5_000
"""Number of answers, without the factor ``_REPEATED``, that a branch may return to the driver."""

_TOO_LARGE: Final = "spark.driver.maxResultSize"
"""If a result is too large for the driver, Spark's error message contains this name."""

_REPEATED: Final = 100
"""Number of rows that a branch may produce for each answer. A branch may produce duplicates of a row."""

MOST_ROWS: Final = COLLECTED * _REPEATED
"""Number of rows of branches that the driver computes."""


def guarded_tasks(select: str, most: int) -> str:
    """Make the Spark tasks of the SELECT fail after ``_REPEATED`` times ``most`` rows."""
    return guarded(select, most * _REPEATED, MANY, SPARK)


def gave_too_many(error: Exception) -> bool:
    """Return whether the condition of ``guarded_tasks`` raised this Spark error."""
    return raised_message(error) == MANY


def raised_message(error: Exception) -> str | None:
    """Return the message of a guard (``planning.guard``) that raised this Spark error, or None for another error.

    The message text is not searched, because any message may quote the SQL of a guard.
    """
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return None
    try:
        parameters = error.getMessageParameters() or {}
        return parameters.get("errorMessage") if error.getCondition() == _RAISED else None
    except spark_errors():  # py4j asks the JVM, which may have ended
        return None


def in_memory(spark: SparkSession, rows: DataFrame) -> pa.Table | None:
    """Compute the rows with one Spark job that reads no files. Return None if the result is too large for the driver.

    The SQL of ``rows`` must be guarded (``guarded_tasks``) with the limit ``COLLECTED``.
    """
    try:
        with rows_only(spark):
            # Every task receives the whole union. Use only as many tasks as run in parallel.
            table: pa.Table = rows.coalesce(spark.sparkContext.defaultParallelism).toArrow()
            return table
    except spark_errors() as error:
        if not gave_too_many(error) and not too_large(error):
            raise
        return None


def collected(rows: DataFrame, most: int) -> pa.Table | None:
    """Return the rows, or None if there are more than ``most`` or if they are too large for the driver."""
    if rows.count() > most:
        return None
    try:
        table: pa.Table = rows.toArrow()
        return table
    except spark_errors() as error:
        if not too_large(error):
            raise
        return None


def too_large(error: Exception) -> bool:
    """Return whether Spark refused to send a result to the driver because of its size."""
    return _TOO_LARGE in error_text(error)
