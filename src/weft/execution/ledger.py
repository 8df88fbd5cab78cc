"""From candidates to the ledger: what was delivered before is left out, the rest gets its ordinals, in one commit.

The commit carries ``txnAppId`` weft-ledger and the tick's id as ``txnVersion``: Delta drops a repeated or a fenced one
without an error, so the log is read afterwards (design section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.catalog import layout
from weft.errors import LeaseLost
from weft.execution.groups import Member
from weft.execution.reader import Reader
from weft.failpoint import failpoint
from weft.runtime.settings import scanning
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.fence import find_version, make_durable
from weft.storage.ledger import APP_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fresh(reader: Reader, found: DataFrame, members: Sequence[Member]) -> DataFrame:
    """Each candidate row once, with its first instant, less what the ledger has; held in memory."""
    from pyspark.sql import functions as F

    once = found.groupBy("query_id", "row_hash").agg(
        F.min("first_at").alias("first_at"), F.any_value("row").alias("row")
    )
    once = reader.keep(once)
    known = _known(reader.spark, reader.home, [m.query.query_id for m in members if m.query.rows])
    if known is None:
        return once
    with scanning(reader.spark):
        # The candidates are few and the ledger is long: it is reduced to what they name before it is subtracted.
        keys = once.select("query_id", "row_hash")
        met = reader.keep(known.join(F.broadcast(keys), ["query_id", "row_hash"], "left_semi").repartition(1))
    return reader.keep(once.join(met, ["query_id", "row_hash"], "left_anti"))


def _known(spark: SparkSession, home: Path, query_ids: Sequence[int]) -> DataFrame | None:
    """What the ledger has of these queries, as (query_id, row_hash); None where it has nothing."""
    from pyspark.sql import functions as F

    folder = layout.ledger_folder(home)
    if not query_ids or not has_commits(folder):
        return None
    low, high = min(query_ids), max(query_ids)
    files = [
        str(file.path)
        for file in delta_snapshot(folder, check_files=False).files
        if file.least.get("query_id", low) <= high and file.greatest.get("query_id", high) >= low
    ]
    if not files:
        return None
    data = spark.read.schema("query_id BIGINT, row_hash BINARY").parquet(*files)
    return data.where(F.col("query_id").between(low, high))


def write(spark: SparkSession, home: Path, rows: DataFrame, members: Sequence[Member], tick_id: int) -> int:
    """Numbers the rows by (first instant, hash) within their query and commits them; the ledger's version.

    Raises LeaseLost where the commit is not in the log afterwards: another writer was quicker.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    folder = layout.ledger_folder(home)
    before = {"query_id": [m.query.query_id for m in members], "before": [m.query.rows for m in members]}
    # Arrow, not a list of rows: those would be sent through a Python process of Spark's.
    base = spark.createDataFrame(pa.table(before))
    order = Window.partitionBy("query_id").orderBy("first_at", "row_hash")
    numbered = (
        rows.join(F.broadcast(base), "query_id")
        .withColumn("ordinal", F.row_number().over(order) + F.col("before"))
        .withColumn("tick", F.lit(tick_id).cast("bigint"))
        .select("query_id", "ordinal", "first_at", "tick", "row_hash", "row")
    )
    (
        numbered.write.format("delta")
        .mode("append")
        .option("txnAppId", APP_ID)
        .option("txnVersion", tick_id)
        .save(str(folder))
    )
    failpoint("tick.written")
    version = find_version(folder, APP_ID, tick_id)
    if version is None:
        raise LeaseLost("this tick's commit is not in the ledger: another writer has gone on", hint="Tick again.")
    make_durable(folder, version)
    return version


def committed(home: Path, tick_id: int) -> int | None:
    """The ledger's version if it holds this tick's commit already (a tick that died after it), else None."""
    version = find_version(layout.ledger_folder(home), APP_ID, tick_id)
    if version is not None:
        make_durable(layout.ledger_folder(home), version)
    return version
