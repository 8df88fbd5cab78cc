"""Read the logs for a refresh: the whole log, the log after an instant, or the log rows with given keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from weft.algebra.access import Key
from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.catalog.records import TableRecord
from weft.execution import driver_reader
from weft.execution.driver_reader import rows_of
from weft.execution.engines.engine import Engine
from weft.execution.look_ups import LookUps
from weft.execution.temporal.states import Among, LoggedTable
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import columns_equal
from weft.storage.periods import TS, values_of
from weft.storage.slices import Slice, may_hold

MOST_SINCE: Final = 20_000
"""Greatest number of log rows that a look-up may return for periods since an instant."""
MOST_POOLED: Final = 50_000
"""Greatest number of log rows that one refresh stores for further look-ups by the same columns."""
GRAIN: Final = 86_400_000_000
"""A day in microseconds. A read of a log starts at a multiple of a day and therefore serves many instants."""


@dataclass
class Logs:
    """The logs of tables in an engine, read from the ``files`` of each table.

    ``look_ups`` finds rows by key. If it is None, every read covers the whole log. ``present`` returns the cached open
    rows of a table, or None.
    """

    engine: Engine
    files: Mapping[int, tuple[DataFile, ...]]
    look_ups: LookUps | None
    present: Callable[[TableRecord], pa.Table | None] = lambda table: None
    tables: dict[int, TableRecord] = field(default_factory=dict)
    wholes: set[str] = field(default_factory=set)
    changed: dict[int, str] = field(default_factory=dict)
    """Maps a table ID to a view of the log, limited to the rows that changed since the last refresh."""
    recents: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    pools: dict[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    """Maps a table ID and a combination of columns to a table with the log rows that look-ups found.
    The table NAME_keys has the keys of these look-ups.
    """
    sizes: dict[str, int] = field(default_factory=dict)
    """Maps the name of each table in ``pools`` to the number of rows."""
    many: set[tuple[str, str]] = field(default_factory=set)
    """Logs and columns whose keys have more rows than ``since`` looks up."""
    parts: int = 0

    def of(self, table: TableRecord, schema: TableSchema) -> LoggedTable:
        """Return the log of a table, limited to the columns of ``schema``, without creating a view."""
        self.tables[table.table_id] = table
        return LoggedTable(self.engine, f"log_{table.table_id}", table.stored, schema)

    def whole(self, log: LoggedTable) -> LoggedTable:
        """Create the view of the whole log, and return the log. Raise StorageError for a missing or damaged
        file.
        """
        if log.log not in self.wholes:
            self.wholes.add(log.log)
            self.engine.stored(log.log, self.files[log.stored.id], log.stored)
        return log

    def news(self, log: LoggedTable, after: int) -> LoggedTable:
        """Return the log, limited to the files that may contain a record after the instant ``after`` (µs UTC)."""
        return self._in(log, Slice(TS, after + 1, LAST_INSTANT))

    def within(self, log: LoggedTable, slices: Sequence[Slice]) -> str:
        """Return an SQL query for the rows ``c1 … cn`` that have a log row in one of the slices."""
        parts = [(self._in(log, each), each) for each in slices]
        texts = [part.bounded(each.column, each.low or FIRST_INSTANT, each.high) for part, each in parts]
        return " UNION ".join(dict.fromkeys(texts))

    def _in(self, log: LoggedTable, part: Slice) -> LoggedTable:
        files = self.files[log.stored.id]
        matching = [file for file in files if may_hold(file, part, None)]
        if len(matching) == len(files):
            return self.whole(log)
        name = self._name()
        self.engine.stored(name, matching, log.stored)
        return replace(log, log=name)

    def near(self, log: LoggedTable, among: Among) -> LoggedTable:
        """Return the log. From a large log, return only the rows that match ``among`` in at least one column.

        An arrangement finds the matching rows. If ``among`` has a column of the table's key, the look-up uses this
        column. If ``among`` has all value columns of the log, the look-up uses all of them. In all other cases, the
        look-up uses the first column of ``among``. If no look-up is possible, return the whole log.
        """
        return self._look_up(log, among, self.look_ups) or self.whole(log)

    def since(self, log: LoggedTable, among: Among, first: int, known: int) -> LoggedTable:
        """Return the periods that match ``among`` and hold at ``first`` or later, as recorded up to ``known``.

        ``first`` and ``known`` are µs UTC. The result may be the whole log, as in ``near``.
        """
        if self.look_ups is None:
            return self.whole(log)
        few, column = replace(self.look_ups, most_found=min(MOST_SINCE, self.look_ups.most_found)), among.pairs[0][0]
        found = None if (log.log, column) in self.many else self._look_up(log, among, few)
        if found is not None:
            return found
        self.many.add((log.log, column))
        return self._recent(log, first, known) or self.near(log, among)

    def _look_up(self, log: LoggedTable, among: Among, look_ups: LookUps | None) -> LoggedTable | None:
        files, bounds = self.files[log.stored.id], driver_reader.BOUNDS
        if look_ups is None or rows_of(files) <= bounds.loaded:
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
        wanted = self.engine.rows(f"SELECT DISTINCT {heads} FROM {source} LIMIT {bounds.keys + 1}")
        # A look-up by a single column does not find rows with NULL in this column.
        if wanted.num_rows > bounds.keys or (len(pairs) == 1 and wanted.column(0).null_count):
            return None
        if pool is not None and not wanted.num_rows:
            return replace(log, log=pool)
        rows = self._look_up_rows(log, own, wanted, look_ups)
        return None if rows is None else self._pooled(log, own, wanted, rows)

    def _pooled(self, log: LoggedTable, own: tuple[str, ...], wanted: pa.Table, rows: pa.Table) -> LoggedTable:
        """Add log rows to the pool of earlier look-ups by the same columns, and return the pool as a log.

        If the pool is full, the pool stays unchanged, and the result combines the pool with the new rows.
        """
        new, pool = self._name(), self.pools.get((log.stored.id, own))
        self.engine.given(new, rows)
        size = self.sizes.get(pool or "", 0) + rows.num_rows
        if size > MOST_POOLED:
            return replace(log, log=new) if pool is None else replace(log, log=self._both(pool, new))
        self.engine.given(f"{new}_asked", wanted)
        name = f"pool_{new}"
        for suffix, part in (("", new), ("_keys", f"{new}_asked")):
            before = "" if pool is None else f" UNION ALL SELECT * FROM {pool}{suffix}"
            self.engine.table(f"{name}{suffix}", f"SELECT * FROM {part}{before}")
        self.pools[log.stored.id, own], self.sizes[name] = name, size
        return replace(log, log=name)

    def _both(self, pool: str, new: str) -> str:
        name = self._name()
        self.engine.view(name, f"SELECT * FROM {pool} UNION ALL SELECT * FROM {new}")
        return name

    def _look_up_rows(
        self, log: LoggedTable, own: Sequence[str], wanted: pa.Table, look_ups: LookUps
    ) -> pa.Table | None:
        schema, files = stored_schema(log.stored), self.files[log.stored.id]
        columns = [column.name for name in own if (column := log.stored.column(name)) is not None]
        keys = conformed(wanted.rename_columns(columns), pa.schema([schema.field(name) for name in columns]))
        if len(columns) == 1:
            result = look_ups.rows(log.stored, files, Key(columns[0]), schema.names, keys)
        else:
            result = look_ups.whole_rows(log.stored, files, columns, keys)
        return None if result.rows is None else conformed(result.rows, schema)

    def _recent(self, log: LoggedTable, first: int, known: int) -> LoggedTable | None:
        """Return the periods that hold at ``first`` or later, as recorded up to ``known``, and some earlier periods.

        Return None if the open rows are not cached. The log records the end of a period at that end or later. A period
        that holds at ``first`` or later is therefore in one of these classes:

        - The period was recorded since ``first``.
        - The period was open before ``first`` and still is.
        - The end of the period was recorded after ``known``, and the row of the period is among the changed rows.
        """
        low = min((first - 2) // GRAIN * GRAIN, known)
        key = (log.stored.id, low, known)
        if key not in self.recents:
            opened = self.present(self.tables[log.stored.id])
            self.recents[key] = None if opened is None else self._recent_periods(log, opened, low, known)
        name = self.recents[key]
        return None if name is None else replace(log, log=name, has_periods=True)

    def _recent_periods(self, log: LoggedTable, opened: pa.Table, low: int, known: int) -> str:
        """Create a table of the periods that were known at the instant ``known``, and return the table's name.

        The table has the periods recorded in (low, known], the periods of changed rows, and all other open periods.
        """
        all_columns = replace(log, schema=log.stored)
        news = replace(self.news(all_columns, low), schema=log.stored)
        rows = ", ".join([*all_columns.names, VALID_FROM])
        recorded, still, name = self._name(), self._name(), self._name()
        self.engine.given(still, opened)
        changed = self.changed.get(log.stored.id)
        every = "*" if changed is None else f"* FROM {changed} UNION ALL BY NAME SELECT *"
        self.engine.table(recorded, f"SELECT {every} FROM {news.log} WHERE {news.recorded(low, known)}")
        texts = [f"SELECT {rows}, {VALID_TO} FROM ({replace(all_columns, log=recorded).periods(known)})"]
        begun = f"SELECT {rows}, CAST(NULL AS TIMESTAMP) AS {VALID_TO} FROM {still} AS s"
        values = values_of(log.stored)
        same = columns_equal([*values, VALID_FROM], "s", "o")
        others = [f"{begun} ANTI JOIN {recorded} AS o ON {same}"]
        if changed is not None:
            others.append(f"ANTI JOIN {changed} AS c ON {columns_equal(values, 's', 'c')}")
        self.engine.table(name, " UNION ALL ".join([*texts, " ".join(others)]))
        return name

    def _name(self) -> str:
        self.parts += 1
        return f"log_part_{self.parts}"
