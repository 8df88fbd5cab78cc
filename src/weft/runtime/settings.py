"""Define every Spark setting that Weft uses: settings for the start, and settings for single parts of a tick.

A tick has two kinds of parts: scans of entire tables, and joins among small relations.

The new rows of a tick and the results of look-ups are small and have one partition each. Joins among small relations
therefore need no exchange. Broadcasts (one job each) and adaptive execution (one job per stage) are off for such joins.
The union of all branches is then one job with one task per branch. Code generation is also off, because the constants
change at every tick. The compilation of generated code took several times as long as the work of the tick. Scans do not
change from tick to tick and use all of these features.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.configuration import Configuration
from weft.runtime.java import cache_folder
from weft.runtime.turn import turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
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
_LARGE: Final = {
    # Sizes are known only after each stage. Adaptive execution then joins small partitions and splits skewed ones.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
_ROWS_OF_A_PARTITION: Final = 500_000
_MOST_PARTITIONS: Final = 2_000
_COSTLY_RULES: Final = (
    # This rule evaluates expressions during planning, but the job evaluates them anyway.
    "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # The constructs that these rules rewrite do not occur in branches over rows, or cost little for a few thousand
    # rows.
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
)
"""Optimizer rules that have no benefit and take half of the planning time of a tick's branches.

Excluding a rule cannot change an answer, because Spark does not allow users to exclude a required rule.
"""
_ROWS_ONLY: Final = {
    **_SMALL,
    "spark.sql.optimizer.excludedRules": ",".join(_COSTLY_RULES),
    # Spark overestimates the size of a join as the product of the input sizes, and would otherwise partition the join.
    "spark.sql.maxSinglePartitionBytes": str(2**62),
    # If the input of a join is another join, Spark divides the input into this number of partitions.
    _PARTITIONS: "1",
}
_GIVEN: Final = {
    # With 0, tasks receive the rows as columns. With another value, Spark copies and compares each row as part of the
    # plan.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}

_ARROW_BYTES: Final = 64 << 20

_MEANING: Final = {
    # These settings fix the semantics: UTC, one timestamp type, and NULL for undefined values. A single row therefore
    # cannot make a standing query fail.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",  # a text that does not match its format is NULL
    # The result of FROM_JSON must not depend on the fields that the plan reads.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    # The bounds of cached rows leave out NaN, and Spark would skip a batch with a NaN for the condition x > 5.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.columnNameOfCorruptRecord": "",  # no field gets this special role, since no field has an empty name
}


def settings(master: str, chosen: Configuration, jars: Sequence[Path] = ()) -> dict[str, str]:
    """Return the ``spark.…`` settings with which Spark and every session start.

    ``jars`` are jars besides pyspark's own. The user's settings override Weft's. Weft has already refused settings that
    can change an answer.
    """
    return {
        "spark.app.name": "weft",
        "spark.master": master,
        # If Spark is one process, the jars are on its class path (runtime/launch.py).
        **({"spark.jars": ",".join(map(str, jars))} if jars and not in_one_process(master) else {}),
        # The host name may not resolve, and no other machine may connect to the driver.
        **(
            {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            if on_this_machine(master)
            else {}
        ),
        "spark.driver.memory": jvm_memory(chosen),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Dfile.encoding=UTF-8 -XX:+UseParallelGC"
        # If the memory is exhausted, the JVM exits at once. Without this option, the JVM would continue without some
        # threads.
        " -XX:+ExitOnOutOfMemoryError",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark formats each plan for a web page that is never shown. "simple" is the shortest format.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
        **_MEANING,
        # The text of a query is untrusted and must not read files.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.optimizer.excludedRules": "",  # a value to restore after a part of a tick
        # These settings speed up small jobs, because a tick consists of many small jobs.
        **({_PARTITIONS: str(os.cpu_count() or 2)} if in_one_process(master) else {}),
        # Each relation lists its files explicitly. Spark can check a few dozen files without a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A task with Python imports no module from the folder in which the user is.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BYTES),
        "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
        **chosen.spark,
    }


def in_one_process(master: str) -> bool:
    """Return whether Spark with this master URL runs in one process on this machine.

    >>> in_one_process("local[2]"), in_one_process("local-cluster[2,1,1024]"), in_one_process("spark://host:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    """Return whether all processes of Spark with this master URL run on this machine.

    >>> on_this_machine("local[2]"), on_this_machine("local-cluster[2,1,1024]"), on_this_machine("spark://host:7077")
    (True, True, False)
    """
    return master.startswith("local")


def jvm_memory(chosen: Configuration) -> str:
    """Return the memory of the JVM. The default is a quarter of the machine's memory, between 1 and 4 GiB."""
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
    """During the ``with`` block, make Spark plan for small relations. Do nothing if ``when`` is false."""
    with _settings(spark, _SMALL if when else {}):
        yield


@contextmanager
def rows_only(spark: SparkSession) -> Iterator[None]:
    """During the ``with`` block, make Spark plan for rows in memory. The block must not read files."""
    with _settings(spark, _ROWS_ONLY):
        yield


@contextmanager
def arrow_input(spark: SparkSession) -> Iterator[None]:
    """During the ``with`` block, make Spark process Arrow input as columns. This block must be inside a ``rows_only``
    block.

    Spark does not know the number of rows in Arrow input.
    """
    with _settings(spark, _GIVEN):
        yield


@contextmanager
def scanning(spark: SparkSession) -> Iterator[None]:
    """During the ``with`` block, make Spark plan for scans of entire tables. Cached relations keep their plans."""
    with _settings(spark, _SCAN):
        yield


def use_cluster_cores(spark: SparkSession) -> None:
    """Let shuffles of the session have a partition for each core of a cluster, unless the user has set their number.

    Executors can register and end at any time. Therefore the number is set before each computation.
    """
    context = spark.sparkContext
    if not in_one_process(str(context.master)) and not context.getConf().contains(_PARTITIONS):
        spark.conf.set(_PARTITIONS, str(context.defaultParallelism))


def plan_for(session: SparkSession, rows: float, *, strict: bool) -> None:
    """Make a session plan for large relations. ``rows`` is the number of input rows.

    With ``strict``, an arithmetic overflow raises an error. The function does not change other sessions.
    """
    partitions = max(session.sparkContext.defaultParallelism, int(min(rows // _ROWS_OF_A_PARTITION, _MOST_PARTITIONS)))
    for name, value in {
        **_LARGE,
        _PARTITIONS: str(partitions),
        "spark.sql.ansi.enabled": str(strict).lower(),
    }.items():
        session.conf.set(name, value)


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session during the ``with`` block. Other threads wait for the end of the block."""
    with turn():
        before = {name: str(spark.conf.get(name)) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            # If the JVM has died, nothing can be restored.
            from py4j.protocol import Py4JError

            with suppress(Py4JError, ConnectionError):
                for name, value in before.items():
                    spark.conf.set(name, value)
