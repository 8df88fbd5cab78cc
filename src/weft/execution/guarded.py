"""Collect small results of Spark in the driver, with a limit on the rows of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_ROWS_OF_A_TASK: Final = 2**33
"""Spark's function MONOTONICALLY_INCREASING_ID numbers the rows of a task in the lower 33 bits."""


def guarded(select: str, most: int) -> str:
    """Make the Spark tasks of the SELECT fail after ``_REPEATED`` times ``most`` rows."""
    allowed = min(most * _REPEATED, _ROWS_OF_A_TASK - 1)
    return (
        f"SELECT * FROM (\n{select}\n) AS g\n"
        f"WHERE CASE WHEN MONOTONICALLY_INCREASING_ID() % {_ROWS_OF_A_TASK} < {allowed} THEN TRUE "
        f"ELSE CAST(RAISE_ERROR('{MANY}') AS BOOLEAN) END"
    )


def gave_too_many(error: Exception) -> bool:
    """Return whether the condition of ``guarded`` raised this Spark error.

    The message text is not compared, because any message may quote the SQL of ``guarded``.
    """
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return False
    try:
        parameters = error.getMessageParameters() or {}
        return error.getCondition() == _RAISED and parameters.get("errorMessage") == MANY
    except spark_errors():  # py4j asks the JVM, which may have ended
        return False


def in_memory(spark: SparkSession, rows: DataFrame) -> pa.Table | None:
    """Compute the rows with one Spark job that reads no files. Return None if the result is too large for the driver.

    The SQL of ``rows`` must be guarded (``guarded``) with the limit ``COLLECTED``.
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
