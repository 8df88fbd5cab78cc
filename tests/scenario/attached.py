"""A process that works in the JVM of another: what is killed in it is Weft's own process, with none of a JVM's start.

Nothing of the dead process is left in the JVM but sessions that nobody names: a failpoint lies between calls of Spark,
never within one.
"""

from __future__ import annotations

import os
from pathlib import Path

from weft.runtime import session

PORT = "PYSPARK_GATEWAY_PORT"
SECRET = "PYSPARK_GATEWAY_SECRET"


def door() -> dict[str, str]:
    """The environment of a process that is to work in this process's JVM."""
    assert session._running is not None
    parameters = session._running.gateway.java_parameters
    return {PORT: str(parameters.port), SECRET: parameters.auth_token}


class OtherProcess:
    """Stands for the JVM's process, which is not this one's child."""

    def poll(self) -> None:
        """It lives."""


def attach(log: Path) -> None:
    """Makes the JVM that the environment names that of this process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    gateway.proc = OtherProcess()
    context = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=context.getConf())
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway, jsc=context))
    session._running = session._Running(spark, gateway, log, kafka=False, memory=conf.get("spark.driver.memory", "1g"))
    for name in (PORT, SECRET):
        del os.environ[name]
