"""Translate GROUP BY and HAVING of temporal views.

    SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS) HAVING COUNT(*) > 1

The example becomes a projection of a selection of a ``Grouped``.  The ``Grouped`` has a column for each grouping
expression and each aggregate.  With ``MOVING_WINDOW(length)``, each row remains in the aggregates for an additional
``length``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from weft.algebra.relation import (
    Exists,
    Grouped,
    NotExists,
    Output,
    Predicate,
    Relation,
    Select,
)
from weft.algebra.scalar import ColumnRef, Literal, Scalar, columns, mentions_now
from weft.algebra.schema import INTERVAL
from weft.algebra.traverse import map_scalars, substitute, walk
from weft.errors import Reasons, SqlError
from weft.sql.functions import MEASURES, WINDOW
from weft.sql.lower_calls import mentions_period
from weft.sql.lower_predicate import lower_predicate
from weft.sql.lower_scalar import lower_scalar
from weft.sql.refusal import only, place, refuse
from weft.sql.scope import Grouping, Scope

Item = Callable[[exp.Expr, Scope, int], Output]
"""A function that translates an item of a select list.  The last argument is the position of the item."""


def is_grouped(select: exp.Select) -> bool:
    """Return whether a SELECT has GROUP BY, HAVING, or an aggregate in its select list."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(_has_aggregate(item) for item in select.expressions)


def _has_aggregate(node: exp.Expr) -> bool:
    inside = node.walk(prune=lambda part: isinstance(part, (exp.Query, exp.Window)))
    return any(isinstance(part, exp.Anonymous) and str(part.this).lower() in MEASURES for part in inside)


def lower_grouped(
    select: exp.Select, relation: Relation, scope: Scope, item: Item
) -> tuple[Relation, tuple[Output, ...]]:
    """Return the input and the select list of a SELECT with GROUP BY.

    ``relation`` is the relation of FROM and WHERE.
    """
    grouping = Grouping(scope.fresh("grouped"))
    grouped_scope = replace(scope, grouping=grouping)
    reasons = Reasons()
    window: Scalar | None = None
    with reasons.part():
        window = _groups(select, scope, grouping)
    grouping.incomplete = bool(reasons)
    outputs: list[Output] = []
    for number, node in enumerate(select.expressions):
        with reasons.part():
            outputs.append(_grouped_item(node, grouped_scope, item, number))
    having, demanded = select.args.get("having"), None
    with reasons.part():
        demanded = None if having is None else _having(having, grouped_scope, grouping)
    reasons.check()
    if not grouping.columns():
        raise SqlError("GROUP BY names no column, and the query has no aggregate", where=place(select))
    names = _names(grouping, outputs)
    renamed = {ref: ColumnRef(ref.scan, names[ref.column], ref.type) for ref in grouping.columns()}
    over: Relation = Grouped(
        relation,
        grouping.alias,
        tuple(Output(renamed[ref].column, value) for value, ref in grouping.groups.items()),
        tuple(replace(each, output=renamed[each.output]) for each in grouping.measures),
        window,
    )
    if demanded is not None:
        over = Select(over, substitute(demanded, renamed))
    return over, tuple(Output(output.name, substitute(output.value, renamed)) for output in outputs)


def _grouped_item(node: exp.Expr, scope: Scope, item: Item, number: int) -> Output:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise refuse("* beside GROUP BY", node, "it includes columns that are not in GROUP BY", "List the columns.")
    output = item(node, scope, number)
    assert scope.grouping is not None
    return Output(output.name, _of_groups(output.value, scope.grouping, node))


def _groups(select: exp.Select, scope: Scope, grouping: Grouping) -> Scalar | None:
    """Add the items of GROUP BY to ``grouping``.  Return the length of the moving window, or None."""
    group, window = select.args.get("group"), None
    if group is None:
        return None
    only(group, "expressions")
    reasons = Reasons()
    for node in group.expressions:
        with reasons.part():
            if isinstance(node, exp.Anonymous) and str(node.this).lower() == WINDOW:
                if window is not None:
                    raise SqlError("GROUP BY has two moving windows", where=place(node))
                window = _window(node, scope)
            else:
                grouping.group(_group(node, scope))
    reasons.check()
    return window


def _group(node: exp.Expr, scope: Scope) -> Scalar:
    value = lower_scalar(node, scope)
    if isinstance(value, Literal):
        raise refuse("GROUP BY of a constant", node, "it could mean a position in the select list", "Write the column.")
    if mentions_now(value) or mentions_period(value):
        raise refuse(
            "GROUP BY of a value that depends on the time",
            node,
            "groups are formed by column values",
            "Use NOW() in WHERE.",
        )
    return value


def _window(node: exp.Anonymous, scope: Scope) -> Scalar:
    length = lower_scalar(node.expressions[0], scope) if len(node.expressions) == 1 else None
    if (
        not isinstance(length, Literal)
        or length.type != INTERVAL
        or not isinstance(length.value, int)
        or length.value < 0
    ):
        raise SqlError(
            "MOVING_WINDOW takes one constant, non-negative INTERVAL of days or shorter units",
            where=place(node),
            hint="Write, for example, GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS).",
        )
    return length


def _having(node: exp.Having, scope: Scope, grouping: Grouping) -> Predicate:
    only(node, "this")
    demanded = lower_predicate(node.this, True, scope)
    if any(isinstance(part, (Exists, NotExists)) for part in walk(demanded)):
        raise refuse(
            "a subquery in HAVING",
            node,
            "HAVING is a condition on one group",
            "Put the query with GROUP BY into a derived table, FROM (SELECT … GROUP BY …) AS d, and use the "
            "subquery in the WHERE around it.",
        )
    return map_scalars(demanded, lambda value: _of_groups(value, grouping, node))


def _of_groups(value: Scalar, grouping: Grouping, node: exp.Expr) -> Scalar:
    """Rewrite a scalar to use the columns of the groups.

    Raise SqlError for a column that can have several values in a group.
    """
    grouped = substitute(value, grouping.groups)
    loose = sorted(f"{ref.scan}.{ref.column}" for ref in columns(grouped) if ref.scan != grouping.alias)
    if loose or mentions_period(grouped):
        error = refuse(
            loose[0] if loose else "a period function beside GROUP BY",
            node,
            "it is neither in GROUP BY nor in an aggregate, and a group has many rows",
            "Add the expression to GROUP BY, or select its MIN or MAX.",
        )
        error.consequence = grouping.incomplete
        raise error
    return grouped


def _names(grouping: Grouping, outputs: list[Output]) -> dict[str, str]:
    names: dict[str, str] = {}
    for output in outputs:
        if isinstance(output.value, ColumnRef):
            names.setdefault(output.value.column, output.name)
    taken = {output.name.lower() for output in outputs}
    for ref in grouping.columns():
        if ref.column not in names:
            name = ref.column
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
            names[ref.column] = name
    return names
