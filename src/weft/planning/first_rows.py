"""Find the groups of a state that can have one of the first ranks in a window, without all groups of a partition.

A query may need only ranks up to ``most``.  A group that does not change in the window never has such a rank if at
least ``most`` groups that do not change come before it: they do so at each instant of the window.  The ranks of the
other groups up to ``most`` do not depend on it.

A tick stores the *first groups* of each partition: the first ones in the order of the ranks and, among groups with
equal values, of their keys.  A group of the partition that is not stored comes after the last stored one in this order.
The column ``MORE`` of the stored groups is 0 if the partition has no other groups.  Two rules follow:

- The stored groups and the groups that change suffice for the ranks in a window if the partition has no other groups,
  or if at least ``most`` stored groups that do not change have a smaller rank than the last stored group.  DENSE_RANK
  counts their values.
- If they suffice, those of them that do not come after the last stored one are the first groups at the end of the
  window.  At least ``most`` remain, or all groups of the partition.

If they do not suffice, the groups with ranks up to ``kept`` + e before the window do, if e groups of the partition
change.  The first ``kept`` groups at the end of the window are among these and those that change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.relation import Grouped, Scan, StateSchema, Windowed
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.algebra.schema import BIGINT, DataType
from weft.derivation.lives import KEYS, Lives
from weft.period_sql.groups import extremes
from weft.period_sql.notation import VALID_TIME, conjunction, listed, over, same
from weft.period_sql.windows import PARTITION
from weft.planning.state_plan import StateRows
from weft.planning.state_sql import added_up_sql, measures_of, order_sql, totals_of, window_function

_MOST_VALUES: Final = 999_999
"""The most values that DuckDB's MAX and MIN return."""
MORE: Final = "more"
"""The column of stored groups that is 0 if their partition has no other groups, otherwise 1."""
WHOLE: Final = "whole"
"""The column of a relation of partitions if the order has no partition. It has at most one row."""
_SPARE: Final = 16
"""The fewest groups of a partition that are stored besides those that the query needs."""


@dataclass(frozen=True)
class FirstRows:
    """The groups of the state ``input`` with a rank up to ``most`` in a partition.

    ``view`` is the name of the input's view.  ``partition`` and ``order`` are columns of the input.  ``rank`` is SQL
    over the values of ``order`` as o1, o2 …, in which ``PARTITION`` stands for the partition.  ``spelled`` is its ORDER
    BY.  ``kept`` groups of a partition are stored.  The first values of o1 are the greatest ones if ``descending``.  If
    ``of_values``, equal rows have one place together.
    """

    view: str
    input: StateSchema
    partition: tuple[str, ...]
    order: tuple[str, ...]
    rank: str
    spelled: str
    most: int
    kept: int
    descending: bool
    of_values: bool

    @property
    def places(self) -> list[str]:
        """The columns with the partition in the SQL: p1, p2 …."""
        return [f"p{number}" for number in range(1, len(self.partition) + 1)]

    @property
    def keys(self) -> list[str]:
        """The columns of the groups in the stored totals."""
        return VALID_TIME.columns(len(_grouped(self.input).groups))

    @property
    def own_keys(self) -> list[str] | None:
        """Those columns of the groups that are the partition, or None if an aggregate belongs to the partition."""
        values = {output.name: key for output, key in zip(_grouped(self.input).groups, self.keys, strict=True)}
        return [values[name] for name in self.partition] if values.keys() >= set(self.partition) else None

    def sql(
        self, largest: str, later: str, changing: str, by: Sequence[str] = (), partitions: str = "partitions_"
    ) -> str:
        """Return SQL for the keys of the groups that can have a rank up to ``kept`` in the window.

        ``largest`` and ``later`` are relations with the totals just before the window.  In ``largest``, each group has
        one row.  The rows of a group in both add up.  ``changing`` has the totals of the groups that change.
        ``partitions`` is a relation with the needed partitions, in the columns ``by``, which are some of p1, p2 …
        Without such columns, all are needed.
        """
        names, keys = self.places, self.keys
        chosen = f"SELECT * FROM ({self._alive(self._once(keys, largest, later))}) AS a"
        if by:
            chosen += f" SEMI JOIN {partitions} AS w ON {conjunction(same(by, 'a', 'w'))}"
        by_partition = f" GROUP BY {listed(names)}" if names else ""
        changes = f"SELECT {listed(names, 'COUNT(*) AS changes')} FROM ({self._alive(self._sums(changing))}) AS a"
        rank = self.rank.replace(PARTITION, listed(names) or "NULL")
        ranked = f"SELECT *, {rank} AS place FROM ({self._leading(names, by_partition)}) AS leaders"
        return (
            f"WITH chosen AS ({chosen}), changes AS ({changes}{by_partition}) "
            f"SELECT {listed(f'r.{key}' for key in keys)} FROM ({ranked}) AS r LEFT JOIN changes AS e "
            f"ON {conjunction(same(names, 'r', 'e'))} WHERE place <= {self.kept} + COALESCE(changes, 0)"
        )

    def partitions_sql(self, before: str, after: str) -> str:
        """Return SQL for the partitions of groups. Their totals ``before`` and ``after`` the window are relations."""
        totals = (self._alive(self._sums(each)) for each in (before, after))
        every = " UNION ALL ".join(f"SELECT {self._shown} FROM ({each}) AS a" for each in totals)
        return f"SELECT DISTINCT * FROM ({every}) AS p"

    def outside_sql(self, first: str, partitions: str) -> str:
        """Return SQL for the rows of ``first`` that lie in none of ``partitions``."""
        met = conjunction(same(self.places, "a", "w"))
        names = listed(f"a.{name}" for name in self._stored)
        return f"SELECT {names} FROM ({self._alive(first)}) AS a ANTI JOIN {partitions} AS w ON {met}"

    def short_sql(self, first: str, changing: str) -> str:
        """Return SQL for the partitions whose stored groups ``first`` do not suffice.

        ``changing`` has the keys of the groups that change.
        """
        rank = self.rank.replace(PARTITION, listed(self.places) or "NULL")
        ranked = f"SELECT *, {rank} AS place FROM ({self._alive(first)}) AS a"
        last = f"SELECT *, MAX(place) {over(self.places)} AS last FROM ({ranked}) AS r"
        lasting = f"SELECT * FROM ({last}) AS r ANTI JOIN {changing} AS k ON {conjunction(same(self.keys, 'r', 'k'))}"
        counted = "COUNT(DISTINCT place)" if self.of_values else "COUNT(*)"
        by = f" GROUP BY {listed(self.places)}" if self.places else ""
        before = f"SELECT {listed(self.places, f'{counted} AS n')} FROM ({lasting}) AS r WHERE place < last{by}"
        partial = f"SELECT DISTINCT {self._shown} FROM ({self._alive(first)}) AS a WHERE {MORE} > 0"
        met = conjunction(same(self.places, "p", "b"))
        return f"SELECT p.* FROM ({partial}) AS p ANTI JOIN ({before}) AS b ON {met} AND b.n >= {self.most}"

    def changed_sql(self, stored: str, first: str, changing: str, at_end: str) -> str:
        """Return SQL for the rows that change the groups ``stored`` to the first groups at the end of the window.

        ``first`` has groups that suffice in their partitions.  It has one row for each group, and so have the others:
        ``at_end`` has the totals at the end of the window of the groups that change.  ``changing`` has their keys.
        """
        ends = extremes(measures_of(_grouped(self.input)))
        signed = (name if name in ends else f"-CAST({name} AS {kind}) AS {name}" for name, kind in self._columns)
        gone = f"SELECT {listed(self.keys, signed)} FROM {stored}"
        text = f"(SELECT * FROM ({self._next(first, changing, at_end)}) AS a UNION ALL {gone})"
        return self.added_up_sql(text)

    def _next(self, first: str, changing: str, at_end: str) -> str:
        """Return SQL for the first groups at the end of the window."""
        names, keys, order = self.places, self.keys, [f"o{number}" for number in range(1, len(self.order) + 1)]
        total = listed([self.spelled], (f"{key} NULLS LAST" for key in keys))
        bound = f"SELECT *, ROW_NUMBER() {over(names, total)} AS place, COUNT(*) {over(names)} AS size FROM f"
        lasting = f"SELECT f.* FROM f ANTI JOIN {changing} AS k ON {conjunction(same(keys, 'f', 'k'))}"
        columns = [*(name for name in self._stored if name != MORE), *names, *order]
        both = (
            f"SELECT {listed(columns, '0 AS bound')} FROM ({lasting}) AS f "
            f"UNION ALL SELECT {listed(columns, '0')} FROM ({self._alive(at_end)}) AS a "
            f"UNION ALL SELECT {listed(columns, '1')} FROM ({bound}) AS b WHERE place = size AND {MORE} > 0"
        )
        to_here = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        inside = f"SELECT *, SUM(bound) {over(names, f'{total}, bound', to_here)} AS beyond FROM ({both}) AS u"
        numbered = (
            f"SELECT *, ROW_NUMBER() {over(names, total)} AS place, COUNT(*) {over(names)} AS size "
            f"FROM ({inside}) AS i WHERE beyond = 0"
        )
        partial = (
            f"SELECT {listed(names, f'MAX({MORE}) AS {MORE}')} FROM f{' GROUP BY ' if names else ''}{listed(names)}"
        )
        more = f"CASE WHEN m.{MORE} > 0 OR size >= {self.kept} THEN 1 ELSE 0 END AS {MORE}"
        heads = listed((f"n.{name}" for name in self._stored if name != MORE), more)
        return (
            f"WITH f AS ({self._alive(first)}) SELECT {heads} FROM ({numbered}) AS n LEFT JOIN ({partial}) AS m "
            f"ON {conjunction(same(names, 'n', 'm'))} WHERE place <= {self.kept}"
        )

    def added_up_sql(self, rows: str) -> str:
        """Return SQL that adds up the rows of each stored group."""
        return added_up_sql(self.input, rows, ((MORE, BIGINT),))

    @property
    def _columns(self) -> list[tuple[str, DataType]]:
        """The columns of the stored groups besides their keys."""
        return [*totals_of(self.input), (MORE, BIGINT)]

    @property
    def _stored(self) -> list[str]:
        return [*self.keys, *(name for name, _ in self._columns)]

    @property
    def _shown(self) -> str:
        return listed(self.places) or f"TRUE AS {WHOLE}"

    def _leading(self, names: Sequence[str], by_partition: str) -> str:
        """Return SQL for rows of ``chosen`` among which are the needed ones, without the order of all rows.

        Of a partition, these are the rows with one of the first values of o1, as many as there are needed places.  With
        more places than ``_MOST_VALUES``, these are all rows.
        """
        places = f"(SELECT {self.kept} + COALESCE(MAX(changes), 0) FROM changes)"
        top = f"{'DISTINCT ' if self.of_values else ''}o1, LEAST({places}, {_MOST_VALUES})"
        top = f"{'MAX' if self.descending else 'MIN'}({top})"
        last = f"SELECT {listed(names, f'CASE WHEN LEN({top}) = {places} THEN ({top})[-1] END AS last')} FROM chosen"
        return (
            f"SELECT c.* FROM chosen AS c JOIN ({last}{by_partition}) AS l ON {conjunction(same(names, 'c', 'l'))} "
            f"WHERE last IS NULL OR o1 IS NULL OR o1 {'>=' if self.descending else '<='} last"
        )

    def _once(self, keys: Sequence[str], largest: str, later: str) -> str:
        """Return SQL for one row with the totals of each group. Only the groups of ``later`` are added up."""
        met = conjunction(same(keys, "t", "l"))
        several = f"(SELECT t.* FROM {largest} AS t SEMI JOIN {later} AS l ON {met} UNION ALL SELECT * FROM {later})"
        return f"SELECT t.* FROM {largest} AS t ANTI JOIN {later} AS l ON {met} UNION ALL {self._sums(several)}"

    def _sums(self, totals: str) -> str:
        return added_up_sql(self.input, totals)

    def _alive(self, totals: str) -> str:
        """Return SQL for the totals of groups with their partition (p1, p2 …) and their order (o1, o2 …)."""
        operator = _grouped(self.input)
        values = {output.name: key for output, key in zip(operator.groups, self.keys, strict=True)}
        for measure, own in zip(operator.measures, measures_of(operator), strict=True):
            values[measure.output.column] = own.of_totals("TRY_CAST")
        partition = (f"{values[name]} AS p{number}" for number, name in enumerate(self.partition, 1))
        order = (f"{values[name]} AS o{number}" for number, name in enumerate(self.order, 1))
        source = totals if totals.isidentifier() else f"({totals})"
        return f"SELECT {listed(['t.*'], partition, order)} FROM {source} AS t WHERE n > 0"


def first_rows(plan: StateRows) -> FirstRows | None:
    """Return the rows that suffice for the state of ``plan``, or None if it may need all rows of its input.

    The input must be one state of aggregates, with a partition and an order of its columns.
    """
    operator = plan.state.operator
    if not isinstance(operator, Windowed) or not isinstance(operator.most, Literal) or len(plan.input) != 1:
        return None
    (life,), most = plan.input, operator.most.value
    read = _only_state(life)
    if read is None or not isinstance(read.table, StateSchema) or not isinstance(most, int):
        return None
    values = {output.name: output.value for output in life.outputs}
    partition = [values[f"c{number}"] for number in range(1, len(operator.partition) + 1)]
    (function,), width = operator.functions, len(operator.outputs)
    order = [values[f"x{width + number}"] for number in range(1, len(function.order) + 1)]
    if function.args or not _are_columns((*partition, *order), read):
        return None
    places = [f"o{number}" for number in range(1, len(order) + 1)]
    columns, sorted_by = (
        tuple(ref.column for ref in refs if isinstance(ref, ColumnRef)) for refs in (partition, order)
    )
    return FirstRows(
        plan.paths[read.alias].view,
        read.table,
        columns,
        sorted_by,
        window_function(function, (), places),
        order_sql(function, places),
        most,
        most + max(most, _SPARE),
        function.order[0].descending,
        function.function == "dense_rank",
    )


def _only_state(life: Lives) -> Scan | None:
    """Return the scan of the only state with aggregates that a life reads, without conditions except for the keys."""
    scans = [source for source in life.sources if isinstance(source, Scan) and source.alias != KEYS]
    if len(scans) != 1 or len(life.sources) - len(scans) > 1 or life.subqueries or len(life.starts) > 1:
        return None
    if not all(map(_is_of_keys, life.conditions)):
        return None
    (scan,) = scans
    return scan if isinstance(scan.table, StateSchema) and isinstance(scan.table.operator, Grouped) else None


def _is_of_keys(condition: Scalar) -> bool:
    return isinstance(condition, Call) and any(
        isinstance(each, ColumnRef) and each.scan == KEYS for each in condition.args
    )


def _are_columns(values: Sequence[Scalar], scan: Scan) -> bool:
    shown = {scan.ref(column.name) for column in scan.table.columns}
    return set(values) <= shown - {scan.start, *(scan.ref(end) for end in (scan.table.end,) if end)}


def _grouped(state: StateSchema) -> Grouped:
    assert isinstance(state.operator, Grouped)
    return state.operator
