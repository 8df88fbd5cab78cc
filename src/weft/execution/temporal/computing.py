"""Compute the change of a view in this process.

The logs of the view's inputs give the delta, and the delta gives the new rows of the view's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weft.algebra.scalar import CHANGED_FROM, REFRESHED, Literal
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.catalog.records import TableRecord
from weft.derivation.temporal.delta_propagation import Kind
from weft.execution.look_ups import LookUps
from weft.execution.temporal.logs import Logs
from weft.execution.temporal.states import SWEEP, change_of, first_difference
from weft.execution.temporal.valuing import RefreshValues, Value
from weft.period_sql.notation import VALID_TIME, listed
from weft.planning.view_plan import ViewPlan
from weft.sql import render
from weft.sql.render_temporal import Evaluation
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS
from weft.storage.temporal_sql import TemporalSql, temporal_sql


@dataclass(frozen=True)
class RefreshInput:
    """The inputs of one refresh: the stored tables by ID, and the files of these tables and of the view.

    ``since`` is t0. ``tau`` is the instant of the last refresh, or None before the first refresh. ``t`` is the instant
    of this refresh. All instants are µs UTC.
    """

    tables: Mapping[int, TableRecord]
    files: Mapping[int, tuple[DataFile, ...]]
    since: int
    tau: int | None
    t: int
    present: Callable[[TableRecord], pa.Table | None] = lambda table: None
    """A function that returns the cached open rows of a table, or None."""

    def open_at_t(self, table: TableRecord) -> pa.Table | None:
        """Return the cached open rows of a table if they are the rows known at ``t``, else None."""
        return None if table.last_ts is not None and table.last_ts > self.t else self.present(table)


@dataclass(frozen=True)
class ViewChange:
    """The rows to append to a view's log, in any order, and the first instant at which the view changes.

    ``begins`` is None if the view does not change or if the instant was not requested.
    """

    rows: pa.Table
    begins: int | None = None


def view_change(
    view_plan: ViewPlan, view: TableRecord, reading: RefreshInput, look_ups: LookUps, *, dated: bool
) -> ViewChange:
    """Return the rows that a refresh appends to the view's log. With ``dated``, add the first instant of a change.

    The caller must hold the lease. Raise StorageError for unreadable data, and ExecutionError for a failed computation.
    """
    with temporal_sql(2 if reading.tau is None else 1) as sql:
        work = _Refresh(sql, view_plan, reading, Logs(sql, reading.files, look_ups, reading.open_at_t))
        old_and_new = work.whole(view) if reading.tau is None else work.refreshed(view, reading.tau)
        if old_and_new is None:
            return ViewChange(stored_schema(view.stored).empty_table())
        rows = sql.rows(change_of(*old_and_new, len(view_plan.columns)))
        begins = sql.one(first_difference(*old_and_new, len(view_plan.columns))) if dated and rows.num_rows else None
    return ViewChange(_as_log(rows, view, reading.t), begins)


def _as_log(rows: pa.Table, view: TableRecord, t: int) -> pa.Table:
    schema = stored_schema(view.stored)
    values = [name for name in schema.names if name not in (VALID_FROM, VALID_TO, TS)]
    named = rows.rename_columns([*values, VALID_FROM, VALID_TO])
    stamped = named.append_column(TS, pa.repeat(pa.scalar(t, schema.field(TS).type), rows.num_rows))
    return conformed(stamped, schema)


@dataclass
class _Refresh:
    """One refresh of a view in a DuckDB database."""

    sql: TemporalSql
    view_plan: ViewPlan
    reading: RefreshInput
    logs: Logs
    changes: dict[tuple[str, int], Value] = field(default_factory=dict)
    """Maps (kind of change, table ID) to the deletions ∇R or the insertions ΔR of the table R."""
    there: set[str] = field(default_factory=set)
    """Names of the DuckDB views whose columns already have the types of the view's columns."""

    def whole(self, view: TableRecord) -> tuple[str, str]:
        """Return two DuckDB tables: the view's periods before and after the first refresh."""
        values = self._values(self.reading.t, {})
        value = self._typed(values.table_of(self.view_plan.plan.view))
        values.drop_all_but(self.view_plan.plan.view)
        return self._own(view, f"SELECT {listed(VALID_TIME.columns(self.width))} FROM {value}"), value

    def refreshed(self, view: TableRecord, tau: int) -> tuple[str, str] | None:
        """Return two DuckDB tables: the periods before and after the refresh, limited to the rows in the view's delta.

        Return None if the delta certainly changes no row.
        """
        parameters = {REFRESHED.name: Literal(tau, TIMESTAMP)}
        changed = [table for table in self.view_plan.tables if self._changed(table, tau)]
        if changed:
            parameters[CHANGED_FROM.name] = Literal(self._begin(changed), TIMESTAMP)
        plan = self.view_plan.plan
        deltas = [plan.refresh, *([plan.change(changed, self._kinds(changed))] if changed else [])]
        values = self._values(tau, parameters)
        names = [
            [None if part is None else self._typed_value(values.of(part)) for part in (delta.deleted, delta.inserted)]
            for delta in deltas
        ]
        touched = list(dict.fromkeys(name for pair in names for name in pair if name is not None))
        if not touched:
            return None
        rows = listed(VALID_TIME.columns(self.width))
        old = self._own(view, " UNION ".join(f"SELECT {rows} FROM {name}" for name in touched))
        new = old
        for deleted, inserted in names:
            new = self._applied(new, deleted, inserted)
        return old, new

    def _applied(self, old: str, deleted: Value, inserted: Value) -> str:
        """Return a DuckDB table of V − ∇V ∪ ΔV, where ``old`` is V."""
        if deleted is not None:
            old = self._table(f"{old}_left", SWEEP.subtracted(old, deleted, self.width))
        if inserted is not None:
            heads = listed(VALID_TIME.columns(self.width), VALID_FROM, VALID_TO)
            both = " UNION ALL ".join(f"SELECT {heads} FROM {name}" for name in (old, inserted))
            old = self._table(f"{old}_more", SWEEP.coalesced(both, self.width))
        return old

    @property
    def width(self) -> int:
        return len(self.view_plan.columns)

    def _own(self, view: TableRecord, touched: str) -> str:
        log = self.logs.of(view, view.schema)
        among = log.all_of(self._table("touched", touched))
        return self._table("kept", self.logs.near(log, among).known(self.reading.t, among))

    def _changed(self, table: TableSchema, tau: int) -> bool:
        """Compute ∇R and ΔR of a table since the last refresh at ``tau``. Return whether the table changed."""
        record = self.reading.tables[table.id]
        if record.last_ts is None or record.last_ts <= tau:
            return False
        log, name = self.logs.of(record, table), f"change_{table.id}"
        touched = self._table(f"{name}_touched", self.logs.news(log, tau).rows(tau, self.reading.t))
        near = self.logs.near(log, log.all_of(touched))
        self.logs.changed[table.id] = near.log
        deleted, inserted = near.make_change(name, touched, tau, self.reading.t)
        self.changes |= {("deleted", table.id): deleted, ("inserted", table.id): inserted}
        return deleted is not None or inserted is not None

    def _kinds(self, changed: list[TableSchema]) -> list[Kind]:
        kinds: tuple[tuple[str, Kind], ...] = (("deleted", "deletions"), ("inserted", "insertions"))
        return [kind for key, kind in kinds if any(self.changes[key, table.id] for table in changed)]

    def _begin(self, changed: list[TableSchema]) -> int:
        """Return the earliest instant that the changes of these tables affect (µs UTC)."""
        names = [self.changes[kind, table.id] for table in changed for kind in ("deleted", "inserted")]
        every = " UNION ALL ".join(f"SELECT {VALID_FROM} FROM {name}" for name in names if name is not None)
        return int(self.sql.one(f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({every}) AS given"))

    def _typed_value(self, name: Value) -> Value:
        return None if name is None else self._typed(name)

    def _typed(self, name: str) -> str:
        types = enumerate((type for _, type in self.view_plan.columns), 1)
        heads = (f"CAST(c{number} AS {render.spelled(type)}) AS c{number}" for number, type in types)
        typed = f"{name}_typed"
        if typed not in self.there:
            self.sql.view(typed, f"SELECT {listed(heads, VALID_FROM, VALID_TO)} FROM {name}")
            self.there.add(typed)
        return typed

    def _values(self, known: int, parameters: Mapping[str, Literal]) -> RefreshValues:
        asked = Evaluation(self.reading.t, self.reading.since, parameters)
        return RefreshValues(self.sql, self.logs, self.reading.tables, self.changes, asked, known)

    def _table(self, name: str, text: str) -> str:
        self.sql.table(name, text)
        return name
