"""Aggregates whose arguments compare with NOW.

    SELECT dept, COUNT_IF(ts > NOW() - INTERVAL 1 DAY) FROM t GROUP BY dept

Each row has one of two arguments, which changes when NOW reaches an instant.  The rows become a UNION ALL: the rows for
which the condition is true, with the one argument, and the others, with the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sqlglot import exp

from weft.algebra.relation import (
    Measure,
    Output,
    Project,
    Relation,
    Select,
    Union,
    block,
    condition,
    conjunction,
    conjuncts,
    distinct_names,
    sources,
)
from weft.algebra.scalar import ColumnRef, Literal, Scalar, mentions_now
from weft.algebra.traverse import free_columns, mentioned, substitute
from weft.sql.lower.now_conditions import now_cases
from weft.sql.lower.outer import joined
from weft.sql.lower.refusal import refuse
from weft.sql.lower.scope import Grouping, Scope, as_written

_CASES: Final = "cases"
"""The range variable of the UNION ALL."""
_CASE: Final = "case"
"""The range variable of an input of the UNION ALL."""


def without_now(relation: Relation, grouping: Grouping, scope: Scope, node: exp.Expr) -> tuple[Relation, Grouping]:
    """Return rows and a grouping with the same aggregates, whose arguments do not contain NOW.

    Conditions that name outer rows stay above the UNION ALL, where ``decorrelate`` looks for them.
    Raise SqlError if NOW occurs in an argument outside the conditions of CASE and similar expressions.
    """
    arguments = [each for measure in grouping.measures for each in (measure.argument, measure.by) if each is not None]
    if not any(map(mentions_now, arguments)):
        return relation, grouping
    outer = free_columns(relation)
    items = conjuncts(condition(relation)) if outer else ()
    above = [item for item in items if mentioned(item) & outer]
    if above:
        relation = block(sources(relation), conjunction(*(item for item in items if item not in above)))
    compared = sorted({ref for item in above for ref in mentioned(item)} - outer, key=repr)
    values = tuple(
        dict.fromkeys(each for each in (*grouping.groups, *arguments, *compared) if not isinstance(each, Literal))
    )
    alias = scope.fresh(_CASES)
    wanted = [
        each if isinstance(each, ColumnRef) else ColumnRef(alias, f"value_{number}", each.type)
        for number, each in enumerate(values, 1)
    ]
    names = distinct_names(wanted)
    columns: dict[Scalar, ColumnRef] = {
        each: ColumnRef(alias, names[ref], each.type) for each, ref in zip(values, wanted, strict=True)
    }
    union = Union(alias, tuple(_parts(relation, values, columns, scope, node)))
    rows = Select(union, substitute(conjunction(*above), columns)) if above else union
    return rows, _over(grouping, columns)


def cases_of(union: Union) -> tuple[Project, ...]:
    """Return the inputs of the UNION ALL, or nothing for another union."""
    parts = tuple(part for part in union.inputs if isinstance(part, Project) and as_written(part.alias) == _CASE)
    return parts if as_written(union.alias) == _CASES and len(parts) == len(union.inputs) else ()


def _parts(
    relation: Relation, values: tuple[Scalar, ...], columns: Mapping[Scalar, ColumnRef], scope: Scope, node: exp.Expr
) -> Iterator[Project]:
    reason = "the value would change every microsecond"
    outside = refuse("NOW() in an aggregate", node, reason, "Compare with NOW() in CASE, FILTER or WHERE.")
    for number, (truth, found) in enumerate(now_cases(values, node, outside)):
        outputs = tuple(Output(ref.column, each) for ref, each in zip(columns.values(), found, strict=True))
        part = joined(Project(Select(relation, truth), scope.fresh(_CASE), outputs), scope)
        yield scope.copy_of(part, relation) if number else part


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
