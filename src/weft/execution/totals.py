"""Continue the running totals of groups from one tick to the next, without the rows of the tables.

The totals at the end of the last tick, and the exact deltas since then, determine the groups at each later instant
(``derivation.exact``). DuckDB adds the few deltas up in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import Access, DeltaScan, Lookup
from weft.algebra.relation import StateSchema
from weft.algebra.schema import TIMESTAMP
from weft.arrangement.state_store import MOST_GROUPS, Files, StoredFiles, StoredTotals, computed
from weft.derivation.stateful import key_columns
from weft.execution.driver_reader import DriverReader, LocalRows, keys_for
from weft.execution.guarded import collected
from weft.execution.reader import Reader
from weft.execution.relations import ResultsTable
from weft.execution.temp_views import Rows
from weft.period_sql.notation import DUCKDB, VALID_TIME, Dialect, conjunction, listed, same
from weft.planning.state_plan import StateRows, base_scans
from weft.planning.state_sql import added_sql, added_up_sql, continued_sql, inputs, totals_of
from weft.storage.columns import arrow_type, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def files_below(state: StateSchema, reader: Reader | DriverReader) -> Files:
    """Return the stored files of each table below a state."""
    tables = {scan.table.name: reader.tables[scan.table.name] for scan in base_scans(state)}
    return {
        name: StoredFiles(table.stored.start, reader.files(name), table.table_id if table.tracked else None)
        for name, table in tables.items()
        if not isinstance(table, ResultsTable)
    }


def deltas_schema(state: StateSchema) -> pa.Schema:
    """Return the columns of the exact deltas of a state's input: values, period and sign."""
    _, columns, _ = inputs(state.operator)
    fields = [pa.field(column.name, arrow_type(column.value.type)) for column in columns]
    period = [pa.field(name, arrow_type(TIMESTAMP)) for name in VALID_TIME.period]
    return pa.schema([*fields, *period, pa.field("sign", pa.int32())])


def look_up_keys(same: Sequence[Access], vias: Mapping[str, Rows]) -> tuple[str, list[pa.Array]] | None:
    """Return the only column by which access paths look rows up, and its keys. None: all rows are needed.

    NULL among the keys equals NULL.
    """
    columns, keys = set[str](), list[pa.Array]()
    for path in same:
        if not isinstance(path, Lookup) or not isinstance(rows := vias[path.via.view], LocalRows):
            return None
        values = keys_for(path, rows)
        if values is None:
            return None
        columns.add(path.key.name)
        keys += values.chunks
    return (columns.pop(), keys) if len(columns) == 1 else None


@dataclass
class Totals:
    """The groups of a state in its window.

    ``changed`` has the totals of all groups at the end of the window, or the changes of the totals in the window, or
    None if nothing changed. The other fields are the result of ``all_groups`` or of ``changes``. In ``base``, a group
    may have several rows, which add up. In its first part, each group has one row. ``near`` has the rows of ``base``
    for the groups that change, and possibly for others.
    """

    state: StateSchema
    reader: Reader
    changed: pa.Table | None = None
    whole: Rows | None = None
    base: StoredTotals | None = None
    near: pa.Table = field(init=False)
    deltas: pa.Table = field(init=False)
    continued: StateSchema | None = None
    touched: Rows | None = None

    @property
    def names(self) -> list[str]:
        """The columns of the groups in the stored totals, by which they are looked up."""
        return VALID_TIME.columns(len(key_columns(self.state)))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the state and of the running totals."""
        own = stored_schema(self.state)
        totals = [pa.field(f"_{name}", arrow_type(kind)) for name, kind in totals_of(self.state)]
        return pa.schema([*own, *totals])

    @property
    def stored(self) -> pa.Schema:
        """The columns of the stored totals: the groups and the totals."""
        keys = [
            pa.field(name, arrow_type(kind))
            for name, (_, kind) in zip(self.names, key_columns(self.state), strict=True)
        ]
        return pa.schema([*keys, *(pa.field(name, arrow_type(kind)) for name, kind in totals_of(self.state))])

    def stored_sql(self, state: StateSchema, plan: StateRows, dialect: Dialect) -> str:
        """Return SQL for the totals to store at the end of the window of ``state``, from the lives of its input."""
        return added_sql(state, f"(SELECT *, 1 AS sign FROM ({plan.lives(dialect)}) AS given)")

    def all_groups(self, rows: pa.Table | DataFrame) -> None:
        """Set the rows of all groups in the window."""
        own = stored_schema(self.state).names
        if isinstance(rows, pa.Table):
            rows = rows.cast(self.schema)
            self.whole = self._given(rows)
            self.changed = self._last(rows)
            return
        kept = self.reader.keep(rows)
        last = collected(kept.where("_to IS NULL"), MOST_GROUPS)
        self.changed = None if last is None else self._last(last.cast(self.schema))
        self.whole = kept.select(own)

    def _given(self, rows: pa.Table) -> Rows:
        return LocalRows(self.state, rows.select(stored_schema(self.state).names))

    def changes(self, state: StateSchema, stored: StoredTotals, deltas: pa.Table | None) -> None:
        """Set the totals just before the window of ``state``, and the deltas in this window."""
        self.continued, self.base = state, stored
        self.deltas = deltas_schema(state).empty_table() if deltas is None else deltas
        self.near = self.of_groups(self.deltas)
        if deltas is None or not deltas.num_rows:
            self.touched = LocalRows(self.state, stored_schema(self.state).empty_table())
            return
        self.touched = self._given(self._computed(before_=self.near))
        added = computed(added_sql(state, "deltas_"), self.stored, deltas_=deltas)
        self.changed = added if added.num_rows else None

    def added_up(self, rows: pa.Table) -> pa.Table:
        """Add up the rows of each group in the stored totals."""
        return computed(added_up_sql(self.state, "rows_"), self.stored, rows_=rows)

    def read(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows that access paths need: the groups that change, the groups of keys, or all groups."""
        if self.whole is not None:
            return self.whole
        assert self.base is not None and self.touched is not None
        if all(isinstance(path, DeltaScan) for path in same):
            return self.touched
        wanted = self._wanted(same, vias)
        if wanted is not None and wanted.num_rows == self.near.num_rows:
            return self.touched  # ``wanted`` has only the rows of ``near``
        before = self.base.rows.cast(self.stored) if wanted is None else wanted
        return self._given(self._computed(before_=before))

    def of_groups(self, keys: pa.Table) -> pa.Table:
        """Return the totals before the window of the groups in ``keys``, and possibly of others."""
        assert self.base is not None
        return self.base.among(keys, self.names).cast(self.stored)

    @property
    def keys(self) -> pa.Schema:
        """The columns of the groups in the stored totals."""
        return pa.schema([self.stored.field(name) for name in self.names])

    @property
    def changing(self) -> pa.Table:
        """The keys of the groups that change."""
        return pa.concat_tables([rows.select(self.names).cast(self.keys) for rows in (self.near, self.deltas)])

    def of_groups_and_changes(self, before: pa.Table) -> Rows:
        """Return the rows of some groups, whose totals before the window are given, and of the groups that change."""
        met = conjunction(same(self.names, "b", "k"))
        others = f"SELECT b.* FROM others_ AS b ANTI JOIN (SELECT {listed(self.names)} FROM near_) AS k ON {met}"
        both = f"WITH before_ AS ({others} UNION ALL SELECT * FROM near_)\n"
        return self._given(self._computed(both, others_=before, near_=self.near))

    @cached_property
    def at_end(self) -> pa.Table:
        """The totals of the groups that change at the end of the window."""
        return self.added_up(self.near if self.changed is None else pa.concat_tables([self.near, self.changed]))

    def _wanted(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> pa.Table | None:
        """Return the totals of the groups that look-ups name and of those that change, or None for all groups."""
        assert self.base is not None
        shown = [name for name, _ in key_columns(self.state)]
        wanted = look_up_keys(same, vias)
        if wanted is None or wanted[0] not in shown:
            return None
        name = self.names[shown.index(wanted[0])]
        kind = self.stored.field(name).type
        if pa.types.is_floating(kind):
            return None
        keys = pa.chunked_array(wanted[1], kind)
        rows = self.of_groups(pa.table({name: keys})) if self.names == [name] else self.base.rows.cast(self.stored)
        found = rows.filter(pc.is_in(rows.column(name), value_set=keys))
        return pa.concat_tables([found, self.near.filter(pc.invert(pc.is_in(self.near.column(name), value_set=keys)))])

    def _computed(self, head: str = "", **given: pa.Table) -> pa.Table:
        """Compute the rows of groups. The table or CTE ``before_`` has their totals before the window."""
        assert self.continued is not None
        text = continued_sql(self.continued, "deltas_", "before_", DUCKDB)
        return computed(head + text, self.schema, deltas_=self.deltas, **given)

    def _last(self, rows: pa.Table) -> pa.Table:
        """Return the totals of the groups that exist at the end of the window."""
        alive = rows.filter(pc.is_null(rows.column("_to")))
        columns = [name for name, _ in key_columns(self.state)] + [f"_{name}" for name, _ in totals_of(self.state)]
        return alive.select(columns).rename_columns(self.stored.names).cast(self.stored)
