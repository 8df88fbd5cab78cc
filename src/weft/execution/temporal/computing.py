"""Compute the change of a view.

The logs of the view's inputs give the delta, and the delta gives the new rows of the view's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weft.algebra.scalar import CHANGED_FROM, REFRESHED, Literal
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, TableSchema
from weft.algebra.temporal import Temporal
from weft.catalog.records import TableRecord
from weft.derivation.temporal.delta_propagation import Kind
from weft.derivation.temporal.maintenance_plan import Derived
from weft.execution.engines.engine import Engine, Rows, number_of
from weft.execution.look_ups import LookUps
from weft.execution.temporal.logs import Logs
from weft.execution.temporal.states import change_of, first_difference
from weft.execution.temporal.valuing import RefreshValues, Value
from weft.period_sql.notation import VALID_TIME, listed
from weft.period_sql.sweep import Sweep
from weft.planning.view_plan import ViewPlan
from weft.sql.rendering import render
from weft.sql.rendering.render_temporal import Evaluation
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS


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
    present: Callable[[TableRecord, bool], pa.Table | None] = lambda table, few: None
    """A function that returns the cached open rows of a table, or None. If the second argument is true and the table is
    that of the view, the function returns the open rows even if they are not cached.
    """

    def open_at_t(self, table: TableRecord, few: bool) -> pa.Table | None:
        """Return ``present`` if these are the rows known at ``t``, else None."""
        return None if table.last_ts is not None and table.last_ts > self.t else self.present(table, few)


@dataclass(frozen=True)
class ViewChange:
    """The rows to append to a view's log, in any order, and the first instant at which the view changes.

    ``gone`` is the number of rows that delete a period. ``begins`` is None if the view does not change or if the
    instant was not requested.
    """

    rows: Rows
    gone: int = 0
    begins: int | None = None


def view_change(
    engine: Engine,
    view_plan: ViewPlan,
    view: TableRecord,
    reading: RefreshInput,
    look_ups: LookUps | None,
    *,
    from_scratch: bool,
    dated: bool,
    form: Callable[[], FileForm],
) -> ViewChange | None:
    """Return the rows that a refresh appends to the view's log, or None if the view does not change.

    ``form`` is as in ``Engine.result``. With ``from_scratch``, compute the view from the whole logs of its inputs,
    as the first refresh always does. With ``dated``, add the first instant of a change. If ``look_ups`` is None,
    each log is read from its files. The caller must hold the lease. Raise StorageError for unreadable data, and
    ExecutionError for a failed computation.
    """
    width = len(view_plan.columns)
    instants = [each for each in (reading.tau, reading.t) if each is not None]
    logs = Logs(engine, reading.files, look_ups, [*dict.fromkeys(instants)], reading.open_at_t)
    work = _Refresh(engine, view_plan, reading, logs)
    old_and_new = work.whole(view) if from_scratch or reading.tau is None else work.refreshed(view, reading.tau)
    if old_and_new is None or not engine.table("changed", change_of(*old_and_new, width)):
        return None
    rows = engine.result(_as_log("changed", view, reading.t), view.stored, form)
    if not number_of(rows):
        return None
    gone = engine.one(f"SELECT COUNT(*) FROM changed WHERE {VALID_FROM} = {VALID_TO}")
    begins = engine.one(first_difference(*old_and_new, work.sweep, width)) if dated else None
    return ViewChange(rows, gone, begins)


def _as_log(changed: str, view: TableRecord, t: int) -> str:
    """Return an SQL query for the log rows that record a change at ``t`` (µs UTC)."""
    own = [each for each in view.stored.columns if each.name not in (VALID_FROM, VALID_TO, TS)]
    heads = (
        f"CAST(c{n} AS {render.spelled(each.type)}) AS {render.quoted(each.name)}" for n, each in enumerate(own, 1)
    )
    return f"SELECT {listed(heads, VALID_FROM, VALID_TO, f'{render.timestamp(t)} AS {TS}')} FROM {changed}"


@dataclass
class _Refresh:
    """One refresh of a view on an engine."""

    engine: Engine
    view_plan: ViewPlan
    reading: RefreshInput
    logs: Logs
    changes: dict[tuple[str, int], Value] = field(default_factory=dict)
    """Maps (kind of change, table ID) to the deletions ∇R or the insertions ΔR of the table R."""
    there: set[str] = field(default_factory=set)
    """Names of the engine's views whose columns already have the types of the view's columns."""

    def whole(self, view: TableRecord) -> tuple[str, str]:
        """Return two tables: all periods of the view before the refresh and after it."""
        values = self._values(self.reading.t, {})
        value = self._typed(values.table_of(self.view_plan.plan.view))
        values.drop_all_but(self.view_plan.plan.view)
        if self.reading.files[view.table_id]:
            return self._table("kept", self.logs.whole(self.logs.of(view, view.schema)).known(self.reading.t)), value
        self.engine.view("kept", f"SELECT * FROM {value} WHERE FALSE")
        return "kept", value

    def refreshed(self, view: TableRecord, tau: int) -> tuple[str, str] | None:
        """Return two tables: the periods before and after the refresh, limited to the rows in the view's delta.

        Return None if the delta certainly changes no row.
        """
        parameters = {REFRESHED.name: Literal(tau, TIMESTAMP)}
        changed = [table for table in self.view_plan.tables if self._changed(table, tau)]
        if changed:
            parameters[CHANGED_FROM.name] = Literal(self._begin(changed), TIMESTAMP)
        plan = self.view_plan.plan.with_own_rows(view.schema)
        values = self._values(tau, parameters)
        names = [self._delta(values, plan.refresh)]
        if changed:
            values.refreshed(view.table_id, names[0])
            names.append(self._delta(values, plan.change(changed, self._kinds(changed))))
        touched = list(dict.fromkeys(name for pair in names for name in pair if name is not None))
        if not touched:
            return None
        rows = listed(VALID_TIME.columns(self.width))
        old = self._own(view, " UNION ".join(f"SELECT {rows} FROM {name}" for name in touched))
        signed = [(name, sign) for pair in names for name, sign in zip(pair, (-1, 1), strict=True) if name is not None]
        return old, self._table("made", self.sweep.summed([(old, 1), *signed], self.width))

    def _delta(self, values: RefreshValues, delta: Derived) -> tuple[Value, Value]:
        return self._value(values, delta.deleted), self._value(values, delta.inserted)

    def _value(self, values: RefreshValues, part: Temporal | None) -> Value:
        name = None if part is None else values.of(part)
        return None if name is None else self._typed(name)

    @property
    def sweep(self) -> Sweep:
        """The operations over the periods of rows."""
        return Sweep(VALID_TIME, self.engine.dialect)

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
        self.logs.changed[table.id] = near
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
        return int(self.engine.one(f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({every}) AS given"))

    def _typed(self, name: str) -> str:
        types = enumerate((type for _, type in self.view_plan.columns), 1)
        heads = (f"CAST(c{number} AS {render.spelled(type)}) AS c{number}" for number, type in types)
        typed = f"{name}_typed"
        if typed not in self.there:
            self.engine.view(typed, f"SELECT {listed(heads, VALID_FROM, VALID_TO)} FROM {name}")
            self.there.add(typed)
        return typed

    def _values(self, known: int, parameters: Mapping[str, Literal]) -> RefreshValues:
        asked = Evaluation(self.reading.t, self.reading.since, parameters)
        return RefreshValues(self.engine, self.logs, self.reading.tables, self.changes, asked, known)

    def _table(self, name: str, text: str) -> str:
        self.engine.table(name, text)
        return name
