"""Two computations of Spark's engine on a cluster, as a process of its own, in which executors are killed.

    python lost_executors.py

Each computation stores a table on both executors, prints ``kept``, waits for a line, and reads the table. Its result is
then printed with the number of times that it ran.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from weft.execution.engines.spark import SparkEngine
from weft.execution.spark_runner import on_spark
from weft.runtime.session import spark_session, stop_session


def both_executors() -> SparkSession:
    session = spark_session(None)
    while session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # with the driver
        time.sleep(0.1)
    return session


def main() -> None:
    for _ in range(2):
        times = 0

        def compute(engine: SparkEngine) -> object:
            nonlocal times
            times += 1
            engine.table("kept", "SELECT id, id % 7 AS g FROM RANGE(100000)")
            engine.one("SELECT SUM(id) FROM kept")
            if times == 1:
                print("kept", flush=True)
                sys.stdin.readline()
            return engine.one("SELECT COUNT(*) FROM kept WHERE g = 3")

        found = on_spark(both_executors, compute, rows=100_000, probing=False)
        print(f"{found} {times}", flush=True)
    stop_session()


main()
