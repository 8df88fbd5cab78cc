"""Replay homes with real tables for the tests, and functions that read their rows and answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_tables import opened
from weft.algebra.schema import STRING, TIMESTAMP, DataType
from weft.api import Weft
from weft.catalog import layout
from weft.execution.append_rows import append
from weft.storage.columns import arrow_type
from weft.storage.table import Table
from weft.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from weft.catalog.records import TableRecord

AT = 1_700_000_000_000_000
"""The wall-clock time in these tests: 2023-11-14 22:13:20 UTC."""
START = 733_968_000_000_000
"""1993-04-05 00:00:00 UTC."""
HOUR = 3_600_000_000
DAY = 24 * HOUR
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MSGS = (("msgid", STRING), ("newsgroup", STRING), ("inreplyto", STRING), ("date", TIMESTAMP))

Row = tuple[Any, ...]
Answers = list[tuple[int, int, Row]]
"""(ordinal, first instant, values). Instants are in microseconds UTC."""


def replay_home(folder: Path) -> Weft:
    """Create a home whose clock ``tick(now=…)`` moves. Its wall clock stands still."""
    return Weft.open(folder, clock="replay", wall=lambda: AT, create=True)


def micros(value: Any) -> Any:
    """Convert an instant to microseconds UTC, and return other values unchanged. The default time zone is UTC."""
    if isinstance(value, dt.datetime):
        known = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (known - EPOCH) // dt.timedelta(microseconds=1)
    return value


def answers(weft: Weft, name: str) -> Answers:
    """Return all answers that a query delivered to its cursor."""
    return [(row.ordinal, row.first_at, tuple(map(micros, row.values))) for row in weft.results(name)]


def first_instants(weft: Weft, name: str) -> dict[Row, int]:
    """Map the delivered rows to their first instants. Fail if a row or an ordinal is repeated or missing."""
    found = sorted(answers(weft, name), key=lambda each: each[0])  # a query with ORDER BY shows another order
    assert [ordinal for ordinal, _, _ in found] == list(range(1, len(found) + 1)), name
    result = {values: first_at for _, first_at, values in found}
    assert len(result) == len(found), f"{name} delivered a row twice"
    return result


def answers_table(weft: Weft, name: str) -> pa.Table:
    """Return a query's answers as the table that other queries read. Its columns ts and _first_at are the first
    instant.
    """
    columns = weft.catalog.queries.named(name).columns
    rows = [(*values, at, at) for values, at in first_instants(weft, name).items()]
    kinds = [*columns, ("_first_at", TIMESTAMP), ("ts", TIMESTAMP)]
    values = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return pa.table(
        {label: pa.array(each, arrow_type(kind)) for (label, kind), each in zip(kinds, values, strict=True)}
    )


def stored_rows(weft: Weft, table: str) -> list[Row]:
    """Return the sorted rows of a table, read without Weft."""
    record = weft.catalog.tables.named(table)
    return delta_rows(weft.catalog.data / record.path, [column.name for column in record.schema.columns])


def delta_rows(place: Store, columns: Sequence[str]) -> list[Row]:
    """Return some columns of a Delta table, sorted. Return an empty list if the table does not exist."""
    if not Table(place).exists():
        return []
    data = opened(place).to_pyarrow_table(columns=list(columns))
    rows = zip(*(data.column(name).to_pylist() for name in columns), strict=True)
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else micros(value)


def ledger_rows(data: Store) -> list[Row]:
    """Return all rows of the ledger, sorted: (query, ordinal, first instant, hash, row)."""
    return delta_rows(data / layout.LEDGER, ["query_id", "ordinal", "first_at", "row_hash", "row"])


def commits(folder: Path) -> int:
    """Return the number of commits of a Delta table."""
    return len(list((folder / "_delta_log").glob("*.json")))


def load(
    weft: Weft,
    spark: SparkSession,
    table: str,
    rows: Sequence[Row],
    columns: Sequence[tuple[str, DataType]] = MSGS,
    *,
    own_time: int = -1,
) -> None:
    """Append rows to a table, with instants in microseconds. Create the table if it is missing.

    The column ``own_time`` gives the ts of each row.
    """
    catalog = weft.catalog
    if table not in {known.name for known in catalog.tables.all()}:
        catalog.tables.create(table, columns, None, columns[own_time][0])
    if not rows:
        return
    names = [name for name, _ in columns]
    batch = pa.table(
        {
            name: pa.array(values, arrow_type(kind))
            for (name, kind), values in zip(columns, zip(*rows, strict=True), strict=True)
        }
        | {"_own_time": pa.array([row[own_time] for row in rows], pa.int64())}
        | {"_seq": pa.array(range(len(rows)), pa.int64())}
    )
    assert batch.column_names[: len(names)] == names
    with weft.catalog.writing("load", weft.clock) as writer:
        load_id = catalog.loads.begin(catalog.tables.named(table).table_id, "a test", "file", None, AT)
        append(writer, catalog.tables.named(table), load_id, batch, AT, None)


def table_frame(spark: SparkSession, data: Store, table: TableRecord) -> DataFrame:
    """Return a table as a tick reads it, with the columns in the catalog."""
    from weft.execution.reader import Reader

    return Reader(spark, data, {table.name: table}).whole(table.name, [each.name for each in table.schema.columns])
