"""Store the relations that synopses pass from tick to tick. A relation stays readable as of earlier ticks.

Each row of the Delta table is an entry: a row of the relation, an instant ``since``, and a flag ``gone``. The flag
``gone`` says whether the relation loses or gains the row at the instant. The relation as of an instant has all rows
whose last entry up to that instant is not ``gone``. A tick that runs again after a crash reads the relation as of an
earlier instant. The repeated tick therefore ignores the entries of the crashed run. A paused query also continues from
an earlier instant, even if another query has advanced a shared relation.

A process caches the entries that it has read or written. The list of file names shows whether the cache is current,
because data files never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.sql.rendering.render import quoted, timestamp
from weft.storage.columns import INSTANT
from weft.storage.data_files import read_data_files
from weft.storage.table import Table
from weft.storage.temporal_sql import temporal_sql

SINCE: Final = "since"
GONE: Final = "gone"
_SLACK: Final = 1_000
"""The number of superseded rows above which Weft rewrites a table."""
_FILES: Final = 32
"""The number of files at which Weft rewrites a table. Each file costs a new process some milliseconds."""
_MOST_BYTES: Final = 256 * 2**20


@dataclass(frozen=True)
class RelationChange:
    """Rows to write to the table of a relation. If ``replaces`` is true, the new rows replace all old rows."""

    rows: pa.Table
    replaces: bool
    wanted: pa.Table


@dataclass
class RelationLog:
    """The stored log of a relation. ``files`` contains the names of the table's files, oldest first.

    ``last`` is the greatest ``since`` (µs UTC), or None if there are no rows. ``now`` is the latest relation, or None
    before its first use.
    """

    relation: pa.Schema
    rows: pa.Table
    files: tuple[str, ...] = ()
    last: int | None = None
    now: pa.Table | None = None

    @cached_property
    def size(self) -> int:
        """The size of ``rows`` in bytes."""
        return int(self.rows.nbytes)

    @classmethod
    def of(cls, relation: pa.Schema, rows: pa.Table, files: tuple[str, ...] = ()) -> RelationLog:
        """Return a log that consists of ``rows``."""
        last = pc.max(rows.column(SINCE)).cast(pa.int64()).as_py() if rows.num_rows else None
        return cls(relation, rows, files, last)

    def current(self) -> pa.Table:
        """Return the latest state of the relation."""
        if self.now is None:
            self.now = _at(self.rows, self.relation)
        return self.now

    def as_of(self, t: int) -> pa.Table:
        """Return the relation as of the instant ``t`` (µs UTC)."""
        if self.last is None or self.last <= t:
            return self.current()
        return _at(self.rows.filter(pc.less_equal(self.rows.column(SINCE), pa.scalar(t, INSTANT))), self.relation)

    def change_to(
        self, wanted: pa.Table, t: int, needed: Sequence[int], *, always: bool = False
    ) -> RelationChange | None:
        """Return the change that makes the relation equal to ``wanted`` from ``t`` on. Return None if nothing changes.

        The relation stays readable as of each instant in ``needed``. The table is rewritten if it has many files or
        about twice as many rows as needed. If ``always`` is True, unchanged rows are also written.
        """
        come, gone = _differing(wanted, self.current())
        rows = pa.concat_tables([_stamped(wanted if always else come, t, gone=False), _stamped(gone, t, gone=True)])
        if not rows.num_rows:
            return None
        total = self.rows.num_rows + rows.num_rows
        if may_rewrite(len(self.files), total, wanted.num_rows):
            compacted = pa.concat_tables([_last(self.rows, self.relation, min([*needed, t])), rows])
            if should_rewrite(len(self.files), total, compacted.num_rows):
                return RelationChange(compacted, replaces=True, wanted=wanted)
        return RelationChange(rows, replaces=False, wanted=wanted)

    def changed(self, change: RelationChange) -> RelationLog:
        """Return the log after a change. The ``files`` of the result do not include the new file."""
        rows = change.rows if change.replaces else pa.concat_tables([self.rows, change.rows])
        last = pc.max(change.rows.column(SINCE)).cast(pa.int64()).as_py()
        return RelationLog(self.relation, rows, () if change.replaces else self.files, last, change.wanted)


def may_rewrite(files: int, total: int, wanted: int) -> bool:
    """Return whether a table with ``total`` rows may deserve a rewrite. ``wanted`` is the size of the relation."""
    return files >= _FILES or total > 2 * wanted + _SLACK


def should_rewrite(files: int, total: int, compacted: int) -> bool:
    """Return whether to replace a table with ``total`` rows by ``compacted`` rows."""
    return files >= _FILES or 2 * compacted < total


def as_of(log: str, columns: Sequence[str], t: int | None = None) -> str:
    """Return an SQL query for a relation as of the instant ``t`` (µs UTC). None: the latest state.

    ``log`` is the name of the entries, and ``columns`` are the quoted names of the relation's columns.
    """
    until = "" if t is None else f" WHERE {SINCE} <= {timestamp(t)}"
    listed = ", ".join(columns)
    return f"SELECT {listed} FROM {log}{until} GROUP BY {listed} HAVING NOT MAX_BY({GONE}, {SINCE})"


def entries(rows: str, columns: Sequence[str], t: int, *, gone: bool) -> str:
    """Return an SQL query for the entries of ``rows`` that begin or end at ``t`` (µs UTC)."""
    listed = ", ".join(columns)
    return f"SELECT {listed}, {timestamp(t)} AS {SINCE}, {str(gone).upper()} AS {GONE} FROM {rows}"


def shortened(log: str, columns: Sequence[str], first: int) -> str:
    """Return an SQL query for the entries that suffice to read the relation as of ``first`` (µs UTC) and later."""
    listed, instant = ", ".join(columns), timestamp(first)
    last = f"(SELECT MAX({SINCE}) FROM {log} WHERE {SINCE} <= {instant})"
    return (
        f"SELECT {listed}, {last} AS {SINCE}, FALSE AS {GONE} FROM ({as_of(log, columns, first)}) AS there "
        f"UNION ALL SELECT {listed}, {SINCE}, {GONE} FROM {log} WHERE {SINCE} > {instant}"
    )


def table_schema(relation: pa.Schema) -> pa.Schema:
    """Return the schema of the Delta table that stores a relation."""
    return pa.schema([*relation, pa.field(SINCE, INSTANT), pa.field(GONE, pa.bool_())])


_cached: dict[str, RelationLog] = {}
"""The cached log of each table, in the order of last use."""
_cache_lock: Final = Lock()


def read_relation_log(table: Table, relation: pa.Schema) -> RelationLog:
    """Return the log of a relation. Without a table, the log is empty. Raise StorageError if the table is damaged."""
    schema = table_schema(relation)
    if not table.exists():
        return RelationLog(relation, schema.empty_table())
    files = table.files()
    names = tuple(file.location.name for file in files)
    known = _cached.get(str(table))
    if known is None or known.relation != relation or known.files != names[: len(known.files)]:
        known = RelationLog(relation, schema.empty_table())
    log = known
    if len(known.files) < len(names):
        more = read_data_files(files[len(known.files) :], schema)
        log = RelationLog.of(relation, pa.concat_tables([known.rows, more]), names)
    _cache(table, log)
    return log


def cache_written(table: Table, version: int, before: RelationLog, change: RelationChange) -> None:
    """Add a change to the cache after its commit as ``version``."""
    snapshot = table.snapshot()
    if snapshot.version == version:
        after = before.changed(change)
        after.files = tuple(file.location.name for file in snapshot.files)
        _cache(table, after)


def _cache(table: Table, log: RelationLog) -> None:
    with _cache_lock:
        _cached.pop(str(table), None)
        _cached[str(table)] = log
        size = sum(each.size for each in _cached.values())
        while size > _MOST_BYTES:
            size -= _cached.pop(next(iter(_cached))).size


def _at(log: pa.Table, relation: pa.Schema) -> pa.Table:
    if not log.num_rows:
        return relation.empty_table()
    columns = [quoted(name) for name in relation.names]
    with temporal_sql() as sql:
        sql.given("log", log)
        relation_rows = sql.rows(f"{as_of('log', columns)} ORDER BY {', '.join(columns)}")
    return relation_rows.cast(relation)


def _last(log: pa.Table, relation: pa.Schema, first: int) -> pa.Table:
    """Shorten a log without changing the relation as of ``first`` or any later instant."""
    before = pc.less_equal(log.column(SINCE), pa.scalar(first, INSTANT))
    early, late = log.filter(before), log.filter(pc.invert(before))
    there = _at(early, relation)
    if not there.num_rows:
        return late
    return pa.concat_tables([_stamped(there, pc.max(early.column(SINCE)).cast(pa.int64()).as_py(), gone=False), late])


def _stamped(rows: pa.Table, t: int, *, gone: bool) -> pa.Table:
    since = pa.repeat(pa.scalar(t, INSTANT), rows.num_rows)
    return rows.append_column(SINCE, since).append_column(GONE, pa.repeat(pa.scalar(gone), rows.num_rows))


def _differing(left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that only ``left`` has, and those that only ``right`` has. Neither table may have duplicates."""
    if not left.num_rows or not right.num_rows or left is right:
        return (left.slice(0, 0), right.slice(0, 0)) if left is right else (left, right)
    columns = ", ".join(quoted(name) for name in left.column_names)
    with temporal_sql() as sql:
        sql.given("first", left)
        sql.given("second", right)
        differences = sql.rows(
            f"SELECT {columns}, COUNT(*) FILTER (WHERE side) > 0 AS side FROM "
            f"(SELECT *, TRUE AS side FROM first UNION ALL SELECT *, FALSE AS side FROM second) AS sides "
            f"GROUP BY {columns} HAVING BOOL_AND(side) OR NOT BOOL_OR(side)"
        )
    in_left = differences.column("side")
    rows = differences.select(left.column_names).cast(left.schema)
    return rows.filter(in_left), rows.filter(pc.invert(in_left))
