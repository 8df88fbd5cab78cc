"""Store the first groups of each partition of a state, so that a tick finds the first ranks without all groups.

The first groups are stored with their totals, in the same files as running totals (``arrangement.state_store``). They
are derived from the totals of all groups at the same instant. If they are missing, or too few of them remain, the tick
reads the totals of their partitions (``planning.first_rows``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from weft.algebra.access import Access
from weft.algebra.relation import StateSchema
from weft.algebra.schema import BIGINT
from weft.arrangement.state_store import StoredTotals, among, can_be_ordered, computed
from weft.derivation.stateful import key_columns
from weft.execution.temp_views import Rows
from weft.execution.totals import Totals
from weft.planning.first_rows import MORE, WHOLE, FirstRows
from weft.storage.columns import arrow_type


@dataclass
class FirstGroups:
    """The first groups of each partition of a state with ranks. ``totals`` are those of its input.

    ``base`` has the stored groups. It is None if they are missing. ``changed`` has the rows that the tick adds to them,
    or is None if nothing changes. ``first`` has groups before the window that suffice for the ranks in the partitions
    ``known``. ``known`` is None if these are all partitions.
    """

    state: StateSchema
    rows: FirstRows
    totals: Totals
    base: StoredTotals | None
    changed: pa.Table | None = None
    first: pa.Table = field(init=False)
    known: pa.Table | None = field(init=False)

    @property
    def names(self) -> list[str]:
        """The columns by which the stored groups are looked up: their partition, if it has no aggregates."""
        own = self.rows.own_keys or []
        return own if can_be_ordered(self.totals.stored, own) else []

    @property
    def stored(self) -> pa.Schema:
        """The columns of the stored groups: those of the totals, and ``MORE``."""
        return self.totals.stored.append(pa.field(MORE, arrow_type(BIGINT)))

    def added_up(self, rows: pa.Table) -> pa.Table:
        """Add up the rows of each stored group."""
        return computed(self.rows.added_up_sql("rows_"), self.stored, rows_=rows)

    def read(self, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows | None:
        """Return None: the rows of the state are computed from the groups of its input."""
        return None

    def continue_(self) -> None:
        """Find the first groups at the end of the window."""
        if self.base is None:
            self.known, stored, self.first = None, self.stored.empty_table(), self._of_totals(None)
        else:
            self.known = self._partitions_of_changes()
            stored = self._stored_groups(self.known)
            self.first = self._sufficient(stored)
        changing, at_end = self.totals.changing, self.totals.at_end
        given = {"stored_": stored, "first_": self.first, "changing_": changing, "at_end_": at_end}
        changed = computed(self.rows.changed_sql(*given), self.stored, **given)
        self.changed = changed if changed.num_rows or self.base is None else None

    def input(self, partitions: pa.Table | None) -> Rows:
        """Return the rows of the state's input that suffice for the ranks, and possibly further rows.

        ``partitions`` has the needed partitions, in some of the columns p1, p2 …, or is None if all are needed.
        """
        first = self.first if self._are_known(partitions) else self._sufficient(self._stored_groups(partitions))
        return self.totals.of_groups_and_changes(first.drop_columns([MORE]))

    def _partitions_of_changes(self) -> pa.Table:
        """Return the partitions in which a group changes."""
        if self.names:
            return _distinct(self.totals.changing.select(self.names)).rename_columns(self.rows.places)
        given = {"before_": self.totals.near, "after_": self.totals.at_end}
        return computed(self.rows.partitions_sql(*given), self._partition, **given)

    @property
    def _partition(self) -> pa.Schema:
        """The columns of the partitions."""
        kinds = [arrow_type(kind) for _, kind in key_columns(self.state)]
        return pa.schema(list(map(pa.field, self.rows.places, kinds)) or [pa.field(WHOLE, pa.bool_())])

    def _are_known(self, partitions: pa.Table | None) -> bool:
        if self.known is None:
            return True
        if not self.names or partitions is None or partitions.column_names != self.rows.places:
            return False
        every = pa.concat_tables([self.known, partitions.cast(self.known.schema)])
        return bool(_distinct(every).num_rows == self.known.num_rows)

    def _sufficient(self, stored: pa.Table) -> pa.Table:
        """Return groups before the window that suffice for the ranks in the partitions of stored groups.

        ``MORE`` is 0 in a partition whose groups were read from the totals.
        """
        given = {"first_": stored, "changing_": self.totals.changing}
        short = computed(self.rows.short_sql(*given), self._partition, **given)
        if not short.num_rows:
            return stored
        rest = computed(self.rows.outside_sql("first_", "short_"), self.stored, first_=stored, short_=short)
        return pa.concat_tables([rest, self._of_totals(short)])

    def _stored_groups(self, partitions: pa.Table | None) -> pa.Table:
        """Return the stored groups of partitions, and possibly of others."""
        assert self.base is not None
        if partitions is not None and self.names and partitions.column_names == self.rows.places:
            rows = self.base.among(partitions.rename_columns(self.names), self.names)
        else:
            rows = self.base.rows
        return self.added_up(rows) if len(self.base.parts) > 1 else rows.cast(self.stored)

    def _of_totals(self, partitions: pa.Table | None) -> pa.Table:
        """Return the first groups of partitions, and more if some of them change, from the totals of all groups."""
        totals = self.totals
        assert totals.base is not None
        given = {"largest_": totals.base.largest, "later_": totals.base.later, "near_": totals.near}
        by: Sequence[str] = ()
        if partitions is not None and self.rows.places:
            given["partitions_"], by = partitions, self.rows.places
        keys = computed(self.rows.sql("largest_", "later_", "near_", by), totals.keys, **given)
        found = totals.added_up(among(totals.of_groups(keys), keys, totals.names))
        return found.append_column(self.stored.field(MORE), pa.repeat(pa.scalar(0, pa.int64()), found.num_rows))


def _distinct(rows: pa.Table) -> pa.Table:
    """Return the distinct rows. NULL equals NULL."""
    return rows.group_by(rows.column_names).aggregate([])
