"""Translate calls of aggregates in the select list and in HAVING.

COUNT(*) FILTER (WHERE c)     COUNT(CASE WHEN c THEN 1 END)
SUM(x) FILTER (WHERE c)       SUM(CASE WHEN c THEN x END)
COUNT_IF(c)                   COUNT(CASE WHEN c THEN 1 END)
COUNT(x, y)                   COUNT(CASE WHEN x IS NOT NULL AND y IS NOT NULL THEN 1 END)
COUNT(DISTINCT x, y)          COUNT(DISTINCT NAMED_STRUCT('f1', x, 'f2', y)), in which x and y are not NULL
BOOL_AND(c), BOOL_OR(c)       MIN(c), MAX(c)
ARRAY_AGG(DISTINCT x)         COLLECT_SET(x)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra.relation import AggregateFunction
from weft.algebra.scalar import Call, Case, Literal, Scalar, mentions_now
from weft.algebra.schema import BIGINT, BOOLEAN, INT, MONTHS, NULL, STRING, TINYINT, DataType, sums_fit
from weft.errors import SqlError, of_each
from weft.sql.functions import MARKS, MEASURES, aggregate_type
from weft.sql.lower.advice import advice
from weft.sql.lower.calls import mentions_period
from weft.sql.lower.conversion import typed
from weft.sql.lower.intervals import as_stored, averaged
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import Grouping, Scope

Lower: TypeAlias = "Callable[[exp.Expr, Scope], Scalar]"
"""A function that translates a part of an expression."""
_ONE: Final = Literal(1, INT, fixed=True)
_OF_BOOLEANS: Final = ("bool_and", "bool_or", "every", "any", "some", "count_if")
_OF_TWO: Final = ("min_by", "max_by")
_SAME_IF_DISTINCT: Final = ("min", "max", "collect_set")
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node calls an aggregate, GROUPING or GROUPING_ID, without OVER.

    The parser reads ANY(condition) like the ANY of a comparison.
    """
    called = node
    while isinstance(called.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)) and called.arg_key == "this":
        called = called.parent
    if isinstance(called.parent, exp.Window) and called.arg_key == "this":
        return False
    return is_measure(node)


def is_measure(node: exp.Expr) -> bool:
    """Return whether a node calls an aggregate, GROUPING or GROUPING_ID, with or without OVER."""
    if isinstance(node, exp.Filter):
        return is_measure(node.this)
    if isinstance(node, exp.Any):
        compared = isinstance(node.parent, _COMPARED) and node.arg_key == "expression"
        return isinstance(node.this, exp.Paren) and not isinstance(node.this.unnest(), exp.Query) and not compared
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in MEASURES.keys() | MARKS


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether an expression contains an aggregate outside subqueries.

    A function with OVER is no aggregate, but its arguments may contain aggregates.
    """
    return any(map(is_aggregate, node.walk(prune=lambda part: isinstance(part, exp.Query))))


def misplaced(node: exp.Expr) -> SqlError:
    """Return the error for an aggregate outside a select list and HAVING, or within another aggregate."""
    call = node.this if isinstance(node, exp.Filter) else node
    shown = "ANY()" if isinstance(call, exp.Any) else f"{call.name.upper()}()"
    reason = "an aggregate belongs in a select list or in HAVING, not within another aggregate"
    around = node.parent
    while around is not None and not isinstance(around, exp.Query):
        if is_aggregate(around):
            hint = (
                "Write the inner aggregate in a derived table: SELECT MAX(n) FROM (SELECT COUNT(*) AS n … GROUP BY …)."
            )
            return refuse(f"{shown} here", node, reason, hint)
        around = around.parent
    return refuse(f"{shown} here", node, reason, advice("count"))


def lower_aggregate(node: exp.Expr, scope: Scope, grouping: Grouping, lower: Lower) -> Scalar:
    """Return the column of an aggregate, which may have a FILTER.  Raise SqlError if its arguments do not fit."""
    inside = replace(scope, grouping=None, windows=None, values=grouping.values, known=None)
    call = node.this if isinstance(node, exp.Filter) else node
    if is_aggregate(call) and _called(call)[0] in MARKS:
        name, given, _ = _called(call)
        return _mark(name, [lower(part, inside) for part in given], call, grouping)
    read = read_aggregate(node, inside, lower, timely=not scope.context.view)
    return averaged(grouping.measure(*read), read[1])


def read_aggregate(
    node: exp.Expr, scope: Scope, lower: Lower, *, timely: bool = False
) -> tuple[AggregateFunction, Scalar | None, bool, Scalar | None]:
    """Return the function, the argument, whether it is DISTINCT, and the second argument of an aggregate.

    If ``timely`` is true, the arguments may contain NOW (``now_in_aggregates``).

    Raise SqlError if the arguments do not fit.
    """
    condition: Scalar | None = None
    if isinstance(node, exp.Filter):
        only(node, "this", "expression")
        if not is_measure(node.this):
            raise refuse("FILTER (WHERE …)", node, "it belongs to an aggregate", "Use CASE or WHERE.")
        condition = _condition("FILTER", node.expression.this, scope, lower)
        node = node.this
    name, given, distinct = _called(node)
    if name in MARKS:
        raise refuse(f"{name.upper()}()", node, "it stands alone, without FILTER or OVER")
    if len(given) == 1 and isinstance(given[0], exp.Star) and name == "count" and not distinct:
        only(given[0])
        _refuse_time([] if condition is None else [condition], node, timely=timely)
        return "count", None if condition is None else _kept(condition, _ONE), False, None
    args = [as_stored(arg) for arg in of_each(lambda part: lower(part, scope), given)]
    _fitting(name, args, node, distinct=distinct)
    argument, by = _arguments(name, args, distinct=distinct)
    _refuse_time([*args, *([] if condition is None else [condition])], node, timely=timely)
    if condition is not None:
        argument, by = _kept(condition, argument or _ONE), None if by is None else _kept(condition, by)
    function = "collect_set" if distinct and MEASURES[name] == "array_agg" else MEASURES[name]
    try:
        aggregate_type(function, None if argument is None else argument.type)
    except TypeError as error:
        raise SqlError(f"{name.upper()} is not defined for {error}", where=place(node)) from None
    return function, argument, distinct and function not in _SAME_IF_DISTINCT, by


def _refuse_time(parts: Sequence[Scalar], node: exp.Expr, *, timely: bool) -> None:
    if any((mentions_now(part) and not timely) or mentions_period(part) for part in parts):
        reason = "the value of the aggregate would change every microsecond"
        raise refuse("NOW() or a period in an aggregate", node, reason, "Write the comparison with NOW() in WHERE.")


def _called(node: exp.Expr) -> tuple[str, Sequence[exp.Expr], bool]:
    """Return the name and the arguments of a call, and whether the call has DISTINCT."""
    if isinstance(node, exp.Any):
        return "any", [node.this.this], False
    name, given = str(node.this).lower(), node.expressions
    if len(given) == 1 and isinstance(given[0], exp.Distinct):
        only(given[0], "expressions")
        return name, given[0].expressions, True
    if given and isinstance(given[0], exp.Order):
        reason = "the array is in ascending order, whichever order the text names"
        raise refuse(f"ORDER BY in {name.upper()}()", node, reason, f"Write {name.upper()}(x).")
    return name, given, False


def _fitting(name: str, args: Sequence[Scalar], node: exp.Expr, *, distinct: bool) -> None:
    wanted = 2 if name in _OF_TWO else 1
    if len(args) != wanted and (name != "count" or not args):
        count = f"{wanted} argument{'s' * (wanted > 1)}"
        raise SqlError(f"{name.upper()} takes {count}, not {len(args)}", where=place(node))
    if distinct and name in (*_OF_TWO, *_OF_BOOLEANS):
        raise refuse(f"{name.upper()}(DISTINCT …)", node, "equal rows do not change the result", "Remove DISTINCT.")
    if name in _OF_BOOLEANS and args[0].type not in (BOOLEAN, NULL):
        raise SqlError(f"{name.upper()} takes a condition, not {args[0].type}", where=place(node))
    if distinct and name in ("sum", "avg", "mean") and args[0].type.name == "DECIMAL" and not sums_fit(args[0].type):
        hint = "Convert the values to at most 28 digits: CAST(x AS DECIMAL(28, 2))."
        raise refuse(f"{name.upper()}(DISTINCT …) of {args[0].type}", node, "its sum may have too many digits", hint)
    unordered = args[1:] if name in _OF_TWO else args if distinct else ()
    for part in unordered:
        if part.type in (NULL, MONTHS) or part.type.nested:
            raise SqlError(f"{name.upper()} cannot compare values of type {part.type}", where=place(node))


def _arguments(name: str, args: Sequence[Scalar], *, distinct: bool) -> tuple[Scalar | None, Scalar | None]:
    """Return the argument and the second argument of the algebra's aggregate."""
    if name in _OF_TWO:
        return args[0], args[1]
    if name in _OF_BOOLEANS:
        condition = typed(args[0], BOOLEAN)
        return (_kept(condition, _ONE) if name == "count_if" else condition), None
    if name != "count" or len(args) == 1:
        constant = name == "count" and not distinct and isinstance(args[0], Literal) and args[0].value is not None
        return (None if constant else args[0]), None
    present = Call("and", tuple(Call("is not null", (part,), BOOLEAN) for part in args), BOOLEAN)
    return _kept(present, _struct(args) if distinct else _ONE), None


def _struct(values: Sequence[Scalar]) -> Call:
    fields = tuple((f"f{number}", value.type) for number, value in enumerate(values, 1))
    named = [(Literal(name, STRING, fixed=True), value) for (name, _), value in zip(fields, values, strict=True)]
    return Call("named_struct", tuple(part for pair in named for part in pair), DataType("STRUCT", fields=fields))


def _kept(condition: Scalar, value: Scalar) -> Scalar:
    return Case(((condition, value),), None, value.type)


def _condition(name: str, node: exp.Expr, scope: Scope, lower: Lower) -> Scalar:
    value = lower(node, scope)
    if value.type not in (BOOLEAN, NULL):
        raise SqlError(f"{name} takes a condition, not {value.type}", where=place(node))
    return typed(value, BOOLEAN)


def _mark(name: str, args: Sequence[Scalar], node: exp.Expr, grouping: Grouping) -> Scalar:
    shown = f"{name.upper()}()"
    if grouping.sets is None:
        hint = "Write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a, b), (a))."
        raise refuse(shown, node, "all rows have the same groups without ROLLUP, CUBE or GROUPING SETS", hint)
    if name == "grouping" and len(args) != 1:
        hint = "Write GROUPING_ID(a, b)."
        raise SqlError(f"GROUPING takes 1 argument, not {len(args)}", where=place(node), hint=hint)
    for part in args:
        if part not in grouping.groups:
            raise SqlError(f"{shown} takes expressions of GROUP BY", where=place(node))
    return grouping.mark(tuple(args or grouping.groups), TINYINT if name == "grouping" else BIGINT)
