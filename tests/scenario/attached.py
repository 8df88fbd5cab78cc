"""A process that uses the JVM of another process. A test can kill this process without the cost of starting a JVM.

    python -m scenario.attached FOLDER

As a program, the module starts a JVM on the Spark that the environment names, with its log in the folder. It prints the
environment of the processes that will use the JVM, as one line of JSON, and ends with its standard input.

The killed process leaves only unused sessions in the JVM, because a failpoint is never inside a call of Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from weft.runtime import session
from weft.runtime.jars import S3_JARS, fetch_jars

PORT = "PYSPARK_GATEWAY_PORT"
SECRET = "PYSPARK_GATEWAY_SECRET"


def door() -> dict[str, str]:
    """Return the environment of a process that will use the JVM of this process."""
    assert session._running is not None
    parameters = session._running.gateway.java_parameters
    return {PORT: str(parameters.port), SECRET: parameters.auth_token}


def surroundings(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process of the tests, with further variables: it finds the modules of the tests."""
    own = {name: value for name, value in os.environ.items() if name != "WEFT_FAILPOINT"}
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**own, "PYTHONPATH": os.pathsep.join(path), "WEFT_SPARK_MEMORY": "1g", **variables}


@contextmanager
def jvm_of_its_own(folder: Path, variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start a process with a JVM, and give the environment of the processes that will use the JVM."""
    with subprocess.Popen(
        [sys.executable, "-m", "scenario.attached", str(folder)],
        env=surroundings(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        yield json.loads(holder.stdout.readline())


class OtherProcess:
    """The process of the JVM, which is not a child of this process."""

    def poll(self) -> None:
        """Return None, because the process runs."""


def attach(log: Path) -> None:
    """Connect this process to the JVM that the environment names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the Python of the executors
    gateway = launch_gateway()
    gateway.proc = OtherProcess()
    context = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=context.getConf())
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway, jsc=context))
    session._running = session._Running(spark, gateway, log, conf.get("spark.driver.memory", "1g"), reads_s3=True)
    for name in (PORT, SECRET):
        del os.environ[name]


if __name__ == "__main__":
    fetch_jars(S3_JARS)
    session.spark_session(Path(sys.argv[1]))
    print(json.dumps(door()), flush=True)
    sys.stdin.read()
    session.stop_session()
