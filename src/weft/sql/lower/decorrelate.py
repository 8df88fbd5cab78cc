"""Remove the references of a subquery with aggregates or window functions to outer rows.

    (SELECT COUNT(*) FROM replies r WHERE r.ref = m.id AND r.spam = 0)
    is a column of   (SELECT r.ref, COUNT(*) FROM replies r WHERE r.spam = 0 GROUP BY r.ref)   where ref = m.id

The condition ``r.ref = m.id`` selects the rows of one group, so the aggregates of every group serve all outer rows.  An
outer row without a partner has no group.  A subquery with GROUP BY then has no row.  A subquery without GROUP BY has
one row, the aggregates of no rows, so its caller adds an outer join.

Window functions and LIMIT are computed for each partition with equal inner values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    Windowed,
    attributes,
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
from weft.sql.lower.refusal import refuse

R = TypeVar("R", bound=Relation)
_EQUALITIES: Final = ("=", "<=>")


def decorrelated(grouped: Grouped, node: exp.Expr) -> tuple[Grouped, Predicate]:
    """Return ``grouped`` without references to outer rows, and the condition that selects the groups of an outer row.

    An item ``inner = outer`` or ``inner <=> outer`` of the WHERE of ``grouped`` becomes a group ``inner``, and the same
    comparison of the group's column with ``outer``.  Equal inner expressions share a group.  An item that refers only
    to outer columns moves into the condition.  Without a reference to an outer row, the result is ``grouped`` and TRUE.

    ``node`` is the place of an error.  Raise SqlError if ``grouped`` refers to outer rows in another way.
    """
    groups = {each.value: ColumnRef(grouped.alias, each.name, each.value.type) for each in grouped.groups}
    own = len(groups)
    inner, demanded = _without_outer(grouped, grouped.input, groups, node)
    added = tuple(Output(column.column, value) for value, column in list(groups.items())[own:])
    return _closed(replace(grouped, input=inner, groups=(*grouped.groups, *added)), node), demanded


def _in_partitions(windowed: Windowed, node: exp.Expr) -> Select:
    """Return ``windowed`` without references to outer rows, as ``decorrelated`` does: equalities become partitions."""
    columns = {each.value: ColumnRef(windowed.alias, each.name, each.value.type) for each in windowed.outputs}
    own = len(columns)
    compared: list[Scalar] = []
    inner, demanded = _without_outer(windowed, windowed.input, columns, node, compared)
    added = tuple(Output(column.column, value) for value, column in list(columns.items())[own:])
    partition = tuple(dict.fromkeys((*windowed.partition, *compared)))
    changed = replace(windowed, input=inner, outputs=(*windowed.outputs, *added), partition=partition)
    return Select(_closed(changed, node), demanded)


def _without_outer(
    operator: Grouped | Windowed,
    relation: Relation,
    columns: dict[Scalar, ColumnRef],
    node: exp.Expr,
    compared: list[Scalar] | None = None,
) -> tuple[Relation, Predicate]:
    """Return the input of an operator and the condition above the operator.

    ``columns`` maps scalars over the input to columns of the operator.  The function adds the scalars that the
    condition compares to ``columns`` and to ``compared``.
    """
    outer = free_columns(operator)
    if not outer:
        return relation, conjunction()
    kept, moved = list[Predicate](), list[Predicate]()
    for item in conjuncts(condition(relation)):
        used = free_columns(item)
        if not used & outer:
            kept.append(item)
        elif used <= outer:
            moved.append(item)
        else:
            comparison, inner = _comparison(item, outer, node)
            if inner not in columns:
                columns[inner] = _column(operator, columns, inner)
            if compared is not None:
                compared.append(inner)
            moved.append(Plain(replace(comparison, args=(columns[inner], comparison.args[1]))))
    return block(sources(relation), conjunction(*kept)), conjunction(*moved)


Operator = TypeVar("Operator", Grouped, Windowed)


def _closed(operator: Operator, node: exp.Expr) -> Operator:
    if left := free_columns(operator):
        raise _refused(left, node)
    return operator


def with_outer_groups(relation: R, fresh: Callable[[str], str], node: exp.Expr) -> R:
    """Return the relation of a subquery without references to outer rows below its aggregates.

    The conditions of ``decorrelated`` stand above the aggregates.  An aggregation without GROUP BY has a row without
    any group: the aggregates of no rows.  ``fresh`` returns an unused range variable, and ``node`` is the place of an
    error.  Raise SqlError in the same cases as ``decorrelated``.
    """

    def change(part: Any) -> Any:
        if isinstance(part, Windowed) and free_columns(part):
            return _in_partitions(part, node)
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
        Project(Select(one_row(fresh(grouped.alias)), NotExists(missing)), fresh(grouped.alias), empty),
    )
    return Union(grouped.alias, parts)


def one_row(alias: str) -> Values:
    """Return a relation with one row."""
    return Values(alias, (Column(1, "one", INT),), ((Literal(1, INT, fixed=True),),))


def _comparison(item: Predicate, outer: frozenset[ColumnRef], node: exp.Expr) -> tuple[Call, Scalar]:
    """Return the comparison with its inner side first, and the inner side."""
    match item:
        case Plain(condition=Call(name=name, args=(left, right))) if name in _EQUALITIES:
            for inner, other in ((left, right), (right, left)):
                if columns(other) and columns(other) <= outer and not columns(inner) & outer:
                    return Call(name, (inner, other), BOOLEAN), inner
    raise _refused(free_columns(item) & outer, node)


def _column(operator: Grouped | Windowed, known: Mapping[Scalar, ColumnRef], value: Scalar) -> ColumnRef:
    taken = {column.column.lower() for column in (*known.values(), *attributes(operator))}
    name = next(name for number in range(1, len(taken) + 2) if (name := f"key_{number}") not in taken)
    return ColumnRef(operator.alias, name, value.type)


def _refused(outer: Iterable[ColumnRef], node: exp.Expr) -> SqlError:
    shown = min(f"{ref.scan}.{ref.column}" for ref in outer)
    return refuse(
        f"{shown} in an aggregated subquery",
        node,
        "a subquery with aggregates, window functions or LIMIT may compare outer columns only by = in its WHERE, "
        "within AND",
        "Compare a column of the subquery with the outer column by =: WHERE r.ref = m.id. For another comparison, join "
        "in FROM and group: SELECT m.id, COUNT(*) FROM m JOIN r ON r.ts < m.ts GROUP BY m.id.",
    )
