"""Translate the items of GROUP BY.

An item is an expression over FROM, the name or the number of an item of the select list, ROLLUP, CUBE, GROUPING SETS,
or the moving window of a view.  As in Spark, a name means a column of FROM first, and an item of the select list
otherwise.  GROUP BY ALL groups by every item of the select list without an aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations, product
from math import prod
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra.scalar import Call, Literal, Scalar, mentions_now
from weft.algebra.schema import INTERVAL
from weft.errors import Reasons, SqlError, of_each
from weft.sql.functions import WINDOW
from weft.sql.lower.aggregate import has_aggregate
from weft.sql.lower.calls import for_views_only, mentions_period
from weft.sql.lower.intervals import as_stored
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scalar import lower_scalar
from weft.sql.lower.scope import Grouping, Scope
from weft.sql.rendering.render import STRUCT

MOST_SETS: Final = 64
"""The maximal number of grouping sets.  Each set aggregates the rows of FROM again."""
_SEVERAL: Final = (exp.Rollup, exp.Cube, exp.GroupingSets)
Sets: TypeAlias = "list[tuple[Scalar, ...]]"


def lower_group_by(select: exp.Select, scope: Scope, grouping: Grouping) -> Scalar | None:
    """Add the items of GROUP BY to ``grouping``.  Return the length of the moving window, or None."""
    group = select.args.get("group")
    if group is None:
        return None
    only(group, "expressions", "all", "rollup", "cube", "grouping_sets")
    nodes = list(group.expressions)
    if group.args.get("all") is not None:
        if group.args["all"] is False or nodes:
            raise refuse("GROUP BY DISTINCT or ALL with expressions", group, "groups are distinct", "Write GROUP BY a.")
        nodes = [each.unalias() for each in select.expressions if not has_aggregate(each)]
    found, window = list[Sets](), None
    reasons = Reasons()
    for node in nodes:
        with reasons.part():
            if isinstance(node, exp.Anonymous) and str(node.this).lower() == WINDOW:
                if window is not None:
                    raise SqlError("GROUP BY has two moving windows", where=place(node))
                window = _window(node, scope)
            else:
                found.append(_sets(node, select, scope, grouping))
    reasons.check()
    if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")):
        found = [_trailing(group, found, select, scope, grouping)]
    elif not any(isinstance(node, _SEVERAL) for node in nodes):
        return window
    _at_most(prod(map(len, found)), group)
    grouping.sets = [tuple(dict.fromkeys(chain.from_iterable(parts))) for parts in product(*found)]
    if window is not None:
        raise refuse("a moving window beside ROLLUP, CUBE or GROUPING SETS", group, "it has one set of groups")
    return window


def _at_most(count: int, node: exp.Expr) -> None:
    if count > MOST_SETS:
        hint = "Name the sets that you need: GROUP BY GROUPING SETS ((a, b), (a), ())."
        raise SqlError(
            f"GROUP BY has {count} grouping sets; at most {MOST_SETS} are allowed", where=place(node), hint=hint
        )


def _sets(node: exp.Expr, select: exp.Select, scope: Scope, grouping: Grouping) -> Sets:
    """Return the grouping sets of an item.  Most items have one."""
    if isinstance(node, exp.GroupingSets):
        only(node, "expressions")
        return [each for part in node.expressions for each in _sets(part, select, scope, grouping)]
    if isinstance(node, (exp.Rollup, exp.Cube)):
        only(node, "expressions")
        if isinstance(node, exp.Cube):
            _at_most(2 ** len(node.expressions), node)
        units = of_each(lambda part: _unit(part, select, scope, grouping), node.expressions)
        return _rolled_up(units) if isinstance(node, exp.Rollup) else _cubed(units)
    return [_unit(node, select, scope, grouping)]


def _trailing(group: exp.Group, found: Sequence[Sets], select: exp.Select, scope: Scope, grouping: Grouping) -> Sets:
    """Return the sets of GROUP BY … WITH ROLLUP, WITH CUBE, or GROUPING SETS (…) after the expressions."""
    if sets := group.args.get("grouping_sets"):
        return [each for part in sets for each in _sets(part, select, scope, grouping)]
    units = [part for each in found for part in each]
    if group.args.get("cube"):
        _at_most(2 ** len(units), group)
        return _cubed(units)
    return _rolled_up(units)


def _rolled_up(units: Sequence[tuple[Scalar, ...]]) -> Sets:
    return [tuple(chain.from_iterable(units[:length])) for length in range(len(units), -1, -1)]


def _cubed(units: Sequence[tuple[Scalar, ...]]) -> Sets:
    sizes = range(len(units), -1, -1)
    return [tuple(chain.from_iterable(chosen)) for size in sizes for chosen in combinations(units, size)]


def _unit(node: exp.Expr, select: exp.Select, scope: Scope, grouping: Grouping) -> tuple[Scalar, ...]:
    """Return the grouping expressions of an item, or of several items in parentheses."""
    parts = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
    values = tuple(of_each(lambda part: _group(_named(part, select, scope), scope), parts))
    for value in values:
        grouping.group(value)
    return values


def _named(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Replace the names and the number of items of the select list by these items."""
    if isinstance(node, exp.Literal) and not node.is_string:
        number = int(node.name) if node.name.isdigit() and len(node.name) < 10 else 0
        if not 1 <= number <= len(select.expressions):
            message = f"GROUP BY {node.name}: the select list has {len(select.expressions)} items"
            raise SqlError(message, where=place(node), hint="Write the column's name.")
        return _item(select.expressions[number - 1], node)
    named = {each.alias.lower(): each for each in select.expressions if isinstance(each, exp.Alias)}
    holder = exp.Tuple(expressions=[node.copy()])
    for column in list(holder.find_all(exp.Column)):
        item = named.get(column.name.lower()) if not column.table and not scope.refused else None
        if item is not None and scope.owners(column.name, column) is None:
            column.replace(exp.paren(_item(item, node).copy()))
    replaced: exp.Expr = holder.expressions[0]
    return replaced.unnest()


def _item(item: exp.Expr, node: exp.Expr) -> exp.Expr:
    if item.is_star:
        raise refuse("GROUP BY of *", node, "it means several columns", "List the columns.")
    if has_aggregate(item):
        raise refuse(
            "GROUP BY of an aggregate",
            node,
            "the value of an aggregate is known only after the groups are formed",
            "Aggregate in a derived table, FROM (SELECT … GROUP BY …) AS d, and group its rows.",
        )
    return item.unalias()


def _group(node: exp.Expr, scope: Scope) -> Scalar:
    value = lower_scalar(node, scope)
    if mentions_now(value) or mentions_period(value):
        raise refuse(
            "GROUP BY of a value that depends on the time",
            node,
            "groups are formed by column values",
            "Compare with NOW() in a derived table, and group by its column: SELECT age, COUNT(*) FROM (SELECT CASE "
            "WHEN ts < NOW() - INTERVAL 1 DAY THEN 'old' ELSE 'new' END AS age FROM t) GROUP BY age.",
        )
    if value.type.nested and not (isinstance(value, Call) and value.name == STRUCT):
        hint = "Group by its parts, such as doc.a, or by its text: GROUP BY TO_JSON(doc)."
        raise refuse(f"GROUP BY of {value.type}", node, "a group is formed by plain values", hint)
    if isinstance(value, Call) and value.name == STRUCT:  # the start of a window decides its end
        return value.args[1]
    return as_stored(value)


def _window(node: exp.Anonymous, scope: Scope) -> Scalar:
    if not scope.context.view:
        raise refuse("MOVING_WINDOW()", node, "only views have moving windows", for_views_only(scope))
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
