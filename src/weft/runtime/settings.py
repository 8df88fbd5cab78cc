"""Define every Spark setting that Weft uses: those of the start, and those of single parts of a tick.

Spark plans the parts of a tick in two ways: scans of entire tables, and joins among small relations.

A tick's news and look-ups are small and in one partition each, so joins among them need no exchange.  Without
broadcasts (a job each) and without adaptive execution (a job per stage), the union of all branches is one job with one
task per branch.  Code generation is off as well: the constants are new at every tick, so the code would be compiled and
warmed up each time, which took several times as long as the work.  Scans do not change from tick to tick and keep these
features.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.configuration import Configuration
from weft.runtime.java import cache_folder
from weft.runtime.turn import turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SCAN: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
_COSTLY_RULES: Final = (
    # It evaluates during planning what the one job is about to evaluate.
    "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # These search for constructs that no branch over rows contains (scalar subqueries, Delta tables, partitions, joins
    # with large files to filter), or rewrite expressions that are computed for only a few thousand rows.
    "org.apache.spark.sql.catalyst.optimizer.BooleanSimplification",
    "org.apache.spark.sql.catalyst.optimizer.CombineConcats",
    "org.apache.spark.sql.catalyst.optimizer.ConstantPropagation",
    "org.apache.spark.sql.catalyst.optimizer.FoldablePropagation",
    "org.apache.spark.sql.catalyst.optimizer.InjectRuntimeFilter",
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.catalyst.optimizer.NullDownPropagation",
    "org.apache.spark.sql.catalyst.optimizer.NullPropagation",
    "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowRelationSubquery",
    "org.apache.spark.sql.catalyst.optimizer.OptimizeUpdateFields",
    "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator",
    "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases",
    "org.apache.spark.sql.catalyst.optimizer.SimplifyBinaryComparison",
    "org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison",
    "org.apache.spark.sql.delta.metric.OptimizeConditionalIncrementMetric",
    "org.apache.spark.sql.delta.optimizer.RangePartitionIdRewrite",
    "org.apache.spark.sql.delta.stats.PrepareDeltaScan",
)
"""Optimizer rules that take half of the planning time of a tick's branches without a benefit.

No answer depends on them: Spark does not allow a required rule to be excluded.
"""
_ROWS_ONLY: Final = {
    **_SMALL,
    "spark.sql.optimizer.excludedRules": ",".join(_COSTLY_RULES),
    # Spark estimates a join's size as the product of its inputs, and would partition it.
    "spark.sql.maxSinglePartitionBytes": str(2**62),
    # A join of a join is still divided into this many partitions.
    "spark.sql.shuffle.partitions": "1",
}
_GIVEN: Final = {
    # Tasks receive the rows as columns; otherwise each row becomes an object of the plan, compared and copied with it.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}

_MEANING: Final = {
    # Semantics: UTC, one timestamp type, and NULL for undefined values, so that one row cannot fail a standing query.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",  # a text that does not match its format is NULL
    # The result of FROM_JSON must not depend on which of its fields the rest of a plan reads.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    "spark.sql.columnNameOfCorruptRecord": "",  # no field gets this special role, since no field has an empty name
}


def settings(master: str, jars: tuple[Path, ...], chosen: Configuration) -> dict[str, str]:
    """Return the ``spark.…`` settings with which Spark starts; every session begins with them.

    The user's settings override Weft's where they cannot change an answer; others were refused when they were read.
    """
    cores = str(os.cpu_count() or 2)
    return {
        "spark.app.name": "weft",
        "spark.master": master,
        # If Spark is one process, the jars are on its class path (runtime/launch.py).
        **({} if in_one_process(master) else {"spark.jars": ",".join(str(jar) for jar in jars)}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # This machine's host name may not resolve, and no other machine may reach the driver.
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if _local(master) else {}),
        "spark.driver.memory": jvm_memory(chosen),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Dfile.encoding=UTF-8 -XX:+UseParallelGC"
        # Out of memory, the JVM ends at once instead of continuing without some threads.
        " -XX:+ExitOnOutOfMemoryError",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark formats the plan of every query for a page that nobody sees; this is the shortest form.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
        **_MEANING,
        # A query is untrusted text.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.optimizer.excludedRules": "",  # a value to restore after a part of a tick
        # Speed on small data: a tick is many small jobs.
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.commitStats.collect": "false",
        # A relation lists its files, and checking a few dozen of them does not need a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
        **chosen.spark,
    }


def in_one_process(master: str) -> bool:
    """Return whether Spark runs in one process with this master URL, on the cores of this machine.

    >>> in_one_process("local[2]"), in_one_process("local-cluster[2,1,1024]"), in_one_process("spark://host:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def _local(master: str) -> bool:
    return master.startswith("local")


def jvm_memory(chosen: Configuration) -> str:
    """Return the JVM's memory: the configured one, else a quarter of the machine's, between 1 and 4 GiB."""
    if chosen.spark_memory is not None:
        return chosen.spark_memory
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # not available on this system
        total = 0
    return f"{min(4096, max(1024, total // 4 // 2**20))}m"


def local_master() -> str:
    """Return the master URL that uses all cores of this machine."""
    return f"local[{os.cpu_count() or 2}]"


@contextmanager
def small(spark: SparkSession, *, when: bool = True) -> Iterator[None]:
    """Make Spark plan for small relations within the block, unless ``when`` is false (a first delivery is not
    small).
    """
    with _settings(spark, _SMALL if when else {}):
        yield


@contextmanager
def rows_only(spark: SparkSession) -> Iterator[None]:
    """Make Spark plan for in-memory rows within the block, which reads no files."""
    with _settings(spark, _ROWS_ONLY):
        yield


@contextmanager
def arrow_input(spark: SparkSession) -> Iterator[None]:
    """Keep Arrow input as Arrow within the block.

    Use it only with ``rows_only``, since Spark does not know the number of the rows.
    """
    with _settings(spark, _GIVEN):
        yield


@contextmanager
def scanning(spark: SparkSession) -> Iterator[None]:
    """Make Spark plan for scans of entire tables within the block; cached relations keep their plans."""
    with _settings(spark, _SCAN):
        yield


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to the session within the block; other threads, which share it, wait for their turn."""
    with turn():
        before = {name: str(spark.conf.get(name)) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            # If the JVM has died meanwhile, nothing can be restored.
            from py4j.protocol import Py4JError

            with suppress(Py4JError, ConnectionError):
                for name, value in before.items():
                    spark.conf.set(name, value)
