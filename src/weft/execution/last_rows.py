"""Continue window functions such as LAG from one tick to the next, without the earlier rows of the partitions.

The last rows of each partition are stored like running totals (``arrangement.state_store``). They and the new rows
determine the functions of the new rows (``planning.last_rows``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.algebra.access import Access, DeltaScan
from weft.algebra.relation import StateSchema
from weft.arrangement.state_store import MOST_GROUPS, StoredTotals, computed
from weft.derivation.stateful import key_columns
from weft.execution.driver_reader import LocalRows
from weft.execution.guarded import collected
from weft.execution.temp_views import Rows
from weft.execution.totals import deltas_schema
from weft.period_sql.notation import VALID_TIME, Dialect
from weft.planning.last_rows import last_rows_sql, new_rows_sql
from weft.planning.state_plan import StateRows
from weft.storage.columns import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class LastRows:
    """The rows of a state that begin in its window, and the last rows of its partitions.

    ``changed`` has the last rows at the end of the window, without those before it if ``news`` is not None. It is None
    if there are none or too many. ``news`` has the rows that begin in the window. It is None if they are unknown.
    """

    state: StateSchema
    changed: pa.Table | None = None
    news: Rows | None = None

    @property
    def names(self) -> list[str]:
        """The columns of the partition in the stored rows, by which they are looked up."""
        return VALID_TIME.columns(len(key_columns(self.state)))

    @property
    def stored(self) -> pa.Schema:
        """The columns of the stored rows: those of the state's input."""
        outside = {*VALID_TIME.period, "sign"}
        return pa.schema([field for field in deltas_schema(self.state) if field.name not in outside])

    def stored_sql(self, state: StateSchema, plan: StateRows, dialect: Dialect) -> str:
        """Return SQL for the rows to store at the end of the window of ``state``, from the lives of its input."""
        return last_rows_sql(state, f"({plan.lives(dialect)})", dialect)

    def begin(self, rows: pa.Table | DataFrame) -> None:
        """Set the last rows of all partitions."""
        found = rows if isinstance(rows, pa.Table) else collected(rows, MOST_GROUPS)
        self.changed = None if found is None else found.cast(self.stored)

    def changes(self, state: StateSchema, stored: StoredTotals, deltas: pa.Table | None) -> None:
        """Set the last rows just before the window of ``state``, and the deltas in this window."""
        schema = stored_schema(self.state)
        if deltas is None or not deltas.num_rows:
            self.news = LocalRows(self.state, schema.empty_table())
            return
        before = stored.among(deltas, self.names).cast(self.stored)
        text = new_rows_sql(state, "deltas_", "before_")
        self.news = LocalRows(self.state, computed(text, schema, deltas_=deltas, before_=before))
        self.changed = self.added_up(deltas.select(self.stored.names))

    def added_up(self, rows: pa.Table) -> pa.Table:
        """Return the last rows of each partition."""
        return computed(last_rows_sql(self.state, "rows_"), self.stored, rows_=rows)

    def read(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows | None:
        """Return the rows that begin in the window, or None if the access paths need others."""
        return self.news if all(isinstance(path, DeltaScan) for path in same) else None
