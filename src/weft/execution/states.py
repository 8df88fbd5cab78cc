"""Compute the rows of states over the window of a tick: of aggregates, window functions and recursions.

A tick computes only the groups (or partitions) that it needs (``derivation.stateful``). These are the groups that
change in the window, or the groups that a look-up names. All rows of a recursion are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.algebra.access import Access, Lookup
from weft.algebra.relation import Recursive, StateSchema
from weft.arrangement.state_store import Files, StateStore, StoredTotals
from weft.derivation.stateful import states
from weft.execution.driver_reader import LocalRows
from weft.execution.groups import instant
from weft.execution.guarded import COLLECTED, guarded, in_memory
from weft.execution.reader import Reader
from weft.execution.recursion import recursive_rows
from weft.execution.temp_views import Rows, TempViews
from weft.execution.totals import Totals, files_below
from weft.execution.windows import NEVER, slices_between
from weft.period_sql.notation import SPARK
from weft.planning.plan import Branch, columns_read
from weft.planning.state_plan import (
    Keys,
    asked,
    begins_at,
    keys_sql,
    keys_view,
    may_continue,
    recursion_plan,
    since,
    state_deltas,
    state_rows,
    suffix,
    timeless,
    touched_keys,
    window_of,
)
from weft.planning.state_sql import continued_sql, key_columns
from weft.storage.columns import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class StateReader:
    """The states of a tick. Equal states are computed once.

    With ``small_only``, raise NotSmall if an input is not in the driver's memory.
    """

    reader: Reader
    small_only: bool = False
    known: dict[tuple[str, str], Rows] = field(default_factory=dict)
    totals: dict[str, Totals | None] = field(default_factory=dict)

    def views(self, branches: Iterable[Branch], suffix: str = "") -> TempViews:
        """Return the views of branches. Each name ends with ``suffix``."""
        branches = tuple(branches)
        read = (state for branch in branches for state in states(branch.event.relation))
        return self._views(columns_read(branches), read, suffix)

    def _views(self, columns: Mapping[str, set[str]], read: Iterable[StateSchema], suffix: str) -> TempViews:
        return TempViews(self.reader, columns, self, {each.name: each for each in read}, self.small_only, suffix)

    def read(self, state: StateSchema, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows of the state that the access paths ``same`` need, and possibly further rows.

        ``vias`` has the relations whose columns a look-up compares, by view.
        """
        if (totals := self._totals_of(state)) is not None:
            return totals.read(same, vias)
        groups = asked(state, same)
        if not isinstance(groups, int):
            return self._once(state, groups)
        parts = [(vias[path.via.view], path.via_column) for path in same if isinstance(path, Lookup)]
        return self._looked_up(state, groups, parts)

    def _totals_of(self, state: StateSchema) -> Totals | None:
        """Return the state as running totals that continue the stored totals, or None if this is impossible."""
        if state.name not in self.totals:
            self.totals[state.name] = self._continued(state)
        return self.totals[state.name]

    def _continued(self, state: StateSchema) -> Totals | None:
        store, (tau, t) = self.reader.state_store, window_of(state)
        if store is None or state_deltas(state) is None:
            return None
        files = files_below(state, self.reader.files)
        if any(file.attached for _, listed in files.values() for file in listed):
            return None
        name = timeless(state).name
        if store.is_refused(name):
            return None
        stored = None if tau is None else store.totals(name, tau, files)
        if stored is not None and not may_continue(state, stored.at):
            stored = None
        if stored is None and tau is not None and store.has_later(name, tau):
            return None  # another query of the state ticks more often, and its totals remain
        totals = Totals(state, self.reader)
        if stored is None or not self._continue(totals, stored):
            stored = None
            self._begin(totals)
        if t < NEVER:
            self._store(store, name, totals, stored, files)
        return totals

    def _store(self, store: StateStore, name: str, totals: Totals, before: StoredTotals | None, files: Files) -> None:
        _, t = window_of(totals.state)
        if totals.changed is not None:
            store.write(name, t, totals.changed, files)
        elif before is not None:
            store.advance(name, before, t, files)
        else:
            store.refuse(name)

    def _begin(self, totals: Totals) -> None:
        """Compute all groups from the tables."""
        state = totals.state
        plan = state_rows(state, None)
        views = self._views(plan.columns, plan.reads, suffix(state))
        views.register(plan.paths.values(), {})
        text = continued_sql(state, f"(SELECT *, 1 AS sign FROM ({plan.lives}) AS given)", "", SPARK)
        totals.all_groups(self._computed(text, small=views.small))

    def _continue(self, totals: Totals, stored: StoredTotals) -> bool:
        """Compute the groups that change from the stored totals. Return False if the changes are too many."""
        state = since(totals.state, instant(stored.at))
        plan = state_deltas(state)
        assert plan is not None
        views = self._views(plan.columns, plan.reads, suffix(state))
        views.register(plan.paths, slices_between(plan.paths, stored.at, window_of(state)[1]))
        if not plan.sql:
            totals.changes(state, stored.rows, None)
            return True
        rows = self._computed(plan.sql, small=True) if views.small else None
        if not isinstance(rows, pa.Table):
            return False
        totals.changes(state, stored.rows, rows)
        return True

    def _once(self, state: StateSchema, what: str) -> Rows:
        if (state.name, what) not in self.known:
            rows = self._rows(state, None, None) if what == "whole" else self._news(state)
            self.known[state.name, what] = rows
        return self.known[state.name, what]

    def _news(self, state: StateSchema) -> Rows:
        """Return the groups that change in the window."""
        tau, t = window_of(state)
        branches, kinds = touched_keys(state), tuple(kind for _, kind in key_columns(state))
        # A group without keys begins at t0, also without rows.
        if tau is None or (not kinds and tau <= begins_at(state)):
            return self._rows(state, None, None)
        if not branches:
            return _nothing(state)
        views = self.views(branches, suffix(state))
        paths = [path for branch in branches for path in branch.paths.values()]
        views.register(paths, slices_between(paths, tau, t))
        found = self._computed(keys_sql(branches, len(kinds)), small=views.small)
        places = tuple(range(len(kinds)))
        if not isinstance(found, pa.Table):
            keys = Keys(places, kinds, (True,) * len(kinds))
            return self._rows(state, keys, found.toDF(*keys.columns)) if kinds else self._rows(state, None, None)
        if not found.num_rows:
            return _nothing(state)
        if not kinds:
            return self._rows(state, None, None)
        keys = Keys(places, kinds, tuple(bool(column.null_count) for column in found.columns))
        return self._rows(state, keys, found.rename_columns(list(keys.columns)))

    def _looked_up(self, state: StateSchema, place: int, parts: Sequence[tuple[Rows, str]]) -> Rows:
        """Return the groups whose key at ``place`` occurs in a column of ``parts``."""
        keys = Keys((place,), (key_columns(state)[place][1],), (False,))
        local = [rows.column(name) for rows, name in parts if isinstance(rows, LocalRows)]
        if len(local) == len(parts):
            wanted = pa.chunked_array([chunk for column in local for chunk in column.chunks], local[0].type)
            return self._rows(state, keys, pa.table({keys.columns[0]: wanted.unique().drop_null()}))
        frames = [_frame(self.reader, rows).select(name).toDF(keys.columns[0]) for rows, name in parts]
        united = frames[0]
        for frame in frames[1:]:
            united = united.union(frame)
        return self._rows(state, keys, self.reader.keep(united.dropna().distinct()))

    def _rows(self, state: StateSchema, keys: Keys | None, given: pa.Table | DataFrame | None) -> Rows:
        if isinstance(given, pa.Table) and not given.num_rows:
            return _nothing(state)
        if isinstance(state.operator, Recursive):
            return self._recursion(state)
        view = keys_view(state)
        plan = state_rows(state, keys)
        views = self._views(plan.columns, plan.reads, suffix(state))
        if given is not None:
            views.given[view] = LocalRows(None, given) if isinstance(given, pa.Table) else given
        views.register(plan.paths.values(), {})
        rows = self._computed(plan.sql, small=views.small)
        return LocalRows(state, rows) if isinstance(rows, pa.Table) else rows

    def _recursion(self, state: StateSchema) -> Rows:
        plan = recursion_plan(state)
        views = self._views(plan.columns, plan.reads, suffix(state))
        views.register(plan.paths.values(), {})
        rows = recursive_rows(plan, views, self.reader)
        if not isinstance(rows, pa.Table):
            return rows
        local, bounds = LocalRows(state, rows), self.reader.bounds
        if rows.num_rows > bounds.news or rows.nbytes > bounds.size:
            return self.reader.keep(local.frame(self.reader.spark))
        return local

    def _computed(self, text: str, *, small: bool) -> pa.Table | DataFrame:
        spark = self.reader.spark
        if small:
            result = in_memory(spark, spark.sql(guarded(text, COLLECTED)))
            if result is not None:
                return result
        return self.reader.keep(spark.sql(text))


def _frame(reader: Reader, rows: Rows) -> DataFrame:
    return rows.frame(reader.spark) if isinstance(rows, LocalRows) else rows


def _nothing(state: StateSchema) -> LocalRows:
    return LocalRows(state, stored_schema(state).empty_table())
