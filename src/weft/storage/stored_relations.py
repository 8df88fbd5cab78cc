"""The relations that synopses store between ticks: small, changed by ticks only, and readable as of an earlier one.

A row of the Delta table is a row of the relation, the tick's t from which on it holds (``since``), and whether it is
``gone`` from there on.  The relation as of an instant is, of the rows that came until then, each one whose last says
that it is not gone.  So a tick that died is run again from what its queries had come to, whatever it had written, and a
query that was paused goes on from there though another one, which needs the same relation, went further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.location import Location
from weft.storage.columns import INSTANT
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.local_sql import quoted
from weft.storage.temporal_sql import temporal_sql

SINCE: Final = "since"
GONE: Final = "gone"
_SLACK: Final = 1_000
"""Rows that need not be those of the relation before they are written anew."""


@dataclass(frozen=True)
class Change:
    """What a tick writes: rows to be added, or, where ``anew``, all that the table has from then on."""

    rows: pa.Table
    anew: bool


def table_schema(relation: pa.Schema) -> pa.Schema:
    """The columns of the Delta table of a relation."""
    return pa.schema([*relation, pa.field(SINCE, INSTANT), pa.field(GONE, pa.bool_())])


def log_of(table: Location, relation: pa.Schema) -> pa.Table:
    """All that is stored of a relation, nothing where it never had a row.  Raises StorageError."""
    schema = table_schema(relation)
    if not has_commits(table):
        return schema.empty_table()
    with table.shared():  # nobody deletes the files that were replaced meanwhile
        return read_data_files(delta_snapshot(table, check_files=False).files, schema)


def as_of(log: pa.Table, relation: pa.Schema, t: int) -> pa.Table:
    """The relation as of the instant ``t`` (µs UTC)."""
    return _at(log.filter(pc.less_equal(log.column(SINCE), pa.scalar(t, INSTANT))), relation)


def change_to(
    log: pa.Table, relation: pa.Schema, wanted: pa.Table, t: int, needed: Sequence[int], *, always: bool = False
) -> Change | None:
    """What makes the relation ``wanted`` from ``t`` on; None where it is that already.

    ``needed`` are the instants as of which it is still to be read; with them the table is written anew where it has
    more than about twice the rows that this takes.  With ``always`` rows that are there are written, too.
    """
    there = _at(log, relation)
    come, gone = _less(wanted, there), _less(there, wanted)
    rows = pa.concat_tables([_stamped(wanted if always else come, t, gone=False), _stamped(gone, t, gone=True)])
    if not rows.num_rows:
        return None
    if log.num_rows + rows.num_rows > 2 * wanted.num_rows + _SLACK:
        kept = pa.concat_tables([_last(log, relation, min([*needed, t])), rows])
        if 2 * kept.num_rows < log.num_rows + rows.num_rows:
            return Change(kept, anew=True)
    return Change(rows, anew=False)


def _at(log: pa.Table, relation: pa.Schema) -> pa.Table:
    """The relation as the rows of a log leave it."""
    if not log.num_rows:
        return relation.empty_table()
    columns = ", ".join(quoted(name) for name in relation.names)
    with temporal_sql() as sql:
        sql.given("log", log)
        found = sql.rows(
            f'SELECT {columns} FROM log GROUP BY {columns} HAVING NOT ARG_MAX("{GONE}", "{SINCE}") ORDER BY {columns}'
        )
    return found.cast(relation)


def _last(log: pa.Table, relation: pa.Schema, first: int) -> pa.Table:
    """What of the log tells the relation as of the instant ``first`` and of every one after it."""
    before = pc.less_equal(log.column(SINCE), pa.scalar(first, INSTANT))
    early, late = log.filter(before), log.filter(pc.invert(before))
    there = _at(early, relation)
    if not there.num_rows:
        return late
    return pa.concat_tables([_stamped(there, pc.max(early.column(SINCE)).cast(pa.int64()).as_py(), gone=False), late])


def _stamped(rows: pa.Table, t: int, *, gone: bool) -> pa.Table:
    since = pa.repeat(pa.scalar(t, INSTANT), rows.num_rows)
    return rows.append_column(SINCE, since).append_column(GONE, pa.repeat(pa.scalar(gone), rows.num_rows))


def _less(left: pa.Table, right: pa.Table) -> pa.Table:
    """The rows of one that the other has not."""
    if not left.num_rows or not right.num_rows:
        return left
    with temporal_sql() as sql:
        sql.given("first", left)
        sql.given("second", right)
        found = sql.rows("SELECT * FROM first EXCEPT SELECT * FROM second")
    return found.cast(left.schema)
