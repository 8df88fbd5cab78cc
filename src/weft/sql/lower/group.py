"""Translate a SELECT with GROUP BY, HAVING or aggregates.

    SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept HAVING COUNT(*) > 1

The example becomes a projection of a selection of a ``Grouped``.  The ``Grouped`` has a column for each grouping
expression and each aggregate.  With ``MOVING_WINDOW(length)`` in a view, each row remains in the aggregates for an
additional ``length``.

ROLLUP, CUBE and GROUPING SETS become a UNION ALL: a ``Grouped`` for each set, over a copy of FROM and WHERE, with NULL
for the other grouping expressions.  As in Spark, the empty set has a group only while there are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from sqlglot import exp

from weft.algebra.relation import (
    Distinct,
    Grouped,
    Join,
    Output,
    Predicate,
    Project,
    Relation,
    Select,
    Union,
)
from weft.algebra.scalar import Cast, ColumnRef, Literal, PeriodOf, Scalar
from weft.algebra.schema import INT, NULL
from weft.algebra.traverse import free_columns, substitute, walk
from weft.errors import Reasons, SqlError, of_each
from weft.sql.lower.aggregate import has_aggregate, is_aggregate
from weft.sql.lower.group_by import lower_group_by
from weft.sql.lower.intervals import as_interval
from weft.sql.lower.now_in_aggregates import without_now
from weft.sql.lower.outer import joined
from weft.sql.lower.predicate import lower_predicate
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.rewriting import installed
from weft.sql.lower.scope import Grouping, Scope
from weft.sql.lower.value import with_values

N = TypeVar("N", bound="Scalar | Predicate | Relation")
Item = Callable[[exp.Expr, Scope, int], Output]
"""A function that translates an item of a select list.  The last argument is the position of the item."""
_ANY_ROW: Final = Output("any_row", Literal(1, INT, fixed=True))
"""A group of all rows, which exists only while there are rows."""


def is_grouped(select: exp.Select) -> bool:
    """Return whether a SELECT has GROUP BY, HAVING, or an aggregate in its select list."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    parts = [*select.expressions, select.args.get("qualify")]
    if select.args.get("limit") is not None:
        parts.append(select.args.get("order"))
    return any(part is not None and has_aggregate(part) for part in parts)


def lower_grouped(
    select: exp.Select, relation: Relation, scope: Scope, item: Item, hidden: Sequence[exp.Expr] = ()
) -> tuple[Relation, tuple[Output, ...]]:
    """Return the input and the select list of a SELECT with GROUP BY, followed by the scalars of ``hidden``.

    ``relation`` is the relation of FROM and WHERE.  The function also translates QUALIFY.
    """
    having, qualify = select.args.get("having"), select.args.get("qualify")
    _require_groups(select, hidden, scope)
    grouping = Grouping(scope.fresh("grouped"))
    grouped_scope = replace(scope, grouping=grouping, known=grouping.known)
    below = replace(scope, windows=None, values=grouping.values, known=grouping.known)
    reasons = Reasons()
    window: Scalar | None = None
    with reasons.part():
        window = lower_group_by(select, below, grouping)
    grouping.incomplete = bool(reasons)
    outputs: list[Output] = []
    for number, node in enumerate(select.expressions):
        with reasons.part():
            outputs.append(_grouped_item(node, grouped_scope, item, number))
    demanded: Predicate | None = None
    sorted_by: list[Output] = []
    with reasons.part():
        demanded = None if having is None else _having(having, select, replace(grouped_scope, windows=None))
    with reasons.part():
        sorted_by = of_each(lambda node: _grouped_item(node, grouped_scope, item, 0), hidden)
    with reasons.part():
        if scope.windows is not None and qualify is not None:
            scope.windows.demanded = _having(qualify, select, grouped_scope)
    reasons.check()
    relation = Join((relation, *grouping.values)) if grouping.values else relation
    if not grouping.columns():
        raise SqlError("GROUP BY names no column, and the query has no aggregate", where=place(select))
    named, renamed = _named(grouping, outputs)
    if scope.windows is not None:
        scope.windows.change(lambda each: substitute(_over_groups(each, grouped_scope, select), renamed))
    over = _all_groups(*without_now(relation, named, scope, select), window, scope)
    if scope.values:
        scope.values = [substitute(_over_groups(each, grouped_scope, select), renamed) for each in scope.values]
        over = with_values(over, scope)
    if demanded is not None:
        over = Select(over, substitute(demanded, renamed))
    return over, tuple(Output(each.name, substitute(each.value, renamed)) for each in (*outputs, *sorted_by))


def _all_groups(relation: Relation, grouping: Grouping, window: Scalar | None, scope: Scope) -> Relation:
    if grouping.sets is not None:
        return _all_sets(relation, grouping, scope)
    if grouping.measures or scope.context.view:
        return _one_set(relation, grouping, window)
    return Distinct(Project(relation, grouping.alias, _one_set(relation, grouping, None).groups))


def _require_groups(select: exp.Select, hidden: Sequence[exp.Expr], scope: Scope) -> None:
    """Raise SqlError for a HAVING without GROUP BY and without an aggregate."""
    having, qualify = select.args.get("having"), select.args.get("qualify")
    parts = (*select.expressions, *(each for each in (having, qualify) if each is not None), *hidden)
    if having is not None and select.args.get("group") is None and not any(map(has_aggregate, parts)):
        raise _without_groups(select, having, nested=scope.parent is not None)


def _without_groups(select: exp.Select, having: exp.Having, *, nested: bool) -> SqlError:
    plain = select.copy()
    plain.args.pop("having")
    text = plain.where(having.this.copy()).sql("spark")
    hint = f"Write {text}" if nested else f"Write {installed(text)}."
    return refuse("HAVING", having, "nothing is aggregated", hint)


def _grouped_item(node: exp.Expr, scope: Scope, item: Item, number: int) -> Output:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise refuse("* beside GROUP BY", node, "it includes columns that are not in GROUP BY", "List the columns.")
    output = item(node, scope, number)
    return Output(output.name, _over_groups(output.value, scope, node))


def _having(having: exp.Having | exp.Qualify, select: exp.Select, scope: Scope) -> Predicate:
    only(having, "this")
    _name_items(having, select, scope)
    return _over_groups(lower_predicate(having.this, True, scope), scope, having)


def _name_items(having: exp.Having | exp.Qualify, select: exp.Select, scope: Scope) -> None:
    """Replace the names of items of the select list by these items.

    As in Spark, the name of an item hides a column of FROM, unless the column is in GROUP BY.
    """
    assert scope.grouping is not None
    named = {each.alias.lower(): each.unalias() for each in select.expressions if isinstance(each, exp.Alias)}
    outside = having.walk(prune=lambda part: isinstance(part, exp.Query) or is_aggregate(part))
    for part in list(outside):
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in named:
            owner = scope.owners(part.name, part)
            if owner is None or owner[0] not in scope.grouping.groups:
                part.replace(exp.paren(named[part.name.lower()].copy()))


def _over_groups(node: N, scope: Scope, place_of: exp.Expr) -> N:
    """Rewrite a scalar or a predicate to use the columns of the groups.

    Raise SqlError for a column that can have several values in a group.
    """
    grouping = scope.grouping
    assert grouping is not None
    of_columns: dict[Scalar, Scalar] = {}
    for value, ref in grouping.groups.items():
        if not isinstance(value, Literal):
            of_columns |= {value: ref, as_interval(value): as_interval(ref)}
    grouped = substitute(node, of_columns)
    own = {ref.scan for variable in scope.variables.values() for ref in variable.columns}
    loose = sorted(f"{ref.scan}.{ref.column}" for ref in free_columns(grouped) if ref.scan in own)
    if loose or any(isinstance(part, PeriodOf) and part.scan in own for part in walk(grouped)):
        error = refuse(
            loose[0] if loose else "a period function beside GROUP BY",
            place_of,
            "it is neither in GROUP BY nor in an aggregate, and a group has many rows",
            "Add the expression to GROUP BY, or select its MIN or MAX.",
        )
        error.consequence = grouping.incomplete
        raise error
    return grouped


def _named(grouping: Grouping, outputs: list[Output]) -> tuple[Grouping, dict[ColumnRef, ColumnRef]]:
    """Name the columns of the groups after the items of the select list.

    Return the grouping with the new names, and the new column of each old one.
    """
    names: dict[str, str] = {}
    for output in outputs:
        if isinstance(output.value, ColumnRef):
            names.setdefault(output.value.column, output.name)
    taken = {output.name.lower() for output in outputs}
    renamed: dict[ColumnRef, ColumnRef] = {}
    for ref in grouping.columns():
        name = names.get(ref.column)
        if name is None:
            name = ref.column
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
        renamed[ref] = replace(ref, column=name)
    new = replace(
        grouping,
        groups={value: renamed[ref] for value, ref in grouping.groups.items()},
        measures=[replace(each, output=renamed[each.output]) for each in grouping.measures],
        marks={values: {type: renamed[ref] for type, ref in each.items()} for values, each in grouping.marks.items()},
    )
    return new, renamed


def _one_set(relation: Relation, grouping: Grouping, window: Scalar | None) -> Grouped:
    groups = tuple(Output(ref.column, value) for value, ref in grouping.groups.items())
    return Grouped(relation, grouping.alias, groups, tuple(grouping.measures), window)


def _all_sets(relation: Relation, grouping: Grouping, scope: Scope) -> Project | Union:
    parts = []
    for number, chosen in enumerate(grouping.sets or ()):
        alias = scope.fresh(grouping.alias)
        groups = tuple(Output(grouping.groups[value].column, value) for value in chosen) or (_ANY_ROW,)
        measures = tuple(replace(each, output=replace(each.output, scan=alias)) for each in grouping.measures)
        grouped = joined(Grouped(relation, alias, groups, measures), scope)
        if number:
            grouped = scope.copy_of(grouped, relation)
        parts.append(Project(grouped, scope.fresh(grouping.alias), tuple(_columns(grouping, chosen, alias))))
    if len(parts) == 1:
        return replace(parts[0], alias=grouping.alias)
    return Union(grouping.alias, tuple(parts))


def _columns(grouping: Grouping, chosen: tuple[Scalar, ...], alias: str) -> Iterator[Output]:
    """Yield the columns of one set: NULL for the other grouping expressions, and a constant for each mark."""
    for value, ref in grouping.groups.items():
        own = replace(ref, scan=alias) if value in chosen else Cast(Literal(None, NULL, fixed=True), ref.type)
        yield Output(ref.column, own)
    for measure in grouping.measures:
        yield Output(measure.output.column, replace(measure.output, scan=alias))
    for values, marks in grouping.marks.items():
        bits = sum(2**place for place, value in enumerate(reversed(values)) if value not in chosen)
        for type, ref in marks.items():
            yield Output(ref.column, Literal(bits, type, fixed=True))
