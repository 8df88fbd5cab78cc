"""Compute the rows of states over the window of a tick: of aggregates, window functions and recursions.

A tick computes only the groups (or partitions) that it needs (``derivation.stateful``). These are the groups that
change in the window, or the groups that a look-up names. All rows of a recursion are computed. If the input is in the
driver's memory or in tables that DuckDB reads whole, DuckDB computes the rows without a Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.relation import Grouped, Recursive, Relation, StateSchema, Windowed
from weft.algebra.schema import BOOLEAN
from weft.arrangement.state_store import MOST_BYTES, MOST_GROUPS, Files, StateStore, StoredTotals, sql_over
from weft.derivation.stateful import key_columns, states
from weft.execution.driver_reader import DriverReader, LocalRows, keys_for
from weft.execution.engines.duckdb import DuckdbFailed, duckdb_failures
from weft.execution.first_groups import FirstGroups
from weft.execution.groups import instant
from weft.execution.guarded import COLLECTED, collected, guarded, in_memory
from weft.execution.last_rows import LastRows
from weft.execution.reader import Reader, SparkNeeded
from weft.execution.recursion import all_rows
from weft.execution.stored_recursion import StoredRecursion
from weft.execution.temp_views import FileRows, NotSmall, Rows, TempViews, in_spark, keys_in_spark
from weft.execution.totals import Totals, deltas_schema, files_below
from weft.execution.whole_tables import bounded_rows
from weft.execution.windows import NEVER, slices_between
from weft.period_sql.notation import DUCKDB, SPARK, Dialect
from weft.planning.first_rows import FirstRows, first_rows
from weft.planning.plan import Branch, columns_read
from weft.planning.recursion_plan import RecursionPlan, continued_recursion, recursion_plan, tables_read
from weft.planning.state_causes import all_states
from weft.planning.state_engine import branch_same_in_duckdb, same_in_duckdb
from weft.planning.state_plan import (
    NO_KEY,
    Keys,
    StateRows,
    asked,
    before,
    begins_at,
    changed_sql,
    is_due,
    keys_sql,
    keys_view,
    may_continue,
    since,
    state_deltas,
    state_rows,
    suffix,
    timeless,
    touched_keys,
    window_of,
)
from weft.planning.state_sql import continued_sql
from weft.runtime.settings import scanning
from weft.storage.columns import arrow_type, stored_schema
from weft.storage.temporal_sql import TemporalSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Continued: TypeAlias = Totals | StoredRecursion | LastRows
Kept: TypeAlias = Continued | FirstGroups
_CONTINUED: Final[Mapping[type[Relation], Callable[[StateSchema, Reader], Continued]]] = {
    Grouped: Totals,
    Recursive: StoredRecursion,
    Windowed: lambda state, _: LastRows(state),
}
_ROOM: Final = 2 * MOST_BYTES
"""The most bytes that DuckDB returns for the states of a tick."""


@dataclass
class StateReader:
    """The states of a tick. Equal states are computed once.

    With ``by_files``, DuckDB also computes states over whole tables that are too large for the driver's memory. With
    ``small_only``, raise NotSmall if Spark must read an input.
    """

    reader: Reader
    small_only: bool = False
    by_files: bool = False
    alone: bool = True
    """Whether DuckDB computes all branches that read the states."""
    room: int = _ROOM
    known: dict[tuple[str, str], Rows] = field(default_factory=dict)
    continued: dict[str, Kept | None] = field(default_factory=dict)

    def views(self, branches: Iterable[Branch], *, in_duckdb: bool = False) -> TempViews:
        """Return the views of branches. With ``in_duckdb``, DuckDB computes the branches if it can do so alone."""
        branches = tuple(branches)
        read = [state for branch in branches for state in states(branch.event.relation)]
        self.alone = _by_duckdb_alone(branches)
        if read and self.reader.session is None and not self.alone:
            raise SparkNeeded  # with a session, the computation begins again, and computes all states again
        driver = self.reader.driver
        driver = driver.for_duckdb(by_files=self.by_files) if in_duckdb and self.alone else driver
        return self._views(columns_read(branches), read, driver, "")

    def _inputs(
        self, state: StateSchema, columns: Mapping[str, set[str]], read: Iterable[StateSchema], *, by_files: bool = True
    ) -> TempViews:
        """Return the views of the input of a state. Spark does not receive rows that only DuckDB needs.

        Without ``by_files``, DuckDB reads no whole tables.
        """
        driver = self.reader.driver
        driver = driver.for_duckdb(by_files=by_files and self.by_files) if same_in_duckdb(state) else driver
        return self._views(columns, read, driver, suffix(state))

    def _views(
        self, columns: Mapping[str, set[str]], read: Iterable[StateSchema], driver: DriverReader, suffix: str
    ) -> TempViews:
        by_name = {each.name: each for each in read}
        return TempViews(self.reader, columns, self, by_name, driver, self.small_only, suffix)

    def read(self, state: StateSchema, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows of the state that the access paths ``same`` need, and possibly further rows.

        ``vias`` has the relations whose columns a look-up compares, by view.
        """
        if any(isinstance(path, Lookup) and isinstance(vias[path.via.view], FileRows) for path in same):
            same = [FullScan(state.name)]  # DuckDB does not return the keys of a whole table
        if not any(map(is_due, same)):
            return self._read(state, same, vias)
        rows = self._read(state, [FullScan(state.name)], {})
        if not isinstance(rows, LocalRows) or not all(isinstance(path, DeltaScan) for path in same):
            return rows
        return rows.inside(slices_between(same, *window_of(state))[state.name])

    def _read(self, state: StateSchema, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        rows = self._of_continued(state, lambda continued: continued.read(same, vias))
        if rows is not None:
            return rows
        groups = asked(state, same)
        if not isinstance(groups, int):
            return self._once(state, groups)
        return self._looked_up(state, groups, [path for path in same if isinstance(path, Lookup)], vias)

    def _of_continued(self, state: StateSchema, read: Callable[[Kept], Rows | None]) -> Rows | None:
        """Return the rows of the continued state that ``read`` selects, or None.

        If DuckDB fails, read all rows from the tables.
        """
        continued = self._continued(state)
        if continued is None:
            return None
        try:
            with duckdb_failures():
                return read(continued)
        except DuckdbFailed:
            self.continued[state.name] = whole = self._begun(state)
            return read(whole)

    def _continued(self, state: StateSchema) -> Kept | None:
        """Return the state as one that continues the rows of the last tick, or None if this is impossible."""
        if state.name not in self.continued:
            self.continued[state.name] = self._continuing(state)
        return self.continued[state.name]

    def _continuing(self, state: StateSchema) -> Kept | None:
        store, (tau, t) = self.reader.state_store, window_of(state)
        first = first_rows(state_rows(state, None)) if isinstance(state.operator, Windowed) else None
        if store is None or (first is None and state_deltas(state) is None and continued_recursion(state) is None):
            return None
        files = files_below(state, self.reader)
        if any(file.attached for stored in files.values() for file in stored.files):
            return None
        name = timeless(state).name
        if store.is_refused(name):
            return None
        if first is not None:
            return self._first_groups(state, first, store, name, files)
        stored = None if tau is None else store.totals(name, tau, files)
        if stored is not None and not may_continue(state, stored.at):
            stored = None
        if stored is None and tau is not None and store.has_later(name, tau):
            return None  # another query of the state ticks more often, and its totals remain
        made = self._made(state)
        if stored is None and not isinstance(made, StoredRecursion):
            stored = self._stored_before(made, store, name, files)
        if stored is None or not self._continue(made, stored):
            stored, made = None, self._begun(state)
        if t < NEVER:
            self._store(store, name, made, stored, files)
        return made

    def _first_groups(
        self, state: StateSchema, first: FirstRows, store: StateStore, name: str, files: Files
    ) -> FirstGroups | None:
        """Return the first groups of a state with ranks, or None if the totals of its input are not continued."""
        totals = self._continued(first.input) if same_in_duckdb(state) else None
        if not isinstance(totals, Totals) or totals.base is None or not totals.names:
            return None
        at, (_, t) = totals.base.at, window_of(state)
        stored = store.totals(name, at, files)
        made = FirstGroups(state, first, totals, stored if stored is not None and stored.at == at else None)
        try:
            with duckdb_failures():
                made.continue_()
        except DuckdbFailed:
            return None
        if t < NEVER and (made.base is not None or not store.has_later(name, at)):
            self._store(store, name, made, made.base, files)
        return made

    def _made(self, state: StateSchema) -> Continued:
        return _CONTINUED[type(state.operator)](state, self.reader)

    def _store(
        self,
        store: StateStore,
        name: str,
        made: Kept,
        stored: StoredTotals | None,
        files: Files,
    ) -> None:
        _, t = window_of(made.state)
        if made.changed is not None:
            with suppress(DuckdbFailed), duckdb_failures():  # the next tick computes what is not stored
                store.write(name, t, made.changed, files, stored, made.added_up, made.names)
        elif stored is not None:
            store.advance(name, stored, t, files)
        else:
            store.refuse(name)

    def _stored_before(
        self, made: Totals | LastRows, store: StateStore, name: str, files: Files
    ) -> StoredTotals | None:
        """Compute from the tables the rows that a tick up to the start of the window would have stored, and store them.

        Return None if the window has no start, if the input has states, or if there are too many rows.
        """
        tau, _ = window_of(made.state)
        if tau is None or not may_continue(made.state, tau):
            return None
        earlier = before(made.state)
        if state_rows(earlier, None).reads:
            return None
        found = self._of_tables(earlier, partial(made.stored_sql, earlier), made.stored)
        rows = found if isinstance(found, pa.Table) else collected(found, MOST_GROUPS)
        if rows is None:
            return None
        with suppress(DuckdbFailed), duckdb_failures():
            store.write(name, tau, rows.cast(made.stored), files, None, made.added_up, made.names)
        return store.totals(name, tau, files)

    def _begun(self, state: StateSchema) -> Continued:
        """Return the state with all rows, which are computed from the tables."""
        made = self._made(state)
        if isinstance(made, StoredRecursion):
            plan = recursion_plan(state)
            made.all_rows(plan, self._tables(plan))
        elif isinstance(made, Totals):
            self._all_groups(made)
        else:
            self._last_rows(made)
        return made

    def _tables(self, plan: RecursionPlan) -> TempViews:
        views = self._inputs(plan.state, plan.columns, plan.reads, by_files=False)
        views.read(tables_read((*plan.first, *plan.steps)), {})
        return views

    def _all_groups(self, totals: Totals) -> None:
        def text(plan: StateRows, dialect: Dialect) -> str:
            given = f"(SELECT *, 1 AS sign FROM ({plan.lives(dialect)}) AS given)"
            return continued_sql(totals.state, given, "", dialect)

        totals.all_groups(self._of_tables(totals.state, text, totals.schema))

    def _last_rows(self, last: LastRows) -> None:
        last.begin(self._of_tables(last.state, partial(last.stored_sql, last.state), last.stored))

    def _of_tables(
        self, state: StateSchema, text: Callable[[StateRows, Dialect], str], schema: pa.Schema
    ) -> pa.Table | DataFrame:
        """Compute SQL over all lives of the state's input."""
        plan = state_rows(state, None)
        views = self._inputs(state, plan.columns, plan.reads)
        views.read(plan.paths.values(), {})
        return self._computed(state, partial(text, plan), schema, views, whole=True)

    def _continue(self, made: Continued, stored: StoredTotals) -> bool:
        """Compute the changes from the stored rows. Return False if the changes are too many, or if DuckDB fails."""
        state, (tau, _) = made.state, window_of(made.state)
        if stored.at != tau:
            state = since(state, instant(stored.at))
        try:
            with duckdb_failures():
                if isinstance(made, StoredRecursion):
                    return self._changed_rows(made, state, stored)
                return self._changed_groups(made, state, stored)
        except DuckdbFailed:
            return False

    def _changed_rows(self, made: StoredRecursion, state: StateSchema, stored: StoredTotals) -> bool:
        plan = continued_recursion(state)
        assert plan is not None

        def inputs(paths: Sequence[Access], given: Mapping[str, Rows]) -> TempViews:
            views = self._inputs(state, plan.columns, plan.reads, by_files=False)
            views.small_only = True
            views.given |= given
            views.read(paths, slices_between(paths, stored.at, window_of(state)[1]))
            return views

        return made.continue_(plan, stored.rows, inputs)

    def _changed_groups(self, totals: Totals | LastRows, state: StateSchema, stored: StoredTotals) -> bool:
        plan = state_deltas(state)
        assert plan is not None
        views = self._inputs(state, plan.columns, plan.reads)
        views.read(plan.paths, slices_between(plan.paths, stored.at, window_of(state)[1]))
        if not plan.sql:
            totals.changes(state, stored, None)
            return True
        rows: pa.Table | DataFrame | None = None
        if same_in_duckdb(state):
            rows = self.by_duckdb(plan.sql, deltas_schema(state), views)
        elif views.small:
            rows = self._computed(state, lambda _: plan.sql, deltas_schema(state), views)
        if not isinstance(rows, pa.Table):
            return False
        totals.changes(state, stored, rows)
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
        read = (each for branch in branches for each in states(branch.event.relation))
        views = self._inputs(state, columns_read(branches), read)
        paths = [path for branch in branches for path in branch.paths.values()]
        views.read(paths, slices_between(paths, tau, t))
        named = [pa.field(f"k{number}", arrow_type(kind)) for number, kind in enumerate(kinds, 1)]
        schema = pa.schema(named or [pa.field(NO_KEY, arrow_type(BOOLEAN))])
        found = self._computed(state, lambda _: keys_sql(branches, len(kinds)), schema, views)
        places = tuple(range(len(kinds)))
        if not isinstance(found, pa.Table):
            keys = Keys(places, kinds, (True,) * len(kinds))
            return self._rows(state, keys, found.toDF(*keys.columns)) if kinds else self._rows(state, None, None)
        if not found.num_rows:
            return _nothing(state)
        if not kinds:
            return self._rows(state, None, None)
        keys = Keys(places, kinds, tuple(bool(column.null_count) for column in found.columns))
        return self._rows(state, keys, found.rename_columns(list(keys.columns)), changed=True)

    def _looked_up(self, state: StateSchema, place: int, same: Sequence[Lookup], vias: Mapping[str, Rows]) -> Rows:
        """Return the groups whose key at ``place`` occurs in a column of the relations ``vias``."""
        kind = key_columns(state)[place][1]
        given = ((path, vias[path.via.view]) for path in same)
        every = (keys_for(path, rows) for path, rows in given if isinstance(rows, LocalRows))
        local = [values for values in every if values is not None]
        if len(local) == len(same):
            wanted = pa.chunked_array([chunk for column in local for chunk in column.chunks], local[0].type).unique()
            keys = Keys((place,), (kind,), (bool(wanted.null_count),))
            return self._rows(state, keys, pa.table({keys.columns[0]: wanted}))
        if self.small_only:
            raise NotSmall
        keys = Keys((place,), (kind,), (any(path.null_safe for path in same),))
        frames = (keys_in_spark(path, in_spark(self.reader, vias[path.via.view])) for path in same)
        united = reduce(lambda a, b: a.union(b), (frame.toDF(keys.columns[0]) for frame in frames))
        return self._rows(state, keys, self.reader.keep(united.distinct()))

    def _rows(
        self,
        state: StateSchema,
        keys: Keys | None,
        given: pa.Table | DataFrame | None,
        *,
        changed: bool = False,
    ) -> Rows:
        """With ``changed``, return only the rows that begin or end in the window."""
        if isinstance(given, pa.Table) and not given.num_rows:
            return _nothing(state)
        if isinstance(state.operator, Recursive):
            return self._recursion(state)
        view = keys_view(state)
        plan = state_rows(state, keys)
        first = self._first_rows(plan, keys, given)
        views = self._inputs(state, plan.columns, () if first else plan.reads)
        views.given |= first
        if given is not None:
            views.given[view] = LocalRows(None, given) if isinstance(given, pa.Table) else given
        views.read(plan.paths.values(), {})
        text = partial(changed_sql, plan) if changed else plan.sql
        rows = self._computed(state, text, stored_schema(state), views, whole=keys is None)
        return LocalRows(state, rows) if isinstance(rows, pa.Table) else rows

    def _recursion(self, state: StateSchema) -> Rows:
        plan = recursion_plan(state)
        rows, _ = all_rows(plan, self._tables(plan), self.reader)
        return LocalRows(state, rows) if isinstance(rows, pa.Table) else rows

    def _first_rows(self, plan: StateRows, keys: Keys | None, given: pa.Table | DataFrame | None) -> dict[str, Rows]:
        """Return the only input of first ranks without the rows that no partition needs, or nothing."""
        made = self.continued.get(plan.state.name)
        first = first_rows(plan) if isinstance(made, FirstGroups) else None
        if first is None or not isinstance(made, FirstGroups):
            return {}
        partitions = None
        if keys is not None and isinstance(given, pa.Table):
            partitions = given.rename_columns([f"p{place + 1}" for place in keys.places])
        try:
            with duckdb_failures():
                return {first.view: made.input(partitions)}
        except DuckdbFailed:
            return {}

    def _computed(
        self,
        state: StateSchema,
        text: Callable[[Dialect], str],
        schema: pa.Schema,
        views: TempViews,
        *,
        whole: bool = False,
    ) -> pa.Table | DataFrame:
        """Compute SQL that belongs to the state. Its columns are those of ``schema``.

        ``whole`` means that the SQL reads whole tables.
        """
        if same_in_duckdb(state):
            result = self.by_duckdb(text(DUCKDB), schema, views)
            if result is not None:
                return result
        if self.small_only and not views.small:
            raise NotSmall
        spark, in_spark = self.reader.spark, text(SPARK)
        views.register()
        if views.small:
            result = in_memory(spark, spark.sql(guarded(in_spark, COLLECTED)))
            if result is not None:
                return result
        with scanning(spark) if whole else nullcontext():
            return self.reader.keep(spark.sql(in_spark))

    def by_duckdb(self, text: str, schema: pa.Schema, views: TempViews) -> pa.Table | None:
        """Compute SQL in DuckDB.

        Return None if the result is too large, or if DuckDB cannot compute it, as after an overflow.
        """
        given = {view + views.suffix: rows.table(views.columns) for view, rows in views.local.items()}
        files, reader = views.of_files, self.reader
        if len(files) + len(given) < len(views.rows) or not reader.driver.fits_duckdb(*set(files.values())):
            return None
        try:
            with duckdb_failures():
                if views.in_memory:
                    with sql_over(given) as sql:
                        return self._bounded(sql, text, schema)
                with reader.whole_tables() as whole:
                    for view, table in files.items():
                        whole.view(view + views.suffix, reader.stored(table), reader.files(table), views.columns[table])
                    for view, rows in given.items():
                        whole.given(view, rows)
                    return self._bounded(whole.sql, text, schema)
        except DuckdbFailed:
            return None

    def _bounded(self, sql: TemporalSql, text: str, schema: pa.Schema) -> pa.Table | None:
        """Return None for rows that are too large for the memory, or for Spark if Spark computes a branch."""
        rows = bounded_rows(sql, text, schema, self.room)
        if rows is None or (not self.alone and self.reader.is_large(LocalRows(None, rows))):
            return None
        self.room -= rows.nbytes
        return rows


def _by_duckdb_alone(branches: Sequence[Branch]) -> bool:
    """Return whether DuckDB computes the branches, and all states that they need, as Spark does."""
    needed = (state for branch in branches for state in all_states(branch.event.relation))
    return all(map(branch_same_in_duckdb, branches)) and all(map(same_in_duckdb, needed))


def _nothing(state: StateSchema) -> LocalRows:
    return LocalRows(state, stored_schema(state).empty_table())
