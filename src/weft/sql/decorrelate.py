"""Remove the references of a grouped subquery to outer rows.

    (SELECT COUNT(*) FROM replies r WHERE r.ref = m.id AND r.spam = 0)
    is a column of   (SELECT r.ref, COUNT(*) FROM replies r WHERE r.spam = 0 GROUP BY r.ref)   where ref = m.id

The condition ``r.ref = m.id`` selects the rows of one group, so the aggregates of every group serve all outer rows.  An
outer row without a partner has no group.  A subquery with GROUP BY then has no row.  A subquery without GROUP BY has
one row, the aggregates of no rows, so its caller adds an outer join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from sqlglot import exp

from weft.algebra.relation import (
    Grouped,
    Measure,
    NotExists,
    Output,
    Plain,
    Predicate,
    Project,
    Relation,
    Select,
    Union,
    Values,
    block,
    condition,
    conjunction,
    conjuncts,
    sources,
)
from weft.algebra.scalar import Call, Cast, ColumnRef, Literal, Scalar, columns
from weft.algebra.schema import BOOLEAN, INT, NULL, Column
from weft.algebra.traverse import free_columns, range_variables, rename, transform
from weft.errors import SqlError
from weft.sql.refusal import refuse

R = TypeVar("R", bound=Relation)
_EQUALITIES: Final = ("=", "<=>")


def decorrelated(grouped: Grouped, node: exp.Expr) -> tuple[Grouped, Predicate]:
    """Return ``grouped`` without references to outer rows, and the condition that selects the groups of an outer row.

    An item ``inner = outer`` or ``inner <=> outer`` of the WHERE of ``grouped`` becomes a group ``inner``, and the same
    comparison of the group's column with ``outer``.  Equal inner expressions share a group.  An item that refers only
    to outer columns moves into the condition.  Without a reference to an outer row, the result is ``grouped`` and TRUE.

    ``node`` is the place of an error.  Raise SqlError if ``grouped`` refers to outer rows in another way.
    """
    outer = free_columns(grouped)
    groups = {each.value: ColumnRef(grouped.alias, each.name, each.value.type) for each in grouped.groups}
    kept, moved = list[Predicate](), list[Predicate]()
    for item in conjuncts(condition(grouped.input)):
        used = free_columns(item)
        if not used & outer:
            kept.append(item)
        elif used <= outer:
            moved.append(item)
        else:
            comparison, inner = _comparison(item, outer, node)
            column = groups.setdefault(inner, _column(grouped, groups, inner))
            moved.append(Plain(replace(comparison, args=(column, comparison.args[1]))))
    result = replace(
        grouped,
        input=block(sources(grouped.input), conjunction(*kept)) if outer else grouped.input,
        groups=tuple(Output(column.column, value) for value, column in groups.items()),
    )
    if left := free_columns(result):
        raise _refused(left, node)
    return result, conjunction(*moved)


def with_outer_groups(relation: R, fresh: Callable[[str], str], node: exp.Expr) -> R:
    """Return the relation of a subquery without references to outer rows below its aggregates.

    The conditions of ``decorrelated`` stand above the aggregates.  An aggregation without GROUP BY has a row without
    any group: the aggregates of no rows.  ``fresh`` returns an unused range variable, and ``node`` is the place of an
    error.  Raise SqlError in the same cases as ``decorrelated``.
    """

    def change(part: Any) -> Any:
        if not isinstance(part, Grouped) or not free_columns(part):
            return part
        if not part.groups:
            return _one_row(part, fresh, node)
        grouped, demanded = decorrelated(part, node)
        return Select(grouped, demanded)

    return transform(relation, change)


def of_nothing(measure: Measure) -> Scalar:
    """Return the value of an aggregate over no rows: 0 for a COUNT, an empty array, and otherwise NULL."""
    type = measure.output.type
    if measure.function == "count":
        return Literal(0, type, fixed=True)
    if measure.function in ("array_agg", "collect_set"):
        return Literal("[]", type, fixed=True)
    return Cast(Literal(None, NULL, fixed=True), type)


def _one_row(grouped: Grouped, fresh: Callable[[str], str], node: exp.Expr) -> Union:
    names = {each: fresh(each) for each in range_variables(grouped)}
    some, demanded = decorrelated(rename(grouped, {grouped.alias: names[grouped.alias]}), node)
    group = Select(some, demanded)
    missing = rename(group, {**names, names[grouped.alias]: fresh(grouped.alias)})
    values = tuple(Output(each.output.column, replace(each.output, scan=some.alias)) for each in grouped.measures)
    empty = tuple(Output(each.output.column, of_nothing(each)) for each in grouped.measures)
    parts = (
        Project(group, fresh(grouped.alias), values),
        Project(Select(_one(fresh(grouped.alias)), NotExists(missing)), fresh(grouped.alias), empty),
    )
    return Union(grouped.alias, parts)


def _one(alias: str) -> Values:
    return Values(alias, (Column(1, "one", INT),), ((Literal(1, INT, fixed=True),),))


def _comparison(item: Predicate, outer: frozenset[ColumnRef], node: exp.Expr) -> tuple[Call, Scalar]:
    """Return the comparison with its inner side first, and the inner side."""
    match item:
        case Plain(condition=Call(name=name, args=(left, right))) if name in _EQUALITIES:
            for inner, other in ((left, right), (right, left)):
                if columns(other) and columns(other) <= outer and not columns(inner) & outer:
                    return Call(name, (inner, other), BOOLEAN), inner
    raise _refused(free_columns(item) & outer, node)


def _column(grouped: Grouped, groups: dict[Scalar, ColumnRef], value: Scalar) -> ColumnRef:
    taken = {column.column.lower() for column in (*groups.values(), *(each.output for each in grouped.measures))}
    name = next(name for number in range(1, len(taken) + 2) if (name := f"key_{number}") not in taken)
    return ColumnRef(grouped.alias, name, value.type)


def _refused(outer: Iterable[ColumnRef], node: exp.Expr) -> SqlError:
    shown = min(f"{ref.scan}.{ref.column}" for ref in outer)
    return refuse(
        f"{shown} in an aggregated subquery",
        node,
        "a subquery with aggregates may compare outer columns only by = in its WHERE, within AND",
        "Compare a column of the subquery with the outer column: WHERE r.ref = m.id.",
    )
