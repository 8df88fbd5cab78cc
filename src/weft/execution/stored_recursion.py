"""Continue the rows of a recursion from one tick to the next, if its rows never end (``planning.recursion_plan``).

The rows at the end of the last tick are stored with their depths: the number of steps from the first rows. What a tick
reads follows what is new: the new rows of the tables, and the rows that the keys of each round look up.

A stored depth may be greater than the true depth, because a later tick may derive the row in fewer steps. If a depth
exceeds the limit, the tick therefore computes all rows from the tables, which gives the true depths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import Access, DeltaScan
from weft.algebra.relation import StateSchema
from weft.arrangement.state_store import MOST_GROUPS
from weft.derivation.recursion import DEPTH, ROUND
from weft.errors import ExecutionError, LimitExceeded
from weft.execution.driver_reader import LocalRows
from weft.execution.engines import choosing
from weft.execution.engines.duckdb import BeyondBounds, DuckdbEngine, duckdb_engine
from weft.execution.guarded import collected
from weft.execution.reader import Reader
from weft.execution.recursion import all_rows, continued, give, last_schema, results, with_periods
from weft.execution.temp_views import NotSmall, Rows, TempViews
from weft.execution.totals import look_up_keys
from weft.period_sql.notation import VALID_TIME, listed
from weft.planning.recursion_plan import Derived, RecursionPlan, tables_read
from weft.storage.columns import conformed, stored_schema
from weft.storage.temporal_sql import temporal_sql

Inputs = Callable[[Sequence[Access], Mapping[str, Rows]], TempViews]
"""Reads the relations of access paths. The mapping has the relations that are in memory."""


@dataclass
class StoredRecursion:
    """The rows of a recursion in its window.

    With stored rows, ``base`` has the rows before the window of ``continued``, and ``news`` those that begin in it.
    Otherwise ``whole`` has all rows. ``changed`` has the rows at the end of the window that are not in ``base``. It is
    None if there are none or too many.
    """

    state: StateSchema
    reader: Reader
    changed: pa.Table | None = None
    whole: Rows | None = None
    base: pa.Table | None = None
    news: pa.Table | None = None
    continued: RecursionPlan | None = None

    def all_rows(self, plan: RecursionPlan, views: TempViews) -> None:
        """Compute all rows from the tables, which ``views`` has."""
        rows, last = all_rows(plan, views, self.reader)
        self.whole = self.reader.held(self.state, rows)
        self.changed = last if isinstance(last, pa.Table) else collected(last, MOST_GROUPS)
        if self.changed is not None:
            self.changed = self.changed.cast(last_schema(self.state))

    def continue_(self, plan: RecursionPlan, base: pa.Table, inputs: Inputs) -> bool:
        """Derive the new rows from the stored rows ``base``. Return False if DuckDB cannot do so."""
        base = base.cast(last_schema(self.state))
        try:
            self.news, last = _new_rows(plan, base, inputs, self.reader.deepest)
        except (LimitExceeded, NotSmall, BeyondBounds, ExecutionError):
            return False
        self.base, self.continued = base, plan
        self.changed = last if last.num_rows else None
        return True

    def added_up(self, rows: pa.Table) -> pa.Table:
        """Return the rows of several parts as one part."""
        return rows

    def read(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows that access paths need: the new rows, the rows with some keys, or all rows."""
        if self.whole is not None:
            return self.whole
        assert self.base is not None and self.news is not None
        if all(isinstance(path, DeltaScan) for path in same):
            return self.reader.held(self.state, self.news)
        base, names = self.base, stored_schema(self.state).names
        wanted = look_up_keys(same, vias)
        if wanted is not None:
            column = base.column(f"c{names.index(wanted[0]) + 1}")
            if not pa.types.is_floating(column.type):
                base = base.filter(pc.is_in(column, value_set=pa.chunked_array(wanted[1], column.type)))
        return self.reader.held(self.state, pa.concat_tables([self._before(base), self.news]))

    def _before(self, rows: pa.Table) -> pa.Table:
        """Return stored rows with the columns of the state."""
        assert self.continued is not None
        schema = stored_schema(self.state)
        with temporal_sql(1) as sql:
            sql.given("stored", rows)
            before = sql.rows(with_periods(self.continued, "stored"))
        return before.drop_columns([DEPTH]).rename_columns(schema.names).cast(schema)


def _new_rows(plan: RecursionPlan, base: pa.Table, inputs: Inputs, deepest: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows of ``results``. Raise NotSmall if the inputs are not in the driver's memory."""
    with duckdb_engine(2, choosing.BOUNDS.steps) as engine:

        def read(parts: Sequence[Derived], last: str) -> None:
            given: dict[str, Rows] = {}
            if last:
                keys = engine.rows(f"SELECT * EXCLUDE ({listed(VALID_TIME.period)}) FROM {last}")
                given[ROUND] = LocalRows(None, conformed(keys, last_schema(plan.state)))
            _give(engine, inputs(tables_read(parts), given))

        engine.given(f"before_{plan.stored}", base)
        engine.table(plan.stored, with_periods(plan, f"before_{plan.stored}"))
        return results(engine, plan, continued(engine, plan, deepest, read))


def _give(engine: DuckdbEngine, views: TempViews) -> None:
    views.rows.pop(ROUND, None)  # the engine has the rows of the round
    give(engine, views)
