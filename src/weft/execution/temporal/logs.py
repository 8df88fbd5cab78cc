"""The logs of what a maintenance reads: as wholes, what came after an instant, or near some keys by a look-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.catalog.records import TableRecord
from weft.execution import driver_reader
from weft.execution.driver_reader import rows_of
from weft.execution.look_ups import LookUps
from weft.execution.temporal.states import Among, LoggedTable
from weft.execution.windows import Slice, may_hold
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import columns_equal
from weft.storage.periods import TS, values_of
from weft.storage.temporal_sql import TemporalSql

MOST_SINCE: Final = 20_000
"""Log rows that a look-up gives for what holds since an instant; of more, what is open and what is new is read."""
MOST_POOLED: Final = 50_000
"""Log rows that are kept by a maintenance for its further look-ups by the same columns."""
GRAIN: Final = 86_400_000_000
"""Microseconds: what is read of a log since an instant of a day serves all of that day."""


@dataclass
class Logs:
    """Logs in a DuckDB, from their ``files`` by table; ``present`` has the open rows of those for which it is kept."""

    sql: TemporalSql
    files: Mapping[int, tuple[DataFile, ...]]
    look_ups: LookUps
    present: Callable[[TableRecord], pa.Table | None] = lambda table: None
    tables: dict[int, TableRecord] = field(default_factory=dict)
    wholes: set[str] = field(default_factory=set)
    changed: dict[int, str] = field(default_factory=dict)
    """By table the view of all log rows of the rows that changed after ``known`` of the maintenance."""
    recents: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    pools: dict[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    """By table and columns the table of the log rows that look-ups by them have found; NAME_keys has what was asked."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The rows of each pool."""
    parts: int = 0

    def of(self, table: TableRecord, schema: TableSchema) -> LoggedTable:
        """The log of a table, seen through the columns of ``schema``; ``whole`` makes its view."""
        self.tables[table.table_id] = table
        return LoggedTable(self.sql, f"log_{table.table_id}", table.stored, schema)

    def whole(self, log: LoggedTable) -> LoggedTable:
        """All of a log; raises StorageError for a file that is missing or damaged."""
        if log.log not in self.wholes:
            self.wholes.add(log.log)
            self.sql.log(log.log, self.files[log.stored.id], log.stored)
        return log

    def news(self, log: LoggedTable, after: int) -> LoggedTable:
        """The log without files that have nothing recorded after an instant (µs UTC)."""
        return self._in(log, Slice(TS, after + 1, LAST_INSTANT))

    def within(self, log: LoggedTable, slices: Sequence[Slice]) -> str:
        """A query of the rows that have a log row in one of these slices: ``c1 … cn``."""
        parts = [(self._in(log, each), each) for each in slices]
        texts = [part.bounded(each.column, each.low or FIRST_INSTANT, each.high) for part, each in parts]
        return " UNION ".join(dict.fromkeys(texts))

    def _in(self, log: LoggedTable, part: Slice) -> LoggedTable:
        """The log without files that have nothing in a slice."""
        files = self.files[log.stored.id]
        found = [file for file in files if may_hold(file, part, None)]
        if len(found) == len(files):
            return self.whole(log)
        name = self._name()
        self.sql.log(name, found, log.stored)
        return replace(log, log=name)

    def near(self, log: LoggedTable, among: Among) -> LoggedTable:
        """The log, or where it is large and few rows are asked for, only what agrees in one of the columns.

        That is looked up in an arrangement; a column of the table's key is preferred, else whole rows where they are
        asked for.  What finds nothing better reads the whole log.
        """
        return self._found(log, among, self.look_ups) or self.whole(log)

    def since(self, log: LoggedTable, among: Among, first: int, known: int) -> LoggedTable:
        """The same, right for what holds since ``first`` as known at ``known`` (µs UTC)."""
        few = replace(self.look_ups, most_found=min(MOST_SINCE, self.look_ups.most_found))
        return self._found(log, among, few) or self._recent(log, first, known) or self.near(log, among)

    def _found(self, log: LoggedTable, among: Among, look_ups: LookUps) -> LoggedTable | None:
        files, bounds = self.files[log.stored.id], driver_reader.BOUNDS
        if rows_of(files) <= bounds.loaded:
            return self.whole(log)
        keys = {key.lower() for key in self.tables[log.stored.id].keys}
        keyed = [pair for pair in among.pairs if pair[0].lower() in keys][:1]
        every = {own for own, _ in among.pairs} >= set(values_of(log.stored))
        pairs = keyed or (among.pairs if every else among.pairs[:1])
        heads = ", ".join(f"{other} AS k{number}" for number, (_, other) in enumerate(pairs))
        own = tuple(name for name, _ in pairs)
        pool = self.pools.get((log.stored.id, own))
        source = f"{among.relation} AS o"
        if pool is not None:
            same = (f"o.{other} IS NOT DISTINCT FROM p.k{n}" for n, (_, other) in enumerate(pairs))
            source += f" ANTI JOIN {pool}_keys AS p ON {' AND '.join(same)}"
        wanted = self.sql.rows(f"SELECT DISTINCT {heads} FROM {source} LIMIT {bounds.keys + 1}")
        # An arrangement of one column finds no NULL.
        if wanted.num_rows > bounds.keys or (len(pairs) == 1 and wanted.column(0).null_count):
            return None
        if pool is not None and not wanted.num_rows:
            return replace(log, log=pool)
        found = self._looked_up(log, own, wanted, look_ups)
        return None if found is None else self._pooled(log, own, wanted, found)

    def _pooled(self, log: LoggedTable, own: tuple[str, ...], wanted: pa.Table, found: pa.Table) -> LoggedTable:
        """What look-ups by these columns have found so far, with this; apart where that would be much."""
        new, pool = self._name(), self.pools.get((log.stored.id, own))
        self.sql.given(new, found)
        size = self.sizes.get(pool or "", 0) + found.num_rows
        if size > MOST_POOLED:
            return replace(log, log=new) if pool is None else replace(log, log=self._both(pool, new))
        self.sql.given(f"{new}_asked", wanted)
        name = f"pool_{new}"
        for suffix, part in (("", new), ("_keys", f"{new}_asked")):
            before = "" if pool is None else f" UNION ALL SELECT * FROM {pool}{suffix}"
            self.sql.table(f"{name}{suffix}", f"SELECT * FROM {part}{before}")
        self.pools[log.stored.id, own], self.sizes[name] = name, size
        return replace(log, log=name)

    def _both(self, pool: str, new: str) -> str:
        name = self._name()
        self.sql.view(name, f"SELECT * FROM {pool} UNION ALL SELECT * FROM {new}")
        return name

    def _looked_up(self, log: LoggedTable, own: Sequence[str], wanted: pa.Table, look_ups: LookUps) -> pa.Table | None:
        """The log rows with such values in the columns ``own``; None where that is no look-up."""
        schema, files = stored_schema(log.stored), self.files[log.stored.id]
        columns = [column.name for name in own if (column := log.stored.column(name)) is not None]
        asked = conformed(wanted.rename_columns(columns), pa.schema([schema.field(name) for name in columns]))
        if len(columns) == 1:
            found = look_ups.rows(log.stored, files, columns[0], schema.names, asked)
        else:
            found = look_ups.whole_rows(log.stored, files, columns, asked)
        return None if found.rows is None else conformed(found.rows, schema)

    def _recent(self, log: LoggedTable, first: int, known: int) -> LoggedTable | None:
        """The periods since ``first`` as known at ``known``, and some before; None where open rows are not kept.

        No period ends later than it is recorded.  So one that holds since ``first`` was told of since then, or it was
        open before and still is, or what became of it was recorded after ``known``: then its row is among the changed.
        """
        low = min((first - 2) // GRAIN * GRAIN, known)
        key = (log.stored.id, low, known)
        if key not in self.recents:
            opened = self.present(self.tables[log.stored.id])
            self.recents[key] = None if opened is None else self._made_recent(log, opened, low, known)
        found = self.recents[key]
        return None if found is None else replace(log, log=found, told=True)

    def _made_recent(self, log: LoggedTable, opened: pa.Table, low: int, known: int) -> str:
        """The table of the periods told of in (low, known], those of changed rows, and the open ones beside them."""
        whole = replace(log, schema=log.stored)
        news = replace(self.news(whole, low), schema=log.stored)
        rows = ", ".join([*whole.names, VALID_FROM])
        told, still, name = self._name(), self._name(), self._name()
        self.sql.given(still, opened)
        changed = self.changed.get(log.stored.id)
        every = "*" if changed is None else f"* FROM {changed} UNION ALL BY NAME SELECT *"
        self.sql.table(told, f"SELECT {every} FROM {news.log} WHERE {news.recorded(low, known)}")
        texts = [f"SELECT {rows}, {VALID_TO} FROM ({replace(whole, log=told).periods(known)})"]
        begun = f"SELECT {rows}, CAST(NULL AS TIMESTAMP) AS {VALID_TO} FROM {still} AS s"
        values = values_of(log.stored)
        same = columns_equal([*values, VALID_FROM], "s", "o")
        others = [f"{begun} ANTI JOIN {told} AS o ON {same}"]
        if changed is not None:
            others.append(f"ANTI JOIN {changed} AS c ON {columns_equal(values, 's', 'c')}")
        self.sql.table(name, " UNION ALL ".join([*texts, " ".join(others)]))
        return name

    def _name(self) -> str:
        self.parts += 1
        return f"log_part_{self.parts}"
