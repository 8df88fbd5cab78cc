"""Find the rows of a state that can have one of the first ranks in a window, without all rows of a partition.

A query may need only ranks up to ``most``.  If e rows of a partition change in the window, a row that does not change,
and has a rank over ``most`` + e before the window, never has a rank up to ``most``: at each instant, at least ``most``
rows that do not change come before it.  The ranks of the other rows up to ``most`` do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.relation import Grouped, Scan, StateSchema, Windowed
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.derivation.lives import KEYS, Lives
from weft.period_sql.notation import VALID_TIME, conjunction, listed, same
from weft.period_sql.windows import PARTITION
from weft.planning.state_plan import StateRows
from weft.planning.state_sql import added_up_sql, measures_of, window_function

_MOST_VALUES: Final = 999_999
"""The most values that DuckDB's MAX and MIN return."""


@dataclass(frozen=True)
class FirstRows:
    """The rows of the state ``input`` with a rank up to ``most`` in a partition.

    ``view`` is the name of the input's view.  ``partition`` and ``order`` are columns of the input.  ``rank`` is SQL
    over the values of ``order`` as o1, o2 …, in which ``PARTITION`` stands for the partition.  The first values of o1
    are the greatest ones if ``descending``.  If ``of_values``, equal rows have one place together.
    """

    view: str
    input: StateSchema
    partition: tuple[str, ...]
    order: tuple[str, ...]
    rank: str
    most: int
    descending: bool
    of_values: bool

    def sql(
        self, largest: str, later: str, changing: str, by: Sequence[str] = (), partitions: str = "partitions_"
    ) -> str:
        """Return SQL for the keys of the groups that can have such a rank in the window.

        ``largest`` and ``later`` are relations with the totals just before the window.  In ``largest``, each group has
        one row.  The rows of a group in both add up.  ``changing`` has the totals of the groups that change.
        ``partitions`` is a relation with the needed partitions, in the columns ``by``, which are some of p1, p2 …
        Without such columns, all are needed.
        """
        operator = self.input.operator
        assert isinstance(operator, Grouped)
        names = [f"p{number}" for number in range(1, len(self.partition) + 1)]
        keys = VALID_TIME.columns(len(operator.groups))
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
            f"ON {conjunction(same(names, 'r', 'e'))} WHERE place <= {self.most} + COALESCE(changes, 0)"
        )

    def _leading(self, names: Sequence[str], by_partition: str) -> str:
        """Return SQL for rows of ``chosen`` among which are the needed ones, without the order of all rows.

        Of a partition, these are the rows with one of the first values of o1, as many as there are needed places.  With
        more places than ``_MOST_VALUES``, these are all rows.
        """
        places = f"(SELECT {self.most} + COALESCE(MAX(changes), 0) FROM changes)"
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
        """Return SQL for the keys of the groups, their partition (p1, p2 …) and their order (o1, o2 …)."""
        operator = self.input.operator
        assert isinstance(operator, Grouped)
        keys = VALID_TIME.columns(len(operator.groups))
        values = {output.name: key for output, key in zip(operator.groups, keys, strict=True)}
        for measure, own in zip(operator.measures, measures_of(operator), strict=True):
            values[measure.output.column] = own.of_totals("TRY_CAST")
        partition = (f"{values[name]} AS p{number}" for number, name in enumerate(self.partition, 1))
        order = (f"{values[name]} AS o{number}" for number, name in enumerate(self.order, 1))
        return f"SELECT {listed(keys, partition, order)} FROM ({totals}) AS t WHERE n > 0"


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
    rank = window_function(function, (), [f"o{number}" for number in range(1, len(order) + 1)])
    columns, sorted_by = (
        tuple(ref.column for ref in refs if isinstance(ref, ColumnRef)) for refs in (partition, order)
    )
    return FirstRows(
        plan.paths[read.alias].view,
        read.table,
        columns,
        sorted_by,
        rank,
        most,
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
