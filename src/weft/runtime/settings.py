"""Every setting of Spark that Weft makes: those it starts with, and those for a part of a tick.

Spark plans the parts of a tick in two ways, scans of whole tables and joins among small relations.

A tick's news and look-ups are small and in one partition each, so joins among them need no exchange: without
broadcasts (a job each) and without adaptive execution (a job a stage) the union of all branches is one job, a task a
branch.  Nor is code generated for it: its constants are new at every tick, so the code would be compiled and warmed up
anew each time, which took several times as long as the work.  Scans do not change from tick to tick, and keep all that.
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
    # It evaluates, while planning, what the one job is about to.
    "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # These look for what no branch over rows has (scalar subqueries, tables of Delta's, partitions, joins with large
    # files to filter), or rewrite expressions that are computed for a few thousand rows.
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
"""Rules of the optimizer that take half of its time over a tick's branches, and change nothing that is worth it; none
is needed for a right answer: Spark does not leave out one that is."""
_ROWS_ONLY: Final = {
    **_SMALL,
    "spark.sql.optimizer.excludedRules": ",".join(_COSTLY_RULES),
    # Spark takes a join for as large as the product of its inputs, and would divide it among partitions.
    "spark.sql.maxSinglePartitionBytes": str(2**62),
    # A join of a join is divided among this many all the same.
    "spark.sql.shuffle.partitions": "1",
}
_GIVEN: Final = {
    # They go to tasks as the columns they are; else each becomes an object of the plan, compared and copied with it.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}

_MEANING: Final = {
    # Meaning: UTC, one kind of timestamp, and what has no value is NULL: one row must not fail a standing query.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",  # a text that a format does not read is NULL
    # What FROM_JSON makes of a text must not hang on which of its fields the rest of a plan reads.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    "spark.sql.columnNameOfCorruptRecord": "",  # a field of that name is one as any other; none has no name
}


def settings(master: str, jars: tuple[Path, ...], chosen: Configuration) -> dict[str, str]:
    """What Spark is started with, as ``spark.…`` names and values; every session begins with them.

    What is chosen goes over Weft's own where it changes no answer: the rest was refused when it was read.
    """
    cores = str(os.cpu_count() or 2)
    return {
        "spark.app.name": "weft",
        "spark.master": master,
        # Where Spark is one process they are on its class path (runtime/launch.py).
        **({} if in_one_process(master) else {"spark.jars": ",".join(str(jar) for jar in jars)}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Names on this machine need not resolve, and nobody else is to reach the driver.
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if _local(master) else {}),
        "spark.driver.memory": jvm_memory(chosen),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Dfile.encoding=UTF-8 -XX:+UseParallelGC"
        # Out of memory it ends at once, instead of going on with threads missing.
        " -XX:+ExitOnOutOfMemoryError",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark writes out the plan of whatever it runs, for a page that nobody sees: at least in short.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
        **_MEANING,
        # A query is untrusted text.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.optimizer.excludedRules": "",  # so that there is something to go back to
        # Speed on small data: a tick is many small jobs.
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.commitStats.collect": "false",
        # A relation names its files: looking at a few dozen of them is no work for a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
        **chosen.spark,
    }


def in_one_process(master: str) -> bool:
    """Whether Spark runs in one process with this master URL: the driver computes, on cores of this machine.

    >>> in_one_process("local[2]"), in_one_process("local-cluster[2,1,1024]"), in_one_process("spark://host:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def _local(master: str) -> bool:
    return master.startswith("local")


def jvm_memory(chosen: Configuration) -> str:
    """The memory of the JVM: the one that is chosen, else a quarter of the machine's, between 1 and 4 GiB."""
    if chosen.spark_memory is not None:
        return chosen.spark_memory
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # not told on this system
        total = 0
    return f"{min(4096, max(1024, total // 4 // 2**20))}m"


def local_master() -> str:
    """The master URL that uses all cores of this machine."""
    return f"local[{os.cpu_count() or 2}]"


@contextmanager
def small(spark: SparkSession, *, when: bool = True) -> Iterator[None]:
    """Within the block Spark plans for small relations (unless ``when`` is false: a first delivery is not small)."""
    with _settings(spark, _SMALL if when else {}):
        yield


@contextmanager
def rows_only(spark: SparkSession) -> Iterator[None]:
    """Within the block Spark plans for rows that it was given, and reads no file."""
    with _settings(spark, _ROWS_ONLY):
        yield


@contextmanager
def given_as_columns(spark: SparkSession) -> Iterator[None]:
    """Within the block what Spark is given as Arrow remains that; only where it plans for rows only, since it does not
    know how many they are."""
    with _settings(spark, _GIVEN):
        yield


@contextmanager
def scanning(spark: SparkSession) -> Iterator[None]:
    """Within the block Spark plans for scans of whole tables; what is kept in memory keeps its plan."""
    with _settings(spark, _SCAN):
        yield


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Within the block the session, which other threads share, has these settings; they wait for their turn."""
    with turn():
        before = {name: str(spark.conf.get(name)) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            # A session whose JVM ended meanwhile has nothing to go back to.
            from py4j.protocol import Py4JError

            with suppress(Py4JError, ConnectionError):
                for name, value in before.items():
                    spark.conf.set(name, value)
