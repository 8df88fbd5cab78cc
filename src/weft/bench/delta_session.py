"""Start Spark with Delta Lake's reader and writer, as a reference for the benchmarks.

Weft itself does not use them: Spark reads and writes Parquet files, and delta-rs commits (``storage/commit.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.runtime.jars import fetch_jars
from weft.runtime.session import spark_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_JARS: Final = Path(__file__).with_name("delta_jars.txt")
_CONF: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # These settings make small commits faster.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.commitStats.collect": "false",
}


def delta_session(folder: Path) -> SparkSession:
    """Return the session of a new JVM with Delta Lake. A running JVM of this process ends. Spark's log goes to
    ``folder``.

    The first call on a machine downloads the jars. Raise ExecutionError.
    """
    jars = fetch_jars(DELTA_JARS)
    stop_session()
    return spark_session(folder, jars=jars, conf=_CONF)
