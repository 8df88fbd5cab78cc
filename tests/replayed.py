"""Replay homes with real tables for the tests, and what they hold and delivered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from weft.algebra.schema import STRING, TIMESTAMP, DataType
from weft.api import Weft
from weft.catalog import layout
from weft.execution.append_rows import append
from weft.location import Location
from weft.storage.columns import arrow_type
from weft.storage.delta_log import has_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from weft.catalog.records import TableRecord

AT = 1_700_000_000_000_000
"""The wall's time in these tests: 2023-11-14 22:13:20 UTC."""
START = 733_968_000_000_000
"""1993-04-05 00:00:00 UTC."""
HOUR = 3_600_000_000
DAY = 24 * HOUR
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MSGS = (("msgid", STRING), ("newsgroup", STRING), ("inreplyto", STRING), ("date", TIMESTAMP))

Row = tuple[Any, ...]
Answers = list[tuple[int, int, Row]]
"""(ordinal, first instant, values); instants are microseconds UTC."""


def replay_home(folder: Path) -> Weft:
    """A new home whose clock is moved by ``tick(now=…)``; the wall stands still."""
    return Weft.open(folder, clock="replay", wall=lambda: AT, create=True)


def micros(value: Any) -> Any:
    """An instant as microseconds UTC (one without a zone is UTC), anything else as it is."""
    if isinstance(value, dt.datetime):
        known = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (known - EPOCH) // dt.timedelta(microseconds=1)
    return value


def answers(weft: Weft, name: str) -> Answers:
    """Everything that a query delivered to its cursor."""
    return [(row.ordinal, row.first_at, tuple(map(micros, row.values))) for row in weft.results(name)]


def first_instants(weft: Weft, name: str) -> dict[Row, int]:
    """The delivered rows with their first instants; fails where a row or an ordinal is there twice or missing."""
    found = answers(weft, name)
    assert [ordinal for ordinal, _, _ in found] == list(range(1, len(found) + 1)), name
    result = {values: first_at for _, first_at, values in found}
    assert len(result) == len(found), f"{name} delivered a row twice"
    return result


def answers_table(weft: Weft, name: str) -> pa.Table:
    """A query's answers as the table that other queries read; its ts is the first instant, as _first_at is."""
    columns = weft.catalog.queries.named(name).columns
    rows = [(*values, at, at) for values, at in first_instants(weft, name).items()]
    kinds = [*columns, ("_first_at", TIMESTAMP), ("ts", TIMESTAMP)]
    values = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return pa.table(
        {label: pa.array(each, arrow_type(kind)) for (label, kind), each in zip(kinds, values, strict=True)}
    )


def stored_rows(weft: Weft, table: str) -> list[Row]:
    """A table's rows, sorted, read without any of Weft's code."""
    record = weft.catalog.tables.named(table)
    return delta_rows(weft.home / record.path, [column.name for column in record.schema.columns])


def delta_rows(folder: Path, columns: Sequence[str]) -> list[Row]:
    """Some columns of a Delta table, sorted; nothing where there is no table."""
    if not has_commits(Location.of(folder)):
        return []
    data = DeltaTable(folder).to_pyarrow_table(columns=list(columns))
    rows = zip(*(data.column(name).to_pylist() for name in columns), strict=True)
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else micros(value)


def ledger_rows(home: Path) -> list[Row]:
    """(query, ordinal, first instant, hash, row) of everything in the ledger, sorted."""
    return delta_rows(home / layout.LEDGER, ["query_id", "ordinal", "first_at", "row_hash", "row"])


def commits(folder: Path) -> int:
    """How many commits a Delta table has."""
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
    """Appends rows (instants as microseconds) to a table, made where it is not there; ts is column ``own_time``'s."""
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


def table_frame(spark: SparkSession, data: Location, table: TableRecord) -> DataFrame:
    """A table as a tick reads it, with the columns that the catalog has."""
    from weft.execution.reader import Reader

    return Reader(spark, data, {table.name: table}).whole(table.name, [each.name for each in table.schema.columns])
