"""Continue the rows of a recursion from one tick to the next (``planning.recursion_plan``).

The rows at the end of the last tick are stored with their depths: the number of steps from the first rows. A tick reads
only the rows of the tables that begin or end, and the rows that the keys of each round look up.

The rows are stored in parts, as running totals are. A part adds rows, and removes rows of earlier parts. The rows of
all parts add up.

A stored depth may be greater than the true depth, because a later tick may derive the row in fewer steps. If a depth
exceeds the limit, the tick therefore computes all rows from the tables, which gives the true depths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import Access, DeltaScan
from weft.algebra.relation import StateSchema
from weft.arrangement.state_store import MOST_GROUPS, computed
from weft.derivation.recursion import DEPTH, ROUND
from weft.execution.driver_reader import LocalRows
from weft.execution.engines import choosing
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.guarded import collected
from weft.execution.reader import Reader
from weft.execution.recursion import TooDeep, all_rows, continued, give, last_schema, results, with_periods
from weft.execution.temp_views import NotSmall, Rows, TempViews
from weft.execution.totals import look_up_keys
from weft.period_sql.notation import VALID_TIME, conjunction, listed, same
from weft.planning.recursion_plan import ContinuedRecursion, Derived, RecursionPlan, tables_read
from weft.storage.columns import conformed, stored_schema
from weft.storage.temporal_sql import temporal_sql

Inputs = Callable[[Sequence[Access], Mapping[str, Rows]], TempViews]
"""Reads the relations of access paths. The mapping has the relations that are in memory."""
SIGN: Final = "sign"
"""The column of stored rows that is 1 if a part adds the row, and -1 if it removes the row."""


@dataclass
class StoredRecursion:
    """The rows of a recursion in its window.

    If rows are stored, ``base`` has the rows before the window of ``continued``.  ``touched`` has the rows of ``base``
    that possibly end in the window, and ``news`` the rows that replace them or begin. Otherwise ``whole`` has all rows.
    ``changed`` has the rows that are added to ``base`` or removed at the end of the window. It is None if there are
    none or too many.
    """

    state: StateSchema
    reader: Reader
    changed: pa.Table | None = None
    whole: Rows | None = None
    base: pa.Table | None = None
    touched: pa.Table | None = None
    news: pa.Table | None = None
    continued: ContinuedRecursion | None = None

    @property
    def names(self) -> list[str]:
        """The columns by which the stored rows are looked up: none."""
        return []

    def all_rows(self, plan: RecursionPlan, views: TempViews) -> None:
        """Compute all rows from the tables, which ``views`` has."""
        rows, last = all_rows(plan, views, self.reader)
        self.whole = LocalRows(self.state, rows) if isinstance(rows, pa.Table) else rows
        found = last if isinstance(last, pa.Table) else collected(last, MOST_GROUPS)
        self.changed = None if found is None else _signed(found.cast(last_schema(self.state)), 1)

    def continue_(self, plan: ContinuedRecursion, stored: pa.Table, inputs: Inputs) -> bool:
        """Derive the rows that change from the stored rows. Return False if the inputs are not in the driver's memory,
        or if a stored depth exceeds the limit.

        Raise BeyondBounds or ExecutionError if DuckDB fails.
        """
        base = self.added_up(stored).drop_columns([SIGN]).cast(last_schema(self.state))
        try:
            self.news, last, self.touched = _changes(plan, base, inputs, self.reader.deepest)
        except (TooDeep, NotSmall):
            return False
        self.base, self.continued = base, plan
        changed = self.added_up(pa.concat_tables([_signed(self.touched, -1), _signed(last, 1)]))
        self.changed = changed if changed.num_rows else None
        return True

    def added_up(self, rows: pa.Table) -> pa.Table:
        """Return the rows of several parts as one part."""
        if pc.min(rows.column(SIGN)).as_py() != -1:
            return rows
        names = [name for name in rows.column_names if name != SIGN]
        gone = f"(SELECT * FROM rows_ WHERE {SIGN} = -1) AS o ON {conjunction(same(names, 'r', 'o'))}"
        rest = f"SELECT r.* FROM rows_ AS r SEMI JOIN {gone}"
        rest = f"SELECT {listed(names)}, SUM({SIGN}) AS copies FROM ({rest}) AS rest GROUP BY {listed(names)}"
        copy = f"SIGN(copies) AS {SIGN}, UNNEST(RANGE(ABS(copies)::BIGINT)) AS copy"
        copied = f"SELECT {listed(names)}, {copy} FROM ({rest}) AS rest"
        text = (
            f"SELECT r.* FROM rows_ AS r ANTI JOIN {gone} "
            f"UNION ALL SELECT {listed(names, SIGN)} FROM ({copied}) AS copied"
        )
        return computed(text, rows.schema, rows_=rows)

    def read(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows that access paths need: the rows that change, the rows with some keys, or all rows."""
        if self.whole is not None:
            return self.whole
        assert self.base is not None and self.news is not None
        if all(isinstance(path, DeltaScan) for path in same):
            return LocalRows(self.state, self.news)
        base, names = self.base, stored_schema(self.state).names
        wanted = look_up_keys(same, vias)
        if wanted is not None:
            column = base.column(f"c{names.index(wanted[0]) + 1}")
            if not pa.types.is_floating(column.type):
                base = base.filter(pc.is_in(column, value_set=pa.chunked_array(wanted[1], column.type)))
        return LocalRows(self.state, pa.concat_tables([self._kept(base), self.news]))

    def _kept(self, rows: pa.Table) -> pa.Table:
        """Return those stored rows that are valid throughout the window, with the columns of the state."""
        assert self.continued is not None and self.touched is not None
        schema, met = stored_schema(self.state), conjunction(same(VALID_TIME.columns(self.continued.width), "s", "o"))
        with temporal_sql(1) as sql:
            sql.given("stored", rows)
            sql.given("touched", self.touched)
            kept = f"(SELECT s.* FROM stored AS s ANTI JOIN touched AS o ON {met})"
            kept_rows = sql.rows(with_periods(self.continued, kept))
        return kept_rows.drop_columns([DEPTH]).rename_columns(schema.names).cast(schema)


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    return rows.append_column(SIGN, pa.repeat(pa.scalar(sign, pa.int8()), rows.num_rows))


def _changes(
    plan: ContinuedRecursion, base: pa.Table, inputs: Inputs, deepest: int
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the rows of ``results``, and the touched rows. Raise NotSmall if the inputs are not in memory."""
    schema = last_schema(plan.state)
    kinds = {f"{letter}{place}": field.type for place, field in enumerate(schema, 1) for letter in "ck"}
    with duckdb_engine(2, choosing.BOUNDS.steps) as engine:

        def read(parts: Sequence[Derived], keys: Mapping[str, pa.Table]) -> None:
            given: dict[str, Rows] = {ROUND: LocalRows(None, base)}
            for view, rows in keys.items():
                fields = [pa.field(name, kinds.get(name.rstrip("_"), pa.int32())) for name in rows.column_names]
                given[view] = LocalRows(None, conformed(rows, pa.schema(fields)))
            views = inputs(tables_read(parts), given)
            views.rows.pop(ROUND, None)  # the engine has the rows of the round
            give(engine, views)

        engine.given(f"before_{plan.stored}", base)
        engine.table(plan.stored, with_periods(plan, f"before_{plan.stored}"))
        rows, last = results(engine, plan, continued(engine, plan, deepest, read))
        touched = engine.rows(f"SELECT {listed(schema.names)} FROM {plan.touched}")
    return rows, last, conformed(touched, schema)
