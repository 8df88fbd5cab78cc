"""Translate conditions into two-valued predicates (design section 2).

``lower_predicate(node, positive)`` returns "node is true" if ``positive``, otherwise "node is false".  NOT exchanges
"true" and "false".  De Morgan's laws, which also hold in Kleene's logic, apply to AND and OR.  For IN:

    x IN (SELECT y …)      is true   iff  some y:  x = y
    x IN (SELECT y …)      is false  iff  no y:    (x = y) IS NOT FALSE
                           that is   no y with x = y, no y that is NULL, and x is not NULL or there is no y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.scalar import call, mentions_now
from weft.errors import SqlError, of_each
from weft.sql.lower.conversion import comparable
from weft.sql.lower.now_conditions import now_condition
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scalar import COMPARISONS, lower_boolean, lower_scalar, only_known_parts
from weft.sql.lower.scope import Scope
from weft.sql.lower.value import grouped_condition, lower_quantified, not_in


def lower_predicate(node: exp.Expr, positive: bool, scope: Scope) -> relational.Predicate:
    """Return the predicate "node is true".  If ``positive`` is False, return "node is false"."""
    only_known_parts(node)
    match node:
        case exp.Paren():
            return lower_predicate(node.this, positive, scope)
        case exp.Not():
            return lower_predicate(node.this, not positive, scope)
        case exp.And() | exp.Or():
            joined = relational.conjunction if isinstance(node, exp.And) == positive else relational.disjunction
            return joined(*of_each(lambda part: lower_predicate(part, positive, scope), node.flatten()))
        case exp.Boolean():
            return relational.TRUE if bool(node.this) == positive else relational.FALSE
        case exp.Exists():
            return _exists(node.this, positive, scope)
        case exp.Anonymous(expressions=[exp.Query() | exp.Values() as query]) if node.name.lower() == "exists":
            # The parser returns EXISTS ((SELECT …)), EXISTS ((SELECT …) UNION …) and EXISTS (VALUES …) as calls.
            return _exists(query, positive, scope)
        case exp.In() if node.args.get("query") is not None:
            return _in_subquery(node, positive, scope)
        case exp.NullSafeNEQ():
            return lower_predicate(exp.NullSafeEQ(this=node.this, expression=node.expression), not positive, scope)
        case _ if type(node) in COMPARISONS and isinstance(node.expression, (exp.Any, exp.All)):
            value = lower_scalar(node.this, scope)
            return lower_quantified(COMPARISONS[type(node)], value, node.expression, positive, scope)
        case _:
            condition_ = lower_boolean(node, scope)
            if mentions_now(condition_) and not scope.context.view:
                return now_condition(condition_, positive, node)
            return relational.Plain(condition_ if positive else call("not", condition_))


def _exists(query: exp.Expr, positive: bool, scope: Scope) -> relational.Predicate:
    if (known := grouped_condition(query, scope)) is not None:
        return relational.Plain(known if positive else call("not", known))
    body = scope.context.body(query, scope)
    return relational.Exists(body) if positive else relational.NotExists(body)


def _in_subquery(node: exp.In, positive: bool, scope: Scope) -> relational.Predicate:
    if (known := grouped_condition(node, scope)) is not None:
        return relational.Plain(known if positive else call("not", known))
    only(node, "this", "query")
    if isinstance(node.this, exp.Tuple):
        return _rows_in(node, node.this.expressions, positive, scope)
    value = lower_scalar(node.this, scope)
    around = scope if positive else replace(scope, copied=True)
    body, columns = scope.context.subquery(node.args["query"], around)
    if len(columns) != 1:
        raise SqlError("the subquery of IN must have one column", where=place(node.args["query"]))
    if mentions_now(value):
        raise refuse(
            "NOW() compared by IN (SELECT …)", node, "IN does not support NOW()", "Write EXISTS with = inside."
        )
    left, right = comparable(value, columns[0], node)
    if positive:
        return relational.Exists(relational.Select(body, relational.Plain(call("=", left, right))))
    return not_in(left, right, body, scope)


def _rows_in(node: exp.In, parts: Sequence[exp.Expr], positive: bool, scope: Scope) -> relational.Predicate:
    """Translate (a, b) IN (SELECT x, y …) to EXISTS."""
    if not positive:
        raise refuse("NOT IN with several columns", node, "a NULL in one column leaves the comparison unknown")
    values = of_each(lambda part: lower_scalar(part, scope), parts)
    if any(map(mentions_now, values)):
        hint = "Write EXISTS with = inside."
        raise refuse("NOW() compared by IN (SELECT …)", node, "IN does not support NOW()", hint)
    body, columns = scope.context.subquery(node.args["query"], scope)
    if len(columns) != len(values):
        message = f"the subquery of IN has {len(columns)} columns, not {len(values)}"
        raise SqlError(message, where=place(node.args["query"]))
    pairs = (comparable(value, column, node) for value, column in zip(values, columns, strict=True))
    same = relational.conjunction(*(relational.Plain(call("=", *pair)) for pair in pairs))
    return relational.Exists(relational.Select(body, same))
