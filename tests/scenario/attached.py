"""A process that uses the JVM of another process. A test can kill this process without the cost of starting a JVM.

The killed process leaves only unused sessions in the JVM, because a failpoint is never inside a call of Spark.
"""

from __future__ import annotations

import os
from pathlib import Path

from weft.runtime import session

PORT = "PYSPARK_GATEWAY_PORT"
SECRET = "PYSPARK_GATEWAY_SECRET"


def door() -> dict[str, str]:
    """Return the environment of a process that will use the JVM of this process."""
    assert session._running is not None
    parameters = session._running.gateway.java_parameters
    return {PORT: str(parameters.port), SECRET: parameters.auth_token}


class OtherProcess:
    """The process of the JVM, which is not a child of this process."""

    def poll(self) -> None:
        """Return None, because the process runs."""


def attach(log: Path) -> None:
    """Connect this process to the JVM that the environment names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    gateway.proc = OtherProcess()
    context = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=context.getConf())
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway, jsc=context))
    session._running = session._Running(spark, gateway, log, conf.get("spark.driver.memory", "1g"), reads_s3=False)
    for name in (PORT, SECRET):
        del os.environ[name]
