"""Rows into the tables: reserved in the catalog, committed to Delta behind a fence, recorded in the catalog.

Design, sections 1 and 6.  A batch goes through four states: its instants are *reserved* (no tick goes beyond them),
its rows are *written* in one Delta commit that carries the reservation's number, the commit is found in Delta's log and
forced to the disk, and the reservation is *committed* in the catalog.  A writer that dies in between leaves an open
reservation, which the next one settles by looking at Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer
from weft.catalog.records import HomeRecord, Reservation, TableRecord
from weft.errors import ClockError, LeaseLost, WeftError
from weft.execution.reader import empty, spark_schema
from weft.failpoint import failpoint
from weft.instants import MIN_INSTANT
from weft.location import Location
from weft.runtime.session import plain_errors
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.fence import find_commit, find_version, make_durable, spend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_TIME: Final = "_own_time"
"""Column of a batch: the ts that the row asks for, microseconds UTC, or NULL."""
SEQ: Final = "_seq"
"""Column of a batch: the row's place in the order of arrival; no two rows of a batch have the same."""

_PROPERTIES: Final = {
    "delta.appendOnly": "true",
    "delta.enableDeletionVectors": "false",
    # A tick's window is found by ts; statistics of anything else would only make the log longer.
    "delta.dataSkippingStatsColumns": "ts",
    # A checkpoint is written within the commit that is due for it, and takes longer than the commit itself.
    "delta.checkpointInterval": "50",
}


OnLate = Callable[[Sequence[int], int], None]
"""Called with the places (``_seq``) of late rows, and with F, before anything of the batch is written."""


@dataclass(frozen=True)
class Appended:
    """What became of a batch: rows ``stored``, rows ``known`` already, and how many of those stored came ``late``.

    A row is late where its own time lies before F; it got F.  ``version`` is Delta's version of the commit,
    ``first_ts`` and ``last_ts`` bound what was stored; all None where nothing was.
    """

    stored: int
    known: int
    late: int = 0
    version: int | None = None
    first_ts: int | None = None
    last_ts: int | None = None


@dataclass(frozen=True)
class Settled:
    """What became of a dead writer's reservation; ``rows`` is 0 where nothing of it had reached Delta."""

    reservation: Reservation
    rows: int


def application(table_id: int) -> str:
    """The ``txnAppId`` of a table's commits."""
    return f"weft-table-{table_id}"


def append(
    spark: SparkSession,
    writer: Writer,
    table: TableRecord,
    load_id: int,
    batch: pa.Table,
    at: int,
    distinct_on: tuple[str, ...] | None,
    on_late: OnLate | None = None,
) -> Appended:
    """Stores the rows of ``batch`` that the table does not have yet, all or none of them.

    ``batch`` has the table's columns except its start column, and ``_own_time`` and ``_seq``.  ``at`` is the wall's
    instant in microseconds UTC.  ``distinct_on`` names the columns by which a row is known (two NULLs are the same; of
    equal rows in the batch the first by ``_seq`` counts), None: every row is new.

    ts: the row's own time where it has one, else the home's clock, and in both cases at least F.  A row whose own time
    lies before F is late: it gets F, or is left out where ``on_late`` is given.  Raises LeaseLost where another writer
    took over (nothing of the batch is in the table then), ClockError for rows without own time on a replay home whose
    clock was never set, ExecutionError where Spark fails, and what ``on_late`` raises.
    """
    settle(writer)
    place = writer.data / table.path
    fresh = _first_of_equals(batch, distinct_on)
    if distinct_on and has_commits(place):
        fresh = _without_known(spark, place, table, fresh, distinct_on)
    known = batch.num_rows - fresh.num_rows
    if not fresh.num_rows:
        return Appended(0, known)
    _make_delta_table(spark, place, table)
    now = _clock(writer.home(), at, fresh)
    reservation = writer.reservations.reserve(table.table_id, load_id, _least(fresh, now))
    failpoint("ingest.reserved")
    late = pc.fill_null(pc.less(fresh.column(OWN_TIME), reservation.floor), False)
    count = pc.sum(late).as_py()
    if count and on_late is not None:
        try:
            on_late(fresh.filter(late).column(SEQ).to_pylist(), reservation.floor)
        except WeftError:
            writer.reservations.abandon(reservation.reservation_id)
            raise
        fresh, count = fresh.filter(pc.invert(late)), 0
        if not fresh.num_rows:
            writer.reservations.abandon(reservation.reservation_id)
            return Appended(0, known)
    return _store(spark, writer, place, _stamp(fresh, table, reservation.floor, now), reservation, (known, count))


def _store(
    spark: SparkSession,
    writer: Writer,
    place: Location,
    stamped: pa.Table,
    reservation: Reservation,
    counted: tuple[int, int],
) -> Appended:
    """The rows in Delta and in the catalog; ``counted`` are those known and those late."""
    version = _commit(spark, writer, place, stamped, reservation)
    failpoint("ingest.written")
    start = writer.tables.by_id(reservation.table_id).schema.start
    bounds = pc.min_max(stamped.column(start).cast(pa.int64())).as_py()
    first, last = bounds["min"], bounds["max"]
    make_durable(place, version)
    writer.reservations.commit(reservation.reservation_id, version, stamped.num_rows, first, last)
    failpoint("ingest.committed")
    known, late = counted
    return Appended(stamped.num_rows, known, late, version, first, last)


def settle(writer: Writer) -> tuple[Settled, ...]:
    """Closes the reservations that dead writers left open, needing no Spark; to be called by whoever took the lease.

    One whose commit is in Delta is recorded as committed.  Of any other the number is spent in Delta first, so that its
    writer, should it live, can no longer commit; then it is given up.
    """
    writer.loads.forget_dead(writer.lease.acquired_at)
    return tuple(_settle_one(writer, reservation) for reservation in writer.reservations.still_open())


def _settle_one(writer: Writer, reservation: Reservation) -> Settled:
    table = writer.tables.by_id(reservation.table_id)
    place, app, number = writer.data / table.path, application(table.table_id), reservation.reservation_id
    found = find_commit(place, app, number, table.schema.start)
    if found is None:
        spend(place, app, number)
    if found is None or not found.rows:
        writer.reservations.abandon(number)
        return Settled(reservation, 0)
    make_durable(place, found.version)
    writer.reservations.commit(number, found.version, found.rows, found.first_ts, found.last_ts)
    return Settled(reservation, found.rows)


def _first_of_equals(batch: pa.Table, distinct_on: tuple[str, ...] | None) -> pa.Table:
    """The batch in order of arrival, of rows that are equal in ``distinct_on`` the first."""
    ordered = batch.sort_by(SEQ)
    if not distinct_on:
        return ordered
    first = ordered.group_by(list(distinct_on)).aggregate([(SEQ, "min")]).column(f"{SEQ}_min")
    return ordered.filter(pc.is_in(ordered.column(SEQ), value_set=first.combine_chunks()))


def _without_known(
    spark: SparkSession, place: Location, table: TableRecord, batch: pa.Table, distinct_on: tuple[str, ...]
) -> pa.Table:
    """The batch without the rows that the table has; only the key columns are read, the batch's keys are broadcast.

    Spark is given the files themselves: a scan through Delta's log costs a job of its own (design section 5).
    """
    from pyspark.sql import functions

    files = [file.location.spark for file in delta_snapshot(place, check_files=False).files if file.rows != 0]
    if not files:
        return batch
    with plain_errors("looking up what is known already"):
        keys = spark.createDataFrame(batch.select([*distinct_on, SEQ])).alias("new")
        stored = spark.read.schema(spark_schema(table.schema, distinct_on)).parquet(*files).alias("old")
        same = [functions.col(f"new.`{name}`").eqNullSafe(functions.col(f"old.`{name}`")) for name in distinct_on]
        known = stored.join(functions.broadcast(keys), same).select(f"new.{SEQ}").toArrow()
    return batch.filter(pc.invert(pc.is_in(batch.column(SEQ), value_set=known.column(SEQ).combine_chunks())))


def _make_delta_table(spark: SparkSession, place: Location, table: TableRecord) -> None:
    """Makes the Delta table, empty, before anything is reserved: a fence needs a log to be written to."""
    if has_commits(place):
        return
    with plain_errors(f"making the table {table.name}"):
        empty(spark, spark_schema(table.schema)).write.format("delta").options(**_PROPERTIES).save(place.spark)
    make_durable(place, 0)


def _clock(home: HomeRecord, at: int, batch: pa.Table) -> int:
    """The home's clock for rows without a time of their own."""
    if home.clock == "wall":
        return at
    known = home.last_ts if home.now is None else home.now
    if known == MIN_INSTANT and batch.column(OWN_TIME).null_count:
        raise ClockError(
            "a replay home has no clock before its first tick, and these rows have no time of their own",
            hint="name the column that holds their time with --ts-from, or tick once with --now",
        )
    return known


def _least(batch: pa.Table, now: int) -> int:
    """The least ts that a row of the batch asks for."""
    least: int = pc.min(pc.fill_null(batch.column(OWN_TIME), now)).as_py()
    return least


def _stamp(batch: pa.Table, table: TableRecord, floor: int, now: int) -> pa.Table:
    """The batch with its ts, in the table's columns and order, sorted by ts."""
    ts = pc.max_element_wise(pc.fill_null(batch.column(OWN_TIME), now), pa.scalar(floor, pa.int64()))
    arrays = {name: batch.column(name) for name in batch.column_names}
    arrays[table.schema.start] = ts.cast(pa.timestamp("us", "UTC"))
    stamped = pa.table(arrays).sort_by([(table.schema.start, "ascending"), (SEQ, "ascending")])
    return stamped.select([column.name for column in table.schema.columns])


def _commit(spark: SparkSession, writer: Writer, place: Location, rows: pa.Table, reservation: Reservation) -> int:
    """Writes the rows in one commit with the reservation's number; Delta's version of it, found in the log."""
    app, number = application(reservation.table_id), reservation.reservation_id
    options = {"txnAppId": app, "txnVersion": str(number), "mergeSchema": "true"}
    writer.check()
    with plain_errors("storing rows"):
        frame = spark.createDataFrame(rows).coalesce(1)
        frame.write.format("delta").mode("append").options(**options).save(place.spark)
    version = find_version(place, app, number)
    if version is None:
        raise LeaseLost(
            "another writer took this home over while rows were being stored, and theirs came first",
            hint="nothing of this batch was stored; run the command again: it goes on from what was committed",
        )
    return version
