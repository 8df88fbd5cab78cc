"""Continue the running totals of groups from one tick to the next, without the rows of the tables.

The totals at the end of the last tick, and the exact deltas since then, determine the groups at each later instant
(``derivation.exact``). DuckDB adds the few deltas up in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import Access, DeltaScan, Lookup
from weft.algebra.relation import StateSchema
from weft.algebra.schema import TIMESTAMP
from weft.arrangement.state_store import MOST_GROUPS, Files, StoredFiles, StoredTotals, among, computed
from weft.derivation.stateful import key_columns
from weft.execution.driver_reader import DriverReader, LocalRows, keys_for
from weft.execution.guarded import collected
from weft.execution.reader import Reader
from weft.execution.relations import ResultsTable
from weft.execution.temp_views import Rows
from weft.period_sql.notation import DUCKDB, VALID_TIME, Dialect
from weft.planning.first_rows import FirstRows
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
        columns.add(path.column)
        keys += keys_for(path, rows).chunks
    return (columns.pop(), keys) if len(columns) == 1 else None


@dataclass
class Totals:
    """The groups of a state in its window.

    ``changed`` has the totals of all groups at the end of the window, or the changes of the totals in the window, or
    None if nothing changed. The other fields are the result of ``all_groups`` or of ``changes``. In ``base``, a group
    may have several rows, which add up. In its first ``largest`` rows, each group has one row. ``near`` has the rows of
    ``base`` for the groups that change.
    """

    state: StateSchema
    reader: Reader
    changed: pa.Table | None = None
    whole: Rows | None = None
    base: pa.Table | None = None
    largest: int = 0
    near: pa.Table | None = None
    deltas: pa.Table | None = None
    continued: StateSchema | None = None
    touched: Rows | None = None

    @property
    def names(self) -> list[str]:
        """The columns of the groups in the stored totals."""
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
        self.continued, self.base, self.largest = state, stored.rows.cast(self.stored), stored.parts[0].num_rows
        if deltas is None or not deltas.num_rows:
            self.touched = LocalRows(self.state, stored_schema(self.state).empty_table())
            return
        self.deltas = deltas
        self.near = among(self.base, deltas, self.names)
        self.touched = self._given(self._computed(self.near))
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
        if wanted is not None and self.near is not None and wanted.num_rows == self.near.num_rows:
            return self.touched  # ``wanted`` has the rows of ``near``, and no others
        return self._given(self._computed(self.base if wanted is None else wanted))

    def first(self, rows: FirstRows, partitions: pa.Table | None) -> Rows:
        """Return the rows that suffice for ``rows``, and possibly further rows.

        ``partitions`` has the needed partitions, in some of the columns p1, p2 …, or is None if all are needed.
        """
        assert self.base is not None
        near = self.near if self.near is not None else self.base.slice(0, 0)
        given = {"largest_": self.base.slice(0, self.largest), "later_": self.base.slice(self.largest), "near_": near}
        by: Sequence[str] = ()
        if partitions is not None:
            given["partitions_"], by = partitions, partitions.column_names
        text = rows.sql("largest_", "later_", "near_", by)
        keys = pa.schema([self.stored.field(name) for name in self.names])
        changing = [part.select(self.names).cast(keys) for part in (near, self.deltas) if part is not None]
        found = pa.concat_tables([computed(text, keys, **given), *changing])
        return self._given(self._computed(among(self.base, found, self.names)))

    def _wanted(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> pa.Table | None:
        """Return the totals of the groups that look-ups name and of those that change, or None for all groups."""
        assert self.base is not None
        shown = [name for name, _ in key_columns(self.state)]
        wanted = look_up_keys(same, vias)
        if wanted is None or wanted[0] not in shown:
            return None
        name = self.names[shown.index(wanted[0])]
        kind = self.base.schema.field(name).type
        if pa.types.is_floating(kind):
            return None
        keys = pa.chunked_array(wanted[1], kind)
        found = self.base.filter(pc.is_in(self.base.column(name), value_set=keys))
        if self.near is None:
            return found
        return pa.concat_tables([found, self.near.filter(pc.invert(pc.is_in(self.near.column(name), value_set=keys)))])

    def _computed(self, before: pa.Table) -> pa.Table:
        assert self.continued is not None
        text = continued_sql(self.continued, "deltas_", "before_", DUCKDB)
        deltas = self.deltas if self.deltas is not None else deltas_schema(self.state).empty_table()
        return computed(text, self.schema, deltas_=deltas, before_=before)

    def _last(self, rows: pa.Table) -> pa.Table:
        """Return the totals of the groups that exist at the end of the window."""
        alive = rows.filter(pc.is_null(rows.column("_to")))
        columns = [name for name, _ in key_columns(self.state)] + [f"_{name}" for name, _ in totals_of(self.state)]
        return alive.select(columns).rename_columns(self.stored.names).cast(self.stored)
