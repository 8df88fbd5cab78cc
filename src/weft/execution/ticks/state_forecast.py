"""Describe how the next tick of a query would compute its states (``execution.states``), without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.relation import Grouped, Recursive, StateSchema
from weft.algebra.scalar import ColumnRef
from weft.arrangement.state_store import StateStore, StoredTotals
from weft.derivation.recursion import ROUND
from weft.derivation.stateful import key_columns, states
from weft.execution.driver_reader import DriverReader, LocalRows, Reading, count_text, readings
from weft.execution.groups import instant
from weft.execution.totals import files_below
from weft.execution.windows import slices_between
from weft.planning.plan import Branch, columns_read
from weft.planning.recursion_plan import continued_recursion, recursion_plan, tables_read
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_plan import (
    Keys,
    StateDeltas,
    asked,
    continued_deltas,
    keys_view,
    may_continue,
    since,
    state_rows,
    suffix,
    timeless,
    touched_keys,
    window_of,
)
from weft.storage.slices import Slice

By: TypeAlias = Literal["driver", "Spark"]
Read: TypeAlias = tuple[str, Sequence[Access], Reading]
"""The suffix of the views, the access paths, and how they are read."""


@dataclass
class StateForecast:
    """The readings of the states of a tick. ``read`` has the readings of their inputs, in the order of evaluation."""

    driver: DriverReader
    store: StateStore
    schemas: dict[str, StateSchema] = field(default_factory=dict)
    known: dict[tuple[str, str], Reading] = field(default_factory=dict)
    read: list[Read] = field(default_factory=list)

    def readings(
        self,
        columns: Mapping[str, set[str]],
        paths: Iterable[Access],
        slices: Mapping[str, Sequence[Slice]],
        own: Iterable[StateSchema],
        given: Mapping[str, Reading] = {},
        driver: DriverReader | None = None,
    ) -> Iterator[tuple[list[Access], Reading]]:
        """Yield each reading with its access paths. ``own`` are the states, and ``given`` the keys, among them."""
        self.schemas |= {state.name: state for state in own}

        def computed(same: Sequence[Access], by_view: Mapping[str, Reading]) -> Reading:
            name = same[0].table
            if name in given:
                return given[name]
            by_files = (by_view[path.via.view].by == "DuckDB" for path in same if isinstance(path, Lookup))
            return self._state(self.schemas[name], [FullScan(name)] if any(by_files) else same)

        return readings(driver or self.driver, columns, paths, slices, computed)

    def _state(self, state: StateSchema, same: Sequence[Access]) -> Reading:
        tau, _ = window_of(state)
        groups = "whole" if tau is None else asked(state, same)
        deltas = continued_deltas(state, groups)
        key = (state.name, "totals" if deltas is not None else str(groups))
        if key not in self.known:
            self.known[key] = self._totals(state, deltas) if deltas is not None else self._groups(state, groups)
        return self.known[key]

    def _totals(self, state: StateSchema, deltas: StateDeltas) -> Reading:
        _, t = window_of(state)
        stored = self._stored(state)
        if stored is None:
            return self._groups(state, "whole")
        before = len(self.read)
        by = self._inputs(deltas.paths, deltas.columns, deltas.reads, state, stored.at, t)
        if by == "Spark":
            del self.read[before:]
            return self._groups(state, "whole")
        what = "of stored totals" if isinstance(state.operator, Grouped) else "stored, the last of each partition"
        return Reading(by, f"{count_text(stored.rows.num_rows)} {what}, continued with the changes")

    def _stored(self, state: StateSchema) -> StoredTotals | None:
        """Describe the stored rows that a tick of the state continues."""
        tau, _ = window_of(state)
        files = files_below(state, self.driver)
        stored = None if tau is None else self.store.totals(timeless(state).name, tau, files)
        return stored if stored is not None and may_continue(state, stored.at) else None

    def _recursion(self, state: StateSchema) -> Reading:
        """The look-ups of later rounds depend on the rows of earlier ones, so the forecast has the first round only."""
        _, t = window_of(state)
        stored = self._stored(state) if continued_recursion(state) is not None else None
        if stored is None:
            plan = recursion_plan(state)
            paths = tables_read((*plan.first, *plan.steps))
            by = self._inputs(paths, plan.columns, plan.reads, state, None, t)
            return Reading(by, "all rows, derived round by round from the tables")
        continued = continued_recursion(since(state, instant(stored.at)))
        assert continued is not None
        paths = tables_read((*continued.touching, *continued.first))
        given = {ROUND: Reading("driver", "the stored rows")}
        by = self._inputs(paths, continued.columns, continued.reads, state, stored.at, t, given)
        return Reading(by, f"{count_text(stored.rows.num_rows)} stored, continued with what changes")

    def _groups(self, state: StateSchema, groups: int | str) -> Reading:
        tau, t = window_of(state)
        names, kinds = zip(*key_columns(state), strict=True) if key_columns(state) else ((), ())
        if isinstance(state.operator, Recursive):
            return self._recursion(state)
        if groups == "whole":
            return Reading(self._rows(state, None, None), "all groups, computed from the tables")
        if groups != "news":
            assert isinstance(groups, int)
            keys = Keys((groups,), (kinds[groups],), (False,))
            return Reading(self._rows(state, keys, None), f"the groups of the keys of {names[groups]}, computed")
        branches = touched_keys(state)
        paths = [path for branch in branches for path in branch.paths.values()]
        read = [each for branch in branches for each in states(branch.event.relation)]
        before = len(self.read)
        by = self._inputs(paths, columns_read(branches), read, state, tau, t)
        found = _keys(branches, {path.view: each for _, same, each in self.read[before:] for path in same})
        if found is not None and not found.num_rows:
            return Reading("driver", "no group changes", LocalRows(None, found.rename_columns(list(names))))
        every = Keys(tuple(range(len(kinds))), tuple(kinds), (False,) * len(kinds)) if kinds else None
        by = self._rows(state, every, found) if by != "Spark" else by
        if found is None or not kinds:
            return Reading(by, "the groups that change, computed")
        rows = LocalRows(None, found.rename_columns(list(names)))
        return Reading(
            by, f"the groups that change, at most {found.num_rows:,}, computed", None if by == "Spark" else rows
        )

    def _rows(self, state: StateSchema, keys: Keys | None, found: pa.Table | None) -> By:
        """``found`` has the keys, or more keys, or is None if they are unknown."""
        plan = state_rows(state, keys)
        how = "the keys of groups" if found is None else f"at most {count_text(found.num_rows, 'key')}"
        local = None if found is None else LocalRows(None, found)
        given = {keys_view(state): Reading("driver", how, local)}
        _, t = window_of(state)
        return self._inputs(plan.paths.values(), plan.columns, plan.reads, state, None, t, given)

    def _inputs(
        self,
        paths: Iterable[Access],
        columns: Mapping[str, set[str]],
        read: Iterable[StateSchema],
        state: StateSchema,
        tau: int | None,
        t: int,
        given: Mapping[str, Reading] = {},
    ) -> By:
        """Read the inputs of a state. Return "Spark" if Spark reads one of them, otherwise "driver"."""
        paths = tuple(paths)
        driver, slices = self.driver, slices_between(paths, tau, t)
        if same_in_duckdb(state):
            driver = driver.for_duckdb(by_files=not isinstance(state.operator, Recursive))
        found = list(self.readings(columns, paths, slices, read, given, driver))
        if not driver.fits_duckdb(*{same[0].table for same, reading in found if reading.by == "DuckDB"}):
            found = [(same, replace(each, by="Spark") if each.by == "DuckDB" else each) for same, each in found]
        self.read += [(suffix(state), same, reading) for same, reading in found]
        return "Spark" if any(reading.by == "Spark" for _, reading in found) else "driver"


def _keys(branches: Sequence[Branch], read: Mapping[str, Reading]) -> pa.Table | None:
    """Return the keys of the groups that may change, or None if the new rows in memory do not contain them."""
    tables = []
    for branch in branches:
        refs = [output.value for output in branch.outputs]
        aliases = {ref.scan for ref in refs if isinstance(ref, ColumnRef)}
        path = branch.paths[next(iter(aliases))] if len(aliases) == 1 else None
        if not isinstance(path, DeltaScan) or (rows := read[path.view].rows) is None:
            return None
        columns = [rows.column(ref.column) for ref in refs if isinstance(ref, ColumnRef)]
        if len(columns) < len(refs):
            return None
        tables.append(pa.table(columns, [f"k{number}" for number in range(1, 1 + len(refs))]))
    if not tables:
        return None
    together = pa.concat_tables(tables)
    return together.group_by(together.column_names).aggregate([]) if together.column_names else None
