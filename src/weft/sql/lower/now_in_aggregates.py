"""Aggregates whose arguments compare with NOW.

    SELECT dept, COUNT_IF(ts > NOW() - INTERVAL 1 DAY) FROM t GROUP BY dept

Each row has one of two arguments, which changes when NOW reaches an instant.  The rows become a UNION ALL: the rows for
which the condition is true, with the one argument, and the others, with the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from weft.algebra.relation import Measure, Output, Project, Relation, Select, Union
from weft.algebra.scalar import ColumnRef, Literal, Scalar, mentions_now
from weft.sql.lower.now_conditions import now_cases
from weft.sql.lower.outer import joined
from weft.sql.lower.scope import Grouping, Scope


def without_now(relation: Relation, grouping: Grouping, scope: Scope, node: exp.Expr) -> tuple[Relation, Grouping]:
    """Return rows and a grouping with the same aggregates, whose arguments do not contain NOW.

    Raise SqlError if NOW occurs in an argument outside the conditions of CASE and similar expressions.
    """
    arguments = [each for measure in grouping.measures for each in (measure.argument, measure.by) if each is not None]
    if not any(map(mentions_now, arguments)):
        return relation, grouping
    values = tuple(dict.fromkeys(each for each in (*grouping.groups, *arguments) if not isinstance(each, Literal)))
    alias = scope.fresh("cases")
    columns: dict[Scalar, ColumnRef] = {
        each: ColumnRef(alias, f"value_{number}", each.type) for number, each in enumerate(values, 1)
    }
    parts = []
    for number, (truth, found) in enumerate(now_cases(values, node)):
        outputs = tuple(Output(ref.column, each) for ref, each in zip(columns.values(), found, strict=True))
        part = joined(Project(Select(relation, truth), scope.fresh("case"), outputs), scope)
        parts.append(scope.copy_of(part, relation) if number else part)
    return Union(alias, tuple(parts)), _over(grouping, columns)


def _over(grouping: Grouping, columns: Mapping[Scalar, ColumnRef]) -> Grouping:
    def column(value: Scalar) -> Scalar:
        return columns.get(value, value)

    def measure(each: Measure) -> Measure:
        argument, by = (None if part is None else column(part) for part in (each.argument, each.by))
        return replace(each, argument=argument, by=by)

    return replace(
        grouping,
        groups={column(value): ref for value, ref in grouping.groups.items()},
        measures=[measure(each) for each in grouping.measures],
        sets=None if grouping.sets is None else [tuple(map(column, each)) for each in grouping.sets],
        marks={tuple(map(column, values)): each for values, each in grouping.marks.items()},
    )
