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
from weft.sql.rendering.render import quoted
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import columns_equal
from weft.storage.periods import TS, values_of
from weft.storage.slices import Slice, may_hold

MOST_SINCE: Final = 20_000
"""Greatest number of log rows that a look-up may return for periods since an instant."""
MOST_POOLED: Final = 50_000
"""Greatest number of periods that one refresh stores for further look-ups by the same columns."""
GRAIN: Final = 86_400_000_000
"""A day in microseconds. A read of a log starts at a multiple of a day and therefore serves many instants."""


@dataclass
class Logs:
    """The logs of tables in an engine, read from the ``files`` of each table.

    ``look_ups`` finds rows by key. If it is None, every read covers the whole log. ``instants`` are the instants up to
    which the refresh reads logs (µs UTC). ``present`` is as in ``RefreshInput``.
    """

    engine: Engine
    files: Mapping[int, tuple[DataFile, ...]]
    look_ups: LookUps | None
    instants: Sequence[int]
    present: Callable[[TableRecord, bool], pa.Table | None] = lambda table, few: None
    tables: dict[int, TableRecord] = field(default_factory=dict)
    wholes: set[str] = field(default_factory=set)
    changed: dict[int, LoggedTable] = field(default_factory=dict)
    """Maps a table ID to the log, limited to the rows that changed since the last refresh, and possibly others."""
    recents: dict[tuple[int, int], str | None] = field(default_factory=dict)
    pools: dict[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    """Maps a table ID and a combination of columns to a table of the periods that look-ups found (``with_ends``).
    The view NAME_keys has the keys of these look-ups. The table for no columns has all periods of a small log.
    """
    keys: dict[str, pa.Table] = field(default_factory=dict)
    """Maps the name of each table in ``pools`` to the keys of its look-ups."""
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
        parts = [(self._in(log, each, *_recorded_with(each)), each) for each in slices]
        texts = [part.bounded(each.column, each.low or FIRST_INSTANT, each.high) for part, each in parts]
        return " UNION ".join(dict.fromkeys(texts))

    def _in(self, log: LoggedTable, *parts: Slice) -> LoggedTable:
        """Return the log, limited to all rows in the slices, and possibly others."""
        name = self._name()
        matching = [file for file in self.files[log.stored.id] if all(may_hold(file, each, None) for each in parts)]
        self.engine.stored(name, matching, log.stored, parts[-1])
        return replace(log, log=name)

    def near(self, log: LoggedTable, among: Among) -> LoggedTable:
        """Return the log. From a large log, return only the rows that match ``among`` in at least one column.

        An arrangement finds the matching rows. If ``among`` has a column of the table's key, the look-up uses this
        column. If ``among`` has all value columns of the log, the look-up uses all of them. In all other cases, the
        look-up uses the first column of ``among``. If no look-up is possible, return the whole log.
        """
        return self._look_up(log, among, self.look_ups) or self.whole(log)

    def since(self, log: LoggedTable, among: Among, first: int) -> LoggedTable:
        """Return the periods that match ``among`` and hold at the instant ``first`` (µs UTC) or later.

        The result may be the whole log, as in ``near``.
        """
        if self.look_ups is None:
            return self.whole(log)
        few, column = replace(self.look_ups, most_found=min(MOST_SINCE, self.look_ups.most_found)), among.pairs[0][0]
        found = None if (log.log, column) in self.many else self._look_up(log, among, few)
        if found is not None:
            return found
        self.many.add((log.log, column))
        # An estimate: these keys have MOST_SINCE log rows, other keys as many, and each key has one open row.
        opened = (self.engine.size(among.relation) or 0) * rows_of(self.files[log.stored.id]) / MOST_SINCE
        return self._recent(log, first, opened <= MOST_POOLED) or self.near(log, among)

    def _look_up(self, log: LoggedTable, among: Among, look_ups: LookUps | None) -> LoggedTable | None:
        if look_ups is None:
            return self.whole(log)
        if rows_of(self.files[log.stored.id]) <= driver_reader.BOUNDS.loaded:
            return self._small(log)
        keys = {key.lower() for key in self.tables[log.stored.id].keys}
        keyed = [pair for pair in among.pairs if pair[0].lower() in keys][:1]
        every = {own for own, _ in among.pairs} >= set(values_of(log.stored))
        pairs = keyed or (among.pairs if every else among.pairs[:1])
        own = tuple(name for name, _ in pairs)
        pool = self.pools.get((log.stored.id, own))
        wanted = self._wanted(among.relation, [other for _, other in pairs], pool)
        if wanted.num_rows > driver_reader.BOUNDS.keys:
            return None
        if pool is not None and not wanted.num_rows:
            return self._periods_of(log, pool)
        schema = stored_schema(log.stored)
        columns = [column.name for name in own if (column := log.stored.column(name)) is not None]
        given = conformed(wanted.rename_columns(columns), pa.schema([schema.field(name) for name in columns]))
        rows = self._look_up_rows(log, given, look_ups)
        return None if rows is None else self._pooled(log, own, given, rows)

    def _wanted(self, relation: str, columns: Sequence[str], pool: str | None) -> pa.Table:
        """Return the values of ``columns`` that are not among the keys of the pool, and at most one too many."""
        heads = ", ".join(f"{column} AS k{number}" for number, column in enumerate(columns))
        source = f"{relation} AS o"
        if pool is not None:
            same = (f"o.{column} IS NOT DISTINCT FROM p.k{number}" for number, column in enumerate(columns))
            source += f" ANTI JOIN {pool}_keys AS p ON {' AND '.join(same)}"
        return self.engine.rows(f"SELECT DISTINCT {heads} FROM {source} LIMIT {driver_reader.BOUNDS.keys + 1}")

    def _small(self, log: LoggedTable) -> LoggedTable:
        """Return all periods of a small log. Its files are read once."""
        key: tuple[int, tuple[str, ...]] = (log.stored.id, ())
        if key not in self.pools:
            self.pools[key] = self._name()
            self.engine.table(self.pools[key], self.whole(log).with_ends(self._ends))
        return self._periods_of(log, self.pools[key])

    def _pooled(self, log: LoggedTable, own: tuple[str, ...], keys: pa.Table, rows: pa.Table) -> LoggedTable:
        """Add the periods of log rows to the pool of earlier look-ups by the same columns, and return the pool.

        If the pool is full, the pool stays unchanged, and the result combines the pool with the new periods.
        """
        name, pool = self._name(), self.pools.get((log.stored.id, own))
        self.engine.given(f"{name}_rows", rows)
        text = replace(log, log=f"{name}_rows").with_ends(self._ends)
        if pool is not None and (self.engine.size(pool) or 0) + rows.num_rows > MOST_POOLED:
            self.engine.table(name, text)
            return self._periods_of(log, self._both(pool, name))
        self.engine.table(name, text if pool is None else f"{text} UNION ALL SELECT * FROM {pool}")
        if (self.engine.size(name) or 0) <= MOST_POOLED:
            self.keys[name] = keys if pool is None else pa.concat_tables([keys, self.keys[pool]])
            self.engine.given(f"{name}_keys", self.keys[name].rename_columns([f"k{n}" for n in range(len(own))]))
            self.pools[log.stored.id, own] = name
        return self._periods_of(log, name)

    @property
    def _ends(self) -> dict[int, str]:
        """Map each of the ``instants`` to the column of a pool with the ends that were known then."""
        return {instant: f"_end_{number}" for number, instant in enumerate(self.instants)}

    def _periods_of(self, log: LoggedTable, pool: str) -> LoggedTable:
        return replace(log, log=pool, ends=self._ends)

    def _both(self, pool: str, new: str) -> str:
        name = self._name()
        self.engine.view(name, f"SELECT * FROM {pool} UNION ALL SELECT * FROM {new}")
        return name

    def _look_up_rows(self, log: LoggedTable, keys: pa.Table, look_ups: LookUps) -> pa.Table | None:
        schema, files, columns = stored_schema(log.stored), self.files[log.stored.id], keys.column_names
        if len(columns) == 1:
            result = look_ups.rows(log.stored, files, Key(columns[0]), schema.names, keys)
        else:
            result = look_ups.whole_rows(log.stored, files, columns, keys)
        return None if result.rows is None else conformed(result.rows, schema)

    def _recent(self, log: LoggedTable, first: int, few: bool) -> LoggedTable | None:
        """Return the periods that hold at ``first`` or later, and some earlier periods.

        Return None if ``present`` has no open rows for the table and ``few``. The log records the end of a period at
        that end or later. A period that holds at ``first`` or later is therefore in one of these classes:

        - The period was recorded since ``first``.
        - The period was open before ``first`` and still is.
        - The end of the period was recorded after the last refresh, and the row of the period is among the changed
          rows.
        """
        low = min((first - 2) // GRAIN * GRAIN, *self.instants)
        key = (log.stored.id, low)
        if key not in self.recents:
            opened = self.present(self.tables[log.stored.id], few)
            self.recents[key] = None if opened is None else self._recent_periods(log, opened, low)
        name = self.recents[key]
        return None if name is None else self._periods_of(log, name)

    def _recent_periods(self, log: LoggedTable, opened: pa.Table, low: int) -> str:
        """Create a table of periods, and return the table's name.

        The table has the periods recorded after ``low``, the periods of changed rows, and all other open periods.
        """
        values, changed = values_of(log.stored), self.changed.get(log.stored.id)

        def unchanged(alias: str) -> str:
            same = columns_equal(values, alias, "c")
            return "" if changed is None else f" ANTI JOIN {changed.log} AS c ON {same}"

        recorded, still, name = replace(log, log=self._name()), self._name(), self._name()
        news = self.news(log, low)
        some = f"SELECT * FROM {news.log} WHERE {news.recorded(low, max(self.instants))}"
        self.engine.given(still, opened)
        self.engine.table(recorded.log, f"SELECT n.* FROM ({some}) AS n{unchanged('n')}")
        heads = ", ".join(map(quoted, [*values, VALID_FROM]))
        ends = ", ".join(f"CAST(NULL AS TIMESTAMP) AS {end}" for end in self._ends.values())
        others = f"SELECT {heads}, {ends} FROM {still} AS s{unchanged('s')}"
        same = columns_equal([*values, VALID_FROM], "s", "o")
        texts = [recorded.with_ends(self._ends), f"{others} ANTI JOIN {recorded.log} AS o ON {same}"]
        texts += [] if changed is None else [changed.with_ends(self._ends)]
        self.engine.table(name, " UNION ALL ".join(texts))
        return name

    def _name(self) -> str:
        self.parts += 1
        return f"log_part_{self.parts}"


def _recorded_with(part: Slice) -> tuple[Slice, ...]:
    """Return a slice of the instants at which a log may record the rows of ``part``.

    The log records the end of a period at that end, at the instant before or later. Arrow skips no row group by the
    ends, because some are NULL.
    """
    return (Slice(TS, (part.low or FIRST_INSTANT) - 1, LAST_INSTANT),) if part.column == VALID_TO else ()
