"""What a tick writes: its outputs, each a Delta table of the home with a transaction of its own.

An *output* has a name, a place and the rows that this tick adds.  Its commit carries ``txnAppId`` weft-NAME and the
tick's id as ``txnVersion``: Delta drops a repeated or a fenced one without an error, so the log is read afterwards
(design section 6).  The catalog notes an output before it is written and once it is; a tick that died is gone through
output by output: what is in Delta already is taken from there, the rest is computed again.

Today's outputs are the answers, one for each stratum.  Another part of a tick becomes one by making an ``Output``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.errors import LeaseLost
from weft.execution.answers import candidates, union
from weft.execution.groups import Group, Member
from weft.execution.reader import Reader
from weft.failpoint import failpoint
from weft.location import Location
from weft.runtime.settings import scanning
from weft.storage.commit import append_rows
from weft.storage.delta_log import added_files, delta_snapshot, has_commits
from weft.storage.fence import find_version, make_durable, spend
from weft.storage.ledger import Added, require_ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Output:
    """Rows that a tick adds to the Delta table at ``path`` (relative to the home's data).

    ``name`` is unique among the outputs of a tick, and the same each time the tick is run.  ``rows`` are Spark's, or,
    where they are few, Arrow's (the ledger's columns in any order): those are committed without a job of Spark's.
    """

    name: str
    path: str
    rows: DataFrame | pa.Table


@dataclass
class Outputs:
    """The outputs of one tick; ``again`` where the tick had died and is run once more.

    ``stored`` is what was written, by path: (path, Delta version, rows of the whole table).
    """

    writer: Writer
    tick_id: int
    again: bool
    stored: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def found(self, name: str, path: str) -> int | None:
        """The version of the table at ``path`` that has this output already, or None."""
        if not self.again:
            return None
        version = find_version(self.writer.data / path, application(name), self.tick_id)
        if version is not None:
            self.writer.ticks.open_output(self.tick_id, name, path)
            self._record(name, path, version)
        return version

    def write(self, output: Output) -> int:
        """Commits an output; the version of its table.

        Raises LeaseLost where the commit is not in the log afterwards: another writer was quicker.
        """
        table = self.writer.data / output.path
        self.writer.ticks.open_output(self.tick_id, output.name, output.path)
        if output.path == layout.LEDGER:
            require_ledger(self.writer.data)
        failpoint("tick.computed")
        version = self._commit(output, table)
        failpoint("tick.written")
        self._record(output.name, output.path, version)
        failpoint("tick.recorded")
        return version

    def _commit(self, output: Output, table: Location) -> int:
        app = application(output.name)
        if isinstance(output.rows, pa.Table):
            return append_rows(table, output.rows, app, self.tick_id)
        transaction = {"txnAppId": app, "txnVersion": str(self.tick_id)}
        output.rows.write.format("delta").mode("append").options(**transaction).save(table.spark)
        version = find_version(table, app, self.tick_id)
        if version is None:
            raise LeaseLost(
                f"this tick's commit is not in {output.path}: another writer has gone on", hint="Tick again."
            )
        return version

    def give_up(self, name: str, path: str) -> None:
        """Where the tick had died: sees to it that whoever still computes this output can no longer commit it."""
        if not self.again:
            return
        if path == layout.LEDGER:  # whoever is late must not be the first to write to it
            require_ledger(self.writer.data)
        spend(self.writer.data / path, application(name), self.tick_id)

    def _record(self, name: str, path: str, version: int) -> None:
        table = self.writer.data / path
        make_durable(table, version)
        added = sum(file.rows or 0 for file in added_files(table, version))
        now = delta_snapshot(table, check_files=False)
        self.stored[path] = (path, now.version, now.rows or 0)
        self.writer.ticks.output_written(self.tick_id, name, added, self.stored[path])


def application(name: str) -> str:
    """The ``txnAppId`` of an output."""
    return f"weft-{name}"


def answers_name(stratum: int) -> str:
    """The name of the output with a stratum's answers."""
    return layout.LEDGER if not stratum else f"{layout.LEDGER}-{stratum}"


def new_answers(
    reader: Reader, *windows: Sequence[Group], most: int, apart: bool = False
) -> tuple[DataFrame, dict[int, Added]]:
    """The new rows of groups, those with one window together, and how many there are of each query that has any.

    ``apart``: one group is computed after the other.  ``most`` as for ``candidates``.
    """
    from pyspark.sql import functions as F

    groups = [group for window in windows for group in window]
    parts = []
    for each in [[group] for group in groups] if apart else windows:
        part = candidates(reader, each, most)
        if apart:
            reader.keep(part).count()
        parts.append(part)
    members = [member for group in groups for member in group.members]
    rows = fresh(reader, union(reader.spark, parts), members)
    last = F.unix_micros(F.max("first_at")).alias("last")
    found = rows.groupBy("query_id").agg(F.count("*").alias("rows"), last).collect()
    return rows, {row["query_id"]: Added(row["rows"], row["last"]) for row in found}


def fresh(reader: Reader, found: DataFrame, members: Sequence[Member]) -> DataFrame:
    """Each candidate row once, with its first instant, less what the ledger has; held in memory."""
    from pyspark.sql import functions as F

    once = found.groupBy("query_id", "row_hash").agg(
        F.min("first_at").alias("first_at"), F.any_value("row").alias("row")
    )
    once = reader.keep(once)
    known = _known(reader.spark, reader.data, [m.query.query_id for m in members if m.query.rows])
    if known is None:
        return once
    with scanning(reader.spark):
        # The candidates are few and the ledger is long: it is reduced to what they name before it is subtracted.
        keys = once.select("query_id", "row_hash")
        met = reader.keep(known.join(F.broadcast(keys), ["query_id", "row_hash"], "left_semi").repartition(1))
    return reader.keep(once.join(met, ["query_id", "row_hash"], "left_anti"))


def _known(spark: SparkSession, data: Location, query_ids: Sequence[int]) -> DataFrame | None:
    """What the ledger has of these queries, as (query_id, row_hash); None where it has nothing."""
    from pyspark.sql import functions as F

    ledger = data / layout.LEDGER
    if not query_ids or not has_commits(ledger):
        return None
    low, high = min(query_ids), max(query_ids)
    files = [
        file.location.spark
        for file in delta_snapshot(ledger, check_files=False).files
        if file.least.get("query_id", low) <= high and file.greatest.get("query_id", high) >= low
    ]
    if not files:
        return None
    stored = spark.read.schema("query_id BIGINT, row_hash BINARY").parquet(*files)
    return stored.where(F.col("query_id").between(low, high))


def numbered_answers(
    spark: SparkSession, rows: DataFrame, members: Sequence[Member], tick_id: int, stratum: int
) -> Output:
    """A stratum's new answers, numbered by (first instant, hash) within their query."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

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
    return Output(answers_name(stratum), layout.LEDGER, numbered)
